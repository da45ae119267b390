//! The contract of a link, as tests that every carrier passes.
//!
//! A carrier's tests call [`link_contract`] with a maker of fresh pairs, and [`fault_contract`] for what the frames
//! must notice. Each function panics with what was expected.

mod contract;
mod faults;

pub use contract::link_contract;
pub use faults::{Fault, Faulty, fault_contract, with_fault};

use std::time::Duration;

use crate::wait::{Cancel, Wait};

/// Far longer than anything here takes, for machines that are busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);

fn patient() -> Wait {
    Wait::within(PATIENCE, &Cancel::new())
}

fn brief(limit: Duration) -> Wait {
    Wait::within(limit, &Cancel::new())
}

/// Bytes that differ from place to place and from seed to seed, so that a swapped or shifted frame shows.
fn pattern(n_bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(n_bytes + 8);
    while bytes.len() < n_bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(n_bytes);
    bytes
}
