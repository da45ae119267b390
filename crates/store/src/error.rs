//! What can go wrong with models on disk and on the hub, and the way out of it.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use domain::{Bytes, Hint, Hints, ModelId};

use crate::{BadName, RepoId};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("model `{model}` is not in `{}`", .folder.display())]
    NotHere { model: ModelId, folder: PathBuf },
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error("`{}` is not a GGUF file", .path.display())]
    NotGguf { path: PathBuf },
    #[error("cannot {action} `{}`", .path.display())]
    Disk { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{file}` needs {needed} of disk; `{}` has {free} free", .folder.display())]
    DiskFull { file: String, needed: Bytes, free: Bytes, folder: PathBuf },
    #[error("downloads are switched off by `HF_HUB_OFFLINE`, and `{model}` is not on this machine")]
    Offline { model: ModelId },
    #[error("the hub at `{endpoint}` cannot be reached")]
    Unreachable { endpoint: String, source: Box<dyn Error + Send + Sync> },
    #[error("the hub has no repository `{repo}`")]
    NoRepo { repo: RepoId },
    #[error("`{repo}` has no GGUF file `{file}`")]
    NoFile { repo: RepoId, file: String, has: Vec<String> },
    #[error("`{repo}` holds no GGUF file")]
    NoGguf { repo: RepoId },
    #[error("the hub does not let this user read `{repo}`")]
    NotAllowed { repo: RepoId, token: TokenState },
    #[error("the hub answered unexpectedly about `{repo}`: {what}")]
    Hub { repo: RepoId, what: String },
    #[error("the bytes of `{file}` are not those the hub announced: expected {expected}, got {got}")]
    WrongBytes { file: String, expected: String, got: String },
    #[error("another program has been downloading `{file}` for the last {waited_secs} s")]
    Locked { file: String, waited_secs: u64 },
}

/// Whether a request carried a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenState {
    Sent,
    Absent,
}

impl StoreError {
    /// Stable, for whoever acts on the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotHere { .. } => "model_not_found",
            Self::BadName(_) => "bad_model_name",
            Self::NotGguf { .. } => "not_gguf",
            Self::Disk { .. } => "disk_error",
            Self::DiskFull { .. } => "disk_full",
            Self::Offline { .. } => "hub_offline",
            Self::Unreachable { .. } => "hub_unreachable",
            Self::NoRepo { .. } | Self::NoFile { .. } | Self::NoGguf { .. } => "not_on_hub",
            Self::NotAllowed { .. } => "hub_not_allowed",
            Self::Hub { .. } => "hub_error",
            Self::WrongBytes { .. } => "wrong_bytes",
            Self::Locked { .. } => "download_locked",
        }
    }

    pub(crate) fn disk(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Disk { action, path, source }
    }
}

impl Hint for StoreError {
    fn hints(&self) -> Hints {
        match self {
            Self::NotHere { model, .. } => vec![
                format!("get it: `macrame pull {model}`"),
                "see which models are here: `macrame models`".to_owned(),
            ],
            Self::BadName(_) => vec!["name a model of the hub, `org/name` or `org/name:file.gguf`".to_owned()],
            Self::NotGguf { .. } => vec!["give a model file that ends in `.gguf`".to_owned()],
            Self::Disk { path, .. } => vec![format!("see that `{}` exists and is yours to write", path.display())],
            Self::DiskFull { needed, free, .. } => vec![
                format!("free {} there", *needed - *free),
                "keep models on another disk: set `HF_HUB_CACHE` to a folder of it".to_owned(),
            ],
            Self::Offline { .. } => vec!["unset `HF_HUB_OFFLINE` and try again".to_owned()],
            Self::Unreachable { .. } => vec![
                "see that this machine is on the internet; behind a proxy, set `HTTPS_PROXY`".to_owned(),
                "use a mirror: set `HF_ENDPOINT`".to_owned(),
                "what was already downloaded is kept: try again later".to_owned(),
            ],
            Self::NoRepo { .. } => vec!["check the name on huggingface.co".to_owned()],
            Self::NoFile { repo, has, .. } => {
                has.iter().take(NAMES_SHOWN_MAX).map(|file| format!("it has `{repo}:{file}`")).collect()
            }
            Self::NoGguf { repo } => {
                vec![format!("look for a GGUF build of it: search `{} GGUF` on the hub", repo.name())]
            }
            Self::NotAllowed { repo, token: TokenState::Absent } => vec![
                "check the name: the hub answers the same for a repository that does not exist".to_owned(),
                format!("if it is gated, ask for access at huggingface.co/{repo} and set `HF_TOKEN`"),
            ],
            Self::NotAllowed { repo, token: TokenState::Sent } => {
                vec![format!("ask for access at huggingface.co/{repo}, or use another `HF_TOKEN`")]
            }
            Self::Hub { .. } => vec!["try again in a minute; what was already downloaded is kept".to_owned()],
            Self::WrongBytes { .. } => {
                vec![
                    "try again: the bad bytes were thrown away; a proxy between here and the hub may alter them"
                        .to_owned(),
                ]
            }
            Self::Locked { .. } => vec!["wait for the other program to finish, or end it".to_owned()],
        }
    }
}

/// Files named in the hints of one error: as many as a terminal shows without scrolling the error away.
const NAMES_SHOWN_MAX: usize = 12;
