//! Measures the link to a connected node: how long a small message takes there and back, how many bytes a second go
//! there, and what carries them.
//!
//! Each end measures for itself and writes what it found; see `domain::LinkFacts`.

mod interface;
mod measure;
mod serve;

pub use measure::{ProbeError, measure};
pub use serve::serve;
