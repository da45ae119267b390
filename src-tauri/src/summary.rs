//! What the menu bar tells of the cluster, taken out of the node's state.

use node::control::{DeploymentStatus, DeploymentView, Liveness, NodeView, Severity, Warning};
use node::{ClusterState, DownloadStatus};

/// Ready to be shown: names, numbers and words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// This node first, then by name.
    pub nodes: Vec<NodeLine>,
    pub models: Vec<ModelLine>,
    pub warnings: Vec<WarningLine>,
    pub n_downloads: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    pub name: String,
    pub presence: Presence,
    /// `12.0 GiB of 64.0 GiB in use`; `None` before the node has said so.
    pub memory: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Here,
    /// Said nothing for a while.
    Silent,
    Away,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelLine {
    pub model: String,
    pub stage: Stage,
    pub n_nodes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Being fetched, loaded or connected.
    Coming,
    Serving,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarningLine {
    pub text: String,
    pub fix: String,
    pub weight: Weight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    Note,
    Warning,
    Problem,
}

impl From<&ClusterState> for Summary {
    fn from(state: &ClusterState) -> Self {
        let view = &state.view;
        let mut nodes: Vec<_> = view.nodes.iter().collect();
        nodes.sort_by_key(|(id, node)| (**id != view.me, node.name.clone(), **id));
        let deployments = view.deployments.values();
        Self {
            nodes: nodes.into_iter().map(|(_, node)| node_line(node)).collect(),
            models: deployments.map(model_line).collect(),
            warnings: state.warnings.iter().map(warning_line).collect(),
            n_downloads: state.downloads.iter().filter(|download| download.status == DownloadStatus::Running).count(),
        }
    }
}

fn node_line(node: &NodeView) -> NodeLine {
    let memory = node.facts.as_ref().and_then(|facts| facts.memory.value());
    NodeLine {
        name: node.name.clone(),
        presence: match node.liveness {
            Liveness::Alive => Presence::Here,
            Liveness::Suspect => Presence::Silent,
            Liveness::Gone => Presence::Away,
        },
        memory: memory.map(|memory| format!("{} of {} for models", node.reserved, memory.usable)),
    }
}

fn model_line(deployment: &DeploymentView) -> ModelLine {
    let plan = &deployment.deployment.plan;
    ModelLine {
        model: plan.model().to_string(),
        stage: match &deployment.status {
            DeploymentStatus::Reserving
            | DeploymentStatus::Fetching(_)
            | DeploymentStatus::Loading
            | DeploymentStatus::Connecting => Stage::Coming,
            DeploymentStatus::Serving => Stage::Serving,
            DeploymentStatus::Failed(_) => Stage::Failed,
        },
        n_nodes: plan.shares().len(),
    }
}

fn warning_line(warning: &Warning) -> WarningLine {
    WarningLine {
        text: warning.text.clone(),
        fix: warning.fix.clone(),
        weight: match warning.severity {
            Severity::Note => Weight::Note,
            Severity::Warning => Weight::Warning,
            Severity::Problem => Weight::Problem,
        },
    }
}
