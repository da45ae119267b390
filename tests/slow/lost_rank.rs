//! A rank that is killed in the middle of an answer: the client hears of it in time, and which node it was.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::served::{Served, rank_pids, serve};

/// From the kill to the client's error (issue 3).
const HEARD_WITHIN: Duration = Duration::from_secs(3);
/// Long enough to be in its middle when the rank is killed.
const PROMPT: &str = "Write a very long story about a lighthouse, with many chapters.";
const TOKENS: u32 = 2000;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_an_error_that_names_the_node() -> Result<()> {
    let served = serve(2, 0)?;
    let mut request = served.request(PROMPT, TOKENS);
    request["stream"] = json!(true);
    let response = served.post(served.node(0), "/v1/chat/completions", &request).await?;
    ensure!(response.status().is_success(), "{}", response.status());
    let mut body = response.bytes_stream();
    let mut text = String::new();
    while text.matches("data: ").count() < 10 {
        let chunk = body.next().await.context("the answer ended before it was cut")??;
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    kill_rank_of(&served, 1)?;
    let killed = Instant::now();
    let mut rest = String::new();
    while let Some(chunk) = body.next().await {
        match chunk {
            Ok(chunk) => rest.push_str(&String::from_utf8_lossy(&chunk)),
            // Cut without its closing chunk, which no client takes for an end.
            Err(_) => break,
        }
    }
    let took = killed.elapsed();
    ensure!(took < HEARD_WITHIN, "the error took {took:?}");
    let error = rest.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.contains("\"error\""));
    let error: Value = serde_json::from_str(error.with_context(|| format!("no error in `{rest}`"))?)?;
    let message = error["error"]["message"].as_str().context("no message")?;
    ensure!(message.contains("mini"), "the node is not named: {message}");
    ensure!(!rest.contains("[DONE]"), "a cut answer was called done");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_answer_is_an_error_instead_of_a_cut_text() -> Result<()> {
    let served = serve(2, 0)?;
    let request = served.request(PROMPT, TOKENS);
    let asked = served.post(served.node(0), "/v1/chat/completions", &request);
    let killed = async {
        // It is computing by then, and far from its end.
        tokio::time::sleep(Duration::from_secs(2)).await;
        kill_rank_of(&served, 1)?;
        anyhow::Ok(Instant::now())
    };
    let (response, killed) = tokio::join!(asked, killed);
    let (response, took) = (response?, killed?.elapsed());
    ensure!(took < HEARD_WITHIN, "the error took {took:?}");
    if response.status().is_success() {
        bail!("a cut answer came as {}: {}", response.status(), response.text().await?);
    }
    let body: Value = response.json().await?;
    let message = body["error"]["message"].as_str().context("no message")?;
    ensure!(message.contains("mini"), "the node is not named: {message}");
    Ok(())
}

/// `kill -9` of the node's only rank.
fn kill_rank_of(served: &Served, idx: usize) -> Result<()> {
    let pids = rank_pids(served.node(idx))?;
    ensure!(pids.len() == 1, "node {idx} has ranks {pids:?}");
    let status = std::process::Command::new("kill").args(["-9", &pids[0].to_string()]).status()?;
    ensure!(status.success(), "kill: {status}");
    Ok(())
}
