//! The last rank's memory of each sequence: which tokens it has and how the next one is drawn.

use crate::sampling::{self, DrawRule, Drawn, NotNumbers};
use crate::{Logits, SlotIdx, Step};

/// Draws for every slot of one rank.
#[derive(Debug)]
pub(crate) struct Draws {
    slots: Vec<SlotDraws>,
}

#[derive(Clone, Debug, Default)]
struct SlotDraws {
    /// Prompt and answer so far: the penalties look back on it.
    history: Vec<u32>,
    rule: Option<DrawRule>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DrawError {
    #[error(transparent)]
    NotNumbers(#[from] NotNumbers),
    #[error("slot {} was never told how to draw", slot.0)]
    NoRule { slot: SlotIdx },
    #[error("{got} scores are not {n_rows} rows of {vocab_size}")]
    WrongLogits { got: usize, n_rows: usize, vocab_size: usize },
}

impl Draws {
    pub fn new(n_slots: usize) -> Self {
        Self { slots: vec![SlotDraws::default(); n_slots] }
    }

    /// Takes a step's tokens in and draws for the parts that want it. `logits` is `[step.n_logits(), vocab_size]`.
    pub fn draw(
        &mut self,
        step: &Step,
        rules: Vec<(SlotIdx, DrawRule)>,
        logits: &mut [f32],
        vocab_size: usize,
    ) -> Result<Vec<Drawn>, DrawError> {
        let n_rows = step.n_logits();
        if logits.len() != n_rows * vocab_size {
            return Err(DrawError::WrongLogits { got: logits.len(), n_rows, vocab_size });
        }
        for (slot, rule) in rules {
            self.slot(slot)?.rule = Some(rule);
        }
        let mut rows = logits.chunks_exact_mut(vocab_size.max(1));
        let mut drawn = Vec::with_capacity(n_rows);
        for part in &step.parts {
            let slot = self.slot(part.slot)?;
            slot.history.truncate(part.position as usize);
            slot.history.extend_from_slice(&part.tokens);
            match (part.logits, &slot.rule) {
                (Logits::None, _) => {}
                (Logits::OfLastToken, None) => return Err(DrawError::NoRule { slot: part.slot }),
                (Logits::OfLastToken, Some(rule)) => {
                    let row = rows.next().expect("as many rows as parts that want one");
                    drawn.push(sampling::draw(row, rule, &slot.history)?);
                }
            }
        }
        Ok(drawn)
    }

    fn slot(&mut self, slot: SlotIdx) -> Result<&mut SlotDraws, DrawError> {
        self.slots.get_mut(slot.idx()).ok_or(DrawError::NoRule { slot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sampling, StepPart};

    #[test]
    fn penalties_look_back_on_the_slots_own_tokens() {
        let mut draws = Draws::new(2);
        let sampling = Sampling { repeat_penalty: 2.0, ..Sampling::GREEDY };
        let rule = DrawRule { sampling, seed: 0, n_prompt: 1, top_logprobs: None };
        let rules = vec![(SlotIdx(0), rule.clone()), (SlotIdx(1), rule)];
        let mut first = [3.0, 2.0, 3.0, 2.0];
        assert_eq!(tokens(draws.draw(&step(&[(0, 0, 0), (1, 0, 5)]), rules, &mut first, 2)), [1, 0]);
        // Rewound to its beginning, slot 0 has forgotten the token that was penalised.
        assert_eq!(tokens(draws.draw(&step(&[(0, 0, 5)]), Vec::new(), &mut [3.0, 2.0], 2)), [0]);
    }

    #[test]
    fn a_step_that_does_not_fit_is_refused() {
        let mut draws = Draws::new(1);
        let wrong = draws.draw(&step(&[(0, 0, 0)]), Vec::new(), &mut [0.0; 3], 2);
        assert_eq!(wrong, Err(DrawError::WrongLogits { got: 3, n_rows: 1, vocab_size: 2 }));
        let no_rule = draws.draw(&step(&[(0, 0, 0)]), Vec::new(), &mut [0.0; 2], 2);
        assert_eq!(no_rule, Err(DrawError::NoRule { slot: SlotIdx(0) }));
        assert!(draws.draw(&step(&[(7, 0, 0)]), Vec::new(), &mut [0.0; 2], 2).is_err(), "no such slot");
    }

    /// Parts of one token: slot, position, token.
    fn step(parts: &[(u32, u32, u32)]) -> Step {
        let part = |&(slot, position, token)| StepPart {
            slot: SlotIdx(slot),
            position,
            tokens: vec![token],
            logits: Logits::OfLastToken,
        };
        Step { parts: parts.iter().map(part).collect() }
    }

    fn tokens(drawn: Result<Vec<Drawn>, DrawError>) -> Vec<u32> {
        drawn.expect("draws").into_iter().map(|drawn| drawn.token).collect()
    }
}
