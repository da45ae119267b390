//! How long a blocking call may take, and who may end it early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The limit of one blocking call. Every blocking call of this crate takes one, so none can hang.
#[derive(Clone, Debug)]
pub struct Wait {
    pub deadline: Instant,
    pub cancel: Cancel,
}

impl Wait {
    pub const fn until(deadline: Instant, cancel: Cancel) -> Self {
        Self { deadline, cancel }
    }

    /// Ends `limit` from now, or when `cancel` is called. A limit beyond [`LIMIT_MAX`] is cut to it.
    pub fn within(limit: Duration, cancel: &Cancel) -> Self {
        Self::until(Instant::now() + limit.min(LIMIT_MAX), cancel.clone())
    }

    /// Whether the call may go on.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.cancel.is_cancelled() {
            Err(Stopped::Cancelled)
        } else if Instant::now() >= self.deadline {
            Err(Stopped::Deadline)
        } else {
            Ok(())
        }
    }
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    Deadline,
    Cancelled,
}

/// A switch that ends the calls which hold a clone of it. Thrown once, it stays.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends every call that waits on this switch within [`PARK_MAX`], and every later one at once.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The longest limit: a month, so that no clock overflows. Nothing waits that long; a longer limit means "for ever".
pub const LIMIT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The longest a call sleeps before it looks at its deadline and its cancel switch again. Short enough that
/// stopping an answer feels immediate, long enough that an idle rank costs 40 wake-ups a second and no more.
pub const PARK_MAX: Duration = Duration::from_millis(25);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_its_deadline_or_its_switch() {
        let cancel = Cancel::new();
        assert_eq!(Wait::within(Duration::from_secs(60), &cancel).check(), Ok(()));
        assert_eq!(Wait::within(Duration::ZERO, &cancel).check(), Err(Stopped::Deadline));
        let wait = Wait::within(Duration::MAX, &cancel);
        assert_eq!(wait.check(), Ok(()));
        cancel.cancel();
        assert_eq!(wait.check(), Err(Stopped::Cancelled), "a clone of the switch is the same switch");
    }
}
