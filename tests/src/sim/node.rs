//! One simulated node: its control, its clock, its disk (the counter of starts) and its ranks.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{Boot, Control, Input, Output, Record};
use domain::{Bytes, DeploymentId, Fact, Memory, NodeFacts, NodeId, Timestamp};
use rand::RngExt;

use super::ranks::FakeRank;
use super::{Sim, Stuck};

pub struct SimNode {
    pub id: NodeId,
    pub name: String,
    pub facts: NodeFacts,
    /// Of its latest start.
    pub boot: Boot,
    /// `PeerLost` as told to this node: the deployment, the node that was lost and why.
    pub losses: Vec<(DeploymentId, NodeId, String)>,
    pub(super) state: NodeState,
    /// How far its clock is ahead of virtual time.
    pub(super) clock_ahead: Duration,
    pub(super) ranks: BTreeMap<DeploymentId, FakeRank>,
    /// The number of the latest word about the channel to each node.
    pub(super) channel_word: BTreeMap<NodeId, u64>,
    /// Its own record as it last wrote it; outlives a crash.
    pub(super) last_record: Option<Record>,
}

pub(super) enum NodeState {
    Running(Control),
    Asleep(Control),
    Crashed,
}

/// The id of the node that is made as the `idx`th, from 0.
pub(super) fn id(idx: usize) -> NodeId {
    NodeId::from_bytes([u8::try_from(idx + 1).expect("few nodes"); 32])
}

impl SimNode {
    pub(super) fn new(id: NodeId, described: &str) -> Self {
        let (name, memory) = described.split_once(' ').expect("`name memory`");
        let usable = match memory.split_once(' ').expect("`number unit`") {
            (number, "GiB") => Bytes::from_gib(number.parse().expect("a number")),
            (number, "MiB") => Bytes::from_mib(number.parse().expect("a number")),
            (_, unit) => panic!("GiB or MiB, not {unit}"),
        };
        let memory = Memory { total: usable, used_by_others: Bytes::ZERO, usable };
        let facts = NodeFacts { memory: Fact::known(memory, Timestamp(0)), ..NodeFacts::named(name) };
        Self {
            id,
            name: name.to_owned(),
            facts,
            boot: Boot(0),
            losses: Vec::new(),
            state: NodeState::Crashed,
            clock_ahead: Duration::ZERO,
            ranks: BTreeMap::new(),
            channel_word: BTreeMap::new(),
            last_record: None,
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, NodeState::Running(_))
    }

    pub fn control(&self) -> Option<&Control> {
        match &self.state {
            NodeState::Running(control) | NodeState::Asleep(control) => Some(control),
            NodeState::Crashed => None,
        }
    }
}

impl Sim {
    /// Starts `id` anew, with nothing but what is on its disk: its counter of starts and whom it is paired with.
    pub(super) fn start_node(&mut self, id: NodeId) {
        let seed = self.rng.random();
        let at = self.instant_at(id);
        let others: Vec<_> = self.nodes.values().filter(|node| node.id != id).map(|n| (n.id, n.name.clone())).collect();
        let node = self.node_mut(id);
        node.boot = Boot(node.boot.0 + 1);
        let mut control = Control::new(id, node.facts.clone(), node.boot, seed, at);
        for (other, name) in others {
            control.handle(Input::Paired { node: other, name }, at);
        }
        node.channel_word.clear();
        node.state = NodeState::Running(control);
        self.watched.node_started(id, self.nodes[&id].control().expect("it has just been started"));
        self.node_mut(id).last_record = self.nodes[&id].control().map(|control| control.own_record().clone());
    }

    /// Does what `id` wants done, then checks the invariants.
    pub(super) fn drain(&mut self, id: NodeId) -> Result<(), Stuck> {
        let mut n_outputs = 0;
        while let Some(output) = self.control_mut(id).poll_output() {
            n_outputs += 1;
            self.check_output_count(id, n_outputs)?;
            match output {
                Output::Send { to, message } => self.transmit(id, to, &message)?,
                Output::Fetch { deployment, epoch, shard: _ } => self.fetch(id, deployment, epoch),
                Output::StartRank { deployment, epoch, shard: _, share } => {
                    self.start_rank(id, deployment, epoch, &share)?;
                }
                Output::Connect { deployment, epoch, rank: _, ranks } => self.connect(id, deployment, epoch, &ranks)?,
                Output::StopRank { deployment, epoch, reason: _ } => self.stop_rank(id, deployment, epoch),
                Output::PeerLost { deployment, epoch: _, node, reason } => {
                    self.node_mut(id).losses.push((deployment, node, reason));
                }
                Output::DeployAnswer { request, answer } => {
                    self.note(|s| format!("{} answers its request {}: {answer:?}", s.name(id), request.0));
                    if let Ok(deployment) = &answer {
                        self.check_commit(id, *deployment)?;
                    }
                    self.answers.insert(request, answer);
                }
                Output::Changed { rev: _ } => {}
            }
        }
        self.check_node(id)
    }
}
