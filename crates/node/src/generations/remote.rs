//! A generation whose head is another node: the request goes there over one stream of the secure channel, the
//! events come back on it.
//!
//! Both directions carry JSON values, each behind its length as four bytes, big-endian.

use domain::{DeploymentId, NodeId, Rank};
use engine::{GenerationError, GenerationRequest, RANK_LINE_BYTES_MAX, TokenEvent};
use futures::StreamExt;
use quinn::{RecvStream, SendStream};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::sync::mpsc;

use super::{EVENTS_WAITING_MAX, Generation};

/// One event: a token's text with 20 likeliest others and their bytes, with room.
const EVENT_BYTES_MAX: usize = 256 << 10;

/// What is asked of the head's node.
#[derive(Serialize, Deserialize)]
struct RemoteRequest {
    deployment: DeploymentId,
    request: GenerationRequest,
}

type Event = Result<TokenEvent, GenerationError>;

/// Why a stream could not be served or read.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("the stream was cut: {0}")]
    Cut(String),
    #[error("a message of {len} bytes is over the limit of {max}")]
    Long { len: usize, max: usize },
    #[error("not a message: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Asks `head` over a stream that was opened to it. `name` is what people call it.
pub(crate) async fn open_remote(
    (mut send, mut recv): (SendStream, RecvStream),
    (head, name): (NodeId, String),
    deployment: DeploymentId,
    request: GenerationRequest,
) -> Result<Generation, GenerationError> {
    let lost = move |cause: String| GenerationError::RankLost { rank: Rank::HEAD, node: head, name: name.clone(), cause };
    write(&mut send, &RemoteRequest { deployment, request }, RANK_LINE_BYTES_MAX)
        .await
        .map_err(|error| lost(error.to_string()))?;
    let (events, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
    let reader = tokio::spawn(async move {
        // The sending half stays open while somebody reads: its end tells the head to stop.
        let _open = send;
        loop {
            let event = match read::<Event>(&mut recv, EVENT_BYTES_MAX).await {
                Ok(event) => event,
                Err(error) => Err(lost(error.to_string())),
            };
            let last = matches!(event, Err(_) | Ok(TokenEvent::Finished { .. }));
            if events.send(event).await.is_err() || last {
                break;
            }
        }
    });
    let abort = reader.abort_handle();
    Ok(Generation { events: receiver, on_drop: Some(Box::new(move || abort.abort())) })
}

/// Serves one stream that another node opened: `start` begins the generation on this node's own rank.
pub async fn serve_stream(
    (mut send, mut recv): (SendStream, RecvStream),
    start: impl FnOnce(DeploymentId, GenerationRequest) -> Result<Generation, GenerationError>,
) -> Result<(), RemoteError> {
    let RemoteRequest { deployment, request } = read(&mut recv, RANK_LINE_BYTES_MAX).await?;
    let mut generation = match start(deployment, request) {
        Ok(generation) => generation,
        Err(error) => return write(&mut send, &Event::Err(error), EVENT_BYTES_MAX).await,
    };
    let mut probe = [0; 1];
    loop {
        tokio::select! {
            event = generation.next() => match event {
                Some(event) => write(&mut send, &event, EVENT_BYTES_MAX).await?,
                None => break,
            },
            // The asking node sends nothing more: whatever comes is its end, and drops the generation.
            _ = recv.read(&mut probe) => return Ok(()),
        }
    }
    // The last event must be on its way before the stream goes.
    if send.finish().is_ok() {
        let _ = send.stopped().await;
    }
    Ok(())
}

async fn write<T: Serialize>(send: &mut SendStream, value: &T, max: usize) -> Result<(), RemoteError> {
    let json = serde_json::to_vec(value)?;
    let len = json.len();
    let prefix = u32::try_from(len).ok().filter(|_| len <= max).ok_or(RemoteError::Long { len, max })?;
    send.write_all(&prefix.to_be_bytes()).await.map_err(|error| RemoteError::Cut(error.to_string()))?;
    send.write_all(&json).await.map_err(|error| RemoteError::Cut(error.to_string()))
}

async fn read<T: DeserializeOwned>(recv: &mut RecvStream, max: usize) -> Result<T, RemoteError> {
    let mut prefix = [0; 4];
    recv.read_exact(&mut prefix).await.map_err(|error| RemoteError::Cut(error.to_string()))?;
    let len = u32::from_be_bytes(prefix) as usize;
    if len > max {
        return Err(RemoteError::Long { len, max });
    }
    let mut json = vec![0; len];
    recv.read_exact(&mut json).await.map_err(|error| RemoteError::Cut(error.to_string()))?;
    Ok(serde_json::from_slice(&json)?)
}
