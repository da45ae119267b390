//! For tests, here and in other crates: a model that needs no files, whole deployments in one process, and what every
//! [`Compute`](crate::Compute) must keep.

mod contract;
mod deployment;
mod toy;

pub use contract::compute_contract;
pub use deployment::{Answered, LocalDeployment};
pub use toy::{TOY_END, ToyCompute, ToyText};
