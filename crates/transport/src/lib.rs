//! Bytes between ranks: who the other end is, and whole messages to and from it.
//!
//! One frame format, one flow control, several carriers. `frame` and `flow` decide what is sent and what is
//! believed, without doing any I/O; a [`Carrier`] moves frames and knows nothing of messages; [`FramedLink`] is the
//! [`Link`] made of both. Everything blocks, within a [`Wait`].
//!
//! [`Identity`] is the node's key and the only maker of TLS configurations, for the control plane too.

mod carrier;
mod error;
mod flow;
mod frame;
mod framed;
mod hello;
mod identity;
mod link;
mod mem;
mod pinned;
mod tcp;
pub mod testing;
mod verbs;
mod wait;

pub use carrier::{Carrier, CarrierError};
pub use error::{Attempt, Doing, LinkError};
pub use frame::Corruption;
pub use framed::FramedLink;
pub use hello::{Hello, Refusal};
pub use identity::{Identity, IdentityError, Peers, SERVER_NAME, peer_id};
pub use link::{CarrierKind, Link, MESSAGE_MAX};
pub use mem::{MemCarrier, MemLink, mem_pair};
pub use tcp::{DATA_ALPN, Expect, TcpCarrier, TcpLink, TcpListener, tcp_connect};
pub use verbs::rdma_devices;
pub use wait::{Cancel, LIMIT_MAX, PARK_MAX, Stopped, Wait};
