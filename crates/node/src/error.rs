//! Why the node could not do what it was asked, for whoever shows it.

use control::DeployRefused;
use domain::{DeploymentId, Hint, Hints, ModelId, NodeId};
use engine::GenerationError;
use planner::NoPlan;
use store::StoreError;

use crate::chats::ChatsError;
use crate::discovery::DiscoveryError;
use crate::home::HomeError;
use crate::models::ModelError;
use crate::secure;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Chats(#[from] ChatsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Net(#[from] secure::StartError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
}

impl Hint for NodeError {
    fn hints(&self) -> Hints {
        match self {
            Self::Home(error) => error.hints(),
            Self::Chats(error) => error.hints(),
            Self::Store(error) => error.hints(),
            Self::Net(error) => error.hints(),
            Self::Discovery(error) => error.hints(),
        }
    }
}

/// Why a model was not deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    #[error(transparent)]
    Refused(#[from] DeployRefused),
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

impl DeployError {
    /// Stable; clients act on it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Model(_) => "model_unusable",
            Self::NoPlan(_) => "no_plan",
            Self::Refused(_) => "refused",
            Self::Stopping(_) => "stopping",
        }
    }
}

impl Hint for DeployError {
    fn hints(&self) -> Hints {
        match self {
            Self::Model(error) => error.hints(),
            Self::NoPlan(no_plan) => no_plan.hints(),
            Self::Refused(refused) => refused.hints(),
            Self::Stopping(stopping) => stopping.hints(),
        }
    }
}

/// Why there is no generation.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error("no deployment serves `{model}`{}", serving(.served))]
    NotServed { model: ModelId, served: Vec<ModelId> },
    #[error(transparent)]
    Generation(#[from] GenerationError),
}

fn serving(served: &[ModelId]) -> String {
    match served {
        [] => "; none is deployed".to_owned(),
        models => {
            let models: Vec<_> = models.iter().map(|model| format!("`{model}`")).collect();
            format!("; deployed are {}", models.join(", "))
        }
    }
}

impl GenerateError {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotServed { .. } => "model_not_found",
            Self::Generation(error) => error.code(),
        }
    }
}

impl Hint for GenerateError {
    fn hints(&self) -> Hints {
        match self {
            Self::NotServed { model, .. } => {
                vec![format!("deploy it with `macrame deploy {model}`, or in the app by dragging it onto the cluster")]
            }
            Self::Generation(error) => error.hints(),
        }
    }
}

/// The deployment asked for is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no deployment `{id}`")]
pub struct NoDeployment {
    pub id: DeploymentId,
}

/// The node asked for is not paired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node `{}` is not paired with this one", node.short())]
pub struct NotPaired {
    pub node: NodeId,
}

/// The node is being ended and begins nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node is stopping")]
pub struct Stopping;

impl Hint for Stopping {
    fn hints(&self) -> Hints {
        vec!["start Macramé again".to_owned()]
    }
}

/// A name that cannot be a node's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {max} characters and none that cannot be seen; this one has {got} characters")]
pub struct BadNodeName {
    pub max: usize,
    pub got: usize,
}
