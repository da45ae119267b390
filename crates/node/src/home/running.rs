//! `api.json`: how the command line finds the node that runs from a home, and its API.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{read_private, write_private};
use super::lock::HomeLock;
use super::{HomeError, TOKEN_LEN};

const API_FILE: &str = "api.json";
const LEN_MAX: usize = 4 << 10;

#[derive(Serialize, Deserialize)]
struct ApiJson {
    url: String,
    token_file: PathBuf,
    pid: u32,
}

/// Where a running node's API listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningApi {
    pub url: String,
    /// What the control routes ask for.
    pub token: String,
    pub pid: u32,
}

/// The written `api.json`; removed when this value is dropped.
#[derive(Debug)]
pub struct ApiFile {
    path: PathBuf,
}

impl ApiFile {
    pub(super) fn write(home: &Path, url: &str, token_file: &Path) -> Result<Self, HomeError> {
        let path = home.join(API_FILE);
        let json = ApiJson { url: url.to_owned(), token_file: token_file.to_owned(), pid: std::process::id() };
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
    let json: ApiJson = serde_json::from_slice(&content).map_err(|error| HomeError::damaged(&path, error))?;
    let Some(token) = read_private(&json.token_file, TOKEN_LEN)? else {
        return Err(HomeError::damaged(&path, format!("`{}` is missing", json.token_file.display())));
    };
    let token = String::from_utf8_lossy(&token).into_owned();
    Ok(Some(RunningApi { url: json.url, token, pid: json.pid }))
}
