//! The pairing protocol, `macrame-pair/1`: six frames on one stream that the guest opens.
//!
//! ```text
//! guest                          host
//!   | SPAKE2 message             >|   counted as a try of the code
//!   |< SPAKE2 message             |
//!   | proof                      >|   wrong: closed with the number of tries left
//!   |< proof, sealed name         |   the code is used up
//!   | sealed name                >|   stored
//!   |< empty                      |
//! stored
//! ```

use std::time::Duration;

use bytes::Bytes;

use crate::secure::frame::{FrameError, FrameReader};

/// The longest frame is a proof with a sealed name.
pub(super) const FRAME_LEN_MAX: usize = 512;
/// The whole exchange; it has three round trips and no person in it.
pub(super) const EXCHANGE_WITHIN: Duration = Duration::from_secs(10);

pub(super) async fn read(reader: &mut FrameReader) -> Result<Bytes, FrameError> {
    reader.read_up_to(FRAME_LEN_MAX).await?.ok_or(FrameError::Truncated)
}
