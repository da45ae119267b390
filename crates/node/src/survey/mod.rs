//! What this machine is and has: memory, chip, system, disk, RDMA.
//!
//! A fact that cannot be measured stays unknown, and one that takes too long keeps its last value: a survey never
//! holds the node up and never guesses.

mod machine;
mod memory;
mod process;
mod wired;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::{Bytes, Chip, Fact, Memory, NodeFacts, OperatingSystem, RdmaFacts, Timestamp};
use sysinfo::System;
use tokio::task::spawn_blocking;

pub(crate) use process::ProcessMemory;

/// How long a survey is waited for. Reading the counters takes a millisecond, the list of disks at worst a second
/// (a network share that is gone); what takes longer is used when it is there.
const SURVEY_LIMIT: Duration = Duration::from_secs(5);

/// Facts that change by hand only (system, chip, RDMA), or slowly (disk), are measured so often.
const SLOW_FACTS_AGE_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct SurveyOptions {
    /// Where models are kept: the disk whose free space counts.
    pub models_dir: PathBuf,
    /// Never call more than this usable, whatever the machine has.
    pub memory_limit: Option<Bytes>,
}

/// Measures this machine. Cheap to clone.
#[derive(Clone)]
pub struct Survey {
    options: Arc<SurveyOptions>,
    /// Held while measuring: one survey at a time, however many ask.
    system: Arc<Mutex<Option<System>>>,
    last: Arc<Mutex<Measured>>,
}

/// The facts of the last survey.
#[derive(Clone, Debug, Default)]
struct Measured {
    os: Fact<OperatingSystem>,
    chip: Fact<Chip>,
    memory: Fact<Memory>,
    disk_free: Fact<Bytes>,
    rdma: Fact<RdmaFacts>,
}

impl Survey {
    pub fn new(options: SurveyOptions) -> Self {
        Self { options: Arc::new(options), system: Arc::default(), last: Arc::default() }
    }

    /// This machine's facts, links excepted. `rank_pids` are our own ranks, whose memory is not others'.
    pub async fn facts(&self, name: &str, rank_pids: Vec<u32>) -> NodeFacts {
        let survey = self.clone();
        let measuring = spawn_blocking(move || survey.measure(&rank_pids));
        match tokio::time::timeout(SURVEY_LIMIT, measuring).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the survey of this machine failed"),
            Err(_) => tracing::warn!(limit = ?SURVEY_LIMIT, "the survey of this machine takes long: facts may be old"),
        }
        let Measured { os, chip, memory, disk_free, rdma } = self.last();
        let (name, version) = (name.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        NodeFacts { name, version, os, chip, memory, disk_free, rdma, links: Vec::new() }
    }

    /// Blocks while it measures; returns at once where another survey still does.
    fn measure(&self, rank_pids: &[u32]) {
        let mut system = match self.system.try_lock() {
            Ok(system) => system,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if system.is_none() {
            *system = System::new().inspect_err(|error| tracing::warn!(%error, "no facts of this machine")).ok();
        }
        let Some(system) = system.as_mut() else { return };
        let now = now();
        let ours = rank_pids.iter().filter_map(|&pid| ProcessMemory::of(pid)).map(|found| found.anonymous).sum();
        let memory = memory::measure(system, ours, wired::of_this_system().as_ref(), self.options.memory_limit);
        self.store(|last| last.memory = Fact::known(memory, now));
        if self.last().os.is_fresh(now, SLOW_FACTS_AGE_MAX) {
            return;
        }
        let known = |value| Fact::known(value, now);
        let chip = machine::chip(system).map_or(Fact::Unknown, |chip| Fact::known(chip, now));
        self.store(|last| {
            last.os = Fact::known(machine::operating_system(), now);
            last.chip = chip;
        });
        let disk_free = store::disk_free(&self.options.models_dir).map_or(Fact::Unknown, known);
        self.store(|last| last.disk_free = disk_free);
        let rdma = Fact::known(transport::rdma_devices(), now);
        self.store(|last| last.rdma = rdma);
    }

    fn last(&self) -> Measured {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn store(&self, change: impl FnOnce(&mut Measured)) {
        change(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_machine_has_facts_that_hold_together() {
        let options = SurveyOptions { models_dir: "/no/such/folder/yet".into(), memory_limit: None };
        let facts = Survey::new(options).facts("desk", Vec::new()).await;
        let memory = facts.memory.value().expect("memory");
        assert!(memory.total >= memory.usable && memory.total >= memory.used_by_others, "{memory:?}");
        assert!(memory.usable > Bytes::ZERO, "{memory:?}");
        let chip = facts.chip.value().expect("a chip");
        assert!(chip.n_cores > 0 && !chip.name.is_empty(), "{chip:?}");
        let os = facts.os.value().expect("a system");
        assert!(!os.name.is_empty() && !os.build.is_empty(), "{os:?}");
        assert!(facts.disk_free.value().is_some_and(|&free| free > Bytes::ZERO));
        assert_eq!((facts.name.as_str(), facts.links.len()), ("desk", 0));
    }

    #[tokio::test]
    async fn a_limit_makes_a_small_machine_of_this_one() {
        let memory_limit = Some(Bytes::from_mib(300));
        let survey = Survey::new(SurveyOptions { models_dir: "/".into(), memory_limit });
        let facts = survey.facts("desk", Vec::new()).await;
        assert_eq!(facts.memory.value().map(|memory| memory.usable), memory_limit);
    }
}
