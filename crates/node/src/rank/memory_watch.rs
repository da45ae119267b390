//! Tells the node what the rank's process holds of memory, while that changes.

use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use domain::Bytes;
use engine::RankReport;

use crate::survey::ProcessMemory;

/// How often the memory is looked at: often enough for a bar that moves, and costing nothing.
const PERIOD: Duration = Duration::from_secs(1);
/// The first look, soon after the weights are mapped.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// The smallest change that is told.
const STEP: Bytes = Bytes::from_mib(1);

/// Watches until it is dropped.
pub(super) struct MemoryWatch {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    pub fn start(reports: SyncSender<RankReport>) -> Self {
        let (stop, stopped) = mpsc::sync_channel::<()>(0);
        let thread = thread::spawn(move || {
            let (mut told, mut wait) = (Bytes::ZERO, FIRST_LOOK);
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = PERIOD;
                let Some(ProcessMemory { resident, .. }) = ProcessMemory::of_self() else { return };
                let change = (resident - told).max(told - resident);
                // A full queue means that there is more important news.
                if change >= STEP && reports.try_send(RankReport::Memory { resident_bytes: resident }).is_ok() {
                    told = resident;
                }
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
