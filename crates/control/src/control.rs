//! The state of one node's control plane, what it does with each input, and when.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use domain::{Bytes, DeploymentId, Epoch, NodeFacts, NodeId, Plan, Topology};

use crate::clock::{Awake, Clock, Step};
use crate::deployments::{Wanted, deployment_status, rank_of_epoch, wanted};
use crate::members::{HEARTBEAT_EVERY, Members};
use crate::ranks::{Ranks, Reported};
use crate::records::{Merged, Records};
use crate::reserve::{Ledger, Pending};
use crate::rng::Rng;
use crate::upkeep::Upkeep;
use crate::{
    Boot, DeploymentStatus, DeploymentView, Digest, Input, Liveness, Message, NodeView, Output, OwnedDeployment,
    Record, RecordBody, Refusal, Stamp, View,
};

/// Numbers (progress, resident bytes) are published at most four times a second: people cannot read faster.
const NUMBERS_EVERY: Duration = Duration::from_millis(250);

/// One node's control plane. See the crate's documentation for the contract.
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) me: NodeId,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) members: Members,
    pub(crate) records: Records,
    facts: NodeFacts,
    pub(crate) ledger: Ledger,
    pub(crate) ranks: Ranks,
    /// Deployments that this node owns.
    pub(crate) owned: BTreeMap<DeploymentId, OwnedDeployment>,
    /// Deployments that somebody wants ended, and since when it is known here; oldest first.
    pub(crate) stops: Vec<(DeploymentId, Awake)>,
    pub(crate) pending: BTreeMap<DeploymentId, Pending>,
    pub(crate) upkeep: Upkeep,
    heartbeat_at: Awake,
    /// When numbers that changed shall be published.
    numbers_at: Option<Awake>,
    published_at: Awake,
    /// Something happened that the next settling must look at.
    is_unsettled: bool,
    rev: u64,
    is_changed: bool,
    pub(crate) outputs: VecDeque<Output>,
}

impl Control {
    /// A node that knows only itself. `boot` is larger than at any earlier start of this node; `seed` is random.
    pub fn new(me: NodeId, facts: NodeFacts, boot: Boot, seed: u64, now: Instant) -> Self {
        let clock = Clock::new(now);
        let body = RecordBody::of(facts.clone());
        let own = Record { writer: me, stamp: Stamp { boot, version: 1 }, body };
        Self {
            me,
            rng: Rng::new(seed),
            members: Members::default(),
            records: Records::new(own),
            facts,
            ledger: Ledger::default(),
            ranks: Ranks::default(),
            owned: BTreeMap::new(),
            stops: Vec::new(),
            pending: BTreeMap::new(),
            upkeep: Upkeep::default(),
            heartbeat_at: clock.now(),
            numbers_at: None,
            published_at: clock.now(),
            is_unsettled: false,
            rev: 0,
            is_changed: false,
            outputs: VecDeque::new(),
            clock,
        }
    }

    pub fn handle(&mut self, input: Input, now: Instant) {
        self.advance(now);
        self.take(input);
        self.settle();
    }

    /// To be called at [`Self::poll_timeout`]; earlier and later calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.settle();
    }

    /// When to call [`Self::handle_timeout`] next, if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = [
            Some(self.heartbeat_at),
            self.members.next_age(),
            self.ledger.next_expiry(),
            self.next_ask(),
            self.numbers_at,
        ];
        due.into_iter().flatten().min().map(|at| self.clock.instant_of(at))
    }

    /// The next thing to do, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        if std::mem::take(&mut self.is_changed) {
            self.rev += 1;
            return Some(Output::Changed { rev: self.rev });
        }
        None
    }

    /// The cluster as this node sees it now.
    pub fn view(&self) -> View {
        let ids = self.members.iter().map(|(id, _)| id).chain([self.me]);
        let nodes = ids.map(|id| (id, self.node_view(id))).collect();
        let committed = self.wanted().into_iter().map(|(id, wanted)| (id, self.deployment_view(wanted)));
        let mut deployments: BTreeMap<_, _> = committed.collect();
        for (&id, pending) in &self.pending {
            let deployment = domain::Deployment { id, epoch: Epoch(1), plan: pending.plan.clone() };
            let ranks = vec![None; pending.plan.shares().len()];
            let status = DeploymentStatus::Reserving;
            deployments.insert(id, DeploymentView { deployment, owner: self.me, status, ranks });
        }
        View { rev: self.rev, me: self.me, nodes, deployments }
    }

    pub fn topology(&self) -> Topology {
        self.view().topology()
    }

    /// The newest record known of each writer, this node's own included.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    /// This node's own record: what it says to all others.
    pub fn own_record(&self) -> &Record {
        self.records.get(self.me).expect("a node's own record is there from its start and never removed")
    }

    fn node_view(&self, id: NodeId) -> NodeView {
        let record = self.records.get(id);
        let silent_for = if id == self.me {
            Some(Duration::ZERO)
        } else {
            self.members.get(id).and_then(|peer| peer.heard_at).map(|at| self.clock.now().since(at))
        };
        NodeView {
            name: self.name_of(id),
            liveness: self.liveness(id),
            silent_for,
            boot: record.map(|record| record.stamp.boot),
            facts: record.map(|record| record.body.facts.clone()),
            reserved: record.map_or(Bytes::ZERO, |record| record.body.reserved()),
            ranks: record.map(|record| record.body.ranks.clone()).unwrap_or_default(),
        }
    }

    fn deployment_view(&self, wanted: Wanted<'_>) -> DeploymentView {
        let shares = wanted.entry.plan.shares().iter();
        let rank_of = |node| self.records.get(node).and_then(|record| rank_of_epoch(wanted.entry, record)).cloned();
        DeploymentView {
            deployment: wanted.entry.deployment(),
            owner: wanted.owner,
            status: self.status_of(wanted.entry),
            ranks: shares.map(|share| rank_of(share.node)).collect(),
        }
    }

    pub(crate) fn name_of(&self, id: NodeId) -> String {
        let said = self.records.get(id).map(|record| &record.body.facts.name);
        let name = said.or_else(|| self.members.get(id).map(|peer| &peer.name));
        name.cloned().unwrap_or_else(|| id.short())
    }

    pub(crate) fn liveness(&self, id: NodeId) -> Liveness {
        if id == self.me {
            return Liveness::Alive;
        }
        self.members.get(id).map_or(Liveness::Gone, |peer| peer.liveness)
    }

    pub(crate) fn wanted(&self) -> BTreeMap<DeploymentId, Wanted<'_>> {
        wanted(&self.records, self.upkeep.orphans())
    }

    pub(crate) fn status_of(&self, entry: &OwnedDeployment) -> DeploymentStatus {
        deployment_status(entry, |id| (self.name_of(id), self.liveness(id), self.records.get(id)))
    }

    pub(crate) fn boot(&self) -> Boot {
        self.own_record().stamp.boot
    }

    pub(crate) fn usable(&self) -> Option<Bytes> {
        self.facts.memory.value().map(|memory| memory.usable)
    }

    pub(crate) fn send(&mut self, to: NodeId, message: Message) {
        self.outputs.push_back(Output::Send { to, message });
    }

    /// Something that people see has changed.
    pub(crate) fn change(&mut self) {
        self.is_changed = true;
        self.is_unsettled = true;
    }

    fn advance(&mut self, now: Instant) {
        match self.clock.advance(now) {
            Step::Awake => {}
            Step::Slept => self.ask_anew(),
        }
        if self.members.age(self.clock.now()) | self.ledger.expire(self.clock.now()) {
            self.change();
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Paired { node, name } => {
                if node != self.me && self.members.pair(node, name) {
                    self.change();
                }
            }
            Input::Unpaired(node) => {
                if self.members.unpair(node) {
                    if let Some(record) = self.records.remove(node) {
                        self.keep_orphans(record);
                    }
                    self.change();
                }
            }
            Input::Connected(node) => {
                if self.members.connect(node) {
                    let digest = self.records.digest();
                    self.send(node, Message::Heartbeat { digest });
                }
            }
            Input::Disconnected(node) => {
                if self.members.disconnect(node) {
                    self.change();
                }
            }
            Input::Message { from, message } => {
                if self.members.is_paired(from) {
                    if self.members.hear(from, self.clock.now()) {
                        self.change();
                    }
                    self.take_message(from, message);
                }
            }
            Input::Facts(facts) => {
                self.facts = *facts;
                self.is_unsettled = true;
            }
            Input::Deploy { request, plan } => self.deploy(request, plan),
            Input::Stop { deployment } => self.stop(deployment),
            Input::Rank(report) => match self.ranks.report(report) {
                Reported::Nothing => {}
                Reported::Numbers => {
                    let due = self.published_at.plus(NUMBERS_EVERY).max(self.clock.now());
                    self.numbers_at.get_or_insert(due);
                }
                Reported::Stage => self.is_unsettled = true,
            },
        }
    }

    fn take_message(&mut self, from: NodeId, message: Message) {
        match message {
            Message::Heartbeat { digest } => self.compare(from, &digest),
            Message::Pull { digest } => {
                let newer: Vec<_> = self.records.newer_than(&digest).cloned().collect();
                for record in newer {
                    self.send(from, Message::Record { record: Box::new(record) });
                }
            }
            Message::Record { record } => self.take_record(*record),
            Message::Reserve { deployment, epoch, bytes } => {
                let refused = self.reserve(deployment, bytes).err();
                let answer = Message::Reserved { deployment, epoch, boot: self.boot(), refused };
                self.send(from, answer);
            }
            Message::Reserved { deployment, epoch: _, boot, refused } => {
                self.take_answer(deployment, from, boot, refused);
            }
            Message::Release { deployment } => {
                if self.ledger.release_uncommitted(deployment) {
                    self.change();
                }
            }
        }
    }

    /// Asks for what is behind here; what is behind there, they will ask for.
    fn compare(&mut self, from: NodeId, digest: &Digest) {
        if let Some(&stamp) = digest.get(&self.me) {
            self.outrank(stamp);
        }
        let is_behind = |(&writer, &stamp): (&NodeId, &Stamp)| {
            self.members.is_paired(writer) && self.records.stamp(writer).is_none_or(|known| known < stamp)
        };
        if digest.iter().any(is_behind) {
            let digest = self.records.digest();
            self.send(from, Message::Pull { digest });
        }
    }

    fn take_record(&mut self, record: Record) {
        if record.writer == self.me {
            // Nobody else writes about this node.
            self.outrank(record.stamp);
            return;
        }
        if !self.members.is_paired(record.writer) {
            return;
        }
        match self.records.merge(record) {
            Merged::Old => {}
            Merged::Newer(replaced) => {
                if let Some(replaced) = replaced {
                    self.keep_orphans(*replaced);
                }
                self.change();
            }
        }
    }

    /// Others know a newer record of this node than it wrote: its counter of starts was lost. It goes on above.
    fn outrank(&mut self, stamp: Stamp) {
        let own = self.own_record();
        if stamp > own.stamp {
            let stamp = Stamp { boot: Boot(stamp.boot.0.saturating_add(1)), version: 1 };
            let outranking = Record { stamp, ..own.clone() };
            self.records.merge(outranking);
            self.push_own();
            self.change();
        }
    }

    /// Promises memory of this node.
    pub(crate) fn reserve(&mut self, id: DeploymentId, bytes: Bytes) -> Result<(), Refusal> {
        let answer = self.ledger.reserve(id, bytes, self.usable(), self.clock.now());
        self.is_unsettled |= answer.is_ok();
        answer
    }

    /// Brings everything in line with what is known now.
    fn settle(&mut self) {
        let now = self.clock.now();
        self.ask_and_conclude();
        if now >= self.heartbeat_at {
            self.heartbeat_at = now.plus(self.rng.jittered(HEARTBEAT_EVERY));
            self.beat();
            // What is due by time alone is looked at once a heartbeat: none of it is finer than seconds.
            self.is_unsettled = true;
        }
        if self.numbers_at.is_some_and(|at| now >= at) {
            // They may be those that were published before; then there is nothing more to say.
            self.numbers_at = None;
            self.is_unsettled = true;
        }
        if !std::mem::take(&mut self.is_unsettled) {
            return;
        }
        let before = self.own_record().stamp;
        self.write_own();
        self.upkeep();
        self.write_own();
        self.reconcile();
        self.write_own();
        if self.own_record().stamp != before {
            self.push_own();
        }
        self.is_unsettled = false;
    }

    fn beat(&mut self) {
        let digest = self.records.digest();
        let to: Vec<_> = self.members.connected().collect();
        for node in to {
            self.send(node, Message::Heartbeat { digest: digest.clone() });
        }
    }

    /// Writes this node's own record, if it has anything new to say.
    fn write_own(&mut self) {
        let body = RecordBody {
            facts: self.facts.clone(),
            reservations: self.ledger.reservations(),
            ranks: self.ranks.statuses(),
            deployments: self.owned.values().cloned().collect(),
            stops: self.stops.iter().map(|&(id, _)| id).collect(),
        };
        let own = self.own_record();
        if own.body == body {
            return;
        }
        let stamp = Stamp { version: own.stamp.version + 1, ..own.stamp };
        self.records.merge(Record { writer: self.me, stamp, body });
        self.published_at = self.clock.now();
        self.numbers_at = None;
        self.change();
    }

    fn push_own(&mut self) {
        let record = Box::new(self.own_record().clone());
        let to: Vec<_> = self.members.connected().collect();
        for node in to {
            self.send(node, Message::Record { record: record.clone() });
        }
    }

    /// The plan of a deployment may not be larger than a cluster.
    pub(crate) fn is_too_large(plan: &Plan) -> bool {
        plan.shares().len() > crate::NODES_MAX
    }
}
