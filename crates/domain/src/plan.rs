//! Which node holds which layers. A plan that misses or repeats a layer cannot be built.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Bytes, LayerCount, LayerIdx, LayerRange, ModelId, ModelSpec, NodeId, Rank, TokenCount};

/// A pipeline over nodes: stage `i` is rank `i`. Together the stages tile `0..n_layers` in order, none is empty,
/// no node appears twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PlanParts", into = "PlanParts")]
pub struct Plan {
    model: ModelId,
    context: TokenCount,
    n_layers: LayerCount,
    shares: Vec<PlanShare>,
}

/// What one node holds and must reserve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanShare {
    pub node: NodeId,
    pub layers: LayerRange,
    /// Weights, mapped from disk.
    pub weight_bytes: Bytes,
    /// Keys and values at the plan's context, over all slots.
    pub kv_bytes: Bytes,
    /// Room for activations, the tokenizer and the process itself.
    pub workspace_bytes: Bytes,
}

impl PlanShare {
    /// What the node must set aside.
    pub fn reserved_bytes(&self) -> Bytes {
        self.weight_bytes + self.kv_bytes + self.workspace_bytes
    }
}

/// What one rank must load: its layers of the model, and where it stands in the pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub model: ModelId,
    pub rank: Rank,
    pub n_ranks: u16,
    pub layers: LayerRange,
    pub n_layers: LayerCount,
    pub context: TokenCount,
}

impl Shard {
    pub fn is_first(&self) -> bool {
        self.layers.start().0 == 0
    }

    pub fn is_last(&self) -> bool {
        self.layers.end().0 == self.n_layers.0
    }
}

impl Plan {
    /// Room that a rank needs beside weights, keys and values: its process, its tokenizer and the activations of a
    /// prompt's chunk. Measured on the starter model at 60 MiB with a tokenizer of 49,152 words; doubled.
    pub const WORKSPACE: Bytes = Bytes::from_mib(128);

    /// Splits `spec`'s layers at `cuts` (strictly increasing, each in `1..n_layers`), one range per node.
    /// `n_slots` sequences of `context` tokens are kept at once.
    pub fn from_cuts(
        spec: &ModelSpec,
        nodes: &[NodeId],
        cuts: &[LayerIdx],
        context: TokenCount,
        n_slots: u32,
    ) -> Result<Self, BadPlan> {
        if nodes.len() != cuts.len() + 1 {
            return Err(BadPlan::NodesAndCuts { n_nodes: nodes.len(), n_cuts: cuts.len() });
        }
        let ends = cuts.iter().copied().chain([LayerIdx(spec.n_layers().0)]);
        let mut start = LayerIdx(0);
        let mut shares = Vec::with_capacity(nodes.len());
        for (&node, end) in nodes.iter().zip(ends) {
            let layers = LayerRange::new(start, end).map_err(|_| BadPlan::Cut { at: end.0, after: start.0 })?;
            start = end;
            shares.push(PlanShare {
                node,
                layers,
                weight_bytes: spec.weight_bytes(layers),
                kv_bytes: spec.kv_bytes(layers, context) * u64::from(n_slots),
                workspace_bytes: Self::WORKSPACE,
            });
        }
        PlanParts { model: spec.id.clone(), context, n_layers: spec.n_layers(), shares }.try_into()
    }

    pub fn model(&self) -> &ModelId {
        &self.model
    }

    pub fn context(&self) -> TokenCount {
        self.context
    }

    pub fn n_layers(&self) -> LayerCount {
        self.n_layers
    }

    /// In rank order; never empty.
    pub fn shares(&self) -> &[PlanShare] {
        &self.shares
    }

    pub fn n_ranks(&self) -> u16 {
        u16::try_from(self.shares.len()).unwrap_or(u16::MAX)
    }

    pub fn head(&self) -> NodeId {
        self.shares[0].node
    }

    pub fn rank_of(&self, node: NodeId) -> Option<Rank> {
        let idx = self.shares.iter().position(|share| share.node == node)?;
        u16::try_from(idx).ok().map(Rank)
    }

    pub fn share_of(&self, node: NodeId) -> Option<&PlanShare> {
        self.shares.iter().find(|share| share.node == node)
    }

    pub fn shard_of(&self, node: NodeId) -> Option<Shard> {
        let rank = self.rank_of(node)?;
        let share = &self.shares[rank.idx()];
        Some(Shard {
            model: self.model.clone(),
            rank,
            n_ranks: self.n_ranks(),
            layers: share.layers,
            n_layers: self.n_layers,
            context: self.context,
        })
    }
}

/// A plan before it is checked: the form in which it travels.
#[derive(Serialize, Deserialize)]
struct PlanParts {
    model: ModelId,
    context: TokenCount,
    n_layers: LayerCount,
    shares: Vec<PlanShare>,
}

impl From<Plan> for PlanParts {
    fn from(plan: Plan) -> Self {
        Self { model: plan.model, context: plan.context, n_layers: plan.n_layers, shares: plan.shares }
    }
}

impl TryFrom<PlanParts> for Plan {
    type Error = BadPlan;

    fn try_from(parts: PlanParts) -> Result<Self, BadPlan> {
        if parts.shares.is_empty() || parts.shares.len() > usize::from(u16::MAX) {
            return Err(BadPlan::NodesAndCuts { n_nodes: parts.shares.len(), n_cuts: 0 });
        }
        let mut next = 0;
        let mut seen = BTreeSet::new();
        for share in &parts.shares {
            if share.layers.start().0 != next {
                return Err(BadPlan::Gap { expected: next, got: share.layers.start().0 });
            }
            next = share.layers.end().0;
            if !seen.insert(share.node) {
                return Err(BadPlan::NodeTwice { node: share.node });
            }
        }
        if next != parts.n_layers.0 {
            return Err(BadPlan::Gap { expected: parts.n_layers.0, got: next });
        }
        Ok(Self { model: parts.model, context: parts.context, n_layers: parts.n_layers, shares: parts.shares })
    }
}

/// Why parts are no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPlan {
    #[error("{n_nodes} nodes need one cut fewer than nodes, got {n_cuts}")]
    NodesAndCuts { n_nodes: usize, n_cuts: usize },
    #[error("a cut at layer {at} leaves no layer after {after}")]
    Cut { at: u32, after: u32 },
    #[error("the shares do not tile the layers: expected layer {expected}, got {got}")]
    Gap { expected: u32, got: u32 },
    #[error("node {} appears twice", .node.short())]
    NodeTwice { node: NodeId },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Architecture;

    fn spec(n_layers: u32) -> ModelSpec {
        ModelSpec {
            id: "org/tiny".parse().expect("a model id"),
            architecture: Architecture::Llama,
            quantisation: "F32".to_owned(),
            layer_bytes: (0..n_layers).map(|_| Bytes::new(10)).collect(),
            embedding_bytes: Bytes::new(100),
            head_bytes: Bytes::new(100),
            tied_embeddings: false,
            hidden_size: 8,
            n_kv_heads: 2,
            head_dim: 4,
            vocab_size: 16,
            context_max: TokenCount(64),
        }
    }

    fn node(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    fn cut(n_layers: u32, nodes: &[u8], cuts: &[u32]) -> Result<Plan, BadPlan> {
        let nodes: Vec<_> = nodes.iter().map(|&n| node(n)).collect();
        let cuts: Vec<_> = cuts.iter().map(|&c| LayerIdx(c)).collect();
        Plan::from_cuts(&spec(n_layers), &nodes, &cuts, TokenCount(64), 1)
    }

    #[test]
    fn cuts_tile_every_layer() {
        let plan = cut(61, &[1, 2], &[30]).expect("61 layers over 2 nodes");
        let layers: Vec<_> = plan.shares().iter().map(|share| share.layers.to_string()).collect();
        assert_eq!(layers, ["0–29", "30–60"]);
        assert_eq!(plan.rank_of(node(2)), Some(Rank(1)));
        assert_eq!(plan.head(), node(1));
        let last = plan.shard_of(node(2)).expect("its shard");
        assert!(last.is_last() && !last.is_first());
    }

    #[test]
    fn wrong_cuts_are_no_plan() {
        assert_eq!(cut(4, &[1, 2], &[]), Err(BadPlan::NodesAndCuts { n_nodes: 2, n_cuts: 0 }));
        assert_eq!(cut(4, &[1, 2], &[0]), Err(BadPlan::Cut { at: 0, after: 0 }));
        assert_eq!(cut(4, &[1, 2], &[4]), Err(BadPlan::Cut { at: 4, after: 4 }));
        assert_eq!(cut(4, &[1, 2, 3], &[3, 2]), Err(BadPlan::Cut { at: 2, after: 3 }));
        assert_eq!(cut(4, &[1, 1], &[2]), Err(BadPlan::NodeTwice { node: node(1) }));
        assert_eq!(cut(0, &[1], &[]), Err(BadPlan::Cut { at: 0, after: 0 }));
    }
}
