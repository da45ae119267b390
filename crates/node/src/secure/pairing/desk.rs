//! Who may try a pairing code, and how often. No clock and no network in here: time is passed in.
//!
//! A try is counted when an exchange begins, not when it fails, so a guesser gains nothing by hanging up early. Five
//! tries of a code are all there are, over all connections; then nobody can pair for a minute, and the code that is
//! shown afterwards is another one. A right answer uses the code up.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::code::Code;

/// One in 200 000 to guess a code; a person who mistypes gets four more.
pub(super) const TRIES_MAX: u8 = 5;
/// Makes a guesser who never stops need two months for an even chance, with the code on the screen all that time.
pub(super) const LOCK: Duration = Duration::from_secs(60);
/// Time to walk to the other machine. A code forgotten on a screen is no use to anybody.
pub(super) const CODE_LIFE: Duration = Duration::from_secs(5 * 60);

/// An exchange that has begun, for [`PairingDesk::accept`] or [`PairingDesk::fail`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AttemptId(u64);

/// Why a machine that wants to pair is sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotShowing,
    Locked { remaining: Duration },
    WrongCode { tries_left: u8 },
    Busy,
}

/// What the desk shows at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Nothing,
    Code { code: Code, expires_at: Instant },
    Lock { until: Instant },
}

#[derive(Debug)]
pub(super) struct PairingDesk {
    state: State,
    n_attempts: u64,
}

#[derive(Debug)]
enum State {
    Closed,
    Showing { code: Code, expires_at: Instant, tries_left: u8, under_way: BTreeSet<AttemptId> },
    Locked { until: Instant, then: AfterLock },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterLock {
    ShowNewCode,
    StayClosed,
}

impl PairingDesk {
    pub(super) const fn new() -> Self {
        Self { state: State::Closed, n_attempts: 0 }
    }

    /// Shows `fresh`, a new code, in place of any other. A lock outlasts that.
    pub(super) fn open(&mut self, fresh: Code, now: Instant) -> Result<(), Refusal> {
        self.refuse_if_locked(now)?;
        self.state = State::Showing {
            code: fresh,
            expires_at: now + CODE_LIFE,
            tries_left: TRIES_MAX,
            under_way: BTreeSet::new(),
        };
        Ok(())
    }

    /// Shows nothing any more. A lock outlasts that.
    pub(super) fn close(&mut self) {
        match &mut self.state {
            State::Closed | State::Showing { .. } => self.state = State::Closed,
            State::Locked { then, .. } => *then = AfterLock::StayClosed,
        }
    }

    /// Whether an exchange could begin now; costs no try.
    pub(super) fn check(&self, now: Instant) -> Result<(), Refusal> {
        self.refuse_if_locked(now)?;
        match &self.state {
            State::Showing { expires_at, tries_left, .. } if now < *expires_at => {
                if *tries_left > 0 {
                    Ok(())
                } else {
                    Err(Refusal::Busy)
                }
            }
            State::Showing { .. } | State::Closed | State::Locked { .. } => Err(Refusal::NotShowing),
        }
    }

    /// Takes one try of the code for an exchange. Every attempt ends in `accept` or `fail`.
    pub(super) fn begin(&mut self, now: Instant) -> Result<(AttemptId, Code), Refusal> {
        self.check(now)?;
        match &mut self.state {
            State::Showing { code, tries_left, under_way, .. } => {
                *tries_left -= 1; // above zero, by `check`
                let id = AttemptId(self.n_attempts);
                self.n_attempts += 1;
                under_way.insert(id);
                Ok((id, code.clone()))
            }
            State::Closed | State::Locked { .. } => Err(Refusal::NotShowing),
        }
    }

    /// The exchange has proven that the other end knows the code: the code is used up. Refused if the code that it
    /// knows is no longer the one that is shown.
    pub(super) fn accept(&mut self, id: AttemptId) -> Result<(), Refusal> {
        match &self.state {
            State::Showing { under_way, .. } if under_way.contains(&id) => {
                self.state = State::Closed;
                Ok(())
            }
            State::Showing { .. } | State::Closed | State::Locked { .. } => Err(Refusal::NotShowing),
        }
    }

    /// The exchange failed, by a wrong code or by breaking off. Says what to tell the other end.
    pub(super) fn fail(&mut self, id: AttemptId, now: Instant) -> Refusal {
        let State::Showing { tries_left, under_way, .. } = &mut self.state else {
            return self.check(now).err().unwrap_or(Refusal::NotShowing);
        };
        if !under_way.remove(&id) {
            return Refusal::NotShowing; // of an earlier code
        }
        if *tries_left == 0 && under_way.is_empty() {
            self.state = State::Locked { until: now + LOCK, then: AfterLock::ShowNewCode };
            return Refusal::Locked { remaining: LOCK };
        }
        Refusal::WrongCode { tries_left: *tries_left }
    }

    /// When [`on_time`](Self::on_time) should be called next.
    pub(super) const fn next_deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Closed => None,
            State::Showing { expires_at, .. } => Some(*expires_at),
            State::Locked { until, .. } => Some(*until),
        }
    }

    /// Takes a code away that has expired, and ends a lock that is over: `fresh` is shown then, if a code was to be
    /// shown still. Says whether anything changed.
    pub(super) fn on_time(&mut self, fresh: Code, now: Instant) -> bool {
        if self.next_deadline().is_none_or(|deadline| now < deadline) {
            return false;
        }
        let then = match &self.state {
            State::Locked { then, .. } => *then,
            State::Closed | State::Showing { .. } => AfterLock::StayClosed,
        };
        self.state = State::Closed;
        match then {
            AfterLock::ShowNewCode => self.open(fresh, now).is_ok(),
            AfterLock::StayClosed => true,
        }
    }

    pub(super) fn shown(&self, now: Instant) -> Shown {
        match &self.state {
            State::Showing { code, expires_at, .. } if now < *expires_at => {
                Shown::Code { code: code.clone(), expires_at: *expires_at }
            }
            State::Locked { until, .. } if now < *until => Shown::Lock { until: *until },
            State::Closed | State::Showing { .. } | State::Locked { .. } => Shown::Nothing,
        }
    }

    fn refuse_if_locked(&self, now: Instant) -> Result<(), Refusal> {
        match &self.state {
            State::Locked { until, .. } if now < *until => {
                Err(Refusal::Locked { remaining: until.saturating_duration_since(now) })
            }
            State::Closed | State::Showing { .. } | State::Locked { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn nothing_is_accepted_while_no_code_is_shown() {
        let now = Instant::now();
        let mut desk = PairingDesk::new();
        assert_eq!(desk.begin(now).unwrap_err(), Refusal::NotShowing);
        desk.open(code(1), now).unwrap();
        desk.close();
        assert_eq!(desk.begin(now).unwrap_err(), Refusal::NotShowing);
        assert_eq!(desk.shown(now), Shown::Nothing);
    }

    #[test]
    fn a_right_answer_uses_the_code_up() {
        let now = Instant::now();
        let mut desk = opened(now);
        let (id, shown) = desk.begin(now).unwrap();
        assert_eq!(shown, code(1));
        desk.accept(id).unwrap();
        assert_eq!(desk.begin(now).unwrap_err(), Refusal::NotShowing);
        assert_eq!(desk.accept(id), Err(Refusal::NotShowing), "not twice");
    }

    #[test]
    fn five_wrong_tries_lock_for_a_minute_and_then_the_code_is_another() {
        let now = Instant::now();
        let mut desk = opened(now);
        for tries_left in (1..TRIES_MAX).rev() {
            assert_eq!(fail_once(&mut desk, now), Refusal::WrongCode { tries_left });
        }
        assert_eq!(fail_once(&mut desk, now), Refusal::Locked { remaining: LOCK });

        let before = now + LOCK - SECOND;
        assert_eq!(desk.begin(before).unwrap_err(), Refusal::Locked { remaining: SECOND });
        assert_eq!(desk.open(code(2), before).unwrap_err(), Refusal::Locked { remaining: SECOND });
        assert_eq!(desk.shown(before), Shown::Lock { until: now + LOCK });
        assert!(!desk.on_time(code(2), before));

        let after = now + LOCK;
        assert_eq!(desk.next_deadline(), Some(after));
        assert!(desk.on_time(code(2), after));
        assert_eq!(desk.shown(after), Shown::Code { code: code(2), expires_at: after + CODE_LIFE });
        assert_eq!(fail_once(&mut desk, after), Refusal::WrongCode { tries_left: TRIES_MAX - 1 });
    }

    #[test]
    fn closing_and_opening_does_not_get_around_a_lock() {
        let now = Instant::now();
        let mut desk = opened(now);
        for _ in 0..TRIES_MAX {
            fail_once(&mut desk, now);
        }
        desk.close();
        assert!(matches!(desk.open(code(2), now + SECOND), Err(Refusal::Locked { .. })));
        assert!(desk.on_time(code(3), now + LOCK));
        assert_eq!(desk.shown(now + LOCK), Shown::Nothing, "it was closed meanwhile");
        desk.open(code(3), now + LOCK).unwrap();
    }

    #[test]
    fn tries_are_counted_when_they_begin_over_all_connections() {
        let now = Instant::now();
        let mut desk = opened(now);
        let begun: Vec<_> = (0..TRIES_MAX).map(|_| desk.begin(now).unwrap().0).collect();
        assert_eq!(desk.begin(now).unwrap_err(), Refusal::Busy);
        for id in &begun[1..] {
            assert_eq!(desk.fail(*id, now), Refusal::WrongCode { tries_left: 0 });
        }
        desk.accept(begun[0]).unwrap();
    }

    #[test]
    fn all_tries_under_way_failing_locks_once_the_last_is_over() {
        let now = Instant::now();
        let mut desk = opened(now);
        let begun: Vec<_> = (0..TRIES_MAX).map(|_| desk.begin(now).unwrap().0).collect();
        let told: Vec<_> = begun.iter().map(|id| desk.fail(*id, now)).collect();
        assert_eq!(told.last(), Some(&Refusal::Locked { remaining: LOCK }));
    }

    #[test]
    fn a_code_expires_also_for_who_knows_it() {
        let now = Instant::now();
        let mut desk = opened(now);
        let (id, _) = desk.begin(now).unwrap();
        let late = now + CODE_LIFE;
        assert_eq!(desk.begin(late).unwrap_err(), Refusal::NotShowing);
        assert!(!desk.on_time(code(2), late - SECOND));
        assert!(desk.on_time(code(2), late));
        assert_eq!(desk.shown(late), Shown::Nothing);
        assert_eq!(desk.accept(id), Err(Refusal::NotShowing));
    }

    #[test]
    fn an_answer_to_an_earlier_code_counts_for_nothing() {
        let now = Instant::now();
        let mut desk = opened(now);
        let (id, _) = desk.begin(now).unwrap();
        desk.open(code(2), now).unwrap();
        assert_eq!(desk.accept(id), Err(Refusal::NotShowing));
        assert_eq!(desk.fail(id, now), Refusal::NotShowing);
        assert_eq!(fail_once(&mut desk, now), Refusal::WrongCode { tries_left: TRIES_MAX - 1 });
    }

    fn opened(now: Instant) -> PairingDesk {
        let mut desk = PairingDesk::new();
        desk.open(code(1), now).unwrap();
        desk
    }

    fn fail_once(desk: &mut PairingDesk, now: Instant) -> Refusal {
        let (id, _) = desk.begin(now).unwrap();
        desk.fail(id, now)
    }

    fn code(digit: u8) -> Code {
        digit.to_string().repeat(6).parse().unwrap()
    }
}
