//! OpenAI's types as they go out, with Macramé's `timings` beside the usage.

use std::time::{SystemTime, UNIX_EPOCH};

use node::engine::{FinishReason, Timings, TokenLogprob, TokenScore, Usage};
use rand::RngExt as _;
use serde::Serialize;

/// What every chunk of one answer has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
}

impl Envelope {
    pub fn new(model: &str) -> Self {
        let id = format!("chatcmpl-{:032x}", rand::rng().random::<u128>());
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { id, created, model: model.to_owned() }
    }
}

#[derive(Debug, Serialize)]
pub struct Completion {
    pub id: String,
    pub object: &'static str,
    pub created: u64,
    pub model: String,
    pub choices: [Choice; 1],
    pub usage: UsageView,
    pub timings: TimingsView,
}

#[derive(Debug, Serialize)]
pub struct Choice {
    pub index: u32,
    pub message: Message,
    pub logprobs: Option<Logprobs>,
    pub finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
pub struct Message {
    pub role: &'static str,
    pub content: String,
    pub refusal: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Chunk {
    pub id: String,
    pub object: &'static str,
    pub created: u64,
    pub model: String,
    /// One, or none in the chunk that carries the usage.
    pub choices: Vec<ChunkChoice>,
    /// `null` in all chunks but the last, if the usage was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<UsageView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<TimingsView>,
}

#[derive(Debug, Serialize)]
pub struct ChunkChoice {
    pub index: u32,
    pub delta: Delta,
    pub logprobs: Option<Logprobs>,
    pub finish_reason: Option<&'static str>,
}

#[derive(Debug, Default, Serialize)]
pub struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Logprobs {
    pub content: Vec<LogprobView>,
    pub refusal: Option<Vec<LogprobView>>,
}

#[derive(Debug, Serialize)]
pub struct LogprobView {
    #[serde(flatten)]
    pub token: ScoreView,
    pub top_logprobs: Vec<ScoreView>,
}

#[derive(Debug, Serialize)]
pub struct ScoreView {
    pub token: String,
    pub logprob: f32,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct UsageView {
    pub prompt_tokens: u32,
    pub completion_tokens: u32,
    pub total_tokens: u32,
}

/// Not OpenAI's: how fast the answer was.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TimingsView {
    /// From the start of the prompt's computation to the first token.
    pub prompt_ms: f64,
    /// From the request to the first token, waiting included.
    pub first_token_ms: f64,
    /// Of the tokens after the first; 0 for an answer of one token.
    pub tokens_per_sec: f64,
}

/// `GET /v1/models`.
#[derive(Debug, Serialize)]
pub struct ModelList {
    pub object: &'static str,
    pub data: Vec<ModelCard>,
}

#[derive(Debug, Serialize)]
pub struct ModelCard {
    pub id: String,
    pub object: &'static str,
    pub created: u64,
    pub owned_by: &'static str,
}

impl UsageView {
    pub fn of(usage: Usage) -> Self {
        let (prompt, completion) = (usage.prompt_tokens.0, usage.completion_tokens.0);
        Self { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt.saturating_add(completion) }
    }
}

impl TimingsView {
    pub fn of(timings: Timings, usage: Usage) -> Self {
        let prompt = timings.first_token.saturating_sub(timings.queued);
        Self {
            prompt_ms: prompt.as_secs_f64() * 1e3,
            first_token_ms: timings.first_token.as_secs_f64() * 1e3,
            tokens_per_sec: timings.tokens_per_sec(usage).unwrap_or(0.0),
        }
    }
}

impl From<Vec<TokenLogprob>> for Logprobs {
    fn from(logprobs: Vec<TokenLogprob>) -> Self {
        let content = logprobs.into_iter().map(|logprob| LogprobView {
            token: logprob.token.into(),
            top_logprobs: logprob.top.into_iter().map(ScoreView::from).collect(),
        });
        Self { content: content.collect(), refusal: None }
    }
}

impl From<TokenScore> for ScoreView {
    fn from(score: TokenScore) -> Self {
        Self { token: score.text, logprob: score.logprob, bytes: score.bytes }
    }
}

pub const fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}
