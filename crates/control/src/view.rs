//! The cluster as one node sees it, as one value.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Bytes, Deployment, DeploymentId, NodeFacts, NodeId, RankStatus, Topology, TopologyNode};

use crate::{Boot, DeploymentStatus, Liveness};

#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Grows with every change.
    pub rev: u64,
    pub me: NodeId,
    /// This node and every paired one, seen or not.
    pub nodes: BTreeMap<NodeId, NodeView>,
    pub deployments: BTreeMap<DeploymentId, DeploymentView>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    pub name: String,
    pub liveness: Liveness,
    /// Time since its last message; `None` before the first. Zero for this node itself.
    pub silent_for: Option<Duration>,
    /// `None` before its first record.
    pub boot: Option<Boot>,
    /// `None` before its first record.
    pub facts: Option<NodeFacts>,
    /// Set aside for deployments.
    pub reserved: Bytes,
    /// The ranks it runs, ordered by deployment.
    pub ranks: Vec<RankStatus>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeploymentView {
    pub deployment: Deployment,
    pub owner: NodeId,
    pub status: DeploymentStatus,
    /// In rank order, of the present epoch; `None` for a rank of which nothing was heard yet.
    pub ranks: Vec<Option<RankStatus>>,
}

impl View {
    /// What a planner may plan with: the nodes that are alive and whose facts are known.
    pub fn topology(&self) -> Topology {
        let alive = self.nodes.iter().filter(|(_, node)| node.liveness == Liveness::Alive);
        let nodes = alive.filter_map(|(&id, node)| {
            let facts = node.facts.clone()?;
            Some((id, TopologyNode { facts, reserved: node.reserved }))
        });
        Topology { nodes: nodes.collect() }
    }

    /// What people call `node`; the start of its id if nobody said.
    pub fn name_of(&self, node: NodeId) -> String {
        self.nodes.get(&node).map_or_else(|| node.short(), |known| known.name.clone())
    }
}
