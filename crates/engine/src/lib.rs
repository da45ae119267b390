//! Runs one deployment on one rank: takes requests, batches them, moves hidden states along the pipeline, draws tokens.
//!
//! The engine knows neither the cluster nor the planner: it is told its shard. What multiplies matrices is behind
//! [`Compute`], what carries bytes is behind `transport::Link`; both are blocking, on one compute thread.

mod compute;
mod event;
pub mod rank_protocol;
mod request;

pub use compute::{Compute, ComputeError, Input, Logits, Output, Shape, SlotIdx, Step, StepPart, Text, TextError};
pub use event::{BadRequest, FinishReason, GenerationError, Timings, TokenEvent, TokenLogprob, TokenScore, Usage};
pub use rank_protocol::{Footprint, RankCommand, RankPeer, RankReport, StageCommand, StageReport};
pub use request::{ChatMessage, GenerationRequest, Role, Sampling};
