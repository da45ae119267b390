//! Keeping deployments true over time: starting failed ones again, finding an owner for those that lost theirs, and
//! ending those that somebody wants ended.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{DeploymentId, Epoch, NodeId};

use crate::clock::Awake;
use crate::deployments::{Wanted, stopped};
use crate::{Boot, Control, DEPLOYMENTS_MAX, DeploymentStatus, Liveness, OwnedDeployment, Record, STOPS_MAX};

/// How often a deployment that keeps failing is started again before a person must look at it.
pub const RESTARTS_MAX: usize = 3;

/// Wait before each start: a link that flapped is back in a second, a driver that crashed wants longer.
const RESTART_AFTER: [Duration; RESTARTS_MAX] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(16)];

/// A deployment that served this long has recovered: its next failure is a first one again.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// A deployment without an owner falls to its first rank, this much later to the second, and so on: time enough for
/// the first one's word to arrive.
const ADOPT_EVERY: Duration = Duration::from_secs(2);

/// A wish to stop is held at least this long, so that it meets records that are still on their way.
const STOP_HELD_FOR: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default)]
pub(crate) struct Upkeep {
    /// Deployments of this node's plans that vanished from their owner's record though nobody stopped them.
    orphans: BTreeMap<DeploymentId, Orphan>,
    /// Since when a deployment has had no living owner.
    ownerless_since: BTreeMap<DeploymentId, Awake>,
    restarts: BTreeMap<DeploymentId, Restarts>,
}

#[derive(Clone, Debug)]
struct Orphan {
    owner: NodeId,
    entry: OwnedDeployment,
}

#[derive(Clone, Copy, Debug, Default)]
struct Restarts {
    n_done: usize,
    due: Option<Awake>,
    serving_since: Option<Awake>,
}

impl Upkeep {
    pub fn orphans(&self) -> impl Iterator<Item = Wanted<'_>> {
        self.orphans.values().map(|orphan| Wanted { owner: orphan.owner, entry: &orphan.entry })
    }
}

impl Control {
    /// Somebody at this node wants `id` ended.
    pub(crate) fn stop(&mut self, id: DeploymentId) {
        if self.cancel_pending(id) || !self.is_mentioned(id) {
            return;
        }
        self.wish_stopped(id);
    }

    /// `replaced` is no longer what its writer says: deployments that it alone owned must not vanish with it.
    pub(crate) fn keep_orphans(&mut self, replaced: Record) {
        for entry in replaced.body.deployments {
            let is_here = entry.plan.rank_of(self.me).is_some();
            let is_owned = self.records.iter().any(|r| r.body.deployments.iter().any(|d| d.id == entry.id));
            if is_here && !is_owned && self.upkeep.orphans.len() < DEPLOYMENTS_MAX {
                self.upkeep.orphans.insert(entry.id, Orphan { owner: replaced.writer, entry });
            }
        }
    }

    pub(crate) fn upkeep(&mut self) {
        self.end_stopped();
        self.yield_superseded();
        self.adopt();
        self.restart_failed();
    }

    /// Drops what anybody wants ended, and wishes that have met every mention.
    fn end_stopped(&mut self) {
        let now = self.clock.now();
        for id in stopped(&self.records) {
            // Every node joins in the wish for as long as it sees the deployment mentioned: whoever made it may crash,
            // or may have heard of the end everywhere before this node has.
            if self.is_mentioned(id) {
                self.wish_stopped(id);
            }
            self.upkeep.orphans.remove(&id);
            self.owned.remove(&id);
        }
        let mut stops = std::mem::take(&mut self.stops);
        stops.retain(|&(id, since)| now.since(since) < STOP_HELD_FOR || self.is_mentioned(id));
        self.stops = stops;
        let mut ranks = std::mem::take(&mut self.ranks);
        ranks.forget_ended(|id| self.is_mentioned(id));
        self.ranks = ranks;
    }

    fn wish_stopped(&mut self, id: DeploymentId) {
        if self.stops.iter().any(|&(known, _)| known == id) {
            return;
        }
        if self.stops.len() >= STOPS_MAX {
            self.stops.remove(0);
        }
        self.stops.push((id, self.clock.now()));
        self.change();
    }

    fn is_mentioned(&self, id: DeploymentId) -> bool {
        self.records.iter().any(|record| record.body.mentions(id)) || self.upkeep.orphans.contains_key(&id)
    }

    /// Another node took a deployment over: it is its duty now.
    fn yield_superseded(&mut self) {
        let wanted = self.wanted();
        let lost: Vec<_> =
            self.owned.keys().filter(|id| wanted.get(id).is_some_and(|w| w.owner != self.me)).copied().collect();
        let orphaned = |(id, orphan): (&DeploymentId, &Orphan)| {
            let other = wanted.get(id).is_none_or(|w| w.owner != orphan.owner || w.entry != &orphan.entry);
            other.then_some(*id)
        };
        let found: Vec<_> = self.upkeep.orphans.iter().filter_map(orphaned).collect();
        for id in lost {
            self.owned.remove(&id);
            self.change();
        }
        for id in found {
            self.upkeep.orphans.remove(&id);
        }
    }

    /// Takes over deployments of this node's plans that have no living owner, when it is this node's turn.
    fn adopt(&mut self) {
        let now = self.clock.now();
        let mut adopted = Vec::new();
        let mut ownerless = BTreeMap::new();
        for (id, wanted) in self.wanted() {
            let is_orphan = self.upkeep.orphans.contains_key(&id);
            if wanted.owner == self.me || !(is_orphan || self.liveness(wanted.owner) == Liveness::Gone) {
                continue;
            }
            let since = *self.upkeep.ownerless_since.get(&id).unwrap_or(&now);
            ownerless.insert(id, since);
            let Some(turn) = self.turn(wanted.entry) else { continue };
            let is_due = now.since(since) >= ADOPT_EVERY * turn;
            if !is_due || self.owned.len() + adopted.len() >= DEPLOYMENTS_MAX {
                continue;
            }
            if is_orphan {
                // It runs on as it is; only its duty has a new bearer.
                adopted.push(wanted.entry.clone());
            } else if self.is_failed(wanted.entry) && self.all_alive(wanted.entry) {
                // The owner may live on beyond a cut: only a higher epoch outdoes its word.
                adopted.push(self.raised(wanted.entry));
            }
        }
        self.upkeep.ownerless_since = ownerless;
        for entry in adopted {
            self.upkeep.orphans.remove(&entry.id);
            self.owned.insert(entry.id, entry);
            self.change();
        }
    }

    /// This node's place in the line of those who may take `entry` over: by rank, those who have run this epoch first.
    fn turn(&self, entry: &OwnedDeployment) -> Option<u32> {
        let shares = entry.plan.shares().iter().zip(&entry.boots);
        let mut line: Vec<_> = shares
            .filter(|(share, _)| self.liveness(share.node) == Liveness::Alive)
            .map(|(share, &boot)| {
                let has_run = self.records.stamp(share.node).is_some_and(|stamp| stamp.boot == boot);
                (!has_run, share.node)
            })
            .collect();
        line.sort_by_key(|&(is_new, _)| is_new);
        let turn = line.iter().position(|&(_, node)| node == self.me)?;
        u32::try_from(turn).ok()
    }

    /// Starts owned deployments that failed again, under a higher epoch, once all their nodes are there.
    fn restart_failed(&mut self) {
        let now = self.clock.now();
        let mut restarts = std::mem::take(&mut self.upkeep.restarts);
        restarts.retain(|id, _| self.owned.contains_key(id));
        let mut raised = Vec::new();
        for (&id, entry) in &self.owned {
            let restart = restarts.entry(id).or_default();
            if restart.is_due(&self.status_of(entry), self.all_alive(entry), now) {
                raised.push(self.raised(entry));
            }
        }
        self.upkeep.restarts = restarts;
        for entry in raised {
            self.owned.insert(entry.id, entry);
            self.change();
        }
    }

    fn is_failed(&self, entry: &OwnedDeployment) -> bool {
        matches!(self.status_of(entry), DeploymentStatus::Failed(_))
    }

    fn all_alive(&self, entry: &OwnedDeployment) -> bool {
        entry
            .plan
            .shares()
            .iter()
            .all(|share| self.liveness(share.node) == Liveness::Alive && self.records.stamp(share.node).is_some())
    }

    /// `entry` above every epoch that anybody mentions, on the starts of its nodes that are known now.
    fn raised(&self, entry: &OwnedDeployment) -> OwnedDeployment {
        let entries =
            self.records.iter().flat_map(|r| &r.body.deployments).filter(|d| d.id == entry.id).map(|d| d.epoch);
        let ranks =
            self.records.iter().flat_map(|r| &r.body.ranks).filter(|r| r.deployment == entry.id).map(|r| r.epoch);
        let highest = entries.chain(ranks).chain([entry.epoch]).max().unwrap_or(entry.epoch);
        let boot = |node| self.records.stamp(node).map_or(Boot::default(), |stamp| stamp.boot);
        OwnedDeployment {
            epoch: Epoch(highest.0 + 1),
            boots: entry.plan.shares().iter().map(|share| boot(share.node)).collect(),
            ..entry.clone()
        }
    }
}

impl Restarts {
    /// Whether the deployment shall be started again now, having been seen as `status`.
    fn is_due(&mut self, status: &DeploymentStatus, all_alive: bool, now: Awake) -> bool {
        match status {
            DeploymentStatus::Failed(_) => {
                let recovered = self.serving_since.take().is_some_and(|since| now.since(since) >= RECOVERED_AFTER);
                if recovered {
                    self.n_done = 0;
                }
                let Some(&wait) = RESTART_AFTER.get(self.n_done) else { return false };
                if !all_alive {
                    self.due = None;
                    return false;
                }
                let due = *self.due.get_or_insert(now.plus(wait));
                if now < due {
                    return false;
                }
                self.n_done += 1;
                self.due = None;
                true
            }
            DeploymentStatus::Serving => {
                self.due = None;
                self.serving_since.get_or_insert(now);
                false
            }
            DeploymentStatus::Reserving
            | DeploymentStatus::Fetching(_)
            | DeploymentStatus::Loading
            | DeploymentStatus::Connecting => {
                self.due = None;
                self.serving_since = None;
                false
            }
        }
    }
}
