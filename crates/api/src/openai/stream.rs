//! An answer as server-sent events while it grows.
//!
//! Until the first token is there the status is open: an error before it is an ordinary error response. After it, an
//! error is the last event and `[DONE]` never comes.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _, stream};
use node::engine::{TokenEvent, TokenLogprob};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::answer::cut_off;
use super::request::UsageChunk;
use super::wire::{Chunk, ChunkChoice, Delta, Envelope, TimingsView, UsageView, finish_reason};
use crate::problem::Problem;

/// How long the status stays open for an error before the first token. Longer than most prompts take, shorter than
/// clients wait for headers.
const FIRST_TOKEN_WAIT: Duration = Duration::from_secs(3);

/// A comment is sent when nothing else was for so long: clients and proxies give up on silent streams.
const KEEP_ALIVE: Duration = Duration::from_secs(3);

/// Dropping the response, as a client that goes away does, drops the generation and so cancels it.
pub async fn start(
    mut generation: impl Stream<Item = Result<TokenEvent, Problem>> + Send + Unpin + 'static,
    envelope: Envelope,
    usage: UsageChunk,
) -> Result<Response, Problem> {
    let deadline = Instant::now() + FIRST_TOKEN_WAIT;
    let mut first = Vec::new();
    while let Ok(event) = timeout_at(deadline, generation.next()).await {
        let event = event.unwrap_or_else(|| Err(cut_off()))?;
        let waits_for_token = matches!(event, TokenEvent::Started { .. });
        first.push(Ok(event));
        if !waits_for_token {
            break;
        }
    }
    let data = transcript(stream::iter(first).chain(generation), Chunks { envelope, usage });
    let events = data.map(|data| Ok::<_, Infallible>(Event::default().data(data)));
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("still working");
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

/// The `data` of each event, up to `[DONE]` or an error.
fn transcript(
    events: impl Stream<Item = Result<TokenEvent, Problem>> + Send + Unpin,
    chunks: Chunks,
) -> impl Stream<Item = String> + Send {
    let opening = chunks.opening();
    let rest = stream::unfold(Some((events, chunks)), async |state| {
        let (mut events, chunks) = state?;
        match events.next().await.unwrap_or_else(|| Err(cut_off())) {
            Ok(event) => {
                let goes_on = !matches!(event, TokenEvent::Finished { .. });
                let data = chunks.of(event);
                Some((data, goes_on.then_some((events, chunks))))
            }
            Err(problem) => Some((vec![json(&problem.body())], None)),
        }
    });
    stream::iter([opening]).chain(rest.flat_map(stream::iter))
}

/// Makes the chunks of one answer.
struct Chunks {
    envelope: Envelope,
    usage: UsageChunk,
}

impl Chunks {
    /// Says whose turn it is.
    fn opening(&self) -> String {
        let delta = Delta { role: Some("assistant"), content: Some(String::new()) };
        json(&self.chunk(vec![choice(delta, Vec::new(), None)]))
    }

    fn of(&self, event: TokenEvent) -> Vec<String> {
        match event {
            TokenEvent::Started { .. } => Vec::new(),
            TokenEvent::Text { text, logprobs } => {
                let delta = Delta { role: None, content: Some(text) };
                vec![json(&self.chunk(vec![choice(delta, logprobs, None)]))]
            }
            TokenEvent::Finished { reason, usage, timings } => {
                let last = choice(Delta::default(), Vec::new(), Some(finish_reason(reason)));
                let mut data = vec![json(&self.chunk(vec![last]))];
                if self.usage == UsageChunk::Send {
                    data.push(json(&Chunk {
                        usage: Some(Some(UsageView::of(usage))),
                        timings: Some(TimingsView::of(timings, usage)),
                        ..self.chunk(Vec::new())
                    }));
                }
                data.push("[DONE]".to_owned());
                data
            }
        }
    }

    fn chunk(&self, choices: Vec<ChunkChoice>) -> Chunk {
        let Envelope { id, created, model } = self.envelope.clone();
        let usage = (self.usage == UsageChunk::Send).then_some(None);
        Chunk { id, object: "chat.completion.chunk", created, model, choices, usage, timings: None }
    }
}

fn choice(delta: Delta, logprobs: Vec<TokenLogprob>, finish_reason: Option<&'static str>) -> ChunkChoice {
    let logprobs = (!logprobs.is_empty()).then(|| logprobs.into());
    ChunkChoice { index: 0, delta, logprobs, finish_reason }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists of them always serialise")
}
