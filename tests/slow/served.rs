//! A local cluster that serves the starter model, and what the scenarios ask of it.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::local::{LocalCluster, LocalNode, Options};
use xtask::{places, starter};

/// For one answer of a node: the longest here has 400 tokens, at some twenty a second on a loaded machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

pub struct Served {
    pub cluster: LocalCluster,
    pub model: String,
    pub http: reqwest::Client,
    _homes: TempDir,
}

/// Nodes with homes of their own, the first `n_paired` of which serve the model together.
pub fn serve(n_paired: usize, n_unpaired: usize) -> Result<Served> {
    let starter = starter::fetched()?;
    let homes = tempfile::tempdir()?;
    let macrame = places::built_program("macrame")?;
    let options = Options { n_unpaired, ..Options::new(&macrame, homes.path(), &starter.models_dir, n_paired) };
    let cluster = LocalCluster::start(&options)?;
    cluster.nodes()[0].deploy(&starter.model, n_paired)?;
    let http = reqwest::Client::builder().timeout(ANSWER_WITHIN).build()?;
    Ok(Served { cluster, model: starter.model, http, _homes: homes })
}

impl Served {
    pub fn node(&self, idx: usize) -> &LocalNode {
        &self.cluster.nodes()[idx]
    }

    /// A chat of one message, greedy.
    pub fn request(&self, prompt: &str, max_tokens: u32) -> Value {
        let message = json!({ "role": "user", "content": prompt });
        json!({ "model": self.model, "messages": [message], "temperature": 0, "max_tokens": max_tokens })
    }

    pub async fn post(&self, node: &LocalNode, path: &str, body: &Value) -> Result<reqwest::Response> {
        let url = format!("{}{path}", node.url()?.trim_end_matches('/'));
        self.http.post(&url).json(body).send().await.with_context(|| format!("POST {url}"))
    }

    pub async fn get(&self, node: &LocalNode, path: &str) -> Result<String> {
        let url = format!("{}{path}", node.url()?.trim_end_matches('/'));
        let answer = self.http.get(&url).bearer_auth(node.token()?).send().await?;
        ensure!(answer.status().is_success(), "GET {url}: {}", answer.status());
        Ok(answer.text().await?)
    }

    /// The answer to `prompt`, whole.
    pub async fn answer(&self, node: &LocalNode, prompt: &str, max_tokens: u32) -> Result<String> {
        let response = self.post(node, "/v1/chat/completions", &self.request(prompt, max_tokens)).await?;
        let (status, body) = (response.status(), response.json::<Value>().await?);
        ensure!(status.is_success(), "{status}: {body}");
        Ok(body["choices"][0]["message"]["content"].as_str().context("no text in the answer")?.to_owned())
    }
}

/// The rank processes that this node has started.
pub fn rank_pids(node: &LocalNode) -> Result<Vec<u32>> {
    let mut ranks = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process that ends while it is looked at is none.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).and_then(|id| id.parse().ok());
        let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if parent == Some(node.pid()) && arguments.trim_end_matches('\0').ends_with("\0rank") {
            ranks.push(pid);
        }
    }
    Ok(ranks)
}

/// Bytes of GGUF files that a process has mapped.
pub fn mapped_model_bytes(pid: u32) -> Result<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let mut mapped = 0;
    for line in maps.lines().filter(|line| line.contains("/blobs/") || line.ends_with(".gguf")) {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let (from, to) = range.context("a line of maps without a range")?;
        mapped += u64::from_str_radix(to, 16)? - u64::from_str_radix(from, 16)?;
    }
    Ok(mapped)
}
