//! A model made of arithmetic: a row's hidden state is a hash of all tokens before it and of the layers it went through.
//!
//! Any token out of order, any layer left out or run twice, any row of a wrong slot changes everything after it.

use std::thread;
use std::time::Duration;

use domain::{Bytes, LayerRange, TokenCount};

use crate::{ChatMessage, Compute, ComputeError, Footprint, Input, Logits, Output, Shape, Step, Text, TextError};

/// Tokens are bytes, and this one, which ends an answer.
pub const TOY_END: u32 = 256;

const VOCAB_SIZE: usize = 257;

/// A hash of 32 bits as two values of 16, which an f32 holds exactly.
const HIDDEN_SIZE: usize = 2;

/// One answer in so many tokens ends.
const ANSWER_TOKENS_MEAN: u32 = 64;

/// Layers of the toy model.
#[derive(Clone, Debug)]
pub struct ToyCompute {
    layers: LayerRange,
    n_layers: u32,
    context: TokenCount,
    step_time: Duration,
    /// For each slot and layer, a hash of the rows so far, one for each row.
    cache: Vec<Vec<Vec<u32>>>,
}

impl ToyCompute {
    /// The whole model of three layers, with two slots of 256 tokens.
    pub fn whole() -> Self {
        let all = LayerRange::try_from((0, 3)).expect("three layers");
        Self::new(all, 3, 2, TokenCount(256))
    }

    pub fn new(layers: LayerRange, n_layers: u32, n_slots: usize, context: TokenCount) -> Self {
        let slot = vec![Vec::new(); layers.count() as usize];
        Self { layers, n_layers, context, step_time: Duration::ZERO, cache: vec![slot; n_slots] }
    }

    /// The same model, each step of which takes at least `step_time`: time for a test to interrupt it.
    pub fn slowed(self, step_time: Duration) -> Self {
        Self { step_time, ..self }
    }

    fn is_last(&self) -> bool {
        self.layers.end().0 == self.n_layers
    }
}

impl Compute for ToyCompute {
    fn shape(&self) -> Shape {
        let n_slots = self.cache.len();
        Shape { hidden_size: HIDDEN_SIZE, vocab_size: VOCAB_SIZE, n_slots, context: self.context }
    }

    fn footprint(&self) -> Footprint {
        Footprint { mapped_bytes: Bytes::from_mib(u64::from(self.layers.count())), ..Footprint::default() }
    }

    fn forward(&mut self, step: &Step, input: Input<'_>) -> Result<Output, ComputeError> {
        step.check(self.shape(), input, |slot| self.cache[slot.idx()][0].len())?;
        thread::sleep(self.step_time);
        let mut rows: Vec<u32> = match input {
            Input::Tokens => step.parts.iter().flat_map(|part| &part.tokens).map(|&token| mix(token, 1)).collect(),
            Input::Hidden(hidden) => hidden.chunks_exact(HIDDEN_SIZE).map(join).collect(),
        };
        let mut logits = Vec::new();
        let mut begin = 0;
        for part in &step.parts {
            let end = begin + part.tokens.len();
            let layers = self.layers.iter().zip(&mut self.cache[part.slot.idx()]);
            for (layer, cache) in layers {
                cache.truncate(part.position as usize);
                for row in &mut rows[begin..end] {
                    let before = cache.last().copied().unwrap_or(0);
                    *row = mix(mix(*row, before), layer.0);
                    cache.push(*row);
                }
            }
            if part.logits == Logits::OfLastToken {
                logits.extend(scores(rows[end - 1]));
            }
            begin = end;
        }
        if self.is_last() {
            Ok(Output::Logits(logits))
        } else {
            Ok(Output::Hidden(rows.into_iter().flat_map(split).collect()))
        }
    }
}

fn mix(a: u32, b: u32) -> u32 {
    let mixed = (a ^ b.rotate_left(16)).wrapping_add(0x9e37_79b9).wrapping_mul(0x85eb_ca6b);
    (mixed ^ (mixed >> 15)).wrapping_mul(0xc2b2_ae35) ^ (mixed >> 13)
}

fn split(hash: u32) -> [f32; HIDDEN_SIZE] {
    [(hash & 0xffff) as f32, (hash >> 16) as f32]
}

fn join(halves: &[f32]) -> u32 {
    halves[0] as u32 | (halves[1] as u32) << 16
}

/// Letters and spaces by the hash; now and then the end.
fn scores(hash: u32) -> [f32; VOCAB_SIZE] {
    let mut scores = [-100.0; VOCAB_SIZE];
    for token in (b'a'..=b'z').chain([b' ']) {
        scores[usize::from(token)] = (mix(hash, u32::from(token)) & 0xffff) as f32 / 16384.0;
    }
    if hash.is_multiple_of(ANSWER_TOKENS_MEAN) {
        scores[TOY_END as usize] = 10.0;
    }
    scores
}

/// Every byte is a token; messages are lines.
#[derive(Clone, Copy, Debug)]
pub struct ToyText;

impl Text for ToyText {
    fn prompt(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, TextError> {
        let lines = messages.iter().map(|message| format!("{}: {}\n", message.role.as_str(), message.content));
        let text: String = lines.chain(["assistant: ".to_owned()]).collect();
        Ok(text.bytes().map(u32::from).collect())
    }

    fn bytes(&self, token: u32) -> &[u8] {
        static BYTES: [u8; 256] = {
            let mut bytes = [0; 256];
            let mut byte = 0;
            while byte < 256 {
                bytes[byte] = byte as u8;
                byte += 1;
            }
            bytes
        };
        BYTES.get(token as usize).map_or(&[], std::slice::from_ref)
    }

    fn is_end(&self, token: u32) -> bool {
        token == TOY_END
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::compute_contract;

    #[test]
    fn the_toy_keeps_the_contract() {
        let load = |layers| -> Box<dyn Compute> { Box::new(ToyCompute::new(layers, 5, 2, TokenCount(32))) };
        compute_contract(5, &[1, 2, 3, 5, 8, 13, 21], load);
    }
}
