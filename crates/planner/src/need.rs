//! What a run of layers costs the node that holds it.

use domain::{Bytes, LayerRange, ModelSpec, Plan, TokenCount};

/// The memory of every run of a model's layers, at one context and number of slots. Equals
/// [`domain::PlanShare::reserved_bytes`] of a plan with that run.
pub(crate) struct Needs<'a> {
    spec: &'a ModelSpec,
    context: TokenCount,
    n_slots: u32,
    /// `until[i]`: weights of the first `i` layers.
    until: Vec<Bytes>,
}

impl<'a> Needs<'a> {
    pub fn new(spec: &'a ModelSpec, context: TokenCount, n_slots: u32) -> Self {
        let mut until = vec![Bytes::ZERO];
        for (idx, &layer) in spec.layer_bytes.iter().enumerate() {
            until.push(until[idx] + layer);
        }
        Self { spec, context, n_slots, until }
    }

    pub fn n_layers(&self) -> u32 {
        self.spec.n_layers().0
    }

    /// What layers `start..end` need on their node; `start < end <= n_layers`.
    pub fn of(&self, start: u32, end: u32) -> Bytes {
        let Ok(layers) = LayerRange::try_from((start, end)) else { return Bytes::ZERO };
        let ends = match (start == 0, end == self.n_layers()) {
            (false, false) => Bytes::ZERO,
            (true, false) => self.spec.embedding_bytes,
            (false, true) => self.spec.head_bytes,
            (true, true) if self.spec.tied_embeddings => self.spec.embedding_bytes.max(self.spec.head_bytes),
            (true, true) => self.spec.embedding_bytes + self.spec.head_bytes,
        };
        let weights = self.until[end as usize] - self.until[start as usize] + ends;
        weights + self.spec.kv_bytes(layers, self.context) * u64::from(self.n_slots) + Plan::WORKSPACE
    }
}
