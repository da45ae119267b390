//! What this node is set to, and its name.

use axum::Json;
use axum::extract::State;

use crate::body::JsonBody;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{SettingsChange, SettingsView};

/// Longer names break every list that shows them.
const NAME_CHARS_MAX: usize = 64;

pub async fn get(State(api): State<Api>) -> Json<SettingsView> {
    Json(settings(&api))
}

pub async fn put(
    State(api): State<Api>,
    JsonBody(change): JsonBody<SettingsChange>,
) -> Result<Json<SettingsView>, Problem> {
    if let Some(name) = change.node_name {
        let name = name.trim().to_owned();
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control) {
            let message = format!("a node's name has 1 to {NAME_CHARS_MAX} characters, on one line");
            return Err(Problem::bad_request("bad_name", "nodeName", message));
        }
        api.backend.rename(name).await?;
    }
    Ok(Json(settings(&api)))
}

fn settings(api: &Api) -> SettingsView {
    SettingsView { api_url: api.url.clone(), ..api.backend.settings() }
}
