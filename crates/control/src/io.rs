//! What goes into [`Control`](crate::Control) and what comes out of it.

use std::net::SocketAddr;

use domain::{Bytes, DeploymentId, Epoch, Fetching, NodeFacts, NodeId, Plan, PlanShare, Rank, Shard};

use crate::{DeployRefused, Message};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// `node` is trusted from now on. Nodes past [`NODES_MAX`](crate::NODES_MAX) are ignored: pairing refuses them first.
    Paired {
        node: NodeId,
        /// What people call it; its own facts replace it once they arrive.
        name: String,
    },
    /// `node` is trusted no longer: all that is known of it is forgotten.
    Unpaired(NodeId),
    /// The secure channel to `node` is up.
    Connected(NodeId),
    /// The secure channel to `node` is down.
    Disconnected(NodeId),
    /// `from` is who the secure channel says it is.
    Message {
        from: NodeId,
        message: Message,
    },
    /// New facts of this node itself.
    Facts(Box<NodeFacts>),
    /// Make `plan` true, with this node as its owner. Answered by [`Output::DeployAnswer`] within
    /// [`RESERVE_DEADLINE`](crate::RESERVE_DEADLINE).
    Deploy {
        request: RequestId,
        plan: Plan,
    },
    /// End a deployment, whoever owns it. Unknown ones are ignored.
    Stop {
        deployment: DeploymentId,
    },
    Rank(RankReport),
}

/// Numbers a caller's request, so that it finds its answer. Chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// News of a rank that this node runs. Reports of an epoch that is over are ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct RankReport {
    pub deployment: DeploymentId,
    pub epoch: Epoch,
    pub event: RankEvent,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RankEvent {
    /// After [`Output::Fetch`], as often as the caller likes; published at most four times a second.
    Fetching(Fetching),
    /// The shard's files are all on disk.
    Fetched,
    /// After [`Output::StartRank`]: the shard is mapped and the rank listens for its neighbours.
    Loaded { data_addrs: Vec<SocketAddr>, resident: Bytes },
    /// After [`Output::Connect`]: every link of this rank is up.
    Serving,
    /// What the rank's process holds of physical memory now.
    Resident(Bytes),
    /// The rank cannot go on. `reason` names the node at fault where it is another, and the fix.
    Failed { reason: String },
    /// No fetch and no process of this rank is left. The one answer to [`Output::StopRank`]; unasked, the rank has
    /// failed for `reason`.
    Exited { reason: String },
}

/// One thing to do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Over the secure channel; may be lost.
    Send {
        to: NodeId,
        message: Message,
    },
    /// See that the files of `shard` are on this node's disk. Answer: `Fetching` …, then `Fetched` or `Failed`.
    Fetch {
        deployment: DeploymentId,
        epoch: Epoch,
        shard: Shard,
    },
    /// Start the rank's process, which may hold `share.reserved_bytes()`. Answer: `Loaded` or `Failed`.
    StartRank {
        deployment: DeploymentId,
        epoch: Epoch,
        shard: Shard,
        share: PlanShare,
    },
    /// Every rank of this epoch listens: make the links. Answer: `Serving` or `Failed`.
    Connect {
        deployment: DeploymentId,
        epoch: Epoch,
        /// This node's.
        rank: Rank,
        /// In rank order, this node's own included.
        ranks: Vec<RankPeer>,
    },
    /// End the fetch or the process. Answer, always: `Exited`.
    StopRank {
        deployment: DeploymentId,
        epoch: Epoch,
        reason: String,
    },
    /// Another rank of this node's deployment is lost: whatever runs through it now ends with `reason`, which names
    /// the node. Said once for each epoch.
    PeerLost {
        deployment: DeploymentId,
        epoch: Epoch,
        node: NodeId,
        reason: String,
    },
    DeployAnswer {
        request: RequestId,
        answer: Result<DeploymentId, DeployRefused>,
    },
    /// The view is another one now. Once for any number of changes, after everything else.
    Changed {
        rev: u64,
    },
}

/// Where one rank of a deployment listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPeer {
    pub rank: Rank,
    pub node: NodeId,
    /// Best first; empty only for a lone rank, which has no neighbours.
    pub data_addrs: Vec<SocketAddr>,
}
