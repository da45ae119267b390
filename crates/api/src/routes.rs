//! All routes, each behind the access it wants.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use axum::{Json, Router};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;
use crate::body::BODY_BYTES_MAX;
use crate::control::{chats, cluster, models, pairing, settings};
use crate::feed::Feed;
use crate::guard::{self, Access, Guard};
use crate::metrics::{self, Meter};
use crate::openai;
use crate::problem::Problem;
use crate::ui;

/// What handlers share. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    pub backend: Arc<dyn Backend>,
    pub feed: Feed,
    pub meter: Meter,
    /// Base address, without a path.
    pub url: String,
    /// Since 1970.
    pub started_at_secs: u64,
    /// Cancelled when the server is told to end: streams of events end then.
    pub draining: CancellationToken,
}

impl Api {
    pub fn new(backend: Arc<dyn Backend>, feed: Feed, url: String, draining: CancellationToken) -> Self {
        let started_at_secs = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { backend, feed, meter: Meter::default(), url, started_at_secs, draining }
    }
}

/// The longest that a control route works. Pairing asks another machine, and deploying asks all of them.
const CONTROL_WAIT: Duration = Duration::from_secs(60);

pub fn router(api: Api, guard: Arc<Guard>) -> Router {
    let group = |access, routes: Router<Api>| {
        routes.route_layer(middleware::from_fn_with_state((guard.clone(), access), guard::check_token))
    };
    let inference = Router::new()
        .route("/v1/chat/completions", post(openai::chat_completions))
        .route("/v1/models", get(openai::model_list))
        .route("/v1/models/{*model}", get(openai::model))
        .route("/metrics", get(metrics_page));
    let events = Router::new().route("/v1/cluster/events", get(cluster::events));
    let control = Router::new()
        .route("/v1/cluster", get(cluster::get))
        .route("/v1/cluster/plan", post(cluster::plan))
        .route("/v1/cluster/deployments", post(cluster::deploy))
        .route("/v1/cluster/deployments/{id}", delete(cluster::stop))
        .route("/v1/cluster/models", get(models::list))
        .route("/v1/cluster/downloads", post(models::download).delete(models::cancel_download))
        .route("/v1/cluster/pairing", post(pairing::show_code).delete(pairing::hide_code))
        .route("/v1/cluster/pair", post(pairing::pair))
        .route("/v1/cluster/nodes/{id}", delete(pairing::unpair))
        .route("/v1/chats", get(chats::list))
        .route("/v1/chats/{id}", chat_routes())
        .route("/v1/chats/{id}/restore", post(chats::restore))
        .route("/v1/settings", get(settings::get).put(settings::put))
        .route_layer(middleware::from_fn(within_limit));
    let open = Router::new().route("/health", get(health)).fallback(ui::file);
    Router::new()
        .merge(group(Access::Inference, inference))
        .merge(group(Access::Control, control.merge(events)))
        .merge(open)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(guard, guard::keep_pages_out))
        .with_state(api)
}

fn chat_routes() -> MethodRouter<Api> {
    get(chats::get).put(chats::put).delete(chats::delete)
}

async fn within_limit(request: Request, next: Next) -> Result<Response, Problem> {
    timeout(CONTROL_WAIT, next.run(request)).await.map_err(|_| {
        let message = format!("this took longer than {} s and was given up", CONTROL_WAIT.as_secs());
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message).hint("look at the cluster with `macrame status`")
    })
}

async fn method_not_allowed() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this route does not know that method")
}

async fn health() -> impl IntoResponse {
    Json(json!({"status": "ok"}))
}

async fn metrics_page(State(api): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], api.meter.page(&api.feed.snapshot().view))
}
