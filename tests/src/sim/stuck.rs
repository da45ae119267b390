//! What a run that went wrong says: what, when, of which seed, and what happened just before.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use control::{Input, Message};
use domain::NodeId;

/// Events that are kept for the end.
const EVENTS_KEPT: usize = 50;

/// A run in which an invariant broke, or that did not come to where it should.
pub struct Stuck {
    pub seed: u64,
    pub at: Duration,
    pub what: String,
    pub last: Vec<String>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, after {:?}: {}", self.seed, self.at, self.what)?;
        writeln!(f, "the last {} events:", self.last.len())?;
        self.last.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// As it is displayed, so that `unwrap` in a test prints it readably.
impl fmt::Debug for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Stuck {}

#[derive(Default)]
pub(super) struct Log {
    events: VecDeque<(Duration, Logged)>,
}

/// Kept as it is, and put in words only if the run goes wrong: most do not.
enum Logged {
    Note(String),
    Message { to: NodeId, from: NodeId, message: Message },
    Input { at: NodeId, input: Box<Input> },
}

impl Log {
    pub fn note(&mut self, now: Duration, text: String) {
        self.push(now, Logged::Note(text));
    }

    pub fn input(&mut self, now: Duration, at: NodeId, input: &Input) {
        let logged = match input {
            // Heartbeats would fill the log.
            Input::Message { message: Message::Heartbeat { .. } | Message::Pull { .. }, .. } => return,
            Input::Message { from, message } => Logged::Message { to: at, from: *from, message: message.clone() },
            Input::Paired { .. }
            | Input::Unpaired(_)
            | Input::Connected(_)
            | Input::Disconnected(_)
            | Input::Facts(_)
            | Input::Deploy { .. }
            | Input::Stop { .. }
            | Input::Rank(_) => Logged::Input { at, input: Box::new(input.clone()) },
        };
        self.push(now, logged);
    }

    pub fn lines(&self) -> Vec<String> {
        self.events.iter().map(|(at, logged)| format!("{:>9.3} {}", at.as_secs_f64(), logged.words())).collect()
    }

    fn push(&mut self, now: Duration, logged: Logged) {
        if self.events.len() >= EVENTS_KEPT {
            self.events.pop_front();
        }
        self.events.push_back((now, logged));
    }
}

impl Logged {
    fn words(&self) -> String {
        match self {
            Self::Note(text) => text.clone(),
            Self::Message { to, from, message } => format!("{} <- {}: {message:?}", to.short(), from.short()),
            Self::Input { at, input } => format!("{}: {input:?}", at.short()),
        }
    }
}
