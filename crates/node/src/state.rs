//! What a node shows of the cluster, as one value.

use control::{DeploymentStatus, DeploymentView, View, Warning};
use domain::{DeploymentId, ModelId, NodeId};

use crate::discovery::Sighting;
use crate::models::DownloadState;
use crate::secure::PairingStatus;

/// Everything at one moment. A new value replaces it at every change.
#[derive(Clone, Debug)]
pub struct ClusterState {
    /// Grows with every change, of whatever part.
    pub rev: u64,
    pub view: View,
    pub warnings: Vec<Warning>,
    /// Nodes seen on the network that are not paired, ordered by name.
    pub sightings: Vec<Sighting>,
    pub pairing: PairingStatus,
    pub downloads: Vec<DownloadState>,
}

impl ClusterState {
    /// The deployment that answers for `model`: of several that serve it, the one with the lowest id.
    pub fn serving(&self, model: &ModelId) -> Option<(DeploymentId, &DeploymentView)> {
        let of_model = self.view.deployments.iter().filter(|(_, one)| one.deployment.plan.model() == model);
        of_model.filter(|(_, one)| one.status == DeploymentStatus::Serving).map(|(&id, one)| (id, one)).next()
    }

    /// The models that are served, each once, in order.
    pub fn served_models(&self) -> Vec<ModelId> {
        let serving = self.view.deployments.values().filter(|one| one.status == DeploymentStatus::Serving);
        let mut models: Vec<_> = serving.map(|one| one.deployment.plan.model().clone()).collect();
        models.sort();
        models.dedup();
        models
    }

    pub fn name_of(&self, node: NodeId) -> String {
        self.view.name_of(node)
    }
}
