//! What can go wrong with the chats' file, and the way out of it.

use std::path::{Path, PathBuf};

use domain::{Hint, Hints};
use rusqlite::ErrorCode;

use super::BadChat;

#[derive(Debug, thiserror::Error)]
pub enum ChatsError {
    #[error(transparent)]
    Bad(#[from] BadChat),
    #[error("the chats' file `{}` is damaged", .path.display())]
    Damaged { path: PathBuf, source: rusqlite::Error },
    #[error("the chats' file `{}` is of version {found}, written by a newer Macramé; this one reads up to {known}", .path.display())]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("the disk that holds the chats' file `{}` is full", .path.display())]
    DiskFull { path: PathBuf },
    #[error("the chats' file `{}` cannot be used", .path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error("the chats' file `{}` cannot be made", .path.display())]
    Create { path: PathBuf, source: std::io::Error },
    #[error("the node is stopping")]
    Stopping,
}

impl ChatsError {
    pub(super) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged { path, source },
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            Some(_) | None => Self::Sqlite { path, source },
        }
    }
}

impl Hint for ChatsError {
    fn hints(&self) -> Hints {
        match self {
            Self::Bad(_) => vec!["begin a new chat".to_owned()],
            Self::Damaged { path, .. } => vec![
                format!(
                    "nothing was changed; read out what is left: `sqlite3 '{0}' .recover | sqlite3 rescued.db`",
                    path.display()
                ),
                format!(
                    "or move `{}` and the `-wal` file beside it away, and start again with no chats",
                    path.display()
                ),
            ],
            Self::Newer { .. } => vec!["update Macramé on this machine".to_owned()],
            Self::DiskFull { .. } => vec!["free some space there; what was kept is still kept".to_owned()],
            Self::Sqlite { path, .. } | Self::Create { path, .. } => {
                vec![format!("see that `{}` and its folder are yours to read and write", path.display())]
            }
            Self::Stopping => Vec::new(),
        }
    }
}
