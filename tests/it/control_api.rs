//! The control API over a scripted backend: what each route says, and the stream of changes.

use std::time::Duration;

use api::{Bind, Server};
use reqwest::{Method, Response};
use scenarios::scripted::{MODEL, NODE, OTHER_NODE, Scripted};
use serde_json::{Value, json};
use tokio::time::timeout;

/// For what happens at once unless it never does.
const PATIENCE: Duration = Duration::from_secs(20);

/// Status and body; `null` for an empty one.
async fn call(server: &Server, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let request = reqwest::Client::new().request(method, format!("{}{path}", server.url()));
    let request = request.bearer_auth(server.token().reveal());
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let response = timeout(PATIENCE, request.send()).await.expect("in time").expect("an answer");
    let status = response.status().as_u16();
    let text = response.text().await.expect("a whole body");
    (status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") })
}

async fn get(server: &Server, path: &str) -> Value {
    let (status, body) = call(server, Method::GET, path, None).await;
    assert_eq!(status, 200, "{body}");
    body
}

#[tokio::test]
async fn a_deployment_is_planned_made_seen_and_stopped() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let goal = json!({"model": "org/new", "contextTokens": 512, "nodeIds": [NODE.to_string()]});
    let (status, plan) = call(&server, Method::POST, "/v1/cluster/plan", Some(goal.clone())).await;
    assert_eq!((status, &plan["contextTokens"], &plan["shares"][0]["lastLayer"]), (200, &json!(512), &json!(29)));
    let (status, deployed) = call(&server, Method::POST, "/v1/cluster/deployments", Some(goal)).await;
    assert_eq!((status, &deployed["id"]), (201, &json!("0000000000000020")));
    let ids = |snapshot: &Value| {
        let deployments = snapshot["view"]["deployments"].as_array().expect("deployments").clone();
        deployments.iter().map(|deployment| deployment["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    let before = get(&server, "/v1/cluster").await;
    assert!(ids(&before).contains(&"0000000000000020".to_owned()));
    let path = "/v1/cluster/deployments/0000000000000020";
    assert_eq!(call(&server, Method::DELETE, path, None).await.0, 204);
    let after = get(&server, "/v1/cluster").await;
    assert!(!ids(&after).contains(&"0000000000000020".to_owned()));
    assert!(after["rev"].as_u64() > before["rev"].as_u64());
    let (status, body) = call(&server, Method::DELETE, path, None).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("deployment_not_found")));
}

#[tokio::test]
async fn bad_control_requests_are_named() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let cases = [
        ("/v1/cluster/plan", json!({"model": "../x"}), 400, "bad_id"),
        ("/v1/cluster/plan", json!({"model": "a/b", "nodeIds": ["x"]}), 400, "bad_id"),
        ("/v1/cluster/plan", json!({"model": "a/b", "spread": true}), 400, "bad_json"),
        ("/v1/cluster/downloads", json!({"model": "a b"}), 400, "bad_id"),
        ("/v1/cluster/pair", json!({"code": "123456"}), 400, "bad_target"),
        ("/v1/cluster/pair", json!({"code": "123456", "nodeId": "x", "address": "y:1"}), 400, "bad_target"),
        ("/v1/cluster/pair", json!({"code": "12345", "address": "y:1"}), 400, "bad_code"),
        ("/v1/cluster/pair", json!({"code": "654321", "address": "y:1"}), 403, "wrong_code"),
    ];
    for (path, body, status, code) in cases {
        let (got_status, got) = call(&server, Method::POST, path, Some(body.clone())).await;
        assert_eq!((got_status, &got["error"]["code"]), (status, &json!(code)), "{path} {body}");
    }
    let unknown = call(&server, Method::GET, "/v1/cluster/none", None).await;
    assert_eq!((unknown.0, &unknown.1["error"]["code"]), (404, &json!("unknown_route")));
    let wrong_method = call(&server, Method::PUT, "/v1/cluster", None).await;
    assert_eq!((wrong_method.0, &wrong_method.1["error"]["code"]), (405, &json!("method_not_allowed")));
}

#[tokio::test]
async fn nodes_are_paired_and_forgotten() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let (status, shown) = call(&server, Method::POST, "/v1/cluster/pairing", None).await;
    assert_eq!((status, &shown["code"]), (200, &json!("123456")));
    assert_eq!(get(&server, "/v1/cluster").await["view"]["pairing"]["code"], "123456");
    assert_eq!(call(&server, Method::DELETE, "/v1/cluster/pairing", None).await.0, 204);
    assert_eq!(get(&server, "/v1/cluster").await["view"]["pairing"], Value::Null);
    let request = json!({"code": "123 456", "address": "mini.local:4000"});
    let (status, paired) = call(&server, Method::POST, "/v1/cluster/pair", Some(request)).await;
    assert_eq!((status, &paired["name"]), (200, &json!("by address")), "blanks in a typed code do not matter");
    let path = format!("/v1/cluster/nodes/{OTHER_NODE}");
    assert_eq!(call(&server, Method::DELETE, &path, None).await.0, 204);
    assert_eq!(call(&server, Method::DELETE, &path, None).await.0, 404);
    let own = format!("/v1/cluster/nodes/{NODE}");
    assert_eq!(call(&server, Method::DELETE, &own, None).await.0, 404, "a node does not forget itself");
}

#[tokio::test]
async fn models_say_which_deployment_serves_them() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let models = get(&server, "/v1/cluster/models").await;
    assert_eq!((&models[0]["id"], &models[0]["deploymentId"]), (&json!(MODEL), &json!("0000000000000010")));
    let body = Some(json!({"model": "org/new"}));
    assert_eq!(call(&server, Method::POST, "/v1/cluster/downloads", body).await.0, 202);
    let cancel = |model: &str| format!("/v1/cluster/downloads?model={}", model.replace('/', "%2F"));
    assert_eq!(call(&server, Method::DELETE, &cancel(MODEL), None).await.0, 204);
    assert_eq!(call(&server, Method::DELETE, &cancel("org/none"), None).await.0, 404);
}

#[tokio::test]
async fn a_chat_is_kept_deleted_and_restored() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let facts = json!({"model": MODEL, "promptTokens": 9, "completionTokens": 4, "firstTokenMs": 110.5,
                       "tokensPerSec": 20.0, "ended": "stop"});
    let chat = json!({"id": "0123-abcd", "title": "Colours", "model": MODEL, "messages": [
        {"role": "user", "text": "Name three.", "facts": null},
        {"role": "assistant", "text": "Red, yellow, blue.", "facts": facts},
    ]});
    let path = "/v1/chats/0123-abcd";
    assert_eq!(call(&server, Method::PUT, path, Some(chat.clone())).await.0, 204);
    assert_eq!(get(&server, path).await, chat);
    assert_eq!(get(&server, "/v1/chats").await[0]["nMessages"], 2);
    assert_eq!(call(&server, Method::DELETE, path, None).await.0, 204);
    assert_eq!(call(&server, Method::GET, path, None).await.0, 404);
    assert_eq!(get(&server, "/v1/chats").await, json!([]));
    assert_eq!(call(&server, Method::POST, &format!("{path}/restore"), None).await.0, 204);
    assert_eq!(get(&server, path).await, chat);
    assert_eq!(call(&server, Method::PUT, "/v1/chats/other-id1", Some(chat)).await.0, 400);
    for bad in ["short", "UPPERCASE", "..%2F..%2Fetc", "0123.abcd"] {
        let (status, body) = call(&server, Method::GET, &format!("/v1/chats/{bad}"), None).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("bad_id")), "{bad}");
    }
}

#[tokio::test]
async fn the_name_can_be_changed() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let settings = get(&server, "/v1/settings").await;
    assert_eq!((&settings["nodeName"], &settings["apiUrl"]), (&json!("studio"), &json!(server.url())));
    let put = async |name: &str| call(&server, Method::PUT, "/v1/settings", Some(json!({"nodeName": name}))).await;
    assert_eq!(put("  attic ").await.1["nodeName"], "attic");
    for bad in ["", "   ", "two\nlines", &"x".repeat(65)] {
        assert_eq!(put(bad).await.1["error"]["code"], "bad_name", "{bad:?}");
    }
    let (status, unchanged) = call(&server, Method::PUT, "/v1/settings", Some(json!({}))).await;
    assert_eq!((status, &unchanged["nodeName"]), (200, &json!("attic")));
}

#[tokio::test]
async fn changes_come_in_order_and_the_stream_ends_with_the_server() {
    let backend = Scripted::default();
    let server = backend.serve(Bind::Loopback).await;
    let request = reqwest::Client::new().get(format!("{}/v1/cluster/events", server.url()));
    let response = request.bearer_auth(server.token().reveal()).send().await.expect("an answer");
    let mut events = Events { response, text: String::new() };
    let hello = events.next().await.expect("a first event");
    assert_eq!(hello["changes"], json!([]));
    let rev = hello["rev"].as_u64().expect("a number");
    assert_eq!(get(&server, "/v1/cluster").await["rev"], rev);

    backend.change(|view| view.nodes[1].name = "attic".to_owned());
    let event = events.next().await.expect("an event");
    assert_eq!((&event["rev"], &event["changes"][0]["type"]), (&json!(rev + 1), &json!("node")));
    assert_eq!(event["changes"][0]["node"]["name"], "attic");
    backend.change(|view| drop(view.nodes.pop()));
    let event = events.next().await.expect("an event");
    assert_eq!(event["changes"], json!([{"type": "nodeGone", "id": OTHER_NODE.to_string()}]));

    timeout(PATIENCE, server.shutdown()).await.expect("ends though a client listens");
    assert_eq!(events.next().await, None);
}

struct Events {
    response: Response,
    text: String,
}

impl Events {
    /// The next event's data; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                self.text = rest.to_owned();
                match data {
                    Some(data) => return Some(serde_json::from_str(&data).expect("JSON")),
                    None => continue,
                }
            }
            let piece = timeout(PATIENCE, self.response.chunk()).await.expect("in time").ok()??;
            self.text += std::str::from_utf8(&piece).expect("text");
        }
    }
}
