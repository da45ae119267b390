//! What can go wrong with a model, and the way out of it.

use std::sync::Arc;

use domain::{Hint, Hints, ModelId};
use store::StoreError;

use super::TooManyDownloads;

#[derive(Clone, Debug, thiserror::Error)]
pub enum ModelError {
    /// Shared by all who waited for one download.
    #[error(transparent)]
    Store(Arc<StoreError>),
    #[error("`{model}` cannot run: {obstacle}")]
    Unusable { model: ModelId, obstacle: String },
    #[error(transparent)]
    TooMany(#[from] TooManyDownloads),
    #[error("the download of `{model}` was cancelled")]
    Cancelled { model: ModelId },
    #[error("the node is stopping")]
    Stopping,
}

impl ModelError {
    /// Stable, for whoever acts on the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Unusable { .. } => "model_unusable",
            Self::TooMany(_) => "too_many_downloads",
            Self::Cancelled { .. } => "download_cancelled",
            Self::Stopping => "stopping",
        }
    }
}

impl From<StoreError> for ModelError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl Hint for ModelError {
    fn hints(&self) -> Hints {
        match self {
            Self::Store(error) => error.hints(),
            Self::Unusable { .. } => vec!["take another model, or another build of this one".to_owned()],
            Self::TooMany(_) => vec!["wait for one to end, or cancel one".to_owned()],
            Self::Cancelled { .. } => vec!["begin it again: what had come is kept".to_owned()],
            Self::Stopping => Vec::new(),
        }
    }
}
