//! Randomness from a seed: ids that do not collide, heartbeats that do not march in step. Not for secrets.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `around`, give or take a tenth.
    pub fn jittered(&mut self, around: Duration) -> Duration {
        let per_mille = u32::try_from(900 + self.next_u64() % 201).unwrap_or(1000);
        around * per_mille / 1000
    }
}
