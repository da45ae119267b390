//! What a generation tells, and how it can fail.

use std::time::Duration;

use domain::{Hint, Hints, NodeId, Rank, TokenCount};
use serde::{Deserialize, Serialize};

/// One piece of news of a generation: `Started`, then any number of `Text`, then `Finished`. A generation that fails
/// ends with a [`GenerationError`] in place of `Finished`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenEvent {
    Started {
        prompt_tokens: TokenCount,
        /// How many of them a slot still held from an earlier request, so that they were not computed again.
        cached_tokens: TokenCount,
    },
    Text {
        /// Whole characters that follow the text sent before; never empty. A character may take several tokens, and
        /// text that may turn out to be a stop text is held back, so one event may carry the text of several.
        text: String,
        /// The tokens this text came from, if log-probabilities were asked for.
        logprobs: Vec<TokenLogprob>,
    },
    Finished {
        reason: FinishReason,
        usage: Usage,
        timings: Timings,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its answer, or a stop text was met.
    Stop,
    /// `max_tokens` or the end of the context was reached.
    Length,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt_tokens: TokenCount,
    /// Tokens drawn, the end-of-answer token included.
    pub completion_tokens: TokenCount,
}

/// Measured by the head, from the moment it took the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// Waiting for a free slot.
    pub queued: Duration,
    /// From the request to the first token: queueing, tokenising, the prompt.
    pub first_token: Duration,
    /// From the first token to the last.
    pub decode: Duration,
}

impl Timings {
    /// Tokens after the first, by the time they took; `None` for an answer too short to tell.
    pub fn tokens_per_sec(&self, usage: Usage) -> Option<f64> {
        let later = usage.completion_tokens.0.checked_sub(1).filter(|&n| n > 0)?;
        (!self.decode.is_zero()).then(|| f64::from(later) / self.decode.as_secs_f64())
    }
}

/// A drawn token and the likeliest ones at its place. Probabilities are the model's own, before sampling bends them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    pub token: TokenScore,
    /// Likeliest first.
    pub top: Vec<TokenScore>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenScore {
    /// The token's text; characters that it holds only a part of read as `�`.
    pub text: String,
    pub bytes: Vec<u8>,
    /// Natural logarithm of the probability.
    pub logprob: f32,
}

/// Why there is no answer, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum GenerationError {
    #[error(transparent)]
    BadRequest(BadRequest),
    #[error("the prompt has {prompt} and the answer may take {}; the context holds {context}", wanted(.max_tokens))]
    ContextTooLong { prompt: TokenCount, max_tokens: Option<TokenCount>, context: TokenCount },
    #[error("{queued} requests wait already, and no more than {queued_max} may")]
    QueueFull { queued: u32, queued_max: u32 },
    #[error("the generation was cancelled")]
    Cancelled,
    #[error("rank {rank} on {name} was lost: {cause}")]
    RankLost {
        rank: Rank,
        node: NodeId,
        /// What people call the node.
        name: String,
        cause: String,
    },
    #[error("rank {rank} on {name} could not compute: {cause}")]
    Compute { rank: Rank, node: NodeId, name: String, cause: String },
    #[error("the deployment is being stopped")]
    ShuttingDown,
}

impl GenerationError {
    /// Stable; clients act on it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadRequest(_) => "bad_request",
            Self::ContextTooLong { .. } => "context_too_long",
            Self::QueueFull { .. } => "queue_full",
            Self::Cancelled => "cancelled",
            Self::RankLost { .. } => "rank_lost",
            Self::Compute { .. } => "compute_failed",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

impl Hint for GenerationError {
    fn hints(&self) -> Hints {
        match self {
            Self::BadRequest(bad) => vec![format!("set `{}` to {}", bad.field, bad.expected)],
            Self::ContextTooLong { prompt, max_tokens, context } => {
                let room = context.0.saturating_sub(prompt.0);
                let mut hints = Vec::new();
                if max_tokens.is_some() && room > 0 {
                    hints.push(format!("ask for at most {room} tokens, or leave `max_tokens` out"));
                }
                hints.push("shorten the chat or begin a new one".to_owned());
                hints.push("deploy the model with a longer context".to_owned());
                hints
            }
            Self::QueueFull { .. } => vec!["try again when a running answer has ended".to_owned()],
            Self::Cancelled | Self::ShuttingDown => Vec::new(),
            Self::RankLost { name, .. } => vec![
                format!("see that Macramé runs on {name} and that its cable or Wi-Fi is up"),
                "ask again once the deployment serves".to_owned(),
            ],
            Self::Compute { name, .. } => vec![format!("read the log of {name}, then deploy the model again")],
        }
    }
}

/// A field that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("`{field}` must be {expected}; it is {got}")]
pub struct BadRequest {
    pub field: String,
    pub expected: String,
    pub got: String,
}

fn wanted(max_tokens: &Option<TokenCount>) -> String {
    max_tokens.unwrap_or(TokenCount(1)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_numbers_and_ways_out() {
        let too_long = GenerationError::ContextTooLong {
            prompt: TokenCount(2000),
            max_tokens: Some(TokenCount(100)),
            context: TokenCount(2048),
        };
        assert_eq!(
            too_long.to_string(),
            "the prompt has 2000 tokens and the answer may take 100 tokens; the context holds 2048 tokens"
        );
        assert_eq!(too_long.hints()[0], "ask for at most 48 tokens, or leave `max_tokens` out");
        let lost = GenerationError::RankLost {
            rank: Rank(1),
            node: NodeId::from_bytes([7; 32]),
            name: "studio".to_owned(),
            cause: "the connection was closed".to_owned(),
        };
        assert_eq!(lost.to_string(), "rank 1 on studio was lost: the connection was closed");
    }

    #[test]
    fn errors_and_events_survive_json() {
        let error = GenerationError::QueueFull { queued: 64, queued_max: 64 };
        let json = serde_json::to_string(&error).expect("serialises");
        assert_eq!(serde_json::from_str::<GenerationError>(&json).expect("reads back"), error);
        let event = TokenEvent::Finished {
            reason: FinishReason::Stop,
            usage: Usage { prompt_tokens: TokenCount(3), completion_tokens: TokenCount(5) },
            timings: Timings { decode: Duration::from_secs(2), ..Timings::default() },
        };
        let json = serde_json::to_string(&event).expect("serialises");
        assert_eq!(serde_json::from_str::<TokenEvent>(&json).expect("reads back"), event);
    }

    #[test]
    fn speed_is_of_the_tokens_after_the_first() {
        let timings = Timings { decode: Duration::from_secs(2), ..Timings::default() };
        let usage = |n| Usage { prompt_tokens: TokenCount(1), completion_tokens: TokenCount(n) };
        assert_eq!(timings.tokens_per_sec(usage(5)), Some(2.0));
        assert_eq!(timings.tokens_per_sec(usage(1)), None);
        assert_eq!(timings.tokens_per_sec(usage(0)), None);
    }
}
