//! What is asked of a deployment: messages, and how to continue them.
//!
//! A request crosses the control plane and a rank's pipe as JSON, so its head checks it again: [`GenerationRequest::check`].

use domain::TokenCount;
use serde::{Deserialize, Serialize};

use crate::{BadRequest, GenerationError};

/// One chat to be continued by one answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenerationRequest {
    /// Oldest first; never empty.
    pub messages: Vec<ChatMessage>,
    pub sampling: Sampling,
    /// The longest answer wanted; as much as the context has room for if absent.
    pub max_tokens: Option<TokenCount>,
    /// The answer ends before the first of these texts that it would contain.
    pub stop: Vec<String>,
    /// Report each token's log-probability, and those of this many likeliest ones (0 to [`Self::TOP_LOGPROBS_MAX`]).
    pub top_logprobs: Option<u8>,
}

impl GenerationRequest {
    /// OpenAI's limit. Each one costs a look through the vocabulary's tail, and a line on the wire.
    pub const TOP_LOGPROBS_MAX: u8 = 20;
    /// OpenAI allows 4; agents send more. Each is compared with the tail of the answer at every token.
    pub const STOP_MAX: usize = 16;
    /// A longer stop text holds that much of the answer back.
    pub const STOP_BYTES_MAX: usize = 256;
    /// More messages than any context has room for.
    pub const MESSAGES_MAX: usize = 10_000;
    /// At one token to four bytes this is four million tokens: more is a mistake or an attack.
    pub const CONTENT_BYTES_MAX: usize = 16 << 20;

    /// A request for the likeliest answer to `prompt`, with no limit but the context.
    pub fn greedy(prompt: &str) -> Self {
        Self {
            messages: vec![ChatMessage { role: Role::User, content: prompt.to_owned() }],
            sampling: Sampling::GREEDY,
            max_tokens: None,
            stop: Vec::new(),
            top_logprobs: None,
        }
    }

    /// Refuses what no deployment could answer, naming the field, its range and what it is.
    pub fn check(&self) -> Result<(), BadRequest> {
        within("messages", self.messages.len(), 1, Self::MESSAGES_MAX)?;
        let content_bytes = self.messages.iter().map(|message| message.content.len()).sum();
        within("messages' bytes", content_bytes, 0, Self::CONTENT_BYTES_MAX)?;
        if let Some(max_tokens) = self.max_tokens {
            within("max_tokens", max_tokens.0, 1, u32::MAX)?;
        }
        within("stop", self.stop.len(), 0, Self::STOP_MAX)?;
        for stop in &self.stop {
            within("stop's bytes", stop.len(), 1, Self::STOP_BYTES_MAX)?;
        }
        within("top_logprobs", self.top_logprobs.unwrap_or(0), 0, Self::TOP_LOGPROBS_MAX)?;
        self.sampling.check()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    pub role: Role,
    pub content: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    /// The name that chat templates use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// How the next token is drawn from the model's scores. Applied in the order of the fields from the bottom up: penalties,
/// then `temperature`, then the cuts `top_k`, `top_p`, `min_p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 takes the likeliest token; 1 follows the model's own odds; up to 2.
    pub temperature: f32,
    /// Only this many likeliest tokens; all if absent.
    pub top_k: Option<u32>,
    /// Only the likeliest tokens that together have this probability, in (0, 1].
    pub top_p: f32,
    /// Only tokens with at least this share of the likeliest one's probability, in [0, 1].
    pub min_p: f32,
    /// The score of a token seen within `repeat_last_n` is divided by this (multiplied, if negative), in (0, 2]; 1 changes nothing.
    pub repeat_penalty: f32,
    /// How far back `repeat_penalty` looks, in tokens of prompt and answer.
    pub repeat_last_n: u32,
    /// Taken once from the score of a token that the answer contains, in [-2, 2].
    pub presence_penalty: f32,
    /// Taken from the score of a token for each time that the answer contains it, in [-2, 2].
    pub frequency_penalty: f32,
    /// The same seed gives the same answer to the same request; the head chooses one if absent.
    pub seed: Option<u64>,
}

impl Sampling {
    /// The likeliest token, always.
    pub const GREEDY: Self = Self { temperature: 0.0, ..Self::MODEL };

    /// What a request gets that says nothing, as from llama.cpp and LM Studio: a little sharper than the model's own
    /// odds and without their long tail, into which small and quantised models fall.
    pub const USUAL: Self = Self { temperature: 0.8, top_k: Some(40), top_p: 0.95, min_p: 0.05, ..Self::MODEL };

    /// The model's own odds, nothing cut.
    pub const MODEL: Self = Self {
        temperature: 1.0,
        top_k: None,
        top_p: 1.0,
        min_p: 0.0,
        repeat_penalty: 1.0,
        repeat_last_n: 64,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
        seed: None,
    };

    pub fn check(&self) -> Result<(), BadRequest> {
        within("temperature", self.temperature, 0.0, 2.0)?;
        within("top_k", self.top_k.unwrap_or(1), 1, u32::MAX)?;
        within("top_p", self.top_p, f32::MIN_POSITIVE, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("repeat_penalty", self.repeat_penalty, f32::MIN_POSITIVE, 2.0)?;
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self::USUAL
    }
}

impl From<BadRequest> for GenerationError {
    fn from(bad: BadRequest) -> Self {
        Self::BadRequest(bad)
    }
}

fn within<T: PartialOrd + std::fmt::Display>(field: &str, got: T, min: T, max: T) -> Result<(), BadRequest> {
    // Not `got < min || got > max`: that lets NaN through.
    if got >= min && got <= max {
        return Ok(());
    }
    Err(BadRequest { field: field.to_owned(), expected: format!("{min} to {max}"), got: got.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_request_is_good() {
        assert_eq!(GenerationRequest::greedy("hello").check(), Ok(()));
        assert_eq!(Sampling::default().check(), Ok(()));
    }

    #[test]
    fn a_bad_field_is_named_with_its_range() {
        let with = |change: fn(&mut GenerationRequest)| {
            let mut request = GenerationRequest::greedy("hello");
            change(&mut request);
            request.check().expect_err("a bad field").to_string()
        };
        assert_eq!(with(|r| r.sampling.temperature = 2.5), "`temperature` must be 0 to 2; it is 2.5");
        assert_eq!(with(|r| r.sampling.temperature = f32::NAN), "`temperature` must be 0 to 2; it is NaN");
        assert_eq!(with(|r| r.messages.clear()), "`messages` must be 1 to 10000; it is 0");
        assert_eq!(with(|r| r.top_logprobs = Some(21)), "`top_logprobs` must be 0 to 20; it is 21");
        assert_eq!(with(|r| r.stop = vec![String::new()]), "`stop's bytes` must be 1 to 256; it is 0");
        assert_eq!(with(|r| r.max_tokens = Some(TokenCount(0))), "`max_tokens` must be 1 to 4294967295; it is 0");
        assert!(with(|r| r.sampling.top_p = 0.0).contains("top_p"));
        assert!(with(|r| r.sampling.top_k = Some(0)).contains("top_k"));
    }
}
