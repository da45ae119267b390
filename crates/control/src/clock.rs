//! Time as this node lived it: time asleep is not time passed.

use std::time::{Duration, Instant};

/// A step of the clock longer than this was a sleep (or a jump, or a stall): the caller wakes us at every heartbeat.
const STEP_MAX: Duration = Duration::from_secs(2);

/// What such a step counts as: one heartbeat, so that nobody is declared silent who had no chance to be heard.
const STEP_OF_SLEEP: Duration = Duration::from_secs(1);

/// A point in the time that this node was awake for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Awake(Duration);

impl Awake {
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    last: Instant,
    awake: Awake,
}

/// What the clock did since it was looked at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Awake,
    Slept,
}

impl Clock {
    pub fn new(now: Instant) -> Self {
        Self { last: now, awake: Awake(Duration::ZERO) }
    }

    pub fn now(&self) -> Awake {
        self.awake
    }

    pub fn advance(&mut self, now: Instant) -> Step {
        let step = now.saturating_duration_since(self.last);
        self.last = self.last.max(now);
        if step > STEP_MAX {
            self.awake = self.awake.plus(STEP_OF_SLEEP);
            Step::Slept
        } else {
            self.awake = self.awake.plus(step);
            Step::Awake
        }
    }

    /// When `at` will be, if this node stays awake.
    pub fn instant_of(&self, at: Awake) -> Instant {
        self.last + at.since(self.awake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_asleep_counts_as_one_heartbeat() {
        let start = Instant::now();
        let mut clock = Clock::new(start);
        let before = clock.now();
        assert_eq!(clock.advance(start + Duration::from_millis(1500)), Step::Awake);
        assert_eq!(clock.now().since(before), Duration::from_millis(1500));
        assert_eq!(clock.advance(start + Duration::from_secs(3600)), Step::Slept);
        assert_eq!(clock.now().since(before), Duration::from_millis(2500));
        let deadline = clock.now().plus(Duration::from_secs(3));
        assert_eq!(clock.instant_of(deadline), start + Duration::from_secs(3603));
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let start = Instant::now();
        let mut clock = Clock::new(start + Duration::from_secs(9));
        assert_eq!(clock.advance(start), Step::Awake);
        assert_eq!(clock.now(), Awake(Duration::ZERO));
        assert_eq!(clock.instant_of(clock.now()), start + Duration::from_secs(9));
    }
}
