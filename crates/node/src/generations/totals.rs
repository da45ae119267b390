//! Counts over all generations of one model, for `/metrics`.

use std::time::Duration;

use engine::{Timings, Usage};

/// Since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationTotals {
    pub started: u64,
    pub finished: u64,
    pub failed: u64,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    /// Sum over the finished ones; divided by `finished` it is the mean time to the first token.
    pub first_token: Duration,
    /// Sum over the finished ones, first token to last.
    pub decode: Duration,
}

impl GenerationTotals {
    pub fn add(&mut self, usage: Usage, timings: Timings) {
        self.finished += 1;
        self.prompt_tokens += u64::from(usage.prompt_tokens.0);
        self.completion_tokens += u64::from(usage.completion_tokens.0);
        self.first_token += timings.first_token;
        self.decode += timings.decode;
    }
}
