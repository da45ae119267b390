//! Talks to the node that runs from a home, over its API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::wire::{ClusterSnapshot, ClusterView, ErrorBody};
use domain::{Hint, Hints};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::advice::{Advise as _, Advised};

/// On the loopback a node answers at once or not at all.
const CONNECT_WAIT: Duration = Duration::from_secs(3);

/// Longer than the node itself gives any control route.
const CONTROL_WAIT: Duration = Duration::from_secs(90);

pub struct Client {
    http: reqwest::Client,
    url: String,
    token: String,
}

/// What the node said instead of what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    message: String,
    hints: Hints,
}

impl Hint for Refused {
    fn hints(&self) -> Hints {
        self.hints.clone()
    }
}

/// The folder asked for, or this user's.
pub fn home(flag: Option<PathBuf>) -> Result<PathBuf> {
    match flag {
        Some(home) => std::path::absolute(&home).with_context(|| format!("no absolute path for `{}`", home.display())),
        None => node::default_home(),
    }
}

impl Client {
    /// The node that runs from `home`.
    pub fn connect(home: &Path) -> Result<Self> {
        let Some(running) = node::home::running_api(home).advise()? else {
            let message = format!("no node runs from `{}`", home.display());
            return Err(Advised::new(message, "start one with `macrame serve`, or open the app").into());
        };
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT_WAIT)
            .build()
            .context("cannot set up the HTTP client")?;
        Ok(Self { http, url: running.url, token: running.token })
    }

    pub async fn view(&self) -> Result<ClusterView> {
        Ok(self.snapshot().await?.view)
    }

    pub async fn snapshot(&self) -> Result<ClusterSnapshot> {
        self.get("/v1/cluster").await
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        read(self.send(self.control(Method::GET, path)).await?).await
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        read(self.send(self.control(Method::POST, path).json(body)).await?).await
    }

    /// `POST` of which only the success matters.
    pub async fn order(&self, path: &str, body: &impl Serialize) -> Result<()> {
        self.send(self.control(Method::POST, path).json(body)).await.map(drop)
    }

    pub async fn delete(&self, path: &str) -> Result<()> {
        self.send(self.control(Method::DELETE, path)).await.map(drop)
    }

    pub async fn cancel_download(&self, model: &str) -> Result<()> {
        // The only character of a model's name that means something else in a query.
        let model = model.replace('+', "%2B");
        self.delete(&format!("/v1/cluster/downloads?model={model}")).await
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The events of an answer. It has no time limit: the node has one for each of its steps.
    pub async fn complete(&self, request: &impl Serialize) -> Result<Response> {
        self.send(self.request(Method::POST, "/v1/chat/completions").json(request)).await
    }

    fn control(&self, method: Method, path: &str) -> RequestBuilder {
        self.request(method, path).timeout(CONTROL_WAIT)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                let message = format!("the node at {} does not answer", self.url);
                return Err(Advised::new(message, "start it again with `macrame serve`").into());
            }
            Err(error) => return Err(error).with_context(|| format!("the node at {} broke off", self.url)),
        };
        let status = response.status();
        if status.is_success() { Ok(response) } else { Err(refusal(status, response).await) }
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T> {
    response.json().await.context("the node's answer is not what this version of `macrame` knows")
}

async fn refusal(status: StatusCode, response: Response) -> anyhow::Error {
    match response.json::<ErrorBody>().await {
        Ok(body) => refused(body),
        Err(_) => anyhow::anyhow!("the node answered with status {status}"),
    }
}

/// The node's error with its hints.
pub fn refused(body: ErrorBody) -> anyhow::Error {
    Advised::of(Refused { message: body.error.message, hints: body.error.hints }).into()
}
