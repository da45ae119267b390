//! The chat history.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use crate::body::JsonBody;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{Chat, ChatSummary};

pub async fn list(State(api): State<Api>) -> Result<Json<Vec<ChatSummary>>, Problem> {
    api.backend.chats().await.map(Json)
}

pub async fn get(State(api): State<Api>, Path(id): Path<String>) -> Result<Json<Chat>, Problem> {
    api.backend.chat(checked(id)?).await?.map(Json).ok_or_else(not_found)
}

pub async fn put(
    State(api): State<Api>,
    Path(id): Path<String>,
    JsonBody(chat): JsonBody<Chat>,
) -> Result<StatusCode, Problem> {
    if chat.id != checked(id)? {
        return Err(Problem::bad_request("bad_id", "id", "the chat's id is not the one of the address"));
    }
    api.backend.put_chat(chat).await.map(|()| StatusCode::NO_CONTENT)
}

pub async fn delete(State(api): State<Api>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    if api.backend.delete_chat(checked(id)?).await? { Ok(StatusCode::NO_CONTENT) } else { Err(not_found()) }
}

pub async fn restore(State(api): State<Api>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    if api.backend.restore_chat(checked(id)?).await? { Ok(StatusCode::NO_CONTENT) } else { Err(not_found()) }
}

/// As the contract has it: `[0-9a-z-]{8,64}`.
fn checked(id: String) -> Result<String, Problem> {
    let allowed = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() || byte == b'-';
    if (8..=64).contains(&id.len()) && id.bytes().all(allowed) {
        return Ok(id);
    }
    Err(Problem::bad_request("bad_id", "id", "a chat's id has 8 to 64 of `0-9`, `a-z` and `-`"))
}

fn not_found() -> Problem {
    Problem::not_found("chat_not_found", "there is no such chat")
}
