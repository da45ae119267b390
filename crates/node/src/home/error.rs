//! What can be wrong with a node's folder.

use std::io;
use std::path::PathBuf;

use domain::{Hint, Hints};

#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("the home `{path}` is in use by another node{}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error("cannot {action} `{path}`")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("other users can read `{path}` (rights {mode:o}), and its rights cannot be changed")]
    Exposed { path: PathBuf, mode: u32, source: io::Error },
    #[error("`{path}` is damaged: {why}")]
    Damaged { path: PathBuf, why: String },
    #[error("`{path}` has format {found}, and this version knows up to {known}")]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("{n_paired} nodes are paired already, the most there can be")]
    BookFull { n_paired: usize },
    #[error("no new node key could be made")]
    NoKey(#[source] transport::IdentityError),
}

impl HomeError {
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    pub(super) fn damaged(path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self::Damaged { path: path.into(), why: why.to_string() }
    }
}

impl Hint for HomeError {
    fn hints(&self) -> Hints {
        match self {
            Self::InUse { .. } => {
                vec!["use that node, quit it, or give this one a folder of its own with `--home`".to_owned()]
            }
            Self::Io { path, .. } => {
                vec![format!("see that this user may write `{}` and that its disk is not full", path.display())]
            }
            Self::Exposed { path, .. } => {
                vec![format!(
                    "run `chmod go= '{}'` as its owner, or choose another folder with `--home`",
                    path.display()
                )]
            }
            Self::Damaged { path, .. } => match path.file_name().and_then(|name| name.to_str()) {
                Some(super::BOOT_FILE) => vec![
                    "write a number into it that is higher than all before, `date +%s > …/boot` say: \
                     other nodes ignore one that counts from the start again"
                        .to_owned(),
                ],
                Some(super::KEY_FILE) => {
                    vec!["restore it from a backup; without it, move it away and pair this node again".to_owned()]
                }
                Some(_) | None => {
                    vec![
                        "restore it from a backup, or move it away: nodes named only there must be paired again"
                            .to_owned(),
                    ]
                }
            },
            Self::Newer { .. } => vec!["update Macramé on this machine".to_owned()],
            Self::BookFull { .. } => vec!["remove nodes that are gone, `macrame nodes` lists them".to_owned()],
            Self::NoKey(_) => vec!["the system's random source failed; start again".to_owned()],
        }
    }
}
