//! What a model is to the planner: sizes and rules, not names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Bytes, LayerCount, LayerRange, ModelId, TokenCount};

/// A model as its files describe it. Sizes are those of the weights on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    pub id: ModelId,
    pub architecture: Architecture,
    /// How the weights are stored, `Q4_1` say.
    pub quantisation: String,
    /// Weights of each layer; one entry per layer.
    pub layer_bytes: Vec<Bytes>,
    /// The token embedding, which the first stage needs.
    pub embedding_bytes: Bytes,
    /// The final norm and the output head, which the last stage needs. With tied embeddings the head is the
    /// embedding again: a stage that is both first and last maps it once.
    pub head_bytes: Bytes,
    pub tied_embeddings: bool,
    pub hidden_size: u32,
    pub n_kv_heads: u32,
    pub head_dim: u32,
    pub vocab_size: u32,
    /// The longest context the model was made for.
    pub context_max: TokenCount,
}

impl ModelSpec {
    pub fn n_layers(&self) -> LayerCount {
        LayerCount(u32::try_from(self.layer_bytes.len()).unwrap_or(u32::MAX))
    }

    /// Weights that the stage with `layers` maps: its layers, the embedding if it is first, the head if last.
    pub fn weight_bytes(&self, layers: LayerRange) -> Bytes {
        let own: Bytes = layers.iter().filter_map(|idx| self.layer_bytes.get(idx.0 as usize)).copied().sum();
        let first = layers.start().0 == 0;
        let last = layers.end().0 == self.n_layers().0;
        let ends = match (first, last) {
            (false, false) => Bytes::ZERO,
            (true, false) => self.embedding_bytes,
            (false, true) => self.head_bytes,
            (true, true) if self.tied_embeddings => self.embedding_bytes.max(self.head_bytes),
            (true, true) => self.embedding_bytes + self.head_bytes,
        };
        own + ends
    }

    /// Keys and values of one sequence of `context` tokens in `layers`, at 4 bytes a value:
    /// `2 · n_kv_heads · head_dim · 4 · context · n_layers`.
    pub fn kv_bytes(&self, layers: LayerRange, context: TokenCount) -> Bytes {
        let per_token = 2 * u64::from(self.n_kv_heads) * u64::from(self.head_dim) * 4;
        Bytes::new(per_token) * u64::from(context.0) * u64::from(layers.count())
    }

    /// The whole model's weights, each once.
    pub fn total_bytes(&self) -> Bytes {
        match LayerRange::try_from((0, self.n_layers().0)) {
            Ok(all) => self.weight_bytes(all),
            Err(_) => Bytes::ZERO,
        }
    }
}

/// The families of models that the engine can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    Llama,
}

impl Architecture {
    pub const ALL: [Self; 1] = [Self::Llama];

    /// The name that model files use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Llama => "llama",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(text: &str) -> Result<Self, UnknownArchitecture> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == text);
        found.ok_or_else(|| UnknownArchitecture { got: text.chars().take(80).collect() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine has no architecture `{got}`; it has {}", known_architectures())]
pub struct UnknownArchitecture {
    pub got: String,
}

fn known_architectures() -> String {
    Architecture::ALL.map(|known| format!("`{known}`")).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ModelSpec {
        ModelSpec {
            id: "org/tiny".parse().expect("a model id"),
            architecture: Architecture::Llama,
            quantisation: "F32".to_owned(),
            layer_bytes: vec![Bytes::new(10), Bytes::new(20), Bytes::new(30)],
            embedding_bytes: Bytes::new(100),
            head_bytes: Bytes::new(104),
            tied_embeddings: false,
            hidden_size: 8,
            n_kv_heads: 2,
            head_dim: 4,
            vocab_size: 16,
            context_max: TokenCount(64),
        }
    }

    fn layers(start: u32, end: u32) -> LayerRange {
        LayerRange::try_from((start, end)).expect("a range")
    }

    #[test]
    fn a_stage_holds_its_layers_and_its_ends() {
        let spec = spec();
        assert_eq!(spec.weight_bytes(layers(0, 1)), Bytes::new(110));
        assert_eq!(spec.weight_bytes(layers(1, 2)), Bytes::new(20));
        assert_eq!(spec.weight_bytes(layers(2, 3)), Bytes::new(134));
        assert_eq!(spec.total_bytes(), Bytes::new(264));
        let tied = ModelSpec { tied_embeddings: true, ..spec };
        assert_eq!(tied.total_bytes(), Bytes::new(164), "the tied head is mapped once");
        assert_eq!(tied.weight_bytes(layers(2, 3)), Bytes::new(134), "but by both stages where they differ");
    }

    #[test]
    fn kv_grows_with_layers_and_context() {
        assert_eq!(spec().kv_bytes(layers(0, 2), TokenCount(10)), Bytes::new(2 * 2 * 4 * 4 * 10 * 2));
    }

    #[test]
    fn an_unknown_architecture_is_named_with_the_known_ones() {
        let error = "mamba".parse::<Architecture>().expect_err("not ours");
        assert_eq!(error.to_string(), "the engine has no architecture `mamba`; it has `llama`");
    }
}
