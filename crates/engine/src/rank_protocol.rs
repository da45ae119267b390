//! What a node and its rank process say to each other: one JSON value a line, commands on the rank's standard input,
//! reports on its standard output.
//!
//! ```text
//! node                      rank
//!  Load          ──────────▶        maps its shard, opens its listener
//!                ◀────────── Loaded
//!  Connect       ──────────▶        dials and accepts its neighbours
//!                ◀────────── Serving
//!  Stage(…)      ──────────▶        hands to `Stage::run`
//!                ◀────────── Stage(…), Memory
//!                ◀────────── Failed, at any time, as its last word
//! ```
//!
//! End of file on the rank's standard input ends the rank at once: no rank outlives its node.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use domain::{Bytes, DeploymentId, Epoch, GenerationId, Hints, NodeId, Rank, Shard};
use serde::{Deserialize, Serialize};

use crate::{GenerationError, GenerationRequest, TokenEvent};

/// The longest line either side accepts: a chat of [`GenerationRequest::CONTENT_BYTES_MAX`] when every byte of it is
/// escaped as six, with room for the rest.
pub const RANK_LINE_BYTES_MAX: usize = 6 * GenerationRequest::CONTENT_BYTES_MAX + (1 << 20);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankCommand {
    /// The first line, once.
    Load(Box<Load>),
    /// Once all ranks are loaded and their addresses known.
    Connect {
        /// All ranks of the deployment in rank order, this one included.
        peers: Vec<RankPeer>,
    },
    Stage(StageCommand),
}

/// What the stage itself must hear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageCommand {
    /// Head only. The node chooses ids and does not use one twice.
    Generate { id: GenerationId, request: Box<GenerationRequest> },
    /// Head only. An id that is not known (any more) is no error: the answer may have ended meanwhile.
    Cancel { id: GenerationId },
    /// Fails every generation with `error` and ends the stage: the node knows that a rank is lost before this rank does.
    Abort { error: GenerationError },
    /// Fails every generation with [`GenerationError::ShuttingDown`] and ends the stage.
    Shutdown,
}

/// Everything a rank needs to load its shard and to open its listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    pub deployment: DeploymentId,
    pub epoch: Epoch,
    /// The node this rank runs on.
    pub node: NodeId,
    pub node_name: String,
    pub identity: IdentityKey,
    pub shard: Shard,
    /// The model's files, the one with the header first.
    pub files: Vec<PathBuf>,
    /// Sequences kept at once.
    pub n_slots: u32,
    /// Threads that compute; one for each core if absent.
    pub n_threads: Option<u32>,
    /// Where to listen for neighbours; a port of 0 takes a free one.
    pub listen: Vec<SocketAddr>,
}

/// The node's secret key as PKCS #8, for the data plane's TLS. Never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdentityKey(pub Vec<u8>);

impl fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentityKey(…)")
    }
}

/// A rank and where to find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPeer {
    pub rank: Rank,
    pub node: NodeId,
    /// What people call the node; errors name it.
    pub name: String,
    /// Where its rank takes data links, best first.
    pub addrs: Vec<SocketAddr>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankReport {
    Loaded {
        /// Where the rank listens for its neighbours; empty for a deployment of one rank.
        addrs: Vec<SocketAddr>,
        footprint: Footprint,
    },
    /// All links are up; the stage runs.
    Serving,
    Stage(StageReport),
    /// Sent from time to time.
    Memory {
        /// What the process holds of physical memory.
        resident_bytes: Bytes,
    },
    /// The rank ends after this.
    Failed {
        error: String,
        hints: Hints,
    },
}

/// What the stage tells. Only the head's does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageReport {
    Event {
        id: GenerationId,
        event: TokenEvent,
    },
    GenerationFailed {
        id: GenerationId,
        error: GenerationError,
    },
    /// Sent when it changes.
    Activity {
        running: u32,
        queued: u32,
    },
}

/// What a rank's shard takes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Weights mapped from the files: this rank's tensors only, rounded to whole pages by the kernel, not here.
    pub mapped_bytes: Bytes,
    /// Weights copied into the process: norms.
    pub copied_bytes: Bytes,
    /// Keys and values when all slots are full.
    pub kv_bytes: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_reports_survive_json() {
        let commands = [
            RankCommand::Connect { peers: vec![peer()] },
            RankCommand::Stage(StageCommand::Generate {
                id: GenerationId(7),
                request: Box::new(GenerationRequest::greedy("\u{0}\n\"é")),
            }),
            RankCommand::Stage(StageCommand::Abort { error: GenerationError::Cancelled }),
            RankCommand::Stage(StageCommand::Shutdown),
        ];
        for command in commands {
            let line = serde_json::to_string(&command).expect("serialises");
            assert!(!line.contains('\n'), "one line");
            assert_eq!(serde_json::from_str::<RankCommand>(&line).expect("reads back"), command);
        }
        let report = RankReport::Stage(StageReport::Activity { running: 1, queued: 2 });
        let line = serde_json::to_string(&report).expect("serialises");
        assert_eq!(serde_json::from_str::<RankReport>(&line).expect("reads back"), report);
    }

    #[test]
    fn the_secret_key_is_never_shown() {
        assert_eq!(format!("{:?}", IdentityKey(vec![1, 2, 3])), "IdentityKey(…)");
    }

    fn peer() -> RankPeer {
        RankPeer {
            rank: Rank(1),
            node: NodeId::from_bytes([1; 32]),
            name: "studio".to_owned(),
            addrs: vec![SocketAddr::from(([127, 0, 0, 1], 4000))],
        }
    }
}
