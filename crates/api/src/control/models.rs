//! Models on this node's disk, and downloads.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;

use super::cluster::model_id;
use crate::body::JsonBody;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{DownloadRequest, ModelView};

pub async fn list(State(api): State<Api>) -> Result<Json<Vec<ModelView>>, Problem> {
    let deployments = api.feed.snapshot().view.deployments;
    let mut models = api.backend.models().await?;
    for model in &mut models {
        let deployment = deployments.iter().find(|deployment| deployment.model == model.id);
        model.deployment_id = deployment.map(|deployment| deployment.id.clone());
    }
    Ok(Json(models))
}

pub async fn download(
    State(api): State<Api>,
    JsonBody(request): JsonBody<DownloadRequest>,
) -> Result<StatusCode, Problem> {
    api.backend.download(model_id(&request.model)?)?;
    Ok(StatusCode::ACCEPTED)
}

pub async fn cancel_download(
    State(api): State<Api>,
    Query(request): Query<DownloadRequest>,
) -> Result<StatusCode, Problem> {
    if api.backend.cancel_download(&model_id(&request.model)?) {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::not_found("download_not_found", "this model is not being downloaded"))
}
