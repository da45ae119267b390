//! The hub over HTTP: what a repository holds, where its bytes begin.
//!
//! `hf-hub` asks what a repository holds and streams the bytes, ranges included, with its retries and its Xet transfers.
//! Two things it lacks are here: a file's blob name (for large files it follows the redirect to the content network and
//! loses the headers that carry it), and limits on how long a silent server is waited for.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::StreamExt;
use hf_hub::repository::HFRepository;
use hf_hub::{HFClient, HFError, RepoTypeModel};
use reqwest::header::{ETAG, HeaderMap, LOCATION};
use reqwest::{Response, Url, redirect};

use crate::error::TokenState;
use crate::names::{BlobId, Commit, RepoFile};
use crate::{HubCache, HubOptions, RepoId, StoreError};

/// For the first answer of a server that is there.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Between two pieces of an answer; a mobile connection may stall this long.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// Of `hf-hub`, for one request; a download has its own on top.
const REQUEST_RETRIES: usize = 2;
/// Renamed repositories redirect once; more is a circle.
const REDIRECTS_MAX: usize = 5;

/// The hub, and the cache that downloads go to. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hub {
    pub(crate) options: Arc<HubOptions>,
    pub(crate) cache: HubCache,
    client: HFClient,
    /// Stops at redirects, whose headers name the blob.
    head: reqwest::Client,
}

/// What a repository holds at its newest commit.
pub(crate) struct Listing {
    pub commit: Commit,
    pub files: Vec<RepoFile>,
}

/// A file of the hub before its bytes.
#[derive(Clone, Debug)]
pub(crate) struct RemoteFile {
    pub file: RepoFile,
    pub blob: BlobId,
    pub size: u64,
}

impl Hub {
    pub fn new(options: HubOptions, cache: HubCache) -> Result<Self, StoreError> {
        // `reqwest` takes the process's provider, and two are linked: say which. That one is set already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unusable = |error: &dyn std::fmt::Display| StoreError::Unreachable {
            endpoint: options.endpoint.clone(),
            source: error.to_string().into(),
        };
        let http = || {
            let agent = concat!("macrame/", env!("CARGO_PKG_VERSION"));
            reqwest::Client::builder().user_agent(agent).connect_timeout(CONNECT_LIMIT).read_timeout(READ_LIMIT)
        };
        let bytes = http().build().map_err(|error| unusable(&error))?;
        let head = http().redirect(redirect::Policy::none()).build().map_err(|error| unusable(&error))?;
        let mut builder = HFClient::builder()
            .endpoint(&options.endpoint)
            .client(bytes)
            .cache_dir(cache.dir())
            .retry_max_attempts(REQUEST_RETRIES);
        if let Some(token) = &options.token {
            builder = builder.token(token.secret());
        }
        let client = builder.build().map_err(|error| unusable(&error))?;
        Ok(Self { options: Arc::new(options), cache, client, head })
    }

    pub fn cache(&self) -> &HubCache {
        &self.cache
    }

    pub(crate) async fn list(&self, repo: &RepoId) -> Result<Listing, StoreError> {
        let found = self.repository(repo).info().send().await.map_err(|error| self.explain(repo, error))?;
        let commit = found.sha.as_deref().and_then(|sha| sha.parse().ok());
        let commit = commit.ok_or_else(|| hub_error(repo, "it names no commit"))?;
        // Names that are no plain paths cannot be models; they are passed over, not refused, since they do no harm.
        let files =
            found.siblings.unwrap_or_default().iter().filter_map(|entry| entry.rfilename.parse().ok()).collect();
        Ok(Listing { commit, files })
    }

    /// Asks for a file's blob name and size, without its bytes.
    pub(crate) async fn look_up(
        &self,
        repo: &RepoId,
        commit: &Commit,
        file: &RepoFile,
    ) -> Result<RemoteFile, StoreError> {
        let address = format!("{}/{repo}/resolve/{}/{file}", self.options.endpoint, commit.as_str());
        let mut url = Url::parse(&address).map_err(|error| hub_error(repo, error))?;
        for _ in 0..REDIRECTS_MAX {
            let response = self.head_once(repo, url.clone()).await?;
            let headers = response.headers();
            let blob =
                header(headers, "x-linked-etag").or_else(|| header(headers, ETAG.as_str())).and_then(blob_of_etag);
            let size = header(headers, "x-linked-size").or_else(|| header(headers, "content-length"));
            if let (Some(blob), Some(Ok(size))) = (blob, size.map(str::parse)) {
                return Ok(RemoteFile { file: file.clone(), blob, size });
            }
            let next = header(headers, LOCATION.as_str()).filter(|_| response.status().is_redirection());
            let next = next.and_then(|location| url.join(location).ok()).filter(|next| next.host() == url.host());
            url = next.ok_or_else(|| hub_error(repo, format!("no hash and size of `{file}`")))?;
        }
        Err(hub_error(repo, format!("more than {REDIRECTS_MAX} redirects for `{file}`")))
    }

    /// The file's bytes from `start` on.
    pub(crate) async fn bytes(
        &self,
        repo: &RepoId,
        commit: &Commit,
        remote: &RemoteFile,
        start: u64,
    ) -> Result<impl Stream<Item = Result<impl AsRef<[u8]> + Send + 'static, StoreError>> + Send + Unpin, StoreError>
    {
        let repository = self.repository(repo);
        let request = repository.download_file_stream().filename(remote.file.as_str()).revision(commit.as_str());
        let (_, stream) = request.range(start..remote.size).send().await.map_err(|error| self.explain(repo, error))?;
        let (hub, repo) = (self.clone(), repo.clone());
        Ok(stream.map(move |chunk| chunk.map_err(|error| hub.explain(&repo, error))))
    }

    async fn head_once(&self, repo: &RepoId, url: Url) -> Result<Response, StoreError> {
        let request = self.head.head(url);
        let request = match &self.options.token {
            Some(token) => request.bearer_auth(token.secret()),
            None => request,
        };
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        match response.status().as_u16() {
            200..=399 => Ok(response),
            401 | 403 => Err(self.not_allowed(repo)),
            status => Err(hub_error(repo, format!("status {status}"))),
        }
    }

    fn repository(&self, repo: &RepoId) -> HFRepository<RepoTypeModel> {
        self.client.model(repo.org(), repo.name())
    }

    /// What an error of the hub means to whoever asked for a model. The enum is not ours and open to growth: what is
    /// not known by name here is told in its own words.
    #[expect(clippy::wildcard_enum_match_arm)]
    fn explain(&self, repo: &RepoId, error: HFError) -> StoreError {
        match error {
            HFError::RepoNotFound { .. } => StoreError::NoRepo { repo: repo.clone() },
            HFError::AuthRequired { .. } | HFError::Forbidden { .. } => self.not_allowed(repo),
            HFError::Request { source, .. } => self.unreachable(source),
            HFError::Io(source) => StoreError::Disk { action: "use", path: self.cache.dir().to_owned(), source },
            other => hub_error(repo, other),
        }
    }

    fn unreachable(&self, error: reqwest::Error) -> StoreError {
        // Without the address: it may be a signed one, and the endpoint is told already.
        StoreError::Unreachable { endpoint: self.options.endpoint.clone(), source: Box::new(error.without_url()) }
    }

    fn not_allowed(&self, repo: &RepoId) -> StoreError {
        let token = if self.options.token.is_some() { TokenState::Sent } else { TokenState::Absent };
        StoreError::NotAllowed { repo: repo.clone(), token }
    }
}

fn hub_error(repo: &RepoId, what: impl std::fmt::Display) -> StoreError {
    StoreError::Hub { repo: repo.clone(), what: what.to_string() }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// `"abc…"` or `W/"abc…"`.
fn blob_of_etag(etag: &str) -> Option<BlobId> {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_what_the_etag_quotes() {
        let sha = "ab".repeat(32);
        for etag in [sha.clone(), format!("\"{sha}\""), format!("W/\"{sha}\"")] {
            assert_eq!(blob_of_etag(&etag).expect("a blob").as_str(), sha);
        }
        assert_eq!(blob_of_etag("\"../../escape\""), None);
    }
}
