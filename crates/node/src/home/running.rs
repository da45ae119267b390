//! `api.json`: how the command line finds the node that runs from a home, and its API.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::HomeError;
use super::files::{read_private, write_private};
use super::lock::HomeLock;

const API_FILE: &str = "api.json";
const LEN_MAX: usize = 4 << 10;

/// Where a running node's API listens: the content of the file, which only its user can read.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningApi {
    pub url: String,
    /// What the control routes ask for.
    pub token: String,
    pub pid: u32,
}

impl fmt::Debug for RunningApi {
    /// Tokens do not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningApi").field("url", &self.url).field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// The written `api.json`; removed when this value is dropped.
#[derive(Debug)]
pub struct ApiFile {
    path: PathBuf,
}

impl ApiFile {
    pub(super) fn write(home: &Path, url: &str, token: &str) -> Result<Self, HomeError> {
        let path = home.join(API_FILE);
        let json = RunningApi { url: url.to_owned(), token: token.to_owned(), pid: std::process::id() };
        let content = serde_json::to_vec_pretty(&json).map_err(|error| HomeError::damaged(&path, error))?;
        write_private(&path, &content)?;
        Ok(Self { path })
    }
}

impl Drop for ApiFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "could not be removed");
        }
    }
}

/// The API of the node that runs from this home; `None` if none runs, or none that has opened its API yet. A file
/// that a killed node left behind does not count: nobody holds its lock.
pub fn running_api(home: &Path) -> Result<Option<RunningApi>, HomeError> {
    if !HomeLock::is_held(home)? {
        return Ok(None);
    }
    let path = home.join(API_FILE);
    let Some(content) = read_private(&path, LEN_MAX)? else { return Ok(None) };
    serde_json::from_slice(&content).map(Some).map_err(|error| HomeError::damaged(&path, error))
}
