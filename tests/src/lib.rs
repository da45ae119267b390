//! Scenarios over the whole workspace.

pub mod scripted;
pub mod sim;
