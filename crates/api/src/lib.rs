//! The HTTP door of a node: OpenAI's dialect, the control API with its stream of events, and the built UI.
//!
//! Handlers know no node: they ask a [`Backend`]. [`serve`] puts a node behind it; tests put a script there.

mod backend;
pub mod bindings;
mod body;
mod changes;
mod control;
mod feed;
mod guard;
mod metrics;
mod node_backend;
mod openai;
mod problem;
mod routes;
mod server;
mod token;
mod ui;
mod views;
pub mod wire;

pub use backend::{Answer, Backend, DeployGoal, Generation, PairTarget};
pub use problem::Problem;
pub use server::{Bind, ServeError, Server, serve};
pub use token::Token;
