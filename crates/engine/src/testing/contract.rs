//! What every [`Compute`] must keep, as checks that panic with what differs.

use domain::LayerRange;

use crate::{Compute, ComputeError, Input, Logits, Output, SlotIdx, Step, StepPart};

/// Checks an implementation of `n_layers` layers, which `load` loads by range with at least two slots.
///
/// `tokens` is any sequence of the vocabulary, of six tokens or more, that fits the context.
pub fn compute_contract(n_layers: u32, tokens: &[u32], load: impl Fn(LayerRange) -> Box<dyn Compute>) {
    assert!(tokens.len() >= 6, "the contract needs six tokens to cut");
    let range = |start, end| LayerRange::try_from((start, end)).expect("a range");
    let whole = || vec![load(range(0, n_layers))];
    let expected = scores(&mut whole(), &[part(0, 0, tokens)]);
    assert!(expected.iter().all(|score| score.is_finite()), "scores are numbers");

    for cut in 1..n_layers {
        let mut two = [load(range(0, cut)), load(range(cut, n_layers))];
        assert_same(&expected, &scores(&mut two, &[part(0, 0, tokens)]), &format!("a cut at layer {cut}"));
        for second in cut + 1..n_layers {
            let mut three = [load(range(0, cut)), load(range(cut, second)), load(range(second, n_layers))];
            let got = scores(&mut three, &[part(0, 0, tokens)]);
            assert_same(&expected, &got, &format!("cuts at layers {cut} and {second}"));
        }
    }
    steps_may_be_cut_anywhere(&mut whole(), tokens, &expected);
    slots_do_not_mix(&mut whole(), tokens, &expected);
    rewinding_forgets(&mut whole(), tokens, &expected);
    mistakes_are_errors(whole().remove(0).as_mut(), tokens);
}

fn steps_may_be_cut_anywhere(ranks: &mut [Box<dyn Compute>], tokens: &[u32], expected: &[f32]) {
    let n = tokens.len();
    for cut in [1, n / 2, n - 1] {
        scores(ranks, &[part(0, 0, &tokens[..cut])]);
        let mut last = Vec::new();
        for (position, token) in (0..).zip(tokens).skip(cut) {
            last = scores(ranks, &[part(0, position, &[*token])]);
        }
        assert_same(expected, &last, &format!("{cut} tokens at once, then one at a time"));
    }
}

fn slots_do_not_mix(ranks: &mut [Box<dyn Compute>], tokens: &[u32], expected: &[f32]) {
    let other: Vec<_> = tokens.iter().rev().copied().collect();
    let alone = scores(ranks, &[part(1, 0, &other)]);
    let both = scores(ranks, &[part(1, 0, &other), part(0, 0, tokens)]);
    let (first, second) = both.split_at(alone.len());
    assert_same(&alone, first, "the first of two sequences in a step");
    assert_same(expected, second, "the second of two sequences in a step");
}

fn rewinding_forgets(ranks: &mut [Box<dyn Compute>], tokens: &[u32], expected: &[f32]) {
    let other: Vec<_> = tokens[..2].iter().chain(tokens).copied().take(tokens.len()).collect();
    scores(ranks, &[part(0, 0, &other)]);
    let rewound = scores(ranks, &[part(0, 2, &tokens[2..])]);
    assert_same(expected, &rewound, "another end after the same beginning");
}

fn mistakes_are_errors(whole: &mut dyn Compute, tokens: &[u32]) {
    let shape = whole.shape();
    let mut fail = |parts: Vec<StepPart>, input: Input<'_>| {
        whole.forward(&Step { parts }, input).expect_err("a step that cannot be run")
    };
    let gap = fail(vec![part(0, 3, tokens)], Input::Tokens);
    assert!(matches!(gap, ComputeError::Gap { held: 0, position: 3, .. }), "{gap}");
    let n_slots = u32::try_from(shape.n_slots).expect("slots are few");
    let no_slot = fail(vec![part(n_slots, 0, tokens)], Input::Tokens);
    assert!(matches!(no_slot, ComputeError::NoSuchSlot { .. }), "{no_slot}");
    let empty = fail(vec![part(0, 0, &[])], Input::Tokens);
    assert!(matches!(empty, ComputeError::NoTokens { slot: 0 }), "{empty}");
    let vocab_size = u32::try_from(shape.vocab_size).expect("a vocabulary is below 4 billion");
    let no_token = fail(vec![part(0, 0, &[vocab_size])], Input::Tokens);
    assert!(matches!(no_token, ComputeError::NoSuchToken { .. }), "{no_token}");
    let too_long = vec![tokens[0]; shape.context.0 as usize + 1];
    let full = fail(vec![part(0, 0, &too_long)], Input::Tokens);
    assert!(matches!(full, ComputeError::ContextFull { .. }), "{full}");
    let wrong = fail(vec![part(0, 0, tokens)], Input::Hidden(&[0.0]));
    assert!(matches!(wrong, ComputeError::WrongInput { got: 1, .. }), "{wrong}");
}

/// Runs a step through all ranks: `[parts, vocab_size]`.
fn scores(ranks: &mut [Box<dyn Compute>], parts: &[StepPart]) -> Vec<f32> {
    let step = Step { parts: parts.to_vec() };
    let mut hidden = Vec::new();
    for (rank, compute) in ranks.iter_mut().enumerate() {
        let input = if rank == 0 { Input::Tokens } else { Input::Hidden(&hidden) };
        match compute.forward(&step, input).expect("a good step") {
            Output::Hidden(next) => {
                assert_eq!(next.len(), step.n_rows() * compute.shape().hidden_size, "rank {rank}'s hidden state");
                hidden = next;
            }
            Output::Logits(logits) => {
                assert_eq!(logits.len(), step.n_logits() * compute.shape().vocab_size, "rank {rank}'s scores");
                return logits;
            }
        }
    }
    panic!("the last rank gave no scores");
}

fn part(slot: u32, position: u32, tokens: &[u32]) -> StepPart {
    StepPart { slot: SlotIdx(slot), position, tokens: tokens.to_vec(), logits: Logits::OfLastToken }
}

fn assert_same(expected: &[f32], got: &[f32], what: &str) {
    assert_eq!(expected.len(), got.len(), "{what}: number of scores");
    let differs = expected.iter().zip(got).position(|(a, b)| a.to_bits() != b.to_bits());
    if let Some(at) = differs {
        panic!("{what} changes the score of token {at}: {} is not {}", got[at], expected[at]);
    }
}
