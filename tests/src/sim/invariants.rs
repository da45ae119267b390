//! What must hold after every step, whatever happened; and what must hold once everything is quiet.

use std::collections::{BTreeMap, BTreeSet};

use control::{Boot, Control, DeploymentStatus, Liveness, Record, RecordBody, Stamp};
use domain::{Bytes, DeploymentId, Epoch, NodeId};

use super::{Sim, Stuck};

/// What the invariants remember of the past.
#[derive(Default)]
pub(super) struct Watched {
    /// The newest stamp of each node's records known to each node, in the knower's present start.
    known: BTreeMap<(NodeId, NodeId), Stamp>,
    /// Bodies that each node has written, oldest first; a few.
    bodies: BTreeMap<NodeId, Vec<RecordBody>>,
    /// Every rank that was started: where, in which start, for what.
    started: BTreeSet<(NodeId, Boot, DeploymentId, Epoch)>,
    pub n_steps_now: u32,
}

/// Old bodies kept of each node, for [`super::Mangling::OldAsNew`].
const BODIES_KEPT: usize = 8;

/// One input may not cause more outputs: a push and an answer to each node, and a few steps of each rank.
const OUTPUTS_MAX: usize = 200;

/// Events under way, far above what a few nodes cause in the latest delay.
const EVENTS_MAX: usize = 5_000;

impl Watched {
    pub fn node_started(&mut self, id: NodeId, control: &Control) {
        self.known.retain(|&(by, _), _| by != id);
        self.remember(control.own_record());
    }

    fn remember(&mut self, record: &Record) {
        let bodies = self.bodies.entry(record.writer).or_default();
        if bodies.last() != Some(&record.body) {
            bodies.push(record.body.clone());
            if bodies.len() > BODIES_KEPT {
                bodies.remove(0);
            }
        }
    }

    pub fn an_older_body(&self, record: &Record) -> Option<RecordBody> {
        self.bodies.get(&record.writer)?.iter().find(|body| **body != record.body).cloned()
    }
}

impl Sim {
    /// After `id` did something.
    pub(super) fn check_node(&mut self, id: NodeId) -> Result<(), Stuck> {
        if self.queue.len() > EVENTS_MAX {
            return Err(self.stuck(format!("{} events are under way", self.queue.len())));
        }
        let own = self.nodes[&id].control().expect("it has just done something").own_record().clone();
        if self.nodes[&id].last_record.as_ref().is_none_or(|last| last.stamp != own.stamp) {
            self.watched.remember(&own);
            self.check_reserved(id, &own)?;
            self.node_mut(id).last_record = Some(own);
        }
        self.check_knowledge(id)?;
        self.check_processes(id)
    }

    pub(super) fn check_output_count(&self, id: NodeId, n_outputs: usize) -> Result<(), Stuck> {
        if n_outputs > OUTPUTS_MAX {
            return Err(self.stuck(format!("{} wants more than {OUTPUTS_MAX} things at once", self.name(id))));
        }
        Ok(())
    }

    /// No node knows more of another than that one wrote, or something else, or forgets what it knew.
    fn check_knowledge(&mut self, id: NodeId) -> Result<(), Stuck> {
        let mut complaint = None;
        let mut known = std::mem::take(&mut self.watched.known);
        for record in self.nodes[&id].control().expect("it runs").records() {
            let writer = record.writer;
            let Some(last) = &self.nodes[&writer].last_record else { continue };
            let before = known.insert((id, writer), record.stamp);
            let what = if record.stamp > last.stamp {
                "knows a newer record than was written"
            } else if record.stamp == last.stamp && record.body != last.body {
                "knows another record than was written"
            } else if before.is_some_and(|before| before > record.stamp) {
                "went back to an older record"
            } else {
                continue;
            };
            complaint = Some(format!("{} {what} by {}: {:?}", self.name(id), self.name(writer), record.stamp));
            break;
        }
        self.watched.known = known;
        complaint.map_or(Ok(()), |what| Err(self.stuck(what)))
    }

    /// Promised memory is memory that is there.
    fn check_reserved(&self, id: NodeId, own: &Record) -> Result<(), Stuck> {
        let usable = own.body.facts.memory.value().map_or(Bytes::ZERO, |memory| memory.usable);
        let reserved = own.body.reserved();
        if reserved > usable {
            return Err(self.stuck(format!("{} promised {reserved} of {usable}", self.name(id))));
        }
        Ok(())
    }

    /// A process runs in memory that is promised to its deployment.
    fn check_processes(&self, id: NodeId) -> Result<(), Stuck> {
        let node = &self.nodes[&id];
        let own = node.control().expect("it runs").own_record();
        for (deployment, rank) in &node.ranks {
            let promised = own.body.reservations.iter().find(|r| r.deployment == *deployment).map(|r| r.bytes);
            if promised.is_none_or(|promised| promised < rank.bytes) {
                let name = self.name(id);
                let what = format!("{name} runs {deployment} in {} of which {promised:?} is promised", rank.bytes);
                return Err(self.stuck(what));
            }
        }
        Ok(())
    }

    /// A rank starts once in each epoch and start of its node, and never beside another of its deployment.
    pub(super) fn check_start(&mut self, at: NodeId, deployment: DeploymentId, epoch: Epoch) -> Result<(), Stuck> {
        let node = &self.nodes[&at];
        if let Some(running) = node.ranks.get(&deployment) {
            let (name, other) = (self.name(at), running.epoch.0);
            return Err(self.stuck(format!("{name} starts {deployment} in epoch {} beside epoch {other}", epoch.0)));
        }
        if !self.watched.started.insert((at, node.boot, deployment, epoch)) {
            return Err(self.stuck(format!("{} starts epoch {} of {deployment} twice", self.name(at), epoch.0)));
        }
        Ok(())
    }

    /// The moment a deployment is committed every node of its plan holds its memory, unless it started anew since.
    pub(super) fn check_commit(&self, owner: NodeId, id: DeploymentId) -> Result<(), Stuck> {
        let control = self.nodes[&owner].control().expect("it has just committed");
        let view = control.view();
        let Some(deployment) = view.deployments.get(&id) else {
            return Err(self.stuck(format!("{} says it committed {id}, but does not know it", self.name(owner))));
        };
        let entry = control.own_record().body.deployments.iter().find(|entry| entry.id == id);
        for share in deployment.deployment.plan.shares() {
            let node = &self.nodes[&share.node];
            let has_started_anew = entry.and_then(|entry| entry.boot_of(share.node)).is_some_and(|b| b != node.boot);
            let Some(control) = node.control().filter(|_| !has_started_anew) else { continue };
            let holds = control.own_record().body.reservations.iter().any(|r| r.deployment == id);
            if !holds {
                let (owner, node) = (self.name(owner), self.name(share.node));
                return Err(self.stuck(format!("{owner} commits {id} but {node} does not hold its memory")));
            }
        }
        Ok(())
    }

    /// Once all is quiet every node knows the same, and what is, is what is wanted.
    pub(super) fn check_agreement(&self) -> Result<(), Stuck> {
        let views: Vec<_> = self.ids().into_iter().map(|id| (id, self.view(id))).collect();
        let records = |id: NodeId| self.nodes[&id].control().expect("all is healed").records().collect::<Vec<_>>();
        let (first, model) = &views[0];
        for (id, view) in &views {
            let agrees = records(*id) == records(*first) && view.deployments == model.deployments;
            if !agrees {
                let (a, b) = (self.name(*first), self.name(*id));
                return Err(self.stuck(format!("{a} and {b} see different clusters: {model:#?}\n{view:#?}")));
            }
            if let Some((dead, _)) = view.nodes.iter().find(|(_, node)| node.liveness != Liveness::Alive) {
                return Err(self.stuck(format!("{} does not see {} alive", self.name(*id), self.name(*dead))));
            }
        }
        for deployment in model.deployments.values() {
            match &deployment.status {
                DeploymentStatus::Serving | DeploymentStatus::Failed(_) => {}
                DeploymentStatus::Reserving
                | DeploymentStatus::Fetching(_)
                | DeploymentStatus::Loading
                | DeploymentStatus::Connecting => {
                    return Err(self.stuck(format!("a deployment came to rest on its way: {deployment:#?}")));
                }
            }
        }
        for (id, view) in &views {
            let wanted_here = |deployment: &DeploymentId| {
                view.deployments.get(deployment).is_some_and(|d| d.deployment.plan.rank_of(*id).is_some())
            };
            let own = self.nodes[id].control().expect("all is healed").own_record();
            let promised = own.body.reservations.iter().map(|r| r.deployment);
            let left = promised.chain(self.nodes[id].ranks.keys().copied()).find(|deployment| !wanted_here(deployment));
            if let Some(left) = left {
                return Err(self.stuck(format!("{} keeps memory or a rank of {left}, which is over", self.name(*id))));
            }
        }
        Ok(())
    }
}
