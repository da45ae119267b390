//! What ranks say to each other: steps and their hidden states down the pipeline, draws from the last rank to the head.
//!
//! A message is a header in JSON, its length before it as a little-endian `u32`, and the hidden state after it as
//! little-endian `f32`. The header is some hundred bytes beside kilobytes or megabytes of hidden state, so its form
//! costs nothing that can be measured and can be read in a capture of a test.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sampling::{DrawRule, Drawn};
use crate::{GenerationError, SlotIdx, Step};

/// From a rank to the next.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Downstream {
    /// Followed by `[step.n_rows(), hidden_size]` values.
    Step(StepHeader),
    /// A rank before this one has failed: passed on so that the head hears, from the last rank, which one.
    Failed(GenerationError),
    /// The head ends the deployment in good order.
    Goodbye,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepHeader {
    /// Counts the head's steps; the answer carries it back.
    pub number: u64,
    pub step: Step,
    /// For slots whose generation begins with this step.
    pub rules: Vec<(SlotIdx, DrawRule)>,
}

/// From the last rank to the head.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Upstream {
    /// One draw for each part that asked for logits, in order.
    Drawn {
        number: u64,
        drawn: Vec<Drawn>,
    },
    Failed(GenerationError),
}

/// Bytes that are no message: the ranks run different versions, or a rank is broken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadMessage {
    #[error("a message of {n_bytes} bytes breaks off in its header")]
    Truncated { n_bytes: usize },
    #[error("a header that cannot be read: {cause}")]
    Header { cause: String },
    #[error("{n_bytes} bytes follow a header that calls for {expected}")]
    Payload { n_bytes: usize, expected: usize },
}

/// Writes a message into `message`, whose old contents go.
pub(crate) fn encode(header: &impl Serialize, hidden: &[f32], message: &mut Vec<u8>) {
    message.clear();
    message.extend_from_slice(&[0; 4]);
    serde_json::to_writer(&mut *message, header).expect("headers have string keys only, and a vector takes all bytes");
    let header_len = u32::try_from(message.len() - 4).expect("a header is far below 4 GiB");
    message[..4].copy_from_slice(&header_len.to_le_bytes());
    message.reserve(4 * hidden.len());
    for value in hidden {
        message.extend_from_slice(&value.to_le_bytes());
    }
}

/// The header of a message, and the bytes after it.
pub(crate) fn decode<H: DeserializeOwned>(message: &[u8]) -> Result<(H, &[u8]), BadMessage> {
    let truncated = BadMessage::Truncated { n_bytes: message.len() };
    let Some((header_len, rest)) = message.split_first_chunk::<4>() else { return Err(truncated) };
    let header_len = u32::from_le_bytes(*header_len) as usize;
    let Some((header, payload)) = rest.split_at_checked(header_len) else { return Err(truncated) };
    let header = serde_json::from_slice(header).map_err(|error| BadMessage::Header { cause: error.to_string() })?;
    Ok((header, payload))
}

/// Reads exactly `n_values` into `hidden`, whose old contents go.
pub(crate) fn decode_hidden(payload: &[u8], n_values: usize, hidden: &mut Vec<f32>) -> Result<(), BadMessage> {
    let expected = n_values.saturating_mul(4);
    if payload.len() != expected {
        return Err(BadMessage::Payload { n_bytes: payload.len(), expected });
    }
    let (values, _) = payload.as_chunks::<4>();
    hidden.clear();
    hidden.extend(values.iter().map(|&value| f32::from_le_bytes(value)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Logits, Sampling, StepPart};

    #[test]
    fn a_step_survives_its_message_bit_for_bit() {
        let part = StepPart { slot: SlotIdx(1), position: 7, tokens: vec![3, 4], logits: Logits::OfLastToken };
        let rule = DrawRule { sampling: Sampling::MODEL, seed: u64::MAX, n_prompt: 2, top_logprobs: Some(3) };
        let header = StepHeader { number: 9, step: Step { parts: vec![part] }, rules: vec![(SlotIdx(1), rule)] };
        let sent = [1.5, -0.0, f32::MIN_POSITIVE, f32::INFINITY];
        let mut message = vec![1; 3];
        encode(&Downstream::Step(header.clone()), &sent, &mut message);
        let (decoded, payload) = decode::<Downstream>(&message).expect("a message");
        assert_eq!(decoded, Downstream::Step(header));
        let mut hidden = vec![9.0];
        decode_hidden(payload, sent.len(), &mut hidden).expect("its payload");
        assert_eq!(hidden.map_bits(), sent.to_vec().map_bits());
    }

    #[test]
    fn damaged_messages_are_refused_with_numbers() {
        let mut message = Vec::new();
        encode(&Downstream::Goodbye, &[1.0], &mut message);
        assert_eq!(decode::<Downstream>(&message[..3]), Err(BadMessage::Truncated { n_bytes: 3 }));
        assert_eq!(decode::<Downstream>(&message[..9]), Err(BadMessage::Truncated { n_bytes: 9 }));
        assert!(matches!(decode::<Upstream>(&message), Err(BadMessage::Header { .. })));
        let (_, payload) = decode::<Downstream>(&message).expect("a message");
        let wrong = decode_hidden(payload, 2, &mut Vec::new());
        assert_eq!(wrong, Err(BadMessage::Payload { n_bytes: 4, expected: 8 }));
    }

    trait MapBits {
        fn map_bits(self) -> Vec<u32>;
    }

    impl MapBits for Vec<f32> {
        fn map_bits(self) -> Vec<u32> {
            self.into_iter().map(f32::to_bits).collect()
        }
    }
}
