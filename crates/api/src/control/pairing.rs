//! Pairing: showing a code, typing one, and forgetting a node.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::cluster::node_id;
use crate::backend::PairTarget;
use crate::body::JsonBody;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{PairRequest, Paired, PairingView};

/// Longer is no address: a host name has at most 253 characters.
const ADDRESS_LEN_MAX: usize = 300;

pub async fn show_code(State(api): State<Api>) -> Result<Json<PairingView>, Problem> {
    api.backend.open_pairing().map(Json)
}

pub async fn hide_code(State(api): State<Api>) -> StatusCode {
    api.backend.close_pairing();
    StatusCode::NO_CONTENT
}

pub async fn pair(State(api): State<Api>, JsonBody(request): JsonBody<PairRequest>) -> Result<Json<Paired>, Problem> {
    let target = match (request.node_id, request.address) {
        (Some(id), None) => PairTarget::Node(node_id(&id, "nodeId")?),
        (None, Some(address)) if address.len() <= ADDRESS_LEN_MAX => PairTarget::Address(address),
        (None, Some(_)) => {
            let message = format!("an address has at most {ADDRESS_LEN_MAX} characters");
            return Err(Problem::bad_request("bad_address", "address", message));
        }
        (None, None) | (Some(_), Some(_)) => {
            return Err(Problem::bad_request("bad_target", "nodeId", "send one of `nodeId` and `address`"));
        }
    };
    let code: String = request.code.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    if code.len() != 6 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::bad_request("bad_code", "code", "a pairing code has six digits"));
    }
    api.backend.pair(target, code).await.map(Json)
}

pub async fn unpair(State(api): State<Api>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let node = node_id(&id, "id")?;
    if !api.feed.snapshot().view.nodes.iter().any(|known| known.id == id && !known.is_self) {
        return Err(Problem::not_found("node_not_found", "this node is not paired with such a node")
            .hint("`macrame nodes` lists the paired ones"));
    }
    api.backend.unpair(node).await.map(|()| StatusCode::NO_CONTENT)
}
