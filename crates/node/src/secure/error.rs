//! What can go wrong between nodes.

use std::io;
use std::net::SocketAddr;

use domain::{Bytes, Hint, Hints, NodeId};

use super::frame::{FRAME_MAX, FrameError};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen for other nodes on `{addr}` (UDP)")]
    Listen { addr: SocketAddr, source: io::Error },
    #[error("no address to listen on was given")]
    NoAddress,
    #[error("no TLS configuration could be made from the node key")]
    Tls(#[source] transport::IdentityError),
    #[error("TLS offers no cipher that QUIC can start with")]
    NoCipher,
}

impl Hint for StartError {
    fn hints(&self) -> Hints {
        match self {
            Self::Listen { addr, source } if source.kind() == io::ErrorKind::AddrInUse => vec![format!(
                "another program uses UDP port {}: quit it, or choose another with `--control-port` (0 takes a free one)",
                addr.port()
            )],
            Self::Listen { addr, .. } => vec![format!("see that this machine has the address `{}`", addr.ip())],
            Self::NoAddress => vec!["give at least one address".to_owned()],
            Self::Tls(_) | Self::NoCipher => vec!["this is a fault of the program: please report it".to_owned()],
        }
    }
}

/// Why a message was not taken. What was taken may still be lost with the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("`{}` is not connected", to.short())]
    NotConnected { to: NodeId },
    #[error("`{}` does not keep up: {n_messages} messages ({queued}) wait for it", to.short())]
    QueueFull { to: NodeId, n_messages: usize, queued: Bytes },
    #[error("a message of {len} bytes is longer than the {FRAME_MAX} allowed")]
    TooLarge { len: usize },
}

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{}` is not connected", to.short())]
    NotConnected { to: NodeId },
    #[error("`{}` accepted no further stream within {within_s} s", to.short())]
    Busy { to: NodeId, within_s: u64 },
    #[error("the connection to `{}` was lost", to.short())]
    Lost {
        to: NodeId,
        #[source]
        source: FrameError,
    },
}

impl Hint for OpenError {
    fn hints(&self) -> Hints {
        match self {
            Self::NotConnected { .. } | Self::Lost { .. } => {
                vec![
                    "see that the other machine is awake and in reach; the connection is made again by itself"
                        .to_owned(),
                ]
            }
            Self::Busy { .. } => vec!["wait until some of its requests are done".to_owned()],
        }
    }
}
