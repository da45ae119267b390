//! Asks a served model and follows its answer.

use anyhow::{Context as _, Result, bail};
use api::wire::ErrorBody;
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};

use crate::advice::Advised;
use crate::client::{Client, refused};
use crate::events::EventParser;

#[derive(Clone, Debug, Serialize)]
pub struct Message {
    pub role: &'static str,
    pub content: String,
}

impl Message {
    pub fn user(content: &str) -> Self {
        Self { role: "user", content: content.to_owned() }
    }

    pub fn assistant(content: &str) -> Self {
        Self { role: "assistant", content: content.to_owned() }
    }
}

/// What of a request is not the default.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Wishes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: &'a [Message],
    stream: bool,
    stream_options: StreamOptions,
    #[serde(flatten)]
    wishes: Wishes,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// How an answer was made, from its last chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    pub prompt_tokens: u32,
    pub completion_tokens: u32,
    pub prompt_ms: f64,
    pub first_token_ms: f64,
    pub tokens_per_sec: f64,
}

impl Speed {
    /// One line for people.
    pub fn rendered(&self) -> String {
        format!(
            "{:.1} tokens/s, first token after {:.2} s, {} tokens of prompt, {} of answer",
            self.tokens_per_sec,
            self.first_token_ms / 1e3,
            self.prompt_tokens,
            self.completion_tokens
        )
    }
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    timings: Option<Timings>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Delta,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u32,
    completion_tokens: u32,
}

#[derive(Deserialize)]
struct Timings {
    prompt_ms: f64,
    first_token_ms: f64,
    tokens_per_sec: f64,
}

/// Streams the answer through `on_text`. Dropping the future stops the generation.
pub async fn ask(
    client: &Client,
    model: &str,
    messages: &[Message],
    wishes: Wishes,
    mut on_text: impl FnMut(&str) -> Result<()>,
) -> Result<Speed> {
    let stream_options = StreamOptions { include_usage: true };
    let request = Request { model, messages, stream: true, stream_options, wishes };
    let mut body = client.complete(&request).await?.bytes_stream();
    let mut parser = EventParser::default();
    let mut speed = None;
    while let Some(piece) = body.next().await {
        for data in parser.push(&piece.context("the node broke off in mid-answer")?)? {
            if data == "[DONE]" {
                return speed.context("the node did not say how fast the answer was");
            }
            if let Ok(error) = serde_json::from_str::<ErrorBody>(&data) {
                return Err(refused(error));
            }
            let Ok(chunk) = serde_json::from_str::<Chunk>(&data) else {
                bail!("the node sent an event that this version of `macrame` does not know");
            };
            for text in chunk.choices.into_iter().filter_map(|choice| choice.delta.content) {
                on_text(&text)?;
            }
            if let (Some(usage), Some(timings)) = (chunk.usage, chunk.timings) {
                speed = Some(Speed {
                    prompt_tokens: usage.prompt_tokens,
                    completion_tokens: usage.completion_tokens,
                    prompt_ms: timings.prompt_ms,
                    first_token_ms: timings.first_token_ms,
                    tokens_per_sec: timings.tokens_per_sec,
                });
            }
        }
    }
    // Without `[DONE]` it is no whole answer, however whole it looks.
    Err(Advised::new("the answer was cut off", "look at the cluster with `macrame status`").into())
}
