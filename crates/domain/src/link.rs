//! What is known of the path between two nodes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BytesPerSec, Fact, NodeId};

/// By what a link runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// Both nodes are on one machine.
    Loopback,
    Wifi,
    Ethernet,
    /// IP over a Thunderbolt cable.
    Thunderbolt,
    /// Verbs over a Thunderbolt or InfiniBand cable.
    Rdma,
}

/// A link as the node that measured it sees it. Each end writes its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkFacts {
    pub to: NodeId,
    pub kind: Fact<LinkKind>,
    /// The interface that carries it, `en5` say.
    pub interface: Fact<String>,
    /// Median round trip of a small message.
    pub latency: Fact<Duration>,
    /// One way, of a transfer of some megabytes.
    pub bandwidth: Fact<BytesPerSec>,
}

impl LinkFacts {
    /// A link of which only the other end is known.
    pub const fn unmeasured(to: NodeId) -> Self {
        Self { to, kind: Fact::Unknown, interface: Fact::Unknown, latency: Fact::Unknown, bandwidth: Fact::Unknown }
    }
}
