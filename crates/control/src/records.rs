//! Records: what one node says of itself and of the deployments it owns. Each has one writer; the newer one wins.

use std::collections::BTreeMap;

use domain::{Bytes, Deployment, DeploymentId, Epoch, NodeFacts, NodeId, Plan, RankStatus};
use serde::{Deserialize, Serialize};

use crate::message::{BadMessage, Digest, check_count};

/// Nodes of one cluster, this one included. A home has a handful; heartbeats grow with the square of it.
pub const NODES_MAX: usize = 32;

/// Deployments that one node may own, and ranks it may hold. Each is a process with a model in memory.
pub const DEPLOYMENTS_MAX: usize = 16;

/// Wishes to stop that one record may hold. A wish lives for seconds unless a node of it is away.
pub const STOPS_MAX: usize = 64;

/// Addresses of one rank: a few interfaces with two families each.
pub const DATA_ADDRS_MAX: usize = 16;

/// Characters of a failure's text; longer ones are cut.
pub const TEXT_CHARS_MAX: usize = 600;

/// Counts the starts of one node. Larger at every start; the caller keeps the counter on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Boot(pub u64);

/// How new a record is: first by its writer's start, then by the count of its changes since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    pub boot: Boot,
    pub version: u64,
}

/// All that `writer` has to say, at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub writer: NodeId,
    pub stamp: Stamp,
    pub body: RecordBody,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordBody {
    pub facts: NodeFacts,
    /// Memory the writer has set aside, ordered by deployment.
    pub reservations: Vec<Reservation>,
    /// The ranks it runs, ordered by deployment.
    pub ranks: Vec<RankStatus>,
    /// The deployments it owns, ordered by id.
    pub deployments: Vec<OwnedDeployment>,
    /// Deployments that somebody wants ended. Every node joins in a wish it hears and holds it until no record that it
    /// knows mentions the deployment, so that neither a node that was away nor a crash can bring it back.
    pub stops: Vec<DeploymentId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub deployment: DeploymentId,
    pub bytes: Bytes,
}

/// A deployment as its owner writes it. Under one epoch it never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedDeployment {
    pub id: DeploymentId,
    pub epoch: Epoch,
    pub plan: Plan,
    /// The start of each node that this epoch runs on, in rank order. A node that started anew has lost its rank: it
    /// takes no part until the owner raises the epoch.
    pub boots: Vec<Boot>,
}

impl OwnedDeployment {
    pub fn deployment(&self) -> Deployment {
        Deployment { id: self.id, epoch: self.epoch, plan: self.plan.clone() }
    }

    /// The start of `node` that this epoch counts on, if the plan has the node.
    pub fn boot_of(&self, node: NodeId) -> Option<Boot> {
        self.boots.get(self.plan.rank_of(node)?.idx()).copied()
    }
}

impl RecordBody {
    pub(crate) fn of(facts: NodeFacts) -> Self {
        Self { facts, reservations: Vec::new(), ranks: Vec::new(), deployments: Vec::new(), stops: Vec::new() }
    }

    pub fn reserved(&self) -> Bytes {
        self.reservations.iter().map(|reservation| reservation.bytes).sum()
    }

    /// Whether the writer still has to do with `id`, otherwise than by wanting it ended.
    pub(crate) fn mentions(&self, id: DeploymentId) -> bool {
        self.reservations.iter().any(|r| r.deployment == id)
            || self.ranks.iter().any(|r| r.deployment == id)
            || self.deployments.iter().any(|d| d.id == id)
    }

    pub(crate) fn check_limits(&self) -> Result<(), BadMessage> {
        check_count("links", self.facts.links.len(), NODES_MAX)?;
        check_count("reservations", self.reservations.len(), DEPLOYMENTS_MAX)?;
        check_count("ranks", self.ranks.len(), DEPLOYMENTS_MAX)?;
        check_count("deployments", self.deployments.len(), DEPLOYMENTS_MAX)?;
        check_count("stops", self.stops.len(), STOPS_MAX)?;
        for deployment in &self.deployments {
            check_count("shares", deployment.plan.shares().len(), NODES_MAX)?;
            check_count("boots", deployment.boots.len(), deployment.plan.shares().len())?;
        }
        self.ranks.iter().try_for_each(|rank| check_count("addresses", rank.data_addrs.len(), DATA_ADDRS_MAX))
    }
}

/// The newest record known of each writer, this node's own included.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    by_writer: BTreeMap<NodeId, Record>,
}

impl Records {
    pub fn new(own: Record) -> Self {
        Self { by_writer: BTreeMap::from([(own.writer, own)]) }
    }

    /// Takes `record` if it is newer than what is there, and gives back what it replaced.
    pub fn merge(&mut self, record: Record) -> Merged {
        match self.by_writer.get(&record.writer) {
            Some(known) if known.stamp >= record.stamp => Merged::Old,
            Some(_) | None => Merged::Newer(self.by_writer.insert(record.writer, record).map(Box::new)),
        }
    }

    pub fn remove(&mut self, writer: NodeId) -> Option<Record> {
        self.by_writer.remove(&writer)
    }

    pub fn get(&self, writer: NodeId) -> Option<&Record> {
        self.by_writer.get(&writer)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.by_writer.values()
    }

    pub fn digest(&self) -> Digest {
        self.by_writer.iter().map(|(&writer, record)| (writer, record.stamp)).collect()
    }

    pub fn stamp(&self, writer: NodeId) -> Option<Stamp> {
        self.get(writer).map(|record| record.stamp)
    }

    /// Records that whoever sent `digest` lacks.
    pub fn newer_than<'a>(&'a self, digest: &'a Digest) -> impl Iterator<Item = &'a Record> {
        self.iter().filter(|record| digest.get(&record.writer).is_none_or(|&theirs| theirs < record.stamp))
    }
}

/// What became of a record that arrived.
pub(crate) enum Merged {
    /// Known already, or older than what is known.
    Old,
    /// Taken; what it replaced.
    Newer(Option<Box<Record>>),
}
