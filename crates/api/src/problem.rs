//! Every refusal and failure of the API: one value, one shape on the wire.

use std::borrow::Cow;
use std::error::Error;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::{Hint, Hints};

use crate::wire::{ErrorBody, ErrorView};

/// What is answered instead of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: StatusCode,
    /// Stable: clients act on it.
    pub code: Cow<'static, str>,
    /// What happened, with its causes.
    pub message: String,
    /// The field at fault, for a bad request.
    pub param: Option<String>,
    pub hints: Hints,
}

impl Problem {
    pub fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into(), param: None, hints: Hints::new() }
    }

    /// An error of the program with its causes and hints.
    pub fn of<E: Error + Hint>(status: StatusCode, code: impl Into<Cow<'static, str>>, error: &E) -> Self {
        Self { hints: error.hints(), ..Self::new(status, code, with_causes(error)) }
    }

    pub fn bad_request(code: &'static str, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, code, message) }
    }

    /// A field that this server knows of but cannot honour, or does not know at all. It is never ignored: an answer
    /// made without it would not be the one that was asked for.
    pub fn unsupported(param: impl Into<String>, why: &str) -> Self {
        let param = param.into();
        let message = format!("`{param}` is not supported: {why}");
        Self::bad_request("unsupported_parameter", param, message)
    }

    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorView {
                message: self.message.clone(),
                kind: kind(self.status).to_owned(),
                code: self.code.clone().into_owned(),
                param: self.param.clone(),
                hints: self.hints.clone(),
            },
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// OpenAI's `type` of an error, which its clients show.
fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::CONFLICT => "conflict_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    }
}

/// `error: cause: its cause`, without saying the same twice where an error already quotes its cause.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the plan failed")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("`studio` has 2.0 GiB too little")]
    struct Inner;

    impl Hint for Outer {
        fn hints(&self) -> Hints {
            vec!["close programs on `studio`".to_owned()]
        }
    }

    #[test]
    fn an_error_brings_its_causes_and_hints() {
        let problem = Problem::of(StatusCode::CONFLICT, "no_plan", &Outer(Inner));
        let body = serde_json::to_value(problem.body()).expect("serialises");
        assert_eq!(
            body,
            serde_json::json!({"error": {
                "message": "the plan failed: `studio` has 2.0 GiB too little",
                "type": "conflict_error", "code": "no_plan", "param": null,
                "hints": ["close programs on `studio`"],
            }})
        );
    }

    #[test]
    fn each_status_has_openais_word_for_it() {
        let kinds = [(400, "invalid_request_error"), (413, "invalid_request_error"), (502, "server_error")];
        for (status, expected) in kinds {
            assert_eq!(kind(StatusCode::from_u16(status).expect("a status")), expected);
        }
    }
}
