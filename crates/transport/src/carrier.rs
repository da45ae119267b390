//! What moves frames from one end to the other: reliable, in order, and knowing nothing of messages.

use std::time::Duration;

use crate::frame::Corruption;
use crate::link::CarrierKind;

/// One end of something that moves frames. No call blocks but [`Carrier::park`].
pub trait Carrier: Send {
    fn kind(&self) -> CarrierKind;

    /// Whether it can take a frame now. Tries to make room first.
    fn has_room(&mut self) -> Result<bool, CarrierError>;

    /// Takes a frame: its used part, 16 KiB at most. Only after [`Carrier::has_room`] has said yes.
    fn put(&mut self, frame: &[u8]) -> Result<(), CarrierError>;

    /// Sends on what was put, as far as that goes now. `true` if nothing of it is left here.
    fn flush(&mut self) -> Result<bool, CarrierError>;

    /// The next frame that has arrived, if there is one. [`CarrierError::Ended`] once none can follow.
    fn take(&mut self) -> Result<Option<&[u8]>, CarrierError>;

    /// Sleeps until a frame may have arrived or what could not be sent may be, or for `limit`.
    fn park(&mut self, limit: Duration);

    /// Tells the other end that nothing more is put. Frames may still be taken.
    fn finish(&mut self);
}

/// Why a carrier moves no more frames.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CarrierError {
    /// The other end is gone; all it had sent has been taken.
    #[error("it ended without a goodbye")]
    Ended,
    #[error("{0}")]
    Broken(String),
    #[error("encryption failed: {0}")]
    Tls(rustls::Error),
    /// The stream holds something that is not a frame of this version.
    #[error("version {theirs} of the link protocol")]
    OtherVersion { theirs: u8 },
    #[error(transparent)]
    Corrupt(Corruption),
}
