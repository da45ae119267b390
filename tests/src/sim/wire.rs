//! The network between simulated nodes: what it does to messages, and who can reach whom.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{Boot, Message, RankReport, Record};
use domain::NodeId;

use super::node::NodeState;
use super::{Sim, Stuck, pair};

/// What the network does to messages, and machines to ranks. Chances in thousandths.
#[derive(Clone, Debug)]
pub struct Weather {
    pub lost: u32,
    pub doubled: u32,
    /// Each copy is late by its own amount, so messages overtake each other.
    pub late_ms: std::ops::Range<u64>,
    /// A fetch, a load or a connect that fails.
    pub rank_fails: u32,
    pub mangling: Mangling,
}

/// Damage that no network does, to see that the invariants notice what a broken merge would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mangling {
    None,
    /// Now and then an old record arrives as if it were the newest: what "newer wins" the wrong way round would keep.
    OldAsNew,
}

impl Weather {
    pub fn fair() -> Self {
        Self { lost: 0, doubled: 0, late_ms: 1..5, rank_fails: 0, mangling: Mangling::None }
    }

    pub fn foul() -> Self {
        Self { lost: 100, doubled: 50, late_ms: 1..400, rank_fails: 50, mangling: Mangling::None }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Arrive {
        from: NodeId,
        to: NodeId,
        json: Vec<u8>,
    },
    /// `at` learns that its channel to `to` is up or down.
    Channel {
        at: NodeId,
        to: NodeId,
        join: Join,
    },
    /// The caller of the control at `at`, in its start `boot`, reports of a rank.
    Rank {
        at: NodeId,
        boot: Boot,
        report: RankReport,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Join {
    pub number: u64,
    pub is_up: bool,
}

/// What will happen, by time; at one time in the order in which it was caused.
#[derive(Default)]
pub(super) struct Queue {
    events: BTreeMap<(Duration, u64), Event>,
    n_events: u64,
    /// Words about channels so far: each has a number, and only the latest of a channel counts.
    pub n_words: u64,
}

impl Queue {
    pub fn push(&mut self, at: Duration, event: Event) {
        self.n_events += 1;
        self.events.insert((at, self.n_events), event);
    }

    pub fn pop(&mut self) -> Option<Event> {
        self.events.pop_first().map(|(_, event)| event)
    }

    pub fn next_at(&self) -> Option<Duration> {
        self.events.first_key_value().map(|(&(at, _), _)| at)
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn drop_rank_events(&mut self, of: NodeId) {
        self.events.retain(|_, event| !matches!(event, Event::Rank { at, .. } if *at == of));
    }
}

impl Sim {
    pub(super) fn transmit(&mut self, from: NodeId, to: NodeId, message: &Message) -> Result<(), Stuck> {
        if !self.is_reachable(from, to) {
            return Ok(());
        }
        let json = match self.mangled(message) {
            Some(mangled) => mangled.encode(),
            None => message.encode(),
        };
        let json = json.map_err(|bad| self.stuck(format!("{} sends too much: {bad}", self.name(from))))?;
        let copies = 1 + u32::from(self.chance(self.weather.doubled));
        for _ in 0..copies {
            if !self.chance(self.weather.lost) {
                let late = self.millis(self.weather.late_ms.clone());
                self.queue.push(self.now + late, Event::Arrive { from, to, json: json.clone() });
            }
        }
        Ok(())
    }

    fn mangled(&mut self, message: &Message) -> Option<Message> {
        let Message::Record { record } = message else { return None };
        match self.weather.mangling {
            Mangling::None => None,
            Mangling::OldAsNew => {
                let old = self.watched.an_older_body(record)?;
                let old_as_new = Record { body: old, ..Record::clone(record) };
                self.chance(100).then(|| Message::Record { record: Box::new(old_as_new) })
            }
        }
    }

    /// Whether a message from `from` arrives at `to` now.
    pub(super) fn is_reachable(&self, from: NodeId, to: NodeId) -> bool {
        let is_up = |id| self.nodes.get(&id).is_some_and(super::SimNode::is_running);
        is_up(from) && is_up(to) && !self.cuts.contains(&pair(from, to))
    }

    /// After nodes or paths changed: lets each node learn, a little later, which of its channels are up. A sleeping
    /// or vanished neighbour is noticed late, when its channel times out.
    pub(super) fn join_channels(&mut self) {
        let ids = self.ids();
        for &at in &ids {
            for &to in ids.iter().filter(|&&to| to != at) {
                let is_up = self.is_reachable(at, to);
                let delay = if is_up { self.millis(5..200) } else { self.millis(5..3000) };
                self.queue.n_words += 1;
                let number = self.queue.n_words;
                if matches!(self.nodes[&at].state, NodeState::Running(_)) {
                    self.node_mut(at).channel_word.insert(to, number);
                    self.queue.push(self.now + delay, Event::Channel { at, to, join: Join { number, is_up } });
                }
            }
        }
    }
}
