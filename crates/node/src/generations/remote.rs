//! A generation whose head is another node: the request goes there as one frame of a stream of the secure channel,
//! the events come back as one frame each.

use domain::{DeploymentId, NodeId, Rank};
use engine::{BadRequest, GenerationError, GenerationRequest, TokenEvent};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::{EVENTS_WAITING_MAX, Generation};
use crate::secure::{FRAME_MAX, FrameError, NetStream};

/// What is asked of the head's node.
#[derive(Serialize, Deserialize)]
struct RemoteRequest {
    deployment: DeploymentId,
    request: GenerationRequest,
}

type Event = Result<TokenEvent, GenerationError>;

/// Asks `head`, which people call `name`, over a stream that was opened to it.
pub(crate) async fn open_remote(
    stream: NetStream,
    head: NodeId,
    name: String,
    deployment: DeploymentId,
    request: GenerationRequest,
) -> Result<Generation, GenerationError> {
    let NetStream { mut send, mut recv, .. } = stream;
    let lost =
        move |cause: String| GenerationError::RankLost { rank: Rank::HEAD, node: head, name: name.clone(), cause };
    match send.write_json(&RemoteRequest { deployment, request }).await {
        Ok(()) => {}
        Err(FrameError::TooLong { len, len_max }) => return Err(too_long(len, len_max)),
        Err(error) => return Err(lost(error.to_string())),
    }
    let (events, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
    let reader = tokio::spawn(async move {
        // The sending half stays open while somebody reads: its end tells the head to stop.
        let _open = send;
        loop {
            let event = match recv.read_json::<Event>().await {
                Ok(Some(event)) => event,
                Ok(None) => Err(lost("it ended the answer in the middle".to_owned())),
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

fn too_long(len: usize, len_max: usize) -> GenerationError {
    GenerationError::BadRequest(BadRequest {
        field: "messages".to_owned(),
        expected: format!("at most {len_max} bytes as JSON where the head is another machine"),
        got: format!("{len} bytes"),
    })
}

/// Serves one stream that another node opened: `start` begins the generation on this node's own rank.
pub(crate) async fn serve_remote(
    stream: NetStream,
    start: impl FnOnce(DeploymentId, GenerationRequest) -> Result<Generation, GenerationError>,
) -> Result<(), FrameError> {
    let NetStream { mut send, mut recv, .. } = stream;
    let Some(RemoteRequest { deployment, request }) = recv.read_json().await? else { return Ok(()) };
    let mut generation = match start(deployment, request) {
        Ok(generation) => generation,
        Err(error) => {
            send.write_json(&Event::Err(error)).await?;
            send.finish_and_wait().await;
            return Ok(());
        }
    };
    // The asking node sends nothing more: whatever comes is its end, and drops the generation.
    let mut gone = std::pin::pin!(recv.read());
    loop {
        tokio::select! {
            event = generation.next() => match event {
                Some(event) => send.write_json(&event).await?,
                None => break,
            },
            _ = &mut gone => return Ok(()),
        }
    }
    send.finish_and_wait().await;
    Ok(())
}

/// The longest event must fit a frame: a token's text with 20 likeliest others and their bytes does, by far.
const _: () = assert!(FRAME_MAX >= 256 << 10);
