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
    Record { record: Box<Record> },
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

#[cfg(test)]
mod tests {
    use domain::{NodeFacts, NodeId};

    use super::*;
    use crate::{NODES_MAX, RecordBody, STOPS_MAX};

    fn record(n_stops: usize) -> Message {
        let mut body = RecordBody::of(NodeFacts::named("studio"));
        body.stops = vec![DeploymentId(1); n_stops];
        let stamp = Stamp { boot: Boot(2), version: 3 };
        Message::Record { record: Box::new(Record { writer: NodeId::from_bytes([1; 32]), stamp, body }) }
    }

    #[test]
    fn a_message_survives_its_json() {
        let bytes = Bytes::from_mib(3);
        let refused = Some(Refusal::Memory { needed: bytes, usable: Bytes::ZERO });
        let (deployment, epoch) = (DeploymentId(9), Epoch(1));
        for message in [
            Message::Heartbeat { digest: Digest::from([(NodeId::from_bytes([7; 32]), Stamp::default())]) },
            record(1),
            Message::Reserve { deployment, epoch, bytes },
            Message::Reserved { deployment, epoch, boot: Boot(1), refused },
            Message::Release { deployment },
        ] {
            let json = message.encode().expect("it is short");
            assert_eq!(Message::decode(&json), Ok(message));
        }
    }

    #[test]
    fn what_is_too_much_is_refused_with_the_limit() {
        let json = record(STOPS_MAX + 1).encode().expect("it is short");
        assert_eq!(Message::decode(&json), Err(BadMessage::Many { what: "stops", got: STOPS_MAX + 1, max: STOPS_MAX }));
        let nodes = (0..=NODES_MAX).map(|n| (NodeId::from_bytes([n as u8; 32]), Stamp::default()));
        let json = Message::Pull { digest: nodes.collect() }.encode().expect("it is short");
        assert!(matches!(Message::decode(&json), Err(BadMessage::Many { what: "stamps", .. })));
        assert_eq!(
            Message::decode(&vec![b' '; MESSAGE_BYTES_MAX + 1]),
            Err(BadMessage::Long { len: MESSAGE_BYTES_MAX + 1 })
        );
        assert!(matches!(Message::decode(b"{}"), Err(BadMessage::Json(_))));
    }
}
