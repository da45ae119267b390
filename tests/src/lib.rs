//! Scenarios over the whole workspace.
