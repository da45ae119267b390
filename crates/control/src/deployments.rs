//! Deployments out of records: which there are, and how far each is. Pure, so every node sees the same.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Bytes, DeploymentId, Fetching, NodeId, RankPhase, RankStatus};

use crate::records::Records;
use crate::{Liveness, OwnedDeployment, Record};

/// How far a deployment is: as far as its slowest rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeploymentStatus {
    /// Its nodes are being asked for memory. Only its owner knows of it yet.
    Reserving,
    /// Of all ranks together.
    Fetching(Fetching),
    Loading,
    Connecting,
    Serving,
    /// Why, in words for people, naming the node at fault.
    Failed(String),
}

/// A deployment with its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub owner: NodeId,
    pub entry: &'a OwnedDeployment,
}

/// Every deployment that is wanted: of several entries the one with the highest epoch counts, then the one of the
/// higher owner (same epoch means same plan, so this only settles whose duty it is). What anybody wants ended is not wanted.
pub(crate) fn wanted<'a>(
    records: &'a Records,
    orphans: impl Iterator<Item = Wanted<'a>>,
) -> BTreeMap<DeploymentId, Wanted<'a>> {
    let of_record =
        |record: &'a Record| record.body.deployments.iter().map(move |entry| Wanted { owner: record.writer, entry });
    let stopped = stopped(records);
    let mut wanted: BTreeMap<DeploymentId, Wanted<'_>> = BTreeMap::new();
    for candidate in records.iter().flat_map(of_record) {
        let best = wanted.entry(candidate.entry.id).or_insert(candidate);
        if (candidate.entry.epoch, candidate.owner) > (best.entry.epoch, best.owner) {
            *best = candidate;
        }
    }
    // What nobody owns any more counts only where no owner says as much.
    for orphan in orphans {
        let best = wanted.entry(orphan.entry.id).or_insert(orphan);
        if orphan.entry.epoch > best.entry.epoch {
            *best = orphan;
        }
    }
    wanted.retain(|id, _| !stopped.contains(id));
    wanted
}

/// Deployments that any record wants ended.
pub(crate) fn stopped(records: &Records) -> BTreeSet<DeploymentId> {
    records.iter().flat_map(|record| record.body.stops.iter().copied()).collect()
}

/// How far `entry` is, by what the nodes of its plan say of this epoch.
///
/// `node` gives what is known of one node: what people call it, whether it is alive, and its record.
pub fn deployment_status<'a>(
    entry: &OwnedDeployment,
    node: impl Fn(NodeId) -> (String, Liveness, Option<&'a Record>),
) -> DeploymentStatus {
    let nodes: Vec<_> = entry.plan.shares().iter().map(|share| node(share.node)).collect();
    // The cause before its consequences: a lost node makes the ranks beside it fail.
    for ((name, liveness, record), &boot) in nodes.iter().zip(&entry.boots) {
        if *liveness == Liveness::Gone {
            return DeploymentStatus::Failed(format!("`{name}` is gone"));
        }
        if record.is_some_and(|record| record.stamp.boot > boot) {
            return DeploymentStatus::Failed(format!("`{name}` has started anew and lost its rank"));
        }
    }
    let mut slowest = DeploymentStatus::Serving;
    for (name, _, record) in &nodes {
        let rank = record.and_then(|record| rank_of_epoch(entry, record));
        let Some(rank) = rank else {
            slowest = slower(slowest, DeploymentStatus::Fetching(Fetching { done: Bytes::ZERO, total: Bytes::ZERO }));
            continue;
        };
        slowest = match &rank.phase {
            RankPhase::Failed(why) => {
                return DeploymentStatus::Failed(format!("rank {} on `{name}`: {why}", rank.rank));
            }
            RankPhase::Fetching(fetching) => slower(slowest, DeploymentStatus::Fetching(*fetching)),
            RankPhase::Loading => slower(slowest, DeploymentStatus::Loading),
            RankPhase::Connecting => slower(slowest, DeploymentStatus::Connecting),
            RankPhase::Serving => slowest,
        };
    }
    slowest
}

/// What `record`'s writer says of its rank of this very epoch.
pub(crate) fn rank_of_epoch<'a>(entry: &OwnedDeployment, record: &'a Record) -> Option<&'a RankStatus> {
    record.body.ranks.iter().find(|rank| rank.deployment == entry.id && rank.epoch == entry.epoch)
}

fn slower(a: DeploymentStatus, b: DeploymentStatus) -> DeploymentStatus {
    match (a, b) {
        (DeploymentStatus::Fetching(a), DeploymentStatus::Fetching(b)) => {
            DeploymentStatus::Fetching(Fetching { done: a.done + b.done, total: a.total + b.total })
        }
        (a, b) if progress(&b) < progress(&a) => b,
        (a, _) => a,
    }
}

fn progress(status: &DeploymentStatus) -> u8 {
    match status {
        DeploymentStatus::Failed(_) => 0,
        DeploymentStatus::Reserving => 1,
        DeploymentStatus::Fetching(_) => 2,
        DeploymentStatus::Loading => 3,
        DeploymentStatus::Connecting => 4,
        DeploymentStatus::Serving => 5,
    }
}
