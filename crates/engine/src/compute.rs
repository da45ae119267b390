//! The seam between the engine and what multiplies matrices: [`Compute`] for layers, [`Text`] for words.

use domain::TokenCount;
use serde::{Deserialize, Serialize};

use crate::{ChatMessage, Footprint};

/// The layers of one rank, and the keys and values of its sequences.
///
/// Rows are independent: what a token's row becomes does not depend on which other parts share its step, nor on how its
/// sequence was cut into steps. A split model so gives bit for bit what the whole one gives (`testing::compute_contract`
/// holds implementations to it).
pub trait Compute: Send {
    fn shape(&self) -> Shape;

    fn footprint(&self) -> Footprint;

    /// Runs this rank's layers over one step.
    ///
    /// A part at position `p` first forgets what its slot holds from `p` on, so that starting over, rewinding and
    /// continuing are one thing. A part whose position lies after what its slot holds is an error.
    fn forward(&mut self, step: &Step, input: Input<'_>) -> Result<Output, ComputeError>;
}

/// What a rank's `Compute` can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub hidden_size: usize,
    pub vocab_size: usize,
    pub n_slots: usize,
    /// Tokens that each slot has room for.
    pub context: TokenCount,
}

/// Tokens of one or more sequences that go through the layers together. No slot appears twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub parts: Vec<StepPart>,
}

impl Step {
    /// Rows of the hidden state: the parts' tokens, one after the other.
    pub fn n_rows(&self) -> usize {
        self.parts.iter().map(|part| part.tokens.len()).sum()
    }

    /// Refuses a step that no rank of this shape could run. `held` says how many tokens a slot holds.
    pub fn check(&self, shape: Shape, input: Input<'_>, held: impl Fn(SlotIdx) -> usize) -> Result<(), ComputeError> {
        let Shape { hidden_size, vocab_size, n_slots, context } = shape;
        for part in &self.parts {
            let (slot, position) = (part.slot.0, part.position);
            if part.slot.idx() >= n_slots {
                return Err(ComputeError::NoSuchSlot { slot, n_slots });
            }
            if part.tokens.is_empty() {
                return Err(ComputeError::NoTokens { slot });
            }
            let held = held(part.slot);
            if position as usize > held {
                return Err(ComputeError::Gap { slot, held, position });
            }
            let end = (position as usize).saturating_add(part.tokens.len());
            if end > context.0 as usize {
                return Err(ComputeError::ContextFull { slot, end, context });
            }
            if let Some(&token) = part.tokens.iter().find(|&&token| token as usize >= vocab_size) {
                return Err(ComputeError::NoSuchToken { token, vocab_size });
            }
        }
        match input {
            Input::Hidden(hidden) if hidden.len() != self.n_rows() * hidden_size => {
                Err(ComputeError::WrongInput { got: hidden.len(), n_rows: self.n_rows(), hidden_size })
            }
            Input::Hidden(_) | Input::Tokens => Ok(()),
        }
    }

    /// Rows of logits that the last rank gives.
    pub fn n_logits(&self) -> usize {
        self.parts.iter().filter(|part| part.logits == Logits::OfLastToken).count()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepPart {
    pub slot: SlotIdx,
    /// Place of the first token in its sequence.
    pub position: u32,
    /// Never empty.
    pub tokens: Vec<u32>,
    pub logits: Logits,
}

/// A place for the keys and values of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotIdx(pub u32);

impl SlotIdx {
    pub fn idx(self) -> usize {
        self.0 as usize
    }
}

/// Whether the last rank computes scores. Only a sequence's last token needs them: the others' are never read, and at a
/// vocabulary of 128k they would cost more than the attention did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Logits {
    OfLastToken,
    None,
}

/// What enters a rank.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Rank 0 looks its rows up by the step's tokens.
    Tokens,
    /// `[step.n_rows(), hidden_size]`, from the rank before.
    Hidden(&'a [f32]),
}

/// What leaves a rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// `[step.n_rows(), hidden_size]`, for the next rank.
    Hidden(Vec<f32>),
    /// `[step.n_logits(), vocab_size]`, from the last rank, in the order of the parts that ask for them.
    Logits(Vec<f32>),
}

/// Why a rank could not run a step.
#[derive(Debug, thiserror::Error)]
pub enum ComputeError {
    #[error("slot {slot} of {n_slots} does not exist")]
    NoSuchSlot { slot: u32, n_slots: usize },
    #[error("the step has no token for slot {slot}")]
    NoTokens { slot: u32 },
    #[error("slot {slot} holds {held} tokens; a step cannot begin at {position}")]
    Gap { slot: u32, held: usize, position: u32 },
    #[error("slot {slot} has room for {context}; a step would end at {end}")]
    ContextFull { slot: u32, end: usize, context: TokenCount },
    #[error("token {token} is not in the vocabulary of {vocab_size}")]
    NoSuchToken { token: u32, vocab_size: usize },
    #[error("the rank before sent {got} values for {n_rows} rows of {hidden_size}")]
    WrongInput { got: usize, n_rows: usize, hidden_size: usize },
    /// What the implementation's own parts say.
    #[error(transparent)]
    Backend(Box<dyn std::error::Error + Send + Sync>),
}

/// A model's words: only the head needs them.
pub trait Text: Send {
    /// The messages in the model's own format, up to where its answer begins.
    ///
    /// What users typed is never read as control tokens, whatever it spells.
    fn prompt(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, TextError>;

    /// The bytes that a token stands for; none for control tokens and for ids outside the vocabulary. A character may
    /// take several tokens.
    fn bytes(&self, token: u32) -> &[u8];

    /// Whether the model says by `token` that its answer has ended.
    fn is_end(&self, token: u32) -> bool;
}

/// Messages that the model's chat template refuses, or that cannot be put into tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model's chat template does not take these messages: {cause}")]
pub struct TextError {
    pub cause: String,
}
