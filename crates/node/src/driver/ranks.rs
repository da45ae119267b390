//! The fetches and rank processes of this node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{Input, RankEvent as Told, RankReport};
use domain::{Bytes, DeploymentId, Epoch, Fetching, Hint, NodeId, PlanShare, Rank, Shard};
use engine::{GenerationError, IdentityKey, Load, RankCommand, RankReport as Said};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::{Driver, OwnEvent};
use crate::addresses::reachable;
use crate::generations::CommandSink;
use crate::handle::Inner;
use crate::models::DownloadState;
use crate::rank::{RankEvent, RankKey, RankProcess};

/// Sequences that a deployment keeps at once: a chat, and whatever else asks meanwhile. Each more costs the keys and
/// values of a whole context again, reserved on every node.
pub(crate) const SLOTS: u32 = 2;

/// How often a fetch's progress is told.
const FETCH_TOLD_EVERY: Duration = Duration::from_millis(500);

/// How long the end of the program waits for its ranks. A rank gets 2 s to end in order and is killed after; what is
/// not gone by then dies with its pipe.
const STOP_ALL_DEADLINE: Duration = Duration::from_secs(8);

/// The head ranks of this node by deployment: where generations go. Shared with the node's handle.
#[derive(Clone, Default)]
pub(crate) struct HeadRanks {
    serving: Arc<Mutex<BTreeMap<DeploymentId, CommandSink>>>,
}

impl HeadRanks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<DeploymentId, CommandSink>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, deployment: DeploymentId) -> Option<CommandSink> {
        self.lock().get(&deployment).cloned()
    }
}

pub(super) struct Ranks {
    node: Arc<Inner>,
    events: mpsc::Sender<(RankKey, RankEvent)>,
    own: mpsc::Sender<OwnEvent>,
    fetches: BTreeMap<(DeploymentId, Epoch), AbortHandle>,
    /// Of the ranks that are fetched and not started.
    files: BTreeMap<(DeploymentId, Epoch), Vec<PathBuf>>,
    running: BTreeMap<RankKey, RankProcess>,
}

impl Ranks {
    pub fn new(node: Arc<Inner>, events: mpsc::Sender<(RankKey, RankEvent)>, own: mpsc::Sender<OwnEvent>) -> Self {
        Self { node, events, own, fetches: BTreeMap::new(), files: BTreeMap::new(), running: BTreeMap::new() }
    }

    pub fn pids(&self) -> Vec<u32> {
        self.running.values().map(RankProcess::pid).collect()
    }

    /// Sees that the model's files are on this disk, off the loop.
    pub fn fetch(&mut self, deployment: DeploymentId, epoch: Epoch, shard: Shard) {
        let (models, own) = (self.node.models.clone(), self.own.clone());
        let task = tokio::spawn(async move {
            let model = shard.model;
            let mut fetching = std::pin::pin!(models.fetch(model.clone()));
            let mut told = tokio::time::interval(FETCH_TOLD_EVERY);
            let fetched = loop {
                tokio::select! {
                    fetched = &mut fetching => break fetched,
                    _ = told.tick() => {
                        let state = models.downloads().into_iter().find(|download| download.model == model);
                        if let Some(DownloadState { done, total, .. }) = state {
                            let event = Told::Fetching(Fetching { done, total });
                            tell(&own, OwnEvent::Rank(RankReport { deployment, epoch, event })).await;
                        }
                    }
                }
            };
            let event = match fetched {
                Ok(stored) => OwnEvent::Fetched { deployment, epoch, files: stored.files },
                Err(error) => {
                    let reason = [vec![error.to_string()], error.hints()].concat().join("; ");
                    OwnEvent::Rank(RankReport { deployment, epoch, event: Told::Failed { reason } })
                }
            };
            tell(&own, event).await;
        });
        self.fetches.insert((deployment, epoch), task.abort_handle());
    }

    /// A fetch is done: its files wait for the rank's start.
    pub fn fetched(&mut self, deployment: DeploymentId, epoch: Epoch, files: Vec<PathBuf>) {
        if self.fetches.remove(&(deployment, epoch)).is_some() {
            self.files.insert((deployment, epoch), files);
        }
    }

    /// Starts the rank's process and has it load its shard.
    pub fn start(&mut self, deployment: DeploymentId, epoch: Epoch, shard: Shard, share: &PlanShare, node_name: &str) {
        let key = RankKey { deployment, epoch, rank: shard.rank };
        let files = self.files.remove(&(deployment, epoch)).unwrap_or_default();
        let n_threads = self.node.config.threads.and_then(|n| u32::try_from(n).ok());
        let process = match RankProcess::spawn(&self.node.config.rank_program, key, self.events.clone()) {
            Ok(process) => process,
            Err(error) => {
                let reason = [vec![error.to_string()], error.hints()].concat().join("; ");
                return self.tell_later(deployment, epoch, Told::Failed { reason });
            }
        };
        tracing::info!(%deployment, rank = %shard.rank, layers = %shard.layers, reserved = %share.reserved_bytes(), "loading");
        let load = Load {
            deployment,
            epoch,
            node: self.node.home.node(),
            node_name: node_name.to_owned(),
            identity: IdentityKey(self.node.home.identity().pkcs8().to_vec()),
            shard,
            files,
            n_slots: SLOTS,
            n_threads,
            listen: vec![SocketAddr::new(self.node.config.discovery.listen_ip(), 0)],
        };
        self.running.insert(key, process);
        self.send(key, RankCommand::Load(Box::new(load)));
    }

    pub fn send(&self, key: RankKey, command: RankCommand) {
        if let Some(running) = self.running.get(&key) {
            // A rank that takes nothing more has ended or is being ended; its exit says so.
            if let Err(error) = running.send(command) {
                tracing::debug!(rank = %key, %error, "a command was not taken");
            }
        }
    }

    pub fn send_all(&self, deployment: DeploymentId, command: &RankCommand) {
        for key in self.running.keys().filter(|key| key.deployment == deployment) {
            self.send(*key, command.clone());
        }
    }

    /// Ends the fetch or the process of this rank. That it is gone is told in any case.
    pub fn stop(&mut self, deployment: DeploymentId, epoch: Epoch, reason: String) {
        if let Some(fetch) = self.fetches.remove(&(deployment, epoch)) {
            fetch.abort();
        }
        self.files.remove(&(deployment, epoch));
        let keys: Vec<_> =
            self.running.keys().filter(|key| key.deployment == deployment && key.epoch == epoch).copied().collect();
        if keys.is_empty() {
            return self.tell_later(deployment, epoch, Told::Exited { reason });
        }
        for key in keys {
            if let Some(running) = self.running.remove(&key) {
                tracing::info!(rank = %key, reason, "stopping");
                self.retire(key);
                tokio::spawn(running.stop());
            }
        }
    }

    /// Tells the driver something about a rank that has no process, once this step is over.
    fn tell_later(&self, deployment: DeploymentId, epoch: Epoch, event: Told) {
        let own = self.own.clone();
        tokio::spawn(async move { tell(&own, OwnEvent::Rank(RankReport { deployment, epoch, event })).await });
    }

    /// Nothing more goes to this rank, and what ran through it ends.
    fn retire(&self, key: RankKey) {
        if key.rank == Rank::HEAD {
            self.node.heads.lock().remove(&key.deployment);
            self.node.generations.fail_all(key.deployment, &GenerationError::ShuttingDown);
        }
    }

    pub async fn stop_all(&mut self, events: &mut mpsc::Receiver<(RankKey, RankEvent)>) {
        for (_, fetch) in std::mem::take(&mut self.fetches) {
            fetch.abort();
        }
        let mut waiting = tokio::task::JoinSet::new();
        for (key, running) in std::mem::take(&mut self.running) {
            self.retire(key);
            waiting.spawn(running.stop());
        }
        // Their last reports must be taken, or they wait for it.
        let all = async {
            loop {
                tokio::select! {
                    ended = waiting.join_next() => if ended.is_none() { break },
                    Some(_) = events.recv() => {}
                }
            }
        };
        if tokio::time::timeout(STOP_ALL_DEADLINE, all).await.is_err() {
            tracing::warn!(deadline = ?STOP_ALL_DEADLINE, "a rank did not end");
        }
    }
}

impl Driver {
    /// News of a rank's process.
    pub(super) fn rank(&mut self, key: RankKey, event: RankEvent) {
        let told = match event {
            RankEvent::Report(Said::Stage(report)) => return self.node.generations.report(report),
            RankEvent::Report(Said::Loaded { addrs, footprint }) => {
                tracing::info!(rank = %key, mapped = %footprint.mapped_bytes, copied = %footprint.copied_bytes, "loaded");
                // What of it is resident is measured by the rank itself, and follows.
                Told::Loaded { data_addrs: reachable(&addrs), resident: Bytes::ZERO }
            }
            RankEvent::Report(Said::Serving) => {
                self.ranks.open(key);
                tracing::info!(rank = %key, "serving");
                Told::Serving
            }
            RankEvent::Report(Said::Memory { resident_bytes }) => Told::Resident(resident_bytes),
            RankEvent::Report(Said::Failed { error, hints }) => {
                let reason = [vec![error], hints].concat().join("; ");
                tracing::error!(rank = %key, reason, "a rank failed");
                self.lose(key, &reason);
                Told::Failed { reason }
            }
            RankEvent::Exited(exit) => {
                let reason = exit.to_string();
                if self.ranks.running.remove(&key).is_some() {
                    tracing::warn!(rank = %key, reason, "a rank ended by itself");
                }
                self.lose(key, &reason);
                Told::Exited { reason }
            }
        };
        let (deployment, epoch) = (key.deployment, key.epoch);
        self.handle(Input::Rank(RankReport { deployment, epoch, event: told }));
    }

    /// This node's own rank cannot go on.
    fn lose(&mut self, key: RankKey, cause: &str) {
        let me: NodeId = self.node.home.node();
        if key.rank == Rank::HEAD {
            self.node.heads.lock().remove(&key.deployment);
        }
        let (name, cause) = (self.name.clone(), cause.to_owned());
        let error = GenerationError::RankLost { rank: key.rank, node: me, name, cause };
        self.node.generations.fail_all(key.deployment, &error);
    }
}

impl Ranks {
    /// From now on generations go to this rank, if it is a head.
    fn open(&self, key: RankKey) {
        let Some(running) = self.running.get(&key) else { return };
        if key.rank == Rank::HEAD {
            let commands: CommandSink = Arc::new(running.stage_commands());
            self.node.heads.lock().insert(key.deployment, commands);
        }
    }
}

async fn tell(own: &mpsc::Sender<OwnEvent>, event: OwnEvent) {
    // Only a driver that has ended does not hear it.
    let _ = own.send(event).await;
}
