//! Why there is no plan: every obstacle, each with its cheapest fix.

use domain::{Bytes, Hint, Hints, LayerCount, ModelId, TokenCount};

/// No plan meets the goal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no plan for `{model}` with a context of {context}: {}", listed(.blockers))]
pub struct NoPlan {
    pub model: ModelId,
    pub context: TokenCount,
    /// Never empty.
    pub blockers: Vec<Blocker>,
    /// The longest context for which there is a plan on the same nodes, if a shorter one helps.
    pub context_that_fits: Option<TokenCount>,
}

/// One obstacle. Nodes are named as people call them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocker {
    #[error("no node is alive")]
    NoNode,
    #[error("node `{name}` is not alive")]
    NodeAbsent { name: String },
    #[error("node `{name}` shall be the head but is not among the nodes to use")]
    HeadNotChosen { name: String },
    #[error("the memory of `{name}` is not known yet")]
    MemoryUnknown { name: String },
    #[error("`{name}` has {plannable} to give, its smallest share needs {needed}")]
    Memory { name: String, needed: Bytes, plannable: Bytes },
    #[error("{n_nodes} nodes are more than its {} layers", .n_layers.0)]
    MoreNodesThanLayers { n_nodes: usize, n_layers: LayerCount },
    #[error("a context of {asked} is asked for, the model was made for {max}")]
    ContextTooLong { asked: TokenCount, max: TokenCount },
    #[error("a context of no tokens or of no sequences holds nothing")]
    NoContext,
    #[error("the model has no layers")]
    NoLayers,
}

fn listed(blockers: &[Blocker]) -> String {
    blockers.iter().map(Blocker::to_string).collect::<Vec<_>>().join("; ")
}

impl Blocker {
    /// The cheapest way out.
    pub fn fix(&self) -> String {
        match self {
            Self::NoNode => "start Macramé on a machine and pair it".to_owned(),
            Self::NodeAbsent { name } => format!("wake `{name}` or check its network, or plan without it"),
            Self::HeadNotChosen { name } => format!("add `{name}` to the nodes to use, or choose another head"),
            Self::MemoryUnknown { name } => format!("wait until `{name}` has measured its memory"),
            Self::Memory { name, needed, plannable } => {
                format!("free {} on `{name}`: close programs or stop a deployment there", *needed - *plannable)
            }
            Self::MoreNodesThanLayers { n_layers, .. } => format!("use at most {} nodes", n_layers.0),
            Self::ContextTooLong { max, .. } => format!("ask for a context of at most {max}"),
            Self::NoContext => "ask for a context of at least one token and one sequence".to_owned(),
            Self::NoLayers => "fetch the model's file again: it is not whole".to_owned(),
        }
    }
}

impl Hint for NoPlan {
    fn hints(&self) -> Hints {
        let shorter =
            self.context_that_fits.map(|fits| format!("ask for a context of {fits}, for which there is a plan"));
        let is_short = self.blockers.iter().any(|blocker| matches!(blocker, Blocker::Memory { .. }));
        let smaller = is_short.then(|| "pair another machine, or take the model in a smaller quantisation".to_owned());
        shorter.into_iter().chain(self.blockers.iter().map(Blocker::fix)).chain(smaller).collect()
    }
}
