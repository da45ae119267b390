//! A stream that one node opens to another for one request.

use super::frame::{FrameReader, FrameWriter};

/// What a stream is for. Its number is the first byte on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A generation that the node of the head runs for another.
    Generation = 1,
    /// A measurement of the link, for `probe::serve`.
    Probe = 2,
}

impl StreamKind {
    pub(super) const fn byte(self) -> u8 {
        self as u8
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Generation, Self::Probe].into_iter().find(|kind| kind.byte() == byte)
    }
}

/// Both halves of a request's stream.
#[derive(Debug)]
pub struct NetStream {
    pub kind: StreamKind,
    pub send: FrameWriter,
    pub recv: FrameReader,
}
