//! What the secure net tells the node that uses it.

use std::net::SocketAddr;

use bytes::Bytes;
use domain::NodeId;

use super::pairing::PairingStatus;
use super::stream::NetStream;

/// Of one node, `Connected` and `Disconnected` alternate, and messages come between them.
#[derive(Debug)]
pub enum NetEvent {
    Connected {
        node: NodeId,
        name: String,
        /// Of the program that runs there.
        version: String,
        addr: SocketAddr,
    },
    Disconnected {
        node: NodeId,
        why: String,
    },
    /// A paired node could not be reached. Said once for each new reason, while trying goes on.
    Unreachable {
        node: NodeId,
        why: String,
    },
    Message {
        from: NodeId,
        bytes: Bytes,
    },
    Stream {
        from: NodeId,
        stream: NetStream,
    },
    /// Both sides have stored each other; the connection follows.
    Paired {
        node: NodeId,
        name: String,
        addr: SocketAddr,
    },
    /// The code was used up, ran out, or changed after too many wrong ones.
    PairingChanged(PairingStatus),
}
