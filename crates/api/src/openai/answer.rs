//! An answer in one body. It is whole or it is an error: a cut text never passes for an answer.

use axum::http::StatusCode;
use futures::{Stream, StreamExt as _};
use node::engine::TokenEvent;

use super::wire::{Choice, Completion, Envelope, Message, TimingsView, UsageView, finish_reason};
use crate::problem::Problem;

pub async fn whole(
    generation: impl Stream<Item = Result<TokenEvent, Problem>>,
    envelope: Envelope,
) -> Result<Completion, Problem> {
    let mut generation = std::pin::pin!(generation);
    let mut content = String::new();
    let mut all_logprobs = Vec::new();
    while let Some(event) = generation.next().await {
        match event? {
            TokenEvent::Started { .. } => {}
            TokenEvent::Text { text, logprobs } => {
                content += &text;
                all_logprobs.extend(logprobs);
            }
            TokenEvent::Finished { reason, usage, timings } => {
                let Envelope { id, created, model } = envelope;
                return Ok(Completion {
                    id,
                    object: "chat.completion",
                    created,
                    model,
                    choices: [Choice {
                        index: 0,
                        message: Message { role: "assistant", content, refusal: None },
                        logprobs: (!all_logprobs.is_empty()).then(|| all_logprobs.into()),
                        finish_reason: finish_reason(reason),
                    }],
                    usage: UsageView::of(usage),
                    timings: TimingsView::of(timings, usage),
                });
            }
        }
    }
    Err(cut_off())
}

/// The generation's stream ended in mid-answer without saying why.
pub fn cut_off() -> Problem {
    Problem::new(StatusCode::BAD_GATEWAY, "answer_cut_off", "the deployment went away in mid-answer")
        .hint("look at the deployment's state with `macrame status`, then ask again")
}
