//! The models of this machine: what is here, what of it can run, and what is on its way.

mod downloads;
mod error;
mod inspected;
mod rate;

use std::path::PathBuf;
use std::sync::Arc;

use domain::{Bytes, ModelId, ModelSpec};
use store::{Hub, HubCache, HubOptions, Source, StoreError, StoredModel};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use downloads::Downloads;
pub use downloads::{DownloadState, DownloadStatus, TooManyDownloads};
pub use error::ModelError;
use inspected::Inspected;

/// The models of this machine. Cheap to clone.
#[derive(Clone)]
pub struct Models {
    cache: HubCache,
    inspected: Arc<Inspected>,
    downloads: Downloads,
}

/// A model on disk, and whether it can run.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelEntry {
    pub id: ModelId,
    pub size: Bytes,
    pub source: Source,
    /// What it is; or, in words, why the engine cannot run it.
    pub spec: Result<ModelSpec, String>,
}

impl Models {
    /// Models in the hub cache at `dir`, and downloads into it.
    pub fn new(dir: PathBuf, hub: HubOptions) -> Result<Self, StoreError> {
        Self::inspecting_by(dir, hub, Inspected::by_candle())
    }

    fn inspecting_by(dir: PathBuf, hub: HubOptions, inspected: Inspected) -> Result<Self, StoreError> {
        let cache = HubCache::new(dir);
        let hub = Hub::new(hub, cache.clone())?;
        Ok(Self { cache, inspected: Arc::new(inspected), downloads: Downloads::new(hub) })
    }

    /// Every model on disk, by id.
    pub async fn list(&self) -> Result<Vec<ModelEntry>, ModelError> {
        self.blocking(|models| {
            let entries = models.cache.list()?.into_iter().map(|stored| models.entry(&stored));
            Ok(entries.collect())
        })
        .await
    }

    /// What the model is, for planning.
    pub async fn spec(&self, model: ModelId) -> Result<ModelSpec, ModelError> {
        self.blocking(move |models| {
            let stored = models.cache.find(&model)?;
            models.inspected.spec(&stored).map_err(|obstacle| ModelError::Unusable { model, obstacle })
        })
        .await
    }

    /// The model's files, the one with the header first.
    pub async fn files(&self, model: ModelId) -> Result<Vec<PathBuf>, ModelError> {
        self.blocking(move |models| Ok(models.cache.find(&model)?.files)).await
    }

    /// Takes a local GGUF file into the cache, as a model of that repository (`org/name`).
    pub async fn adopt(&self, repo: store::RepoId, file: PathBuf) -> Result<ModelEntry, ModelError> {
        self.blocking(move |models| Ok(models.entry(&models.cache.adopt(&repo, &file)?))).await
    }

    /// Deletes the model's files. Returns the bytes freed.
    pub async fn delete(&self, model: ModelId) -> Result<Bytes, ModelError> {
        self.blocking(move |models| Ok(models.cache.delete(&model)?)).await
    }

    /// Begins to download the model, or takes part in the download that is under way.
    pub fn download(&self, model: ModelId) -> Result<(), TooManyDownloads> {
        self.downloads.start(model).map(|_| ())
    }

    /// The model's files, downloaded if they are not here. A model that is here needs no hub.
    pub async fn fetch(&self, model: ModelId) -> Result<StoredModel, ModelError> {
        let wanted = model.clone();
        match self.blocking(move |models| Ok(models.cache.find(&wanted)?)).await {
            Ok(stored) => Ok(stored),
            Err(ModelError::Store(error)) if matches!(*error, StoreError::NotHere { .. }) => {
                self.downloads.fetch(model).await
            }
            Err(error) => Err(error),
        }
    }

    /// Stops the download for all who take part in it, or forgets a failed one. What has come is kept for the next
    /// try. Whether there was one.
    pub fn cancel_download(&self, model: &ModelId) -> bool {
        self.downloads.cancel(model)
    }

    /// Downloads under way, and those that failed and have not been begun again, by model.
    pub fn downloads(&self) -> Vec<DownloadState> {
        self.downloads.states()
    }

    /// Grows when [`Self::downloads`] changes, at most some times a second.
    pub fn downloads_changed(&self) -> watch::Receiver<u64> {
        self.downloads.changed()
    }

    fn entry(&self, stored: &StoredModel) -> ModelEntry {
        let spec = self.inspected.spec(stored);
        ModelEntry { id: stored.id.clone(), size: stored.size, source: stored.source, spec }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ModelError> + Send + 'static,
    ) -> Result<T, ModelError> {
        let models = self.clone();
        spawn_blocking(move || work(&models)).await.map_err(|_| ModelError::Stopping)?
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::{Architecture, TokenCount};
    use store::Access;

    use super::*;

    fn offline() -> HubOptions {
        HubOptions {
            endpoint: "http://127.0.0.1:9".to_owned(),
            token: None,
            access: Access::Offline,
            retry_pause: Duration::from_millis(1),
        }
    }

    fn spec(stored: &StoredModel) -> Result<ModelSpec, String> {
        if stored.id.as_str().contains("odd") {
            return Err("the engine has no architecture `odd`".to_owned());
        }
        Ok(ModelSpec {
            id: stored.id.clone(),
            architecture: Architecture::Llama,
            quantisation: "Q4_0".to_owned(),
            layer_bytes: vec![Bytes::new(1)],
            embedding_bytes: Bytes::new(1),
            head_bytes: Bytes::new(1),
            tied_embeddings: false,
            hidden_size: 1,
            n_kv_heads: 1,
            head_dim: 1,
            vocab_size: 1,
            context_max: TokenCount(1),
        })
    }

    #[tokio::test]
    async fn what_cannot_run_is_listed_with_its_reason() {
        let dir = tempfile::tempdir().expect("a folder");
        let models = Models::inspecting_by(dir.path().join("hub"), offline(), Inspected::by(spec)).expect("models");
        for name in ["plain", "odd"] {
            let file = dir.path().join("m.gguf");
            std::fs::write(&file, format!("GGUF {name}")).expect("a file");
            let repo = format!("org/{name}").parse().expect("a repository");
            models.adopt(repo, file).await.expect("adopted");
        }
        let listed = models.list().await.expect("listed");
        let shown: Vec<_> = listed.iter().map(|entry| (entry.id.as_str(), entry.spec.is_ok())).collect();
        assert_eq!(shown, [("org/odd", false), ("org/plain", true)]);
        let odd = models.spec("org/odd".parse().expect("an id")).await.expect_err("cannot run");
        assert_eq!(odd.to_string(), "`org/odd` cannot run: the engine has no architecture `odd`");
        let files = models.files("org/plain".parse().expect("an id")).await.expect("files");
        assert!(files[0].is_file());
        assert_eq!(models.delete("org/plain".parse().expect("an id")).await.expect("deleted"), Bytes::new(10));
    }

    #[tokio::test]
    async fn a_model_that_is_here_needs_no_hub() {
        let dir = tempfile::tempdir().expect("a folder");
        let models = Models::inspecting_by(dir.path().join("hub"), offline(), Inspected::by(spec)).expect("models");
        let file = dir.path().join("m.gguf");
        std::fs::write(&file, "GGUF").expect("a file");
        let adopted = models.adopt("org/name".parse().expect("a repository"), file).await.expect("adopted");
        assert_eq!(models.fetch(adopted.id.clone()).await.expect("here").id, adopted.id);
        assert_eq!(models.downloads(), []);
    }

    #[tokio::test]
    async fn a_failed_download_stays_to_be_read_until_it_is_dismissed() {
        let dir = tempfile::tempdir().expect("a folder");
        let models = Models::inspecting_by(dir.path().to_owned(), offline(), Inspected::by(spec)).expect("models");
        let id: ModelId = "org/name".parse().expect("an id");
        let mut changed = models.downloads_changed();
        models.download(id.clone()).expect("begun");
        let error = models.fetch(id.clone()).await.expect_err("offline");
        assert!(matches!(&error, ModelError::Store(error) if matches!(**error, StoreError::Offline { .. })), "{error}");
        changed.changed().await.expect("told");
        let states = models.downloads();
        assert!(matches!(&states[..], [state] if matches!(state.status, DownloadStatus::Failed { .. })), "{states:?}");
        assert!(models.cancel_download(&id));
        assert_eq!(models.downloads(), []);
        assert!(!models.cancel_download(&id));
    }
}
