//! The contract of a link: whole messages between two ranks, in order, or an error that says why not.
//!
//! [`crate::testing::link_contract`] is this contract as tests; every carrier passes the same ones.

use std::fmt;

use domain::NodeId;

use crate::error::LinkError;
use crate::wait::Wait;

/// The longest message, in bytes. A prefill chunk of 512 tokens at a hidden size of 16,384 in f32 is 32 MiB;
/// twice that leaves room, and bounds what a mistaken or hostile peer can make this end hold.
pub const MESSAGE_MAX: usize = 64 << 20;

/// One end of a path to one other rank. Synchronous: the compute thread of a rank owns it and blocks in it.
///
/// Two ends may send at the same time: an end that is blocked in `send` keeps taking in what arrives, up to
/// [`MESSAGE_MAX`] that nobody has received yet. An end that is in no call takes in nothing, and after a window of
/// frames its peer's `send` blocks.
pub trait Link: Send {
    /// The node at the other end, proven by its key where the carrier leaves the machine.
    fn peer(&self) -> NodeId;

    fn carrier(&self) -> CarrierKind;

    /// Hands over a whole message of 0 to [`MESSAGE_MAX`] bytes.
    ///
    /// `Ok` means that the carrier has it all, not that the peer has received it.
    fn send(&mut self, message: &[u8], wait: &Wait) -> Result<(), LinkError>;

    /// Waits for the next whole message and puts it into `message`, whose old contents go.
    ///
    /// Pass the same vector again: its allocation is reused. On an error it is left as it was, and after a
    /// time-out or cancel a later call goes on where this one stopped.
    fn recv(&mut self, message: &mut Vec<u8>, wait: &Wait) -> Result<(), LinkError>;

    /// Ends the link in good order: the peer receives what was sent, then [`LinkError::Closed`].
    ///
    /// A link that is dropped without this is cut, and the peer gets [`LinkError::Lost`].
    fn close(self: Box<Self>, wait: &Wait) -> Result<(), LinkError>;
}

/// What moves a link's frames. Which wire that is (Wi-Fi, Thunderbolt, …) is the node's to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarrierKind {
    /// Queues in this process.
    Memory,
    /// TCP under TLS 1.3.
    Tcp,
}

impl fmt::Display for CarrierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Tcp => "TCP",
        })
    }
}
