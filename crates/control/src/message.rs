//! What nodes say to each other.

use std::collections::BTreeMap;

use domain::{Bytes, DeploymentId, Epoch, NodeId};
use serde::{Deserialize, Serialize};

use crate::{Boot, Record, Refusal, Stamp};

/// A message between paired nodes. Each may be lost, doubled, late or out of order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Message {
    /// Every second: I live, and this is how far I know everybody.
    Heartbeat { digest: Digest },
    /// I am behind: send what is newer than this.
    Pull { digest: Digest },
    /// One writer's record, from the writer itself or passed on.
    Record { record: Record },
    /// The owner of a deployment asks for memory. Asking twice changes nothing.
    Reserve { deployment: DeploymentId, epoch: Epoch, bytes: Bytes },
    /// The answer of the node that owns the memory.
    Reserved { deployment: DeploymentId, epoch: Epoch, boot: Boot, refused: Option<Refusal> },
    /// The owner gave up: the memory it asked for is free again.
    Release { deployment: DeploymentId },
}

/// The newest stamp known of each writer.
pub type Digest = BTreeMap<NodeId, Stamp>;

/// The longest message. A record is the largest: [`crate::DEPLOYMENTS_MAX`] plans over [`crate::NODES_MAX`] nodes at
/// some 250 bytes a share, links to as many nodes at some 400, statuses and texts: below 400 KiB.
pub const MESSAGE_BYTES_MAX: usize = 512 << 10;

impl Message {
    /// As JSON, at most [`MESSAGE_BYTES_MAX`] long.
    pub fn encode(&self) -> Result<Vec<u8>, BadMessage> {
        let json = serde_json::to_vec(self).map_err(|error| BadMessage::Json(error.to_string()))?;
        check_len(json.len())?;
        Ok(json)
    }

    pub fn decode(json: &[u8]) -> Result<Self, BadMessage> {
        check_len(json.len())?;
        let message = serde_json::from_slice(json).map_err(|error| BadMessage::Json(error.to_string()))?;
        match &message {
            Self::Heartbeat { digest } | Self::Pull { digest } => {
                check_count("stamps", digest.len(), crate::NODES_MAX)?
            }
            Self::Record { record } => record.body.check_limits()?,
            Self::Reserve { .. } | Self::Reserved { .. } | Self::Release { .. } => {}
        }
        Ok(message)
    }
}

fn check_len(len: usize) -> Result<(), BadMessage> {
    if len > MESSAGE_BYTES_MAX { Err(BadMessage::Long { len }) } else { Ok(()) }
}

pub(crate) fn check_count(what: &'static str, got: usize, max: usize) -> Result<(), BadMessage> {
    if got > max { Err(BadMessage::Many { what, got, max }) } else { Ok(()) }
}

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    #[error("message of {len} bytes, {MESSAGE_BYTES_MAX} are allowed")]
    Long { len: usize },
    #[error("message holds {got} {what}, {max} are allowed")]
    Many { what: &'static str, got: usize, max: usize },
    #[error("message does not parse: {0}")]
    Json(String),
}
