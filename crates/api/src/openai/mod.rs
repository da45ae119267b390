//! OpenAI's dialect: `POST /v1/chat/completions`, `GET /v1/models`, `GET /v1/models/{id}`.
//!
//! What a request asks for is either done or refused by name; nothing is ignored that could change the answer.

mod answer;
mod fields;
mod models;
mod request;
mod stream;
mod wire;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::ModelId;
use serde_json::Value;

use crate::body::JsonBody;
use crate::problem::Problem;
use crate::routes::Api;

pub use models::{get as model, list as model_list};
use request::{ChatRequest, Delivery};
use wire::Envelope;

pub async fn chat_completions(State(api): State<Api>, JsonBody(body): JsonBody<Value>) -> Result<Response, Problem> {
    let request = ChatRequest::parse(body)?;
    let model = serving(&api, &request.model)?;
    let envelope = Envelope::new(&request.model);
    let generation = match api.backend.generate(model, request.generation).await {
        Ok(generation) => api.meter.watch(generation),
        Err(problem) => {
            api.meter.count_failed();
            return Err(problem);
        }
    };
    match request.delivery {
        Delivery::Whole => Ok(Json(answer::whole(generation, envelope).await?).into_response()),
        Delivery::Stream(usage) => stream::start(generation, envelope, usage).await,
    }
}

/// The model's id, if a deployment serves it now.
fn serving(api: &Api, model: &str) -> Result<ModelId, Problem> {
    let view = api.feed.snapshot().view;
    let serving = models::serving(&view);
    if let (true, Ok(id)) = (serving.contains(&model), model.parse()) {
        return Ok(id);
    }
    let quoted: String = model.chars().filter(|c| !c.is_control()).take(ModelId::LEN_MAX).collect();
    let mut problem = Problem::not_found("model_not_found", format!("no deployment serves the model `{quoted}`"));
    problem.param = Some("model".to_owned());
    if let Some(deployment) = view.deployments.iter().find(|deployment| deployment.model == model) {
        problem = problem.hint(format!("its deployment is not ready: {}", deployment.status_text));
    }
    let hint = match serving.as_slice() {
        [] => "no model is being served; deploy one with `macrame deploy MODEL`".to_owned(),
        serving => {
            format!("being served: {}", serving.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", "))
        }
    };
    Err(problem.hint(hint))
}
