//! How fast bytes come, as people want to read it: steady, and soon right.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use domain::{Bytes, BytesPerSec};

/// Looked back over: long enough to be steady, short enough to follow a network that changes.
const WINDOW: Duration = Duration::from_secs(5);
/// Between two points kept.
const STEP: Duration = Duration::from_millis(200);

/// The points of the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    points: VecDeque<(Instant, Bytes)>,
}

impl Rate {
    /// Notes how many bytes there are by now. Whether it was long enough after the last time to count.
    pub fn note(&mut self, now: Instant, done: Bytes) -> Noted {
        let too_soon = self.points.back().is_some_and(|(last, _)| now.duration_since(*last) < STEP);
        if too_soon {
            return Noted::TooSoon;
        }
        self.points.push_back((now, done));
        while self.points.front().is_some_and(|(first, _)| now.duration_since(*first) > WINDOW) {
            self.points.pop_front();
        }
        Noted::Kept
    }

    /// Over the window; zero as long as nothing is known.
    pub fn per_sec(&self) -> BytesPerSec {
        match (self.points.front(), self.points.back()) {
            (Some((first, before)), Some((last, after))) if last > first => {
                (*after - *before) / last.duration_since(*first)
            }
            (Some(_) | None, Some(_) | None) => BytesPerSec::new(0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    Kept,
    TooSoon,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let start = Instant::now();
        let mut rate = Rate::default();
        assert_eq!(rate.per_sec(), BytesPerSec::new(0));
        // 1 kB/s for ten seconds, then 10 kB/s for ten.
        let mut done = 0;
        for second in 0..20 {
            rate.note(start + Duration::from_secs(second), Bytes::new(done));
            done += if second < 10 { 1_000 } else { 10_000 };
        }
        assert_eq!(rate.per_sec(), BytesPerSec::new(10_000));
        assert_eq!(rate.note(start + Duration::from_secs(19), Bytes::new(done)), Noted::TooSoon);
    }
}
