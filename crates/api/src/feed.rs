//! The cluster's view with a number, and each change of it as an event.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

use crate::backend::Backend;
use crate::changes::diff;
use crate::wire::{ClusterEvent, ClusterSnapshot};

/// Events that a client may be behind. One that falls further back loses its stream and fetches the whole view,
/// which is smaller than so many changes.
const EVENTS_BEHIND_MAX: usize = 64;

/// Cheap to clone; all clones are one feed.
#[derive(Clone)]
pub struct Feed {
    backend: Arc<dyn Backend>,
    latest: Arc<Mutex<ClusterSnapshot>>,
    events: broadcast::Sender<ClusterEvent>,
}

impl Feed {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let latest = Arc::new(Mutex::new(ClusterSnapshot { rev: 1, view: backend.view() }));
        Self { backend, latest, events: broadcast::Sender::new(EVENTS_BEHIND_MAX) }
    }

    /// The view as it is now, never as it was at the last change that was noticed: who deploys and then looks, sees
    /// the deployment.
    pub fn snapshot(&self) -> ClusterSnapshot {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let view = self.backend.view();
        let changes = diff(&latest.view, &view);
        if !changes.is_empty() {
            *latest = ClusterSnapshot { rev: latest.rev + 1, view };
            // Nobody may be listening; that is no error.
            let _ = self.events.send(ClusterEvent { rev: latest.rev, changes });
        }
        latest.clone()
    }

    /// The present revision, and every event after it.
    pub fn subscribe(&self) -> (u64, broadcast::Receiver<ClusterEvent>) {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        (latest.rev, self.events.subscribe())
    }
}
