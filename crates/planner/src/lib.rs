//! Chooses which node holds which layers.
//!
//! Input is a [`Topology`](domain::Topology), a [`ModelSpec`](domain::ModelSpec) and a [`Goal`]; output a
//! [`Plan`](domain::Plan) or every reason there is none, each with its fix. Pure: same input, same plan, on every
//! machine.

mod choose;
mod cuts;
mod goal;
mod need;
mod no_plan;

pub use choose::plan;
pub use goal::{CONTEXT_DEFAULT, Goal, NodeChoice, Objective};
pub use no_plan::{Blocker, NoPlan};
