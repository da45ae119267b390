//! A plan being made true, then kept true.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{Bytes, DeploymentId, Epoch, Plan, Rank};

/// A committed plan. Its owner writes it; whoever takes it over raises the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    pub id: DeploymentId,
    pub epoch: Epoch,
    pub plan: Plan,
}

/// How far one rank of a deployment is, as the node that runs it sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankStatus {
    pub deployment: DeploymentId,
    pub epoch: Epoch,
    pub rank: Rank,
    pub phase: RankPhase,
    /// Where the rank takes its data links, once it listens.
    pub data_addrs: Vec<SocketAddr>,
    /// What the rank's process holds of physical memory, measured.
    pub resident_bytes: Bytes,
}

/// The steps of a rank's life, in order, and its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankPhase {
    Fetching(Fetching),
    Loading,
    /// Loaded and listening; links to its neighbours are being made.
    Connecting,
    Serving,
    /// Why, in words for people, naming the node at fault where it is another.
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetching {
    pub done: Bytes,
    pub total: Bytes,
}
