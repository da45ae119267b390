//! Downloads a model: which files, then their bytes, then their names in the cache.
//!
//! The future is the download: dropping it cancels. What has come stays on disk, and the next try goes on from there.

use domain::{Bytes, ModelId};
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::gguf::{self, GgufModel};
use crate::hub::{Hub, Listing, RemoteFile};
use crate::names::{Commit, RepoFile, split_model_id};
use crate::partial::{Opened, Partial};
use crate::{Access, RepoId, StoreError, StoredModel};

/// How far a download is, over all files of the model, what lay here already included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub done: Bytes,
    pub total: Bytes,
}

/// New tries after a broken connection that brought nothing. One that brought bytes starts the count anew.
const TRIES_MAX: u32 = 5;
/// Pieces that wait for the disk. A piece is some 16 KiB; a slow disk then slows the network, not fills the memory.
const CHUNKS_WAITING_MAX: usize = 64;

impl Hub {
    /// Makes the model be on this machine, and says how far it is whenever bytes have come.
    ///
    /// `org/name` alone takes the repository's model of the usual balance of size and quality. A model that is here
    /// already at the hub's newest commit costs a question to the hub and no bytes.
    pub async fn download(
        &self,
        model: &ModelId,
        on_progress: impl Fn(Progress) + Send + Sync,
    ) -> Result<StoredModel, StoreError> {
        let (repo, wanted) = split_model_id(model)?;
        if self.options.access == Access::Offline {
            let here = self.find(model.clone()).await;
            return here.map_err(|_| StoreError::Offline { model: model.clone() });
        }
        let Listing { commit, files } = self.list(&repo).await?;
        let chosen = choose(&repo, wanted.as_ref(), files)?;
        let mut remotes = Vec::with_capacity(chosen.parts.len());
        for file in &chosen.parts {
            remotes.push(self.look_up(&repo, &commit, file).await?);
        }
        let total = remotes.iter().map(|remote| Bytes::new(remote.size)).sum();
        let mut before = Bytes::ZERO;
        for remote in &remotes {
            let told = |len: u64| on_progress(Progress { done: before + Bytes::new(len), total });
            told(0);
            self.fetch(&repo, &commit, remote, &told).await?;
            before += Bytes::new(remote.size);
        }
        on_progress(Progress { done: total, total });
        self.name(&repo, commit, remotes).await?;
        let id = format!("{repo}:{}", chosen.name());
        let id = id
            .parse()
            .map_err(|_| StoreError::NotHere { model: model.clone(), folder: self.cache.dir().to_owned() })?;
        self.find(id).await
    }

    /// Brings one blob, over as many connections as it takes.
    async fn fetch(
        &self,
        repo: &RepoId,
        commit: &Commit,
        remote: &RemoteFile,
        told: &(impl Fn(u64) + Send + Sync),
    ) -> Result<(), StoreError> {
        let (folder, wanted) = (self.cache.folder(repo), remote.clone());
        let name = format!("{repo}:{}", remote.file);
        let opened = blocking(move || Partial::open(&folder, &wanted.blob, &name, wanted.size)).await?;
        let mut partial = match opened {
            Opened::Whole => return Ok(()),
            Opened::Partial(partial) => partial,
        };
        let mut may_begin_again = partial.len() > 0;
        loop {
            partial = self.fill(repo, commit, remote, partial, told).await?;
            match blocking_infallible(move || partial.finish()).await? {
                Ok(()) => return Ok(()),
                // What an earlier try left may be what is wrong: once, all of it is fetched anew.
                Err((emptied, StoreError::WrongBytes { .. })) if may_begin_again => {
                    tracing::warn!(%repo, file = %remote.file, "the bytes left by an earlier download were wrong: beginning again");
                    partial = emptied;
                    may_begin_again = false;
                }
                Err((_, error)) => return Err(error),
            }
        }
    }

    /// Adds bytes until all are there.
    async fn fill(
        &self,
        repo: &RepoId,
        commit: &Commit,
        remote: &RemoteFile,
        mut partial: Box<Partial>,
        told: &(impl Fn(u64) + Send + Sync),
    ) -> Result<Box<Partial>, StoreError> {
        let mut tries = 0;
        while partial.len() < remote.size {
            let start = partial.len();
            told(start);
            let (filled, end) = self.stream(repo, commit, remote, partial, told).await?;
            partial = filled;
            match end {
                Ok(()) if partial.len() == remote.size => {}
                // A connection that ended early, by an error or without one.
                end => {
                    tries = if partial.len() > start { 1 } else { tries + 1 };
                    if let (Err(error), true) = (end, tries >= TRIES_MAX) {
                        return Err(error);
                    }
                    if tries >= TRIES_MAX {
                        let got = format!("{} bytes and no more", partial.len());
                        let expected = format!("{} bytes", remote.size);
                        return Err(StoreError::WrongBytes { file: remote.file.to_string(), expected, got });
                    }
                    tracing::info!(%repo, file = %remote.file, bytes = partial.len(), "download interrupted: going on");
                    tokio::time::sleep(self.options.retry_pause * 2_u32.pow(tries - 1)).await;
                }
            }
        }
        Ok(partial)
    }

    /// One connection's bytes. The inner result is the network's, the outer the disk's.
    async fn stream(
        &self,
        repo: &RepoId,
        commit: &Commit,
        remote: &RemoteFile,
        partial: Box<Partial>,
        told: &(impl Fn(u64) + Send + Sync),
    ) -> Result<(Box<Partial>, Result<(), StoreError>), StoreError> {
        let mut len = partial.len();
        let mut stream = match self.bytes(repo, commit, remote, len).await {
            Ok(stream) => stream,
            Err(error @ (StoreError::Unreachable { .. } | StoreError::Hub { .. })) => return Ok((partial, Err(error))),
            Err(error) => return Err(error),
        };
        let (chunks, waiting) = mpsc::channel(CHUNKS_WAITING_MAX);
        let writer = spawn_blocking(move || write(partial, waiting));
        let mut end = Ok(());
        while let Some(chunk) = stream.next().await {
            match chunk {
                Ok(chunk) => {
                    len += chunk.as_ref().len() as u64;
                    if chunks.send(chunk).await.is_err() {
                        // The writer has stopped; its result says why.
                        break;
                    }
                    told(len.min(remote.size));
                }
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
        }
        drop(chunks);
        let partial = writer.await.map_err(|error| task_failed(&error))??;
        Ok((partial, end))
    }

    /// Gives the blobs their names in the snapshot, and `main` its commit.
    async fn name(&self, repo: &RepoId, commit: Commit, remotes: Vec<RemoteFile>) -> Result<(), StoreError> {
        let folder = self.cache.folder(repo);
        blocking(move || {
            for remote in &remotes {
                folder.point(&commit, &remote.file, &remote.blob)?;
            }
            folder.set_main_commit(&commit)
        })
        .await
    }

    async fn find(&self, model: ModelId) -> Result<StoredModel, StoreError> {
        let cache = self.cache.clone();
        blocking(move || cache.find(&model)).await
    }
}

/// The model that was asked for, among the files of its repository.
fn choose(repo: &RepoId, wanted: Option<&RepoFile>, files: Vec<RepoFile>) -> Result<GgufModel, StoreError> {
    let models = gguf::models(files);
    match wanted {
        None => gguf::preferred(&models).cloned().ok_or_else(|| StoreError::NoGguf { repo: repo.clone() }),
        Some(file) => models.iter().find(|model| model.name() == file.as_str()).cloned().ok_or_else(|| {
            let has = models.iter().map(|model| model.name().to_owned()).collect();
            StoreError::NoFile { repo: repo.clone(), file: file.to_string(), has }
        }),
    }
}

/// Writes what comes until no more does. When the download is dropped, so is the sender, and this ends.
fn write(mut partial: Box<Partial>, mut waiting: mpsc::Receiver<impl AsRef<[u8]>>) -> Result<Box<Partial>, StoreError> {
    while let Some(chunk) = waiting.blocking_recv() {
        match partial.append(chunk.as_ref()) {
            Ok(()) => {}
            Err(error @ StoreError::WrongBytes { .. }) => {
                partial.restart()?;
                return Err(error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(partial)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    blocking_infallible(work).await?
}

async fn blocking_infallible<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    spawn_blocking(work).await.map_err(|error| task_failed(&error))
}

/// The runtime is ending, or a bug: neither leaves anything to go on with.
fn task_failed(error: &tokio::task::JoinError) -> StoreError {
    StoreError::Disk {
        action: "finish work on",
        path: "the cache".into(),
        source: std::io::Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::HubCache;
    use crate::error::TokenState;
    use crate::fake_hub::{COMMIT, FakeHub, Fault};

    const MODEL_BYTES: usize = 1 << 20;

    fn model_bytes() -> Vec<u8> {
        b"GGUF".iter().copied().chain((0..MODEL_BYTES - 4).map(|idx| (idx % 251) as u8)).collect()
    }

    /// A hub that holds `org/name` with one file, and a cache that is empty.
    async fn hub() -> (FakeHub, Hub, tempfile::TempDir) {
        let fake = FakeHub::start(&[("m-Q4_K_M.gguf", &model_bytes()), ("README.md", b"words")]).await;
        let (hub, dir) = hub_at(&fake);
        (fake, hub, dir)
    }

    fn hub_at(fake: &FakeHub) -> (Hub, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = HubCache::new(dir.path().to_owned());
        (Hub::new(fake.options(), cache).expect("a hub"), dir)
    }

    async fn download(hub: &Hub, id: &str) -> Result<StoredModel, StoreError> {
        let id = model(id);
        hub.download(&id, |_| {}).await
    }

    fn model(id: &str) -> ModelId {
        id.parse().expect("an id")
    }

    #[tokio::test]
    async fn a_download_lies_as_the_hubs_library_would_leave_it_and_progress_grows() {
        let (fake, hub, dir) = hub().await;
        let told = Mutex::new(Vec::new());
        let id = "org/name".parse().expect("an id");
        let model = hub.download(&id, |progress| told.lock().expect("told").push(progress)).await.expect("downloaded");
        assert_eq!(model.id.as_str(), "org/name");
        assert_eq!(std::fs::read(&model.files[0]).expect("the bytes"), model_bytes());
        let folder = dir.path().join("models--org--name");
        assert!(model.files[0].starts_with(folder.join("snapshots").join(COMMIT)));
        assert_eq!(std::fs::read_to_string(folder.join("refs/main")).expect("a ref"), COMMIT);
        let told = told.into_inner().expect("told");
        assert!(told.len() > 3, "told {} times", told.len());
        assert!(told.windows(2).all(|pair| pair[0].done <= pair[1].done), "never backwards");
        assert!(told.iter().all(|progress| progress.total == Bytes::new(MODEL_BYTES as u64)));
        assert_eq!(told.last().map(|progress| progress.done), Some(Bytes::new(MODEL_BYTES as u64)));
        fake.take_starts();
        download(&hub, "org/name").await.expect("here already");
        assert!(fake.take_starts().is_empty(), "no byte is fetched twice");
    }

    #[tokio::test]
    async fn a_cut_connection_is_taken_up_where_it_was_cut() {
        let (fake, hub, _dir) = hub().await;
        fake.misbehave(Fault::CutAfter(300 << 10));
        let model = download(&hub, "org/name").await.expect("over several connections");
        assert_eq!(std::fs::read(&model.files[0]).expect("the bytes"), model_bytes());
        let starts = fake.take_starts();
        assert!(starts.len() >= 4 && starts[0] == 0 && starts.is_sorted(), "{starts:?}");
        assert!(starts[1..].iter().all(|&start| start > 0), "{starts:?}");
    }

    #[tokio::test]
    async fn a_dropped_download_stops_and_the_next_one_goes_on_from_there() {
        let (fake, hub, dir) = hub().await;
        fake.misbehave(Fault::StallAfter(512 << 10));
        let dropped = tokio::time::timeout(Duration::from_millis(500), download(&hub, "org/name")).await;
        assert!(dropped.is_err(), "the hub stalls");
        assert_eq!(HubCache::new(dir.path().to_owned()).list().expect("models"), [], "half a model is no model");
        fake.take_starts();
        fake.misbehave(Fault::None);
        let model = download(&hub, "org/name").await.expect("downloaded");
        assert_eq!(std::fs::read(&model.files[0]).expect("the bytes"), model_bytes());
        let starts = fake.take_starts();
        assert!(starts.len() == 1 && starts[0] > 0, "{starts:?}");
    }

    #[tokio::test]
    async fn what_the_hub_says_no_to_is_said_with_its_reason() {
        let (fake, hub, _dir) = hub().await;
        let missing = download(&hub, "org/name:other.gguf").await.expect_err("no such file");
        assert!(matches!(&missing, StoreError::NoFile { has, .. } if has == &["m-Q4_K_M.gguf"]), "{missing}");
        assert!(matches!(download(&hub, "org/elsewhere").await, Err(StoreError::NoRepo { .. })));
        fake.misbehave(Fault::Status(401));
        let gated = download(&hub, "org/name").await.expect_err("gated");
        assert!(matches!(gated, StoreError::NotAllowed { token: TokenState::Absent, .. }), "{gated}");
        fake.misbehave(Fault::Status(500));
        assert!(matches!(download(&hub, "org/name").await, Err(StoreError::Hub { .. })));
    }

    #[tokio::test]
    async fn a_repository_without_a_model_says_so() {
        let fake = FakeHub::start(&[("model.safetensors", b"weights")]).await;
        let (hub, _dir) = hub_at(&fake);
        assert!(matches!(download(&hub, "org/name").await, Err(StoreError::NoGguf { .. })));
    }

    #[tokio::test]
    async fn bytes_that_are_not_those_announced_are_thrown_away() {
        let (fake, hub, dir) = hub().await;
        for fault in [Fault::FlipBytes, Fault::AnnounceMore(10)] {
            fake.misbehave(fault.clone());
            let error = download(&hub, "org/name").await.expect_err("wrong bytes");
            assert!(matches!(error, StoreError::WrongBytes { .. } | StoreError::Hub { .. }), "{fault:?}: {error}");
            assert_eq!(HubCache::new(dir.path().to_owned()).list().expect("models"), []);
        }
        fake.misbehave(Fault::None);
        download(&hub, "org/name").await.expect("and a later try is not harmed");
    }

    #[tokio::test]
    async fn wrong_bytes_of_an_earlier_try_are_replaced_without_being_asked() {
        let (fake, hub, dir) = hub().await;
        fake.misbehave(Fault::StallAfter(512 << 10));
        let _ = tokio::time::timeout(Duration::from_millis(500), download(&hub, "org/name")).await;
        let blobs = dir.path().join("models--org--name/blobs");
        let incomplete = std::fs::read_dir(&blobs).expect("blobs").flatten().next().expect("a partial").path();
        std::fs::write(&incomplete, vec![7; 100 << 10]).expect("other bytes");
        fake.misbehave(Fault::None);
        let model = download(&hub, "org/name").await.expect("fetched anew");
        assert_eq!(std::fs::read(&model.files[0]).expect("the bytes"), model_bytes());
    }

    #[tokio::test]
    async fn a_server_that_ignores_where_to_begin_does_no_harm() {
        let (fake, hub, _dir) = hub().await;
        fake.misbehave(Fault::StallAfter(512 << 10));
        let _ = tokio::time::timeout(Duration::from_millis(500), download(&hub, "org/name")).await;
        fake.misbehave(Fault::IgnoreRange);
        assert!(matches!(download(&hub, "org/name").await, Err(StoreError::WrongBytes { .. })));
        let model = download(&hub, "org/name").await.expect("from the beginning");
        assert_eq!(std::fs::read(&model.files[0]).expect("the bytes"), model_bytes());
    }

    #[tokio::test]
    async fn offline_asks_nobody() {
        let (fake, hub, _dir) = hub().await;
        let options = crate::HubOptions { access: Access::Offline, ..fake.options() };
        let offline = Hub::new(options, hub.cache().clone()).expect("a hub");
        assert!(matches!(download(&offline, "org/name").await, Err(StoreError::Offline { .. })));
        download(&hub, "org/name").await.expect("downloaded");
        assert_eq!(download(&offline, "org/name").await.expect("here").id.as_str(), "org/name");
    }

    #[tokio::test]
    async fn no_hub_at_all_is_unreachable() {
        let (fake, hub, _dir) = hub().await;
        let options = crate::HubOptions { endpoint: "http://127.0.0.1:9".to_owned(), ..fake.options() };
        let nowhere = Hub::new(options, hub.cache().clone()).expect("a hub");
        assert!(matches!(download(&nowhere, "org/name").await, Err(StoreError::Unreachable { .. })));
    }
}
