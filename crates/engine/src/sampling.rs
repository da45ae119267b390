//! Draws the next token from the model's scores.
//!
//! Penalties bend the scores, temperature flattens or sharpens them, then the unlikely are cut away and one of the rest is
//! drawn. A draw depends on the scores, the seed and the token's place alone, never on earlier draws: an answer can be
//! taken up again in its middle, on another machine, and goes on the same.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::Sampling;

/// How one generation's tokens are drawn, as its head tells the last rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DrawRule {
    pub sampling: Sampling,
    /// `sampling.seed`, or the head's choice.
    pub seed: u64,
    /// Tokens before the answer: presence and frequency count only what comes after.
    pub n_prompt: u32,
    /// Report log-probabilities, with this many of the likeliest tokens.
    pub top_logprobs: Option<u8>,
}

/// A drawn token and, if asked for, what the model thought of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drawn {
    pub token: u32,
    pub logprobs: Option<Logprobs>,
}

/// Natural logarithms of the model's own probabilities, before any setting bends them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Logprobs {
    pub drawn: f32,
    /// Likeliest first.
    pub top: Vec<(u32, f32)>,
}

/// The model's weights are damaged, or it ran out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model's scores are not numbers")]
pub(crate) struct NotNumbers;

/// Candidates whose scaled score lies this far below the best have a probability under e⁻³⁰ ≈ 10⁻¹³: even 128k of them
/// together weigh less than an f32 can tell, and leaving them out spares sorting a whole vocabulary.
const NEGLIGIBLE: f32 = 30.0;

/// OpenAI's word for "never": JSON has no infinity.
const LOGPROB_MIN: f32 = -9999.0;

/// Draws the token that follows `history` (prompt and answer so far) from `logits`, `[vocab_size]`, which it bends.
pub(crate) fn draw(logits: &mut [f32], rule: &DrawRule, history: &[u32]) -> Result<Drawn, NotNumbers> {
    let raw = rule.top_logprobs.map(|n_top| (n_top, logits.to_vec()));
    penalise(logits, rule, history);
    let best = best(logits)?;
    let token = if rule.sampling.temperature == 0.0 {
        best.token
    } else {
        pick(&candidates(logits, best.score, &rule.sampling), uniform(rule.seed, history.len()))
    };
    Ok(Drawn { token, logprobs: raw.map(|(n_top, raw)| logprobs(&raw, token, usize::from(n_top))) })
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    token: u32,
    /// A logit; in [`candidates`]' answer a weight, 1 for the likeliest.
    score: f32,
}

fn penalise(logits: &mut [f32], rule: &DrawRule, history: &[u32]) {
    let sampling = &rule.sampling;
    if sampling.repeat_penalty != 1.0 {
        let mut recent = history[history.len().saturating_sub(sampling.repeat_last_n as usize)..].to_vec();
        recent.sort_unstable();
        recent.dedup();
        for token in recent {
            if let Some(score) = logits.get_mut(token as usize) {
                // Dividing a negative score would make the token likelier.
                *score = if *score > 0.0 { *score / sampling.repeat_penalty } else { *score * sampling.repeat_penalty };
            }
        }
    }
    if sampling.presence_penalty != 0.0 || sampling.frequency_penalty != 0.0 {
        let mut counts = BTreeMap::new();
        for &token in &history[history.len().min(rule.n_prompt as usize)..] {
            *counts.entry(token).or_insert(0_u32) += 1;
        }
        for (token, count) in counts {
            if let Some(score) = logits.get_mut(token as usize) {
                *score -= sampling.presence_penalty + sampling.frequency_penalty * count as f32;
            }
        }
    }
}

/// The highest score; of equals, the lowest token.
fn best(logits: &[f32]) -> Result<Candidate, NotNumbers> {
    let mut best = Candidate { token: 0, score: f32::NEG_INFINITY };
    let mut n_nan = 0;
    for (token, &score) in (0..).zip(logits) {
        n_nan += u32::from(score.is_nan());
        if score > best.score {
            best = Candidate { token, score };
        }
    }
    if n_nan == 0 && best.score.is_finite() { Ok(best) } else { Err(NotNumbers) }
}

/// What may be drawn, likeliest first, with weights relative to the likeliest.
fn candidates(logits: &[f32], best: f32, sampling: &Sampling) -> Vec<Candidate> {
    // Weight e^((score - best) / temperature), so that min_p is a plain comparison.
    let floor = (best - NEGLIGIBLE * sampling.temperature).max(best + sampling.min_p.ln() * sampling.temperature);
    let mut kept: Vec<_> = (0..)
        .zip(logits)
        .filter(|&(_, &score)| score >= floor)
        .map(|(token, &score)| Candidate { token, score })
        .collect();
    // Of equals the lower token first: the same order on every machine.
    kept.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.token.cmp(&b.token)));
    if let Some(top_k) = sampling.top_k {
        kept.truncate(top_k as usize);
    }
    for candidate in &mut kept {
        candidate.score = ((candidate.score - best) / sampling.temperature).exp();
    }
    let enough = sampling.top_p * kept.iter().map(|candidate| candidate.score).sum::<f32>();
    let mut sum = 0.0;
    let n_kept = kept.iter().position(|candidate| {
        sum += candidate.score;
        sum >= enough
    });
    kept.truncate(n_kept.map_or(kept.len(), |last| last + 1));
    kept
}

/// The candidate at `at` (in [0, 1)) of the candidates' weights laid end to end.
fn pick(candidates: &[Candidate], at: f64) -> u32 {
    let total: f64 = candidates.iter().map(|candidate| f64::from(candidate.score)).sum();
    let mut left = at * total;
    for candidate in candidates {
        left -= f64::from(candidate.score);
        if left < 0.0 {
            return candidate.token;
        }
    }
    // Rounding may leave a last sliver.
    candidates.last().map_or(0, |candidate| candidate.token)
}

/// A number in [0, 1) that depends on the seed and the place only.
fn uniform(seed: u64, position: usize) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(position as u64);
    // An f64 holds 53 bits.
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn logprobs(logits: &[f32], drawn: u32, n_top: usize) -> Logprobs {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&score| f64::from(score - max).exp()).sum();
    let log_sum = sum.ln();
    let logprob = |score: f32| ((f64::from(score - max) - log_sum) as f32).max(LOGPROB_MIN);
    let mut tokens: Vec<u32> = (0..).take(logits.len()).collect();
    let by_score = |&a: &u32, &b: &u32| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b));
    if n_top < tokens.len() {
        tokens.select_nth_unstable_by(n_top, by_score);
        tokens.truncate(n_top);
    }
    tokens.sort_unstable_by(by_score);
    Logprobs {
        drawn: logits.get(drawn as usize).map_or(LOGPROB_MIN, |&score| logprob(score)),
        top: tokens.into_iter().map(|token| (token, logprob(logits[token as usize]))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_zero_takes_the_likeliest_and_of_equals_the_first() {
        assert_eq!(drawn(&[0.0, 3.0, 3.0, 1.0], Sampling::GREEDY, &[]), 1);
        let mut damaged = [0.0, f32::NAN, 9.0];
        assert_eq!(draw(&mut damaged, &rule(Sampling::GREEDY), &[]), Err(NotNumbers));
        assert_eq!(draw(&mut [], &rule(Sampling::GREEDY), &[]), Err(NotNumbers));
    }

    #[test]
    fn draws_follow_the_odds() {
        let logits = [0.5_f32.ln(), 0.3_f32.ln(), 0.2_f32.ln()];
        assert_shares(&logits, Sampling::MODEL, &[0.5, 0.3, 0.2]);
        // Squared by a temperature of one half: 25 : 9 : 4.
        assert_shares(
            &logits,
            Sampling { temperature: 0.5, ..Sampling::MODEL },
            &[25.0 / 38.0, 9.0 / 38.0, 4.0 / 38.0],
        );
    }

    #[test]
    fn cuts_leave_the_odds_of_the_rest_alone() {
        let logits = [0.2_f32.ln(), 0.5_f32.ln(), 0.3_f32.ln()];
        let renormalised = [0.0, 5.0 / 8.0, 3.0 / 8.0];
        assert_shares(&logits, Sampling { top_k: Some(2), ..Sampling::MODEL }, &renormalised);
        assert_shares(&logits, Sampling { top_p: 0.7, ..Sampling::MODEL }, &renormalised);
        assert_shares(&logits, Sampling { min_p: 0.5, ..Sampling::MODEL }, &renormalised);
        assert_shares(&logits, Sampling { top_p: 0.5, ..Sampling::MODEL }, &[0.0, 1.0, 0.0]);
        assert_shares(&logits, Sampling { top_k: Some(1), ..Sampling::MODEL }, &[0.0, 1.0, 0.0]);
        assert_shares(&logits, Sampling { min_p: 1.0, ..Sampling::MODEL }, &[0.0, 1.0, 0.0]);
    }

    #[test]
    fn the_same_seed_draws_the_same_and_each_place_anew() {
        let logits = vec![0.0; 1000];
        let seeded =
            |seed, place: usize| drawn(&logits, Sampling { seed: Some(seed), ..Sampling::MODEL }, &vec![7; place]);
        assert_eq!(seeded(1, 4), seeded(1, 4));
        assert_ne!(seeded(1, 4), seeded(1, 5));
        assert_ne!(seeded(1, 4), seeded(2, 4));
    }

    #[test]
    fn repeats_are_penalised_within_reach_on_both_sides_of_zero() {
        let penalty = Sampling { repeat_penalty: 2.0, repeat_last_n: 2, ..Sampling::GREEDY };
        assert_eq!(drawn(&[3.0, 2.0], penalty.clone(), &[0]), 1);
        assert_eq!(drawn(&[3.0, 2.0], penalty.clone(), &[0, 5, 5]), 0, "out of reach");
        assert_eq!(drawn(&[-2.0, -3.0], penalty, &[0]), 1, "a negative score sinks as well");
    }

    #[test]
    fn presence_and_frequency_count_the_answer_only() {
        let presence = Sampling { presence_penalty: 1.5, ..Sampling::GREEDY };
        // `rule` has two tokens of prompt.
        assert_eq!(drawn(&[3.0, 2.0], presence.clone(), &[0, 0]), 0, "the prompt does not count");
        assert_eq!(drawn(&[3.0, 2.0], presence, &[5, 5, 0]), 1);
        let frequency = Sampling { frequency_penalty: 0.4, ..Sampling::GREEDY };
        assert_eq!(drawn(&[3.0, 2.0], frequency.clone(), &[5, 5, 0, 0]), 0);
        assert_eq!(drawn(&[3.0, 2.0], frequency, &[5, 5, 0, 0, 0]), 1);
    }

    #[test]
    fn logprobs_are_the_models_own() {
        let mut logits = [0.2_f32.ln(), 0.5_f32.ln(), 0.3_f32.ln(), f32::NEG_INFINITY];
        let bent = Sampling { repeat_penalty: 2.0, temperature: 0.0, ..Sampling::MODEL };
        let rule = DrawRule { top_logprobs: Some(2), ..rule(bent) };
        let drawn = draw(&mut logits, &rule, &[1]).expect("scores are numbers");
        let logprobs = drawn.logprobs.expect("asked for");
        assert_eq!(drawn.token, 2, "token 1 was there already");
        assert!((logprobs.drawn - 0.3_f32.ln()).abs() < 1e-6);
        assert_eq!(logprobs.top.iter().map(|&(token, _)| token).collect::<Vec<_>>(), [1, 2]);
        assert!((logprobs.top[0].1 - 0.5_f32.ln()).abs() < 1e-6);
        let none = DrawRule { top_logprobs: Some(0), ..rule.clone() };
        assert_eq!(draw(&mut [1.0, 0.0], &none, &[]).map(|drawn| drawn.logprobs.map(|l| l.top)), Ok(Some(Vec::new())));
        let all = DrawRule { top_logprobs: Some(20), ..rule };
        let drawn = draw(&mut [1.0, f32::NEG_INFINITY], &all, &[]).expect("scores are numbers");
        assert_eq!(drawn.logprobs.expect("asked for").top[1], (1, LOGPROB_MIN));
    }

    fn rule(sampling: Sampling) -> DrawRule {
        DrawRule { seed: sampling.seed.unwrap_or(0), sampling, n_prompt: 2, top_logprobs: None }
    }

    fn drawn(logits: &[f32], sampling: Sampling, history: &[u32]) -> u32 {
        draw(&mut logits.to_vec(), &rule(sampling), history).expect("scores are numbers").token
    }

    fn assert_shares(logits: &[f32], sampling: Sampling, expected: &[f64]) {
        let n_draws = 20_000;
        let mut counts = vec![0_u32; logits.len()];
        for seed in 0..n_draws {
            let sampling = Sampling { seed: Some(seed), ..sampling.clone() };
            counts[drawn(logits, sampling, &[]) as usize] += 1;
        }
        for (count, expected) in counts.iter().zip(expected) {
            let share = f64::from(*count) / n_draws as f64;
            assert!((share - expected).abs() < 0.015, "{counts:?} are not {expected} of {n_draws}");
            assert!(*expected > 0.0 || *count == 0, "a token that was cut was drawn");
        }
    }
}
