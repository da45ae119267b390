//! What can go wrong with a link, in words that name the node.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use domain::{Bytes, Hint, Hints, NodeId};

use crate::frame::Corruption;
use crate::hello::Refusal;
use crate::identity::IdentityError;
use crate::wait::Stopped;

/// Why a link did not do what it was asked to.
///
/// After [`LinkError::Timeout`] or [`LinkError::Cancelled`] of a `recv` the link is as good as before: what had
/// arrived of the message is kept. A `send` that ends so after its first frame has left the peer with half a
/// message, so the link is lost. Every other error ends the link.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LinkError {
    #[error("{doing} node {} took longer than {waited:.1?}", peer.short())]
    Timeout { peer: NodeId, waited: Duration, doing: Doing },
    #[error("cancelled")]
    Cancelled,
    /// The peer closed the link in good order. Nothing it sent before is missing.
    #[error("node {} closed the link", peer.short())]
    Closed { peer: NodeId },
    /// The link was cut: the process died, the cable came out, the machine went to sleep.
    #[error("lost the link to node {}: {cause}", peer.short())]
    Lost { peer: NodeId, cause: String },
    #[error("what came from node {} is corrupt: {cause}", peer.short())]
    Corrupt { peer: NodeId, cause: Corruption },
    #[error("node {} speaks version {theirs} of the link protocol, this node version {ours}", peer.short())]
    Version { peer: NodeId, ours: u8, theirs: u8 },
    #[error("a message of {size} is larger than a link takes ({max})")]
    TooLarge { peer: NodeId, size: Bytes, max: Bytes },
    /// Another node answers at the peer's address. Seen with address conflicts and stale addresses.
    #[error("{addr} answers for {}, not for node {}", named(*found), peer.short())]
    WrongPeer { peer: NodeId, found: Option<NodeId>, addr: SocketAddr },
    #[error("node {} refused the link: {reason}", peer.short())]
    Refused { peer: NodeId, reason: Refusal },
    /// No address led to the peer before the deadline. One entry for each address, with its last failure.
    #[error("cannot reach node {} within {waited:.1?}: {}", peer.short(), listed(tried))]
    Unreachable { peer: NodeId, waited: Duration, tried: Vec<Attempt> },
    /// A listener waited in vain. `turned_away` is the last caller that it knew and refused, if any.
    #[error("no expected node called within {waited:.1?} ({}){}", shorts(expected), turned(turned_away))]
    NobodyCame { waited: Duration, expected: Vec<NodeId>, turned_away: Option<String> },
    #[error("cannot listen on {addr}: {cause}")]
    Listen { addr: SocketAddr, cause: String },
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl LinkError {
    /// The node at the other end, where the error has one.
    pub fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Timeout { peer, .. }
            | Self::Closed { peer }
            | Self::Lost { peer, .. }
            | Self::Corrupt { peer, .. }
            | Self::Version { peer, .. }
            | Self::TooLarge { peer, .. }
            | Self::WrongPeer { peer, .. }
            | Self::Refused { peer, .. }
            | Self::Unreachable { peer, .. } => Some(*peer),
            Self::Cancelled | Self::NobodyCame { .. } | Self::Listen { .. } | Self::Identity(_) => None,
        }
    }

    pub(crate) fn stopped(why: Stopped, peer: NodeId, waited: Duration, doing: Doing) -> Self {
        match why {
            Stopped::Deadline => Self::Timeout { peer, waited, doing },
            Stopped::Cancelled => Self::Cancelled,
        }
    }
}

impl Hint for LinkError {
    fn hints(&self) -> Hints {
        let hint = |text: &str| vec![text.to_owned()];
        match self {
            Self::Timeout { peer, .. } => {
                vec![format!("see on node {} whether it is busy, asleep or stopped", peer.short())]
            }
            Self::Lost { peer, .. } => vec![
                format!("see on node {} whether Macramé still runs; its log says why a rank ended", peer.short()),
                "check the cable or network between the two machines".to_owned(),
            ],
            Self::Corrupt { .. } => hint("replace the cable, or leave RDMA for TCP, if this happens again"),
            Self::Version { .. } => hint("install the same version of Macramé on both machines"),
            Self::WrongPeer { .. } => hint("see whether two machines share this IP address"),
            Self::Refused { reason: Refusal::Key, .. } => hint("pair the two nodes again"),
            Self::Refused { .. } => {
                hint("deploy the model again; the nodes disagree about which deployment is current")
            }
            Self::Unreachable { .. } => vec![
                "check that both machines are on one network and awake".to_owned(),
                "allow incoming connections for Macramé in the other machine's firewall".to_owned(),
            ],
            Self::NobodyCame { .. } => hint("allow incoming connections for Macramé in this machine's firewall"),
            Self::Cancelled | Self::Closed { .. } | Self::TooLarge { .. } | Self::Listen { .. } | Self::Identity(_) => {
                Hints::new()
            }
        }
    }
}

/// What a link was busy with when its time ran out. Reads as the start of a sentence that names the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    Sending,
    Receiving,
    Closing,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sending => "sending to",
            Self::Receiving => "receiving from",
            Self::Closing => "closing the link to",
        })
    }
}

/// One address that did not lead to the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{addr}: {cause}")]
pub struct Attempt {
    pub addr: SocketAddr,
    pub cause: String,
}

fn named(node: Option<NodeId>) -> String {
    node.map_or_else(|| "a stranger".to_owned(), |node| format!("node {}", node.short()))
}

fn listed(tried: &[Attempt]) -> String {
    if tried.is_empty() {
        return "no address is known".to_owned();
    }
    tried.iter().map(Attempt::to_string).collect::<Vec<_>>().join(", ")
}

fn shorts(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::short).collect::<Vec<_>>().join(", ")
}

fn turned(turned_away: &Option<String>) -> String {
    turned_away.as_ref().map_or_else(String::new, |who| format!("; turned away {who}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_node_and_the_numbers() {
        let peer = NodeId::from_bytes([0xab; 32]);
        let timeout = LinkError::Timeout { peer, waited: Duration::from_millis(2500), doing: Doing::Receiving };
        assert_eq!(timeout.to_string(), "receiving from node abababab took longer than 2.5s");
        assert_eq!(timeout.peer(), Some(peer));
        let addr = SocketAddr::from(([10, 0, 0, 7], 4748));
        let unreachable = LinkError::Unreachable {
            peer,
            waited: Duration::from_secs(10),
            tried: vec![Attempt { addr, cause: "connection refused".to_owned() }],
        };
        assert_eq!(
            unreachable.to_string(),
            "cannot reach node abababab within 10.0s: 10.0.0.7:4748: connection refused"
        );
        assert_eq!(unreachable.hints().len(), 2);
    }
}
