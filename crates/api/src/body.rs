//! Reads a request's JSON, within limits, and refuses it in the API's own words.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::problem::Problem;

/// The longest body. A prompt that fills a context of a million tokens has about 4 MB; JSON may double it.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// How long a client may take to send its body: [`BODY_BYTES_MAX`] at 3 Mbit/s, the slowest Wi-Fi still of use.
const BODY_WAIT: Duration = Duration::from_secs(20);

/// A body as JSON. The content type is not looked at: `curl -d` sends none, and pages are kept out by the guard.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = match timeout(BODY_WAIT, Bytes::from_request(request, state)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                let message = format!("the body is longer than {BODY_BYTES_MAX} bytes");
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
            }
            Ok(Err(rejection)) => {
                return Err(Problem::new(StatusCode::BAD_REQUEST, "bad_body", rejection.body_text()));
            }
            Err(_) => {
                let message = format!("the body did not arrive within {} s", BODY_WAIT.as_secs());
                return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", message));
            }
        };
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Self(value)),
            Err(error) => {
                let message = format!("the body is not the JSON that this route takes: {error}");
                Err(Problem::new(StatusCode::BAD_REQUEST, "bad_json", message))
            }
        }
    }
}
