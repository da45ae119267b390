//! What is wanted of a plan.

use domain::{NodeId, TokenCount};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    pub objective: Objective,
    /// Context each sequence may fill. `None`: [`CONTEXT_DEFAULT`], or the model's own limit where that is smaller.
    pub context: Option<TokenCount>,
    pub nodes: NodeChoice,
    /// The node that shall hold the first layers, and so take the requests. It is then part of the plan.
    pub head: Option<NodeId>,
    /// Sequences kept at once; each has its own keys and values.
    pub n_slots: u32,
}

/// Context where nobody asks for one: a long chat, at a few hundred MiB for an 8-billion-parameter model.
pub const CONTEXT_DEFAULT: TokenCount = TokenCount(4096);

impl Default for Goal {
    /// One sequence at the default context, over as few nodes as hold it.
    fn default() -> Self {
        Self { objective: Objective::Fewest, context: None, nodes: NodeChoice::Any, head: None, n_slots: 1 }
    }
}

/// Which of the plans that fit is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Over as few nodes as hold the model: each hop between nodes costs time at every token.
    Fewest,
    /// Over as many nodes as can hold a layer, each filled in proportion.
    Spread,
}

/// Which nodes a plan may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeChoice {
    /// All that are alive.
    Any,
    /// These and no others. With [`Objective::Spread`] all of them.
    Only(Vec<NodeId>),
}
