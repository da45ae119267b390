//! The measured end: sends small messages back, and counts what is poured into it.

use std::time::Duration;

use tokio::time::timeout;

use crate::secure::{FrameError, NetStream};

/// Asks for the eight bytes that follow to be sent back.
pub(super) const PING: u8 = b'p';
/// Says that everything up to the end of the stream is to be counted, and the count sent back, big-endian.
pub(super) const POUR: u8 = b'b';
pub(super) const PING_LEN: usize = 8;
/// Bytes poured at most, as much as makes a fast link's start-up count for little.
pub(super) const POUR_MAX: u64 = 8 << 20;
/// Messages sent back at most.
const PINGS_MAX: usize = 64;
/// For the whole measurement, with a link so slow that it is of no use to anybody.
const WITHIN: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("the stream ended early")]
    Stream(#[from] FrameError),
    #[error("the measurement took longer than {} s", WITHIN.as_secs())]
    TooSlow,
    #[error("it asked for `{0}`, which is no measurement")]
    Unknown(u8),
    #[error("it sent more than {PINGS_MAX} messages")]
    TooMany,
}

/// Answers one measurement that another node makes.
pub async fn serve(stream: NetStream) {
    let served = timeout(WITHIN, answer_all(stream)).await.unwrap_or(Err(ServeError::TooSlow));
    if let Err(error) = served {
        tracing::debug!(%error, "a measurement by another node broke off");
    }
}

async fn answer_all(NetStream { mut send, mut recv, .. }: NetStream) -> Result<(), ServeError> {
    for _ in 0..=PINGS_MAX {
        let mut request = [0];
        recv.read_raw(&mut request).await?;
        match request[0] {
            PING => {
                let mut message = [0; PING_LEN];
                recv.read_raw(&mut message).await?;
                send.write_raw(&message).await?;
            }
            POUR => {
                let n_bytes = recv.drain(POUR_MAX).await?;
                send.write_raw(&n_bytes.to_be_bytes()).await?;
                send.finish_and_wait().await;
                return Ok(());
            }
            other => return Err(ServeError::Unknown(other)),
        }
    }
    Err(ServeError::TooMany)
}
