//! The cluster as it is, its changes, and deployments.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use domain::{DeploymentId, ModelId, NodeId, TokenCount};
use futures::{StreamExt as _, stream};
use tokio_stream::wrappers::BroadcastStream;

use crate::backend::DeployGoal;
use crate::body::JsonBody;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{ClusterEvent, ClusterSnapshot, DeployRequest, Deployed, PlanView};

/// A comment is sent after so long without a change, which shows both ends that the other is there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

pub async fn get(State(api): State<Api>) -> Json<ClusterSnapshot> {
    Json(api.feed.snapshot())
}

/// First an event without changes that tells the present revision, then each change. A client that falls too far
/// behind loses the stream and begins again.
pub async fn events(State(api): State<Api>) -> impl IntoResponse {
    let (rev, changes) = api.feed.subscribe();
    let hello = ClusterEvent { rev, changes: Vec::new() };
    let changes = tokio_stream::StreamExt::map_while(BroadcastStream::new(changes), Result::ok);
    let events = stream::iter([hello]).chain(changes).take_until(api.draining.clone().cancelled_owned());
    let events = events.map(|event| {
        let event = Event::default().id(event.rev.to_string()).json_data(&event);
        Ok::<_, Infallible>(event.expect("texts, numbers and lists of them always serialise"))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE).text("no change"))
}

pub async fn plan(
    State(api): State<Api>,
    JsonBody(request): JsonBody<DeployRequest>,
) -> Result<Json<PlanView>, Problem> {
    Ok(Json(api.backend.plan(goal(request)?).await?))
}

pub async fn deploy(
    State(api): State<Api>,
    JsonBody(request): JsonBody<DeployRequest>,
) -> Result<(StatusCode, Json<Deployed>), Problem> {
    let id = api.backend.deploy(goal(request)?).await?;
    Ok((StatusCode::CREATED, Json(Deployed { id: id.to_string() })))
}

pub async fn stop(State(api): State<Api>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let known = api.feed.snapshot().view.deployments.iter().any(|deployment| deployment.id == id);
    match id.parse::<DeploymentId>() {
        Ok(id) if known => api.backend.stop(id).await.map(|()| StatusCode::NO_CONTENT),
        Ok(_) | Err(_) => Err(Problem::not_found("deployment_not_found", "there is no such deployment")
            .hint("`macrame status` lists them")),
    }
}

fn goal(request: DeployRequest) -> Result<DeployGoal, Problem> {
    let nodes = request.node_ids.map(|ids| ids.iter().map(|id| node_id(id, "nodeIds")).collect()).transpose()?;
    Ok(DeployGoal { model: model_id(&request.model)?, nodes, context: request.context_tokens.map(TokenCount) })
}

pub fn model_id(text: &str) -> Result<ModelId, Problem> {
    text.parse().map_err(|error: domain::BadId| Problem::bad_request("bad_id", "model", error.to_string()))
}

pub fn node_id(text: &str, param: &'static str) -> Result<NodeId, Problem> {
    text.parse().map_err(|error: domain::BadId| Problem::bad_request("bad_id", param, error.to_string()))
}
