//! What has been measured, and when; or that nothing has.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Wall-clock time in milliseconds since 1970, as the node that measured read it. For people and for ageing
/// facts only: nothing is ordered by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Time since `earlier`; zero if the clock went back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A value that was measured at some time, or was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    #[default]
    Unknown,
    Known {
        value: T,
        at: Timestamp,
    },
}

impl<T> Fact<T> {
    pub const fn known(value: T, at: Timestamp) -> Self {
        Self::Known { value, at }
    }

    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Unknown => None,
            Self::Known { value, .. } => Some(value),
        }
    }

    pub fn is_fresh(&self, now: Timestamp, age_max: Duration) -> bool {
        match self {
            Self::Unknown => false,
            Self::Known { at, .. } => now.since(*at) <= age_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_never_fresh_and_known_ages() {
        let minute = Duration::from_secs(60);
        assert!(!Fact::<u8>::Unknown.is_fresh(Timestamp(0), minute));
        let fact = Fact::known(7, Timestamp(1_000));
        assert_eq!(fact.value(), Some(&7));
        assert!(fact.is_fresh(Timestamp(61_000), minute));
        assert!(!fact.is_fresh(Timestamp(61_001), minute));
        assert!(fact.is_fresh(Timestamp(0), minute), "a clock that went back does not age a fact");
    }
}
