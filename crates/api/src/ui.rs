//! The built UI, embedded. A release build carries the files; a debug build reads them from `ui/dist` as they are now.

use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use rust_embed::{Embed, EmbeddedFile};

use crate::problem::Problem;

#[derive(Embed)]
#[folder = "../../ui/dist"]
#[allow_missing = true]
struct Dist;

/// Names under this folder carry a hash of their content, so they never change.
const HASHED: &str = "assets/";

const NOT_BUILT: &str = "<!doctype html><meta charset=utf-8><title>Macramé</title>\
     <p>The UI is not built. Run <code>cargo xtask run</code>, or <code>npm ci && npm run build</code> in <code>ui/</code>, \
     and load this page again.";

/// A file of the UI; its page for any other path, since the views have paths of their own.
pub async fn file(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path == "v1" || path.starts_with("v1/") {
        return Problem::not_found("unknown_route", format!("there is no route `/{path}`")).into_response();
    }
    if let Some(file) = Dist::get(path) {
        return send(path, file, &headers);
    }
    if path.starts_with(HASHED) {
        return Problem::not_found("unknown_file", format!("the UI has no file `{path}`")).into_response();
    }
    match Dist::get("index.html") {
        Some(page) => send("index.html", page, &headers),
        None => (StatusCode::SERVICE_UNAVAILABLE, Html(NOT_BUILT)).into_response(),
    }
}

fn send(path: &str, file: EmbeddedFile, headers: &HeaderMap) -> Response {
    let hash: String = file.metadata.sha256_hash().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let etag = format!("\"{hash}\"");
    // The page itself is asked for again each time, so that an update is seen at once.
    let kept = if path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|got| got.as_bytes() == etag.as_bytes());
    let caching = [(header::CACHE_CONTROL, kept.to_owned()), (header::ETAG, etag)];
    if known {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    let mime = mime_guess::from_path(path).first_or_octet_stream();
    (caching, [(header::CONTENT_TYPE, mime.as_ref())], file.data).into_response()
}
