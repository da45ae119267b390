//! Downloads under way: each once, however many ask for it, each to be watched and stopped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use domain::{Bytes, BytesPerSec, Hint, Hints, ModelId};
use store::{Hub, Progress, StoreError, StoredModel};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use super::ModelError;
use super::rate::{Noted, Rate};

/// Downloads that run at the same time; others wait. Two fill any line, and more only make each later.
const RUNNING_MAX: usize = 2;
/// Downloads begun and not ended. More is a mistake of a script.
const WAITING_MAX: usize = 32;

/// A download as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct DownloadState {
    pub model: ModelId,
    pub done: Bytes,
    /// Zero until the hub has said.
    pub total: Bytes,
    pub rate: BytesPerSec,
    pub status: DownloadStatus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadStatus {
    Running,
    Failed { error: String, hints: Hints },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{n_waiting} downloads are under way already, and no more than {WAITING_MAX} may")]
pub struct TooManyDownloads {
    n_waiting: usize,
}

/// The downloads of one cache. Cheap to clone; when the last clone goes, they all stop.
#[derive(Clone)]
pub(super) struct Downloads {
    inner: Arc<Inner>,
}

struct Inner {
    hub: Hub,
    running: Arc<Semaphore>,
    entries: Mutex<BTreeMap<ModelId, Entry>>,
    rev: watch::Sender<u64>,
}

struct Entry {
    progress: Arc<Mutex<Measured>>,
    outcome: watch::Receiver<Option<Outcome>>,
    task: AbortHandle,
}

#[derive(Default)]
struct Measured {
    done: Bytes,
    total: Bytes,
    rate: Rate,
}

type Outcome = Result<StoredModel, Arc<StoreError>>;

impl Downloads {
    pub fn new(hub: Hub) -> Self {
        let (running, rev) = (Arc::new(Semaphore::new(RUNNING_MAX)), watch::Sender::new(0));
        Self { inner: Arc::new(Inner { hub, running, entries: Mutex::default(), rev }) }
    }

    /// Begins the download, or finds the one that is under way. A failed one begins again. Returns where its outcome
    /// will be.
    pub fn start(&self, model: ModelId) -> Result<watch::Receiver<Option<Outcome>>, TooManyDownloads> {
        let mut entries = self.inner.lock();
        if let Some(entry) = entries.get(&model)
            && entry.outcome.borrow().is_none()
        {
            return Ok(entry.outcome.clone());
        }
        let n_waiting = entries.values().filter(|entry| entry.outcome.borrow().is_none()).count();
        if n_waiting >= WAITING_MAX {
            return Err(TooManyDownloads { n_waiting });
        }
        let progress = Arc::new(Mutex::new(Measured::default()));
        let (outcome_sender, outcome) = watch::channel(None);
        let work = Work { inner: Arc::downgrade(&self.inner), model: model.clone(), progress: Arc::clone(&progress) };
        let (hub, running) = (self.inner.hub.clone(), Arc::clone(&self.inner.running));
        let task = tokio::spawn(work.run(hub, running, outcome_sender)).abort_handle();
        entries.insert(model, Entry { progress, outcome: outcome.clone(), task });
        drop(entries);
        self.inner.touch();
        Ok(outcome)
    }

    pub async fn fetch(&self, model: ModelId) -> Result<StoredModel, ModelError> {
        let mut outcome = self.start(model.clone())?;
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(stored))) => Ok(stored.clone()),
            Ok(Some(Err(error))) => Err(ModelError::Store(Arc::clone(error))),
            Ok(None) | Err(_) => Err(ModelError::Cancelled { model }),
        }
    }

    pub fn cancel(&self, model: &ModelId) -> bool {
        let Some(entry) = self.inner.lock().remove(model) else { return false };
        entry.task.abort();
        self.inner.touch();
        true
    }

    pub fn states(&self) -> Vec<DownloadState> {
        self.inner.lock().iter().map(|(model, entry)| entry.state(model)).collect()
    }

    pub fn changed(&self) -> watch::Receiver<u64> {
        self.inner.rev.subscribe()
    }
}

/// What the task of one download knows. It does not keep the registry alive.
struct Work {
    inner: Weak<Inner>,
    model: ModelId,
    progress: Arc<Mutex<Measured>>,
}

impl Work {
    async fn run(self, hub: Hub, running: Arc<Semaphore>, outcome: watch::Sender<Option<Outcome>>) {
        // It is never closed; if it were, there would be no limit to keep to.
        let _turn = running.acquire().await;
        tracing::info!(model = %self.model, "download begins");
        let result = hub.download(&self.model, |progress| self.note(progress)).await;
        match &result {
            Ok(stored) => tracing::info!(model = %self.model, size = %stored.size, "download finished"),
            Err(error) => tracing::warn!(model = %self.model, %error, "download failed"),
        }
        let is_done = result.is_ok();
        outcome.send_replace(Some(result.map_err(Arc::new)));
        if let Some(inner) = self.inner.upgrade() {
            let mut entries = inner.lock();
            // Unless it was cancelled at this very moment and another has begun.
            let is_this = entries.get(&self.model).is_some_and(|entry| Arc::ptr_eq(&entry.progress, &self.progress));
            if is_done && is_this {
                entries.remove(&self.model);
            }
            drop(entries);
            inner.touch();
        }
    }

    fn note(&self, Progress { done, total }: Progress) {
        let mut measured = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        (measured.done, measured.total) = (done, total);
        match measured.rate.note(Instant::now(), done) {
            Noted::Kept => {
                drop(measured);
                if let Some(inner) = self.inner.upgrade() {
                    inner.touch();
                }
            }
            Noted::TooSoon => {}
        }
    }
}

impl Entry {
    fn state(&self, model: &ModelId) -> DownloadState {
        let measured = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let status = match &*self.outcome.borrow() {
            Some(Err(error)) => DownloadStatus::Failed { error: error.to_string(), hints: error.hints() },
            // One that is done is about to be removed.
            Some(Ok(_)) | None => DownloadStatus::Running,
        };
        let (done, total, rate) = (measured.done, measured.total, measured.rate.per_sec());
        DownloadState { model: model.clone(), done, total, rate, status }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ModelId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        self.rev.send_modify(|rev| *rev += 1);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for entry in self.lock().values() {
            entry.task.abort();
        }
    }
}
