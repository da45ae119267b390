//! One file for each architecture.

pub(crate) mod llama;
