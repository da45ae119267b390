//! The ranks that this node runs, as far as the caller has reported them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use domain::{Bytes, DeploymentId, Epoch, Fetching, NodeId, Rank, RankPhase, RankStatus};

use crate::reconcile::{Actual, Stage};
use crate::records::{DATA_ADDRS_MAX, TEXT_CHARS_MAX};
use crate::{RankEvent, RankReport};

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    running: BTreeMap<DeploymentId, LocalRank>,
    /// The highest epoch that was run here and has ended. An epoch runs once on a node: its neighbours' links of that
    /// epoch are broken, only a higher one mends them.
    ended: BTreeMap<DeploymentId, Epoch>,
}

#[derive(Clone, Debug)]
pub(crate) struct LocalRank {
    pub epoch: Epoch,
    pub rank: Rank,
    pub stage: Stage,
    /// Ranks of this epoch that are lost at present, each said once.
    pub lost: BTreeSet<NodeId>,
    fetching: Fetching,
    data_addrs: Vec<SocketAddr>,
    resident: Bytes,
    failure: String,
}

/// What a report changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    Nothing,
    /// Numbers only: publish them when convenient.
    Numbers,
    Stage,
}

impl Ranks {
    pub fn get(&self, id: DeploymentId) -> Option<&LocalRank> {
        self.running.get(&id)
    }

    pub fn get_mut(&mut self, id: DeploymentId) -> Option<&mut LocalRank> {
        self.running.get_mut(&id)
    }

    pub fn ids(&self) -> impl Iterator<Item = DeploymentId> {
        self.running.keys().copied()
    }

    pub fn actual(&self, id: DeploymentId) -> Option<Actual> {
        self.get(id).map(|rank| Actual { epoch: rank.epoch, stage: rank.stage })
    }

    pub fn has_ended(&self, id: DeploymentId, epoch: Epoch) -> bool {
        self.ended.get(&id).is_some_and(|&ended| ended >= epoch)
    }

    /// Takes a rank on; `stage` is [`Stage::Fetching`], or [`Stage::Over`] with why it could not even begin.
    pub fn insert(&mut self, id: DeploymentId, epoch: Epoch, rank: Rank, stage: Stage, failure: String) {
        let local = LocalRank {
            epoch,
            rank,
            stage,
            lost: BTreeSet::new(),
            fetching: Fetching { done: Bytes::ZERO, total: Bytes::ZERO },
            data_addrs: Vec::new(),
            resident: Bytes::ZERO,
            failure,
        };
        self.running.insert(id, local);
    }

    pub fn forget(&mut self, id: DeploymentId) {
        if let Some(rank) = self.running.remove(&id) {
            let ended = self.ended.entry(id).or_insert(rank.epoch);
            *ended = rank.epoch.max(*ended);
        }
    }

    /// Drops the memory of ended epochs of deployments that nobody mentions any more.
    pub fn forget_ended(&mut self, is_mentioned: impl Fn(DeploymentId) -> bool) {
        self.ended.retain(|&id, _| is_mentioned(id));
    }

    pub fn report(&mut self, report: RankReport) -> Reported {
        let id = report.deployment;
        let Some(rank) = self.running.get_mut(&id).filter(|rank| rank.epoch == report.epoch) else {
            return Reported::Nothing;
        };
        match report.event {
            RankEvent::Fetching(fetching) => {
                rank.fetching = fetching;
                Reported::Numbers
            }
            RankEvent::Resident(bytes) => {
                rank.resident = bytes;
                Reported::Numbers
            }
            RankEvent::Fetched => rank.step(Stage::Fetching, Stage::Fetched),
            RankEvent::Loaded { mut data_addrs, resident } => {
                let reported = rank.step(Stage::Loading, Stage::Loaded);
                if reported == Reported::Stage {
                    data_addrs.truncate(DATA_ADDRS_MAX);
                    rank.data_addrs = data_addrs;
                    rank.resident = resident;
                }
                reported
            }
            RankEvent::Serving => rank.step(Stage::Connecting, Stage::Serving),
            RankEvent::Failed { reason } => rank.fail(Stage::Failed, &reason),
            RankEvent::Exited { reason } => {
                if rank.stage == Stage::Stopping {
                    self.forget(id);
                    Reported::Stage
                } else {
                    rank.fail(Stage::Over, &reason)
                }
            }
        }
    }

    /// As published: a rank that is being stopped is no longer anybody's business.
    pub fn statuses(&self) -> Vec<RankStatus> {
        self.running.iter().filter_map(|(&id, rank)| rank.status(id)).collect()
    }
}

impl LocalRank {
    fn step(&mut self, from: Stage, to: Stage) -> Reported {
        if self.stage != from {
            return Reported::Nothing;
        }
        self.stage = to;
        Reported::Stage
    }

    /// The first failure is the cause; what follows does not replace its text.
    fn fail(&mut self, to: Stage, reason: &str) -> Reported {
        match self.stage {
            Stage::Stopping | Stage::Over => Reported::Nothing,
            Stage::Failed => {
                self.stage = to;
                Reported::Stage
            }
            Stage::Fetching | Stage::Fetched | Stage::Loading | Stage::Loaded | Stage::Connecting | Stage::Serving => {
                self.stage = to;
                self.failure = reason.chars().take(TEXT_CHARS_MAX).collect();
                Reported::Stage
            }
        }
    }

    fn status(&self, deployment: DeploymentId) -> Option<RankStatus> {
        let phase = match self.stage {
            Stage::Fetching | Stage::Fetched => RankPhase::Fetching(self.fetching),
            Stage::Loading => RankPhase::Loading,
            Stage::Loaded | Stage::Connecting => RankPhase::Connecting,
            Stage::Serving => RankPhase::Serving,
            Stage::Failed | Stage::Over => RankPhase::Failed(self.failure.clone()),
            Stage::Stopping => return None,
        };
        Some(RankStatus {
            deployment,
            epoch: self.epoch,
            rank: self.rank,
            phase,
            data_addrs: self.data_addrs.clone(),
            resident_bytes: self.resident,
        })
    }
}
