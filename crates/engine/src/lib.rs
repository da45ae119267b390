//! Runs one deployment on one rank: takes requests, batches them, moves hidden states along the pipeline, draws tokens.
//!
//! The engine knows neither the cluster nor the planner: it is told its shard. What multiplies matrices is behind
//! [`Compute`], what carries bytes is behind [`transport::Link`]; both are blocking, on one compute thread.
//!
//! A rank's process makes a [`Stage`] of its layers and links, and calls [`Stage::run`]:
//!
//! ```text
//!          requests                            token ids
//!             │          ┌──────────────────────────────────────────────┐
//!             ▼          ▼                                              │
//!  rank 0: tokenise, schedule, layers 0–9 ──▶ layers 10–19 ──▶ layers 20–29, scores, draw
//!             │                       hidden states          hidden states
//!             ▼
//!        text, events
//! ```

mod answer;
mod compute;
mod draws;
mod event;
mod follower;
mod head;
mod message;
pub mod rank_protocol;
mod request;
mod sampling;
mod scheduler;
mod slots;
mod stage;
pub mod testing;

pub use compute::{Compute, ComputeError, Input, Logits, Output, Shape, SlotIdx, Step, StepPart, Text, TextError};
pub use event::{BadRequest, FinishReason, GenerationError, Timings, TokenEvent, TokenLogprob, TokenScore, Usage};
pub use rank_protocol::{Footprint, IdentityKey, Load, RankCommand, RankPeer, RankReport, StageCommand, StageReport};
pub use request::{ChatMessage, GenerationRequest, Role, Sampling};
pub use stage::{Member, MemberLink, Stage, StageEnded, StageHandle, StageOptions, StageRole};
