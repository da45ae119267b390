//! OpenAI's dialect over a scripted backend: transcripts, statuses, errors in mid-stream, cancel.

use std::time::Duration;

use api::{Bind, Server};
use expect_test::{Expect, expect};
use futures::StreamExt as _;
use reqwest::{Response, StatusCode};
use scenarios::scripted::{LOADING_MODEL, MODEL, Scripted};
use serde_json::{Value, json};
use tokio::time::timeout;

/// For what happens at once unless it never does.
const PATIENCE: Duration = Duration::from_secs(20);

async fn ask(server: &Server, prompt: &str, extra: Value) -> Response {
    let mut body = json!({"model": MODEL, "messages": [{"role": "user", "content": prompt}]});
    body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
    let request = reqwest::Client::new().post(format!("{}/v1/chat/completions", server.url())).json(&body);
    timeout(PATIENCE, request.send()).await.expect("in time").expect("an answer")
}

/// With the parts that differ at each run replaced.
fn same_each_time(text: &str) -> String {
    let text = text.replace('\r', "");
    let mut same = String::new();
    for line in text.lines() {
        let (prefix, json) = match line.find('{') {
            Some(at) => line.split_at(at),
            None => (line, ""),
        };
        let line = match serde_json::from_str::<Value>(json) {
            Ok(mut value) => {
                if let Some(id) = value.get_mut("id") {
                    assert!(id.as_str().is_some_and(|id| id.starts_with("chatcmpl-")));
                    *id = json!("ID");
                }
                if let Some(created) = value.get_mut("created") {
                    assert!(created.as_u64().is_some_and(|secs| secs > 1_700_000_000));
                    *created = json!(0);
                }
                format!("{prefix}{value}")
            }
            Err(_) => line.to_owned(),
        };
        same += &format!("{line}\n");
    }
    same
}

async fn check_body(response: Response, expected: Expect) {
    expected.assert_eq(&same_each_time(&response.text().await.expect("a whole body")));
}

#[tokio::test]
async fn a_whole_answer() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let response = ask(&server, "Name three primary colours.", json!({})).await;
    assert_eq!(response.status(), StatusCode::OK);
    check_body(response, expect![[r#"
        {"choices":[{"finish_reason":"stop","index":0,"logprobs":null,"message":{"content":"Red, yellow, blue.","refusal":null,"role":"assistant"}}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion","timings":{"first_token_ms":110.0,"prompt_ms":100.0,"tokens_per_sec":20.0},"usage":{"completion_tokens":4,"prompt_tokens":9,"total_tokens":13}}
    "#]]).await;
}

#[tokio::test]
async fn a_streamed_answer_with_usage_and_timings() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let extra = json!({"stream": true, "stream_options": {"include_usage": true}});
    let response = ask(&server, "Name three primary colours.", extra).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    check_body(response, expect![[r#"
        data: {"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk","usage":null}

        data: {"choices":[{"delta":{"content":"Red,"},"finish_reason":null,"index":0,"logprobs":null}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk","usage":null}

        data: {"choices":[{"delta":{"content":" yellow,"},"finish_reason":null,"index":0,"logprobs":null}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk","usage":null}

        data: {"choices":[{"delta":{"content":" blue."},"finish_reason":null,"index":0,"logprobs":null}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk","usage":null}

        data: {"choices":[{"delta":{},"finish_reason":"stop","index":0,"logprobs":null}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk","usage":null}

        data: {"choices":[],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk","timings":{"first_token_ms":110.0,"prompt_ms":100.0,"tokens_per_sec":20.0},"usage":{"completion_tokens":4,"prompt_tokens":9,"total_tokens":13}}

        data: [DONE]

    "#]]).await;
}

#[tokio::test]
async fn a_streamed_answer_with_logprobs() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let extra = json!({"stream": true, "logprobs": true, "top_logprobs": 2});
    check_body(ask(&server, "Name three primary colours.", extra).await, expect![[r#"
        data: {"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk"}

        data: {"choices":[{"delta":{"content":"Red,"},"finish_reason":null,"index":0,"logprobs":{"content":[{"bytes":[82,101,100,44],"logprob":-0.25,"token":"Red,","top_logprobs":[{"bytes":[82,101,100,44],"logprob":-0.25,"token":"Red,"},{"bytes":[32,110,111],"logprob":-1.5,"token":" no"}]}],"refusal":null}}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk"}

        data: {"choices":[{"delta":{"content":" yellow,"},"finish_reason":null,"index":0,"logprobs":{"content":[{"bytes":[32,121,101,108,108,111,119,44],"logprob":-0.25,"token":" yellow,","top_logprobs":[{"bytes":[32,121,101,108,108,111,119,44],"logprob":-0.25,"token":" yellow,"},{"bytes":[32,110,111],"logprob":-1.5,"token":" no"}]}],"refusal":null}}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk"}

        data: {"choices":[{"delta":{"content":" blue."},"finish_reason":null,"index":0,"logprobs":{"content":[{"bytes":[32,98,108,117,101,46],"logprob":-0.25,"token":" blue.","top_logprobs":[{"bytes":[32,98,108,117,101,46],"logprob":-0.25,"token":" blue."},{"bytes":[32,110,111],"logprob":-1.5,"token":" no"}]}],"refusal":null}}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk"}

        data: {"choices":[{"delta":{},"finish_reason":"stop","index":0,"logprobs":null}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk"}

        data: [DONE]

    "#]]).await;
}

#[tokio::test]
async fn an_error_in_mid_stream_is_the_last_event() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let response = ask(&server, "fail midway", json!({"stream": true})).await;
    assert_eq!(response.status(), StatusCode::OK);
    check_body(response, expect![[r#"
        data: {"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk"}

        data: {"choices":[{"delta":{"content":"Red,"},"finish_reason":null,"index":0,"logprobs":null}],"created":0,"id":"ID","model":"org/scripted","object":"chat.completion.chunk"}

        data: {"error":{"code":"rank_lost","hints":["see that Macramé runs on mini and that its cable or Wi-Fi is up","ask again once the deployment serves"],"message":"rank 1 on mini was lost: the connection was closed","param":null,"type":"server_error"}}

    "#]]).await;
    let cut_off = ask(&server, "be cut off", json!({"stream": true})).await.text().await.expect("a whole body");
    assert!(cut_off.contains("answer_cut_off") && !cut_off.contains("[DONE]"), "{cut_off}");
}

#[tokio::test]
async fn without_streaming_a_lost_rank_is_an_error_that_names_the_node() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    for prompt in ["fail at once", "fail before the first token", "fail midway"] {
        let response = ask(&server, prompt, json!({})).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "{prompt}");
        let body: Value = response.json().await.expect("an error body");
        assert_eq!(body["error"]["code"], "rank_lost", "{prompt}");
        assert_eq!(body["error"]["message"], "rank 1 on mini was lost: the connection was closed", "{prompt}");
    }
    assert_eq!(ask(&server, "be cut off", json!({})).await.status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn before_the_first_token_a_stream_fails_with_a_status() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    for prompt in ["fail at once", "fail before the first token"] {
        let response = ask(&server, prompt, json!({"stream": true})).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "{prompt}");
    }
}

#[tokio::test]
async fn a_long_prompt_keeps_the_stream_alive_with_comments() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let response = ask(&server, "never begin", json!({"stream": true})).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.bytes_stream();
    let mut text = String::new();
    while !text.contains("\n: still working") && !text.starts_with(": still working") {
        let piece = timeout(PATIENCE, body.next()).await.expect("in time").expect("goes on").expect("is whole");
        text += std::str::from_utf8(&piece).expect("text");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_cancels() {
    let backend = Scripted::default();
    let server = backend.serve(Bind::Loopback).await;
    let mut n_running = backend.n_running();
    let mut streamed = ask(&server, "never end", json!({"stream": true})).await;
    streamed.chunk().await.expect("a piece");
    assert_eq!(*n_running.borrow_and_update(), 1);
    drop(streamed);
    timeout(PATIENCE, n_running.wait_for(|&n| n == 0)).await.expect("cancelled in time").expect("counted");

    // Without streaming too, where the server has sent nothing yet.
    let whole = tokio::spawn({
        let url = format!("{}/v1/chat/completions", server.url());
        let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "never end"}]});
        async move { reqwest::Client::new().post(url).json(&body).send().await.map(drop) }
    });
    timeout(PATIENCE, n_running.wait_for(|&n| n == 1)).await.expect("started in time").expect("counted");
    whole.abort();
    timeout(PATIENCE, n_running.wait_for(|&n| n == 0)).await.expect("cancelled in time").expect("counted");
}

#[tokio::test]
async fn only_served_models_answer_and_the_error_lists_them() {
    let backend = Scripted::default();
    let server = backend.serve(Bind::Loopback).await;
    for (model, hint) in
        [("org/none", "being served: `org/scripted`"), (LOADING_MODEL, "its deployment is not ready: loading")]
    {
        let response = ask(&server, "hello", json!({"model": model})).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        let body: Value = response.json().await.expect("an error body");
        assert_eq!((&body["error"]["code"], &body["error"]["param"]), (&json!("model_not_found"), &json!("model")));
        let hints = body["error"]["hints"].as_array().expect("hints");
        assert!(hints.contains(&json!(hint)), "{hints:?}");
    }
    assert_eq!(backend.requests().len(), 0);
}

#[tokio::test]
async fn models_are_those_that_are_served() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let get = async |path: &str| reqwest::get(format!("{}{path}", server.url())).await.expect("an answer");
    let list: Value = get("/v1/models").await.json().await.expect("a list");
    let ids: Vec<_> = list["data"].as_array().expect("data").iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, [&json!(MODEL)]);
    let one: Value = get("/v1/models/org/scripted").await.json().await.expect("a model");
    assert_eq!((&one["id"], &one["object"]), (&json!(MODEL), &json!("model")));
    assert_eq!(get("/v1/models/org%2Fscripted").await.status(), StatusCode::OK);
    assert_eq!(get("/v1/models/org/none").await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_field_that_is_not_honoured_reaches_no_model() {
    let backend = Scripted::default();
    let server = backend.serve(Bind::Loopback).await;
    let response = ask(&server, "hello", json!({"tools": [{"type": "function", "function": {"name": "f"}}]})).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let body: Value = response.json().await.expect("an error body");
    assert_eq!((&body["error"]["code"], &body["error"]["param"]), (&json!("unsupported_parameter"), &json!("tools")));
    assert_eq!(backend.requests().len(), 0);
}

#[tokio::test]
async fn bodies_that_are_no_requests_are_refused() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    let post = async |body: Vec<u8>| {
        let request = reqwest::Client::new().post(format!("{}/v1/chat/completions", server.url())).body(body);
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.json::<Value>().await.expect("an error body")["error"]["code"].clone())
    };
    assert_eq!(post(b"{".to_vec()).await, (400, json!("bad_json")));
    assert_eq!(post(vec![0xff; 10]).await, (400, json!("bad_json")));
    assert_eq!(post(vec![b'x'; (8 << 20) + 1]).await, (413, json!("body_too_large")));
}

#[tokio::test]
async fn metrics_tell_ranks_and_generations() {
    let server = Scripted::default().serve(Bind::Loopback).await;
    ask(&server, "hello", json!({})).await.text().await.expect("a whole body");
    ask(&server, "fail midway", json!({})).await.text().await.expect("a whole body");
    let page = reqwest::get(format!("{}/metrics", server.url())).await.expect("an answer");
    assert!(page.headers()["content-type"].to_str().expect("text").starts_with("text/plain; version=0.0.4"));
    let page = page.text().await.expect("a page");
    let has = |line: &str| assert!(page.lines().any(|found| found == line), "no `{line}` in\n{page}");
    has("macrame_generations_total{ended=\"finished\"} 1");
    has("macrame_generations_total{ended=\"failed\"} 1");
    has("macrame_tokens_total{kind=\"completion\"} 4");
    has("macrame_nodes{status=\"alive\"} 2");
    let node = "02".repeat(32);
    has(&format!(
        "macrame_rank_resident_bytes{{deployment=\"0000000000000010\",model=\"org/scripted\",rank=\"1\",node=\"{node}\",\
         name=\"mini\",first_layer=\"15\",last_layer=\"29\"}} 73400320"
    ));
}
