//! The models that can be asked: those a deployment serves now.

use axum::Json;
use axum::extract::{Path, State};

use super::wire::{ModelCard, ModelList};
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{ClusterView, DeploymentStatus};

pub async fn list(State(api): State<Api>) -> Json<ModelList> {
    let view = api.feed.snapshot().view;
    let data = serving(&view).into_iter().map(|id| card(&api, id)).collect();
    Json(ModelList { object: "list", data })
}

pub async fn get(State(api): State<Api>, Path(model): Path<String>) -> Result<Json<ModelCard>, Problem> {
    super::serving(&api, &model)?;
    Ok(Json(card(&api, &model)))
}

/// Each once, in the order of their deployments.
pub fn serving(view: &ClusterView) -> Vec<&str> {
    let mut models = Vec::new();
    for deployment in view.deployments.iter().filter(|it| it.status == DeploymentStatus::Serving) {
        if !models.contains(&deployment.model.as_str()) {
            models.push(deployment.model.as_str());
        }
    }
    models
}

fn card(api: &Api, id: &str) -> ModelCard {
    ModelCard { id: id.to_owned(), object: "model", created: api.started_at_secs, owned_by: "macrame" }
}
