//! The HTTP door of a node: OpenAI's dialect, the control API with its stream of events, and the built UI.
//!
//! Handlers know no node: they ask a [`Backend`]. [`serve`] puts a node behind it; tests put a script there.

mod backend;
mod body;
mod changes;
mod control;
mod feed;
mod guard;
mod metrics;
mod openai;
mod problem;
mod routes;
mod server;
mod token;
mod ui;
pub mod wire;

pub use backend::{Answer, Backend, DeployGoal, Generation, PairTarget};
pub use problem::Problem;
pub use server::{Bind, ServeError, Server};
pub use token::Token;
