//! The facts of all live nodes, as one value.

use std::collections::BTreeMap;

use crate::{Bytes, LinkFacts, NodeFacts, NodeId};

/// What planning looks at. Ordered by node, so that equal topologies give equal plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    pub nodes: BTreeMap<NodeId, TopologyNode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyNode {
    pub facts: NodeFacts,
    /// Set aside for deployments already.
    pub reserved: Bytes,
}

impl TopologyNode {
    /// Memory that a new deployment may take; `None` while it is unknown.
    pub fn plannable(&self) -> Option<Bytes> {
        self.facts.memory.value().map(|memory| memory.usable - self.reserved)
    }
}

impl Topology {
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<&LinkFacts> {
        self.nodes.get(&from)?.facts.links.iter().find(|link| link.to == to)
    }
}
