//! Length-prefixed frames on one QUIC stream: four bytes of length, big-endian, then that many bytes.

use bytes::Bytes;
use quinn::{ReadExactError, RecvStream, SendStream, VarInt, WriteError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest frame. Messages between nodes are records and requests; a prompt of a whole book still fits.
pub const FRAME_MAX: usize = 1 << 20;

/// The code of a stream that was dropped before [`FrameWriter::finish`].
const ABANDONED: VarInt = VarInt::from_u32(1);

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {len} bytes is longer than the {len_max} allowed")]
    TooLong { len: usize, len_max: usize },
    #[error("the stream was broken off inside a frame")]
    Truncated,
    #[error("the other end gave the stream up")]
    Abandoned,
    #[error("the connection was lost")]
    Lost(#[source] quinn::ConnectionError),
    #[error("a frame does not say what it should")]
    Malformed(#[source] serde_json::Error),
}

/// The sending half. If it is dropped before [`finish`](Self::finish), the reader learns that the stream was given
/// up, so that half an answer never looks like a whole one.
#[derive(Debug)]
pub struct FrameWriter {
    stream: SendStream,
    is_finished: bool,
}

impl FrameWriter {
    pub(super) const fn new(stream: SendStream) -> Self {
        Self { stream, is_finished: false }
    }

    pub async fn write(&mut self, frame: &[u8]) -> Result<(), FrameError> {
        if frame.len() > FRAME_MAX {
            return Err(FrameError::TooLong { len: frame.len(), len_max: FRAME_MAX });
        }
        let len = frame.len() as u32; // at most FRAME_MAX
        self.write_raw(&len.to_be_bytes()).await?;
        self.write_raw(frame).await
    }

    pub async fn write_json<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), FrameError> {
        let frame = serde_json::to_vec(value).map_err(FrameError::Malformed)?;
        self.write(&frame).await
    }

    /// Says that all has been said; what was written still arrives.
    pub fn finish(mut self) {
        self.is_finished = self.stream.finish().is_ok();
    }

    /// Like [`finish`](Self::finish), and waits until the other end has it all, or is gone.
    pub async fn finish_and_wait(mut self) {
        self.is_finished = self.stream.finish().is_ok();
        // Whether it stopped reading or the connection ended, there is nothing left to do here.
        let _ = self.stream.stopped().await;
    }

    pub(crate) async fn write_raw(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.stream.write_all(bytes).await.map_err(|error| match error {
            WriteError::Stopped(_) => FrameError::Abandoned,
            WriteError::ConnectionLost(lost) => FrameError::Lost(lost),
            WriteError::ClosedStream | WriteError::ZeroRttRejected => FrameError::Truncated,
        })
    }
}

impl Drop for FrameWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = self.stream.reset(ABANDONED); // fails only if the stream is over already
        }
    }
}

/// The receiving half.
#[derive(Debug)]
pub struct FrameReader {
    stream: RecvStream,
}

impl FrameReader {
    pub(super) const fn new(stream: RecvStream) -> Self {
        Self { stream }
    }

    /// The next frame; `None` once the other end has finished. Not cancel-safe: do not read on after dropping this
    /// future half-way.
    pub async fn read(&mut self) -> Result<Option<Bytes>, FrameError> {
        self.read_up_to(FRAME_MAX).await
    }

    /// Like [`read`](Self::read), for ends that are not trusted with `FRAME_MAX` bytes of memory.
    pub(super) async fn read_up_to(&mut self, len_max: usize) -> Result<Option<Bytes>, FrameError> {
        let mut len = [0; 4];
        match self.stream.read_exact(&mut len).await {
            Ok(()) => {}
            Err(ReadExactError::FinishedEarly(0)) => return Ok(None),
            Err(error) => return Err(broken(error)),
        }
        let len = u32::from_be_bytes(len) as usize;
        if len > len_max {
            return Err(FrameError::TooLong { len, len_max });
        }
        let mut frame = vec![0; len];
        self.stream.read_exact(&mut frame).await.map_err(broken)?;
        Ok(Some(frame.into()))
    }

    /// The next frame as a value; `None` once the other end has finished.
    pub async fn read_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        match self.read().await? {
            Some(frame) => serde_json::from_slice(&frame).map(Some).map_err(FrameError::Malformed),
            None => Ok(None),
        }
    }

    pub(crate) async fn read_raw(&mut self, bytes: &mut [u8]) -> Result<(), FrameError> {
        self.stream.read_exact(bytes).await.map_err(broken)
    }

    /// Reads and drops at most `n_bytes_max` bytes; how many came before the other end finished.
    pub(crate) async fn drain(&mut self, n_bytes_max: u64) -> Result<u64, FrameError> {
        const CHUNK_LEN: usize = 64 << 10;
        let mut n_bytes = 0;
        while n_bytes < n_bytes_max {
            match self.stream.read_chunk(CHUNK_LEN, true).await {
                Ok(Some(chunk)) => n_bytes += chunk.bytes.len() as u64,
                Ok(None) => break,
                Err(error) => return Err(broken(ReadExactError::ReadError(error))),
            }
        }
        Ok(n_bytes)
    }
}

fn broken(error: ReadExactError) -> FrameError {
    use quinn::ReadError;
    match error {
        ReadExactError::FinishedEarly(_) => FrameError::Truncated,
        ReadExactError::ReadError(ReadError::Reset(_)) => FrameError::Abandoned,
        ReadExactError::ReadError(ReadError::ConnectionLost(lost)) => FrameError::Lost(lost),
        ReadExactError::ReadError(
            ReadError::ClosedStream | ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected,
        ) => FrameError::Truncated,
    }
}
