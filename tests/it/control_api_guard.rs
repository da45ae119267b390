//! Every route against everyone it must refuse: web pages, rebound names, programs without the token.

use api::{Bind, Server};
use reqwest::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use reqwest::{Method, StatusCode};
use scenarios::scripted::{MODEL, OTHER_NODE, Scripted};
use serde_json::{Value, json};

/// What a route is for a program of this machine without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Open,
    Inference,
    Control,
}

/// Every route of the API. Bodies are good ones, so that only the guard can refuse.
fn routes() -> Vec<(Access, Method, String, Option<Value>)> {
    let goal = || Some(json!({"model": MODEL}));
    let chat = || Some(json!({"id": "0123-abcd", "title": "", "model": null, "messages": []}));
    let completion = || Some(json!({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}));
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    let routes = [
        (Access::Open, get.clone(), "/health", None),
        (Access::Open, get.clone(), "/", None),
        (Access::Open, get.clone(), "/any/view", None),
        (Access::Inference, post.clone(), "/v1/chat/completions", completion()),
        (Access::Inference, get.clone(), "/v1/models", None),
        (Access::Inference, get.clone(), "/v1/models/org/scripted", None),
        (Access::Inference, get.clone(), "/metrics", None),
        (Access::Control, get.clone(), "/v1/cluster", None),
        (Access::Control, get.clone(), "/v1/cluster/events", None),
        (Access::Control, post.clone(), "/v1/cluster/plan", goal()),
        (Access::Control, post.clone(), "/v1/cluster/deployments", goal()),
        (Access::Control, delete.clone(), "/v1/cluster/deployments/0000000000000010", None),
        (Access::Control, get.clone(), "/v1/cluster/models", None),
        (Access::Control, post.clone(), "/v1/cluster/downloads", goal()),
        (Access::Control, delete.clone(), "/v1/cluster/downloads?model=org/scripted", None),
        (Access::Control, post.clone(), "/v1/cluster/pairing", None),
        (Access::Control, delete.clone(), "/v1/cluster/pairing", None),
        (Access::Control, post.clone(), "/v1/cluster/pair", Some(json!({"code": "123456", "address": "a:1"}))),
        (Access::Control, get.clone(), "/v1/chats", None),
        (Access::Control, put.clone(), "/v1/chats/0123-abcd", chat()),
        (Access::Control, get.clone(), "/v1/chats/0123-abcd", None),
        (Access::Control, delete.clone(), "/v1/chats/0123-abcd", None),
        (Access::Control, post, "/v1/chats/0123-abcd/restore", None),
        (Access::Control, get, "/v1/settings", None),
        (Access::Control, put, "/v1/settings", Some(json!({}))),
    ];
    let unpair = (Access::Control, delete, format!("/v1/cluster/nodes/{OTHER_NODE}"), None);
    routes
        .into_iter()
        .map(|(access, method, path, body)| (access, method, path.to_owned(), body))
        .chain([unpair])
        .collect()
}

async fn status(server: &Server, headers: HeaderMap, route: &(Access, Method, String, Option<Value>)) -> StatusCode {
    let (_, method, path, body) = route;
    let request = reqwest::Client::new().request(method.clone(), format!("{}{path}", server.url())).headers(headers);
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    request.send().await.expect("an answer").status()
}

fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).expect("a header"))).collect()
}

fn bearer(token: &str) -> (HeaderName, String) {
    (reqwest::header::AUTHORIZATION, format!("Bearer {token}"))
}

fn fetch_metadata(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

#[tokio::test]
async fn pages_and_rebound_names_are_refused_on_every_route_even_with_the_token() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let (authorization, token) = bearer(server.token().reveal());
    let port = server.address().port();
    let rebound = format!("evil.example:{port}");
    let other_port = format!("http://127.0.0.1:{}", port.wrapping_add(1));
    let foreign = [
        (HOST, rebound.as_str()),
        (HOST, "127.0.0.1"),
        (ORIGIN, "http://evil.example"),
        (ORIGIN, "https://127.0.0.1"),
        (ORIGIN, "null"),
        (ORIGIN, other_port.as_str()),
        (fetch_metadata("sec-fetch-site"), "cross-site"),
        (fetch_metadata("sec-fetch-site"), "same-site"),
    ];
    for route in routes() {
        for (name, value) in &foreign {
            let headers = headers(&[(authorization.clone(), &token), (name.clone(), value)]);
            assert_eq!(status(&server, headers, &route).await, StatusCode::FORBIDDEN, "{route:?} with {name}: {value}");
        }
    }
}

#[tokio::test]
async fn the_own_page_is_let_in_and_so_is_a_link_to_it() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let (authorization, token) = bearer(server.token().reveal());
    let own = server.url();
    for route in routes() {
        let site = (fetch_metadata("sec-fetch-site"), "same-origin");
        let headers = headers(&[(authorization.clone(), &token), (ORIGIN, &own), site]);
        let status = status(&server, headers, &route).await;
        assert!(![401, 403].contains(&status.as_u16()), "{route:?}: {status}");
    }
    let link = [(fetch_metadata("sec-fetch-site"), "cross-site"), (fetch_metadata("sec-fetch-dest"), "document")];
    let page = (Access::Open, Method::GET, "/".to_owned(), None);
    assert_ne!(status(&server, headers(&link), &page).await, StatusCode::FORBIDDEN);
    let form = (Access::Open, Method::POST, "/v1/chat/completions".to_owned(), None);
    assert_eq!(status(&server, headers(&link), &form).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn control_routes_want_the_token_and_the_right_one() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let (authorization, token) = bearer(server.token().reveal());
    let wrong = format!("{}0", &token[..token.len() - 1]);
    let wrong = if wrong == token { format!("{}1", &token[..token.len() - 1]) } else { wrong };
    let basic = token.replace("Bearer", "Basic");
    for route in routes() {
        for got in [None, Some(wrong.as_str()), Some(basic.as_str()), Some("Bearer "), Some("Bearer")] {
            let headers = got.map_or_else(HeaderMap::new, |got| headers(&[(authorization.clone(), got)]));
            let status = status(&server, headers, &route).await;
            let refused = status == StatusCode::UNAUTHORIZED;
            assert_eq!(refused, route.0 == Access::Control, "{route:?} with {got:?}: {status}");
        }
    }
}

#[tokio::test]
async fn on_the_network_inference_wants_the_token_too() {
    let server = Scripted::default().serve(Bind::Lan).await;
    let (authorization, token) = bearer(server.token().reveal());
    for route in routes() {
        let without = status(&server, HeaderMap::new(), &route).await;
        assert_eq!(without == StatusCode::UNAUTHORIZED, route.0 != Access::Open, "{route:?}: {without}");
    }
    for route in routes() {
        let with = status(&server, headers(&[(authorization.clone(), &token)]), &route).await;
        assert_ne!(with, StatusCode::UNAUTHORIZED, "{route:?}");
    }
    let rebound = headers(&[(HOST, &format!("evil.example:{}", server.address().port()))]);
    let health = (Access::Open, Method::GET, "/health".to_owned(), None);
    assert_eq!(status(&server, rebound, &health).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn every_answer_is_hardened() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    for path in ["/health", "/", "/v1/cluster", "/v1/none"] {
        let response = reqwest::get(format!("{}{path}", server.url())).await.expect("an answer");
        let headers = response.headers();
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["x-frame-options"], "DENY", "{path}");
        let policy = headers["content-security-policy"].to_str().expect("text");
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert!(!policy.contains("unsafe-eval"), "{path}");
    }
}

#[tokio::test]
async fn a_taken_port_makes_the_next_free_one_good() {
    let first = Scripted::default().serve(Bind::Loopback).await;
    let taken = first.address().port();
    let backend = std::sync::Arc::new(Scripted::default());
    let second = Server::start(backend, Bind::Loopback, taken, api::Token::random()).await.expect("the next one");
    let tried = taken..=taken.saturating_add(15);
    assert!(second.address().port() != taken && tried.contains(&second.address().port()));
}
