//! `macrame bench`: how fast a served model answers, through the same door as everyone.

use anyhow::{Result, bail};
use serde::Serialize;

use crate::answer::{Message, Speed, Wishes, ask};
use crate::client::Client;
use crate::flags::BenchFlags;
use crate::names;
use crate::terminal;

/// Medians over the runs.
#[derive(Debug, PartialEq, Serialize)]
struct Report {
    model: String,
    runs: u32,
    prompt_tokens: f64,
    completion_tokens: f64,
    first_token_ms: f64,
    prompt_tokens_per_sec: f64,
    tokens_per_sec: f64,
}

pub async fn bench(client: &Client, flags: &BenchFlags) -> Result<()> {
    let model = names::served_model(&client.view().await?, flags.model.as_deref())?;
    let wishes = Wishes { max_tokens: Some(flags.tokens), temperature: Some(0.0), seed: None };
    let mut speeds = Vec::new();
    for run in 0..flags.runs {
        terminal::note(&format!("run {} of {}", run + 1, flags.runs));
        let messages = [Message::user(&prompt(run, flags.prompt_words))];
        speeds.push(ask(client, &model, &messages, wishes, |_| Ok(())).await?);
    }
    if speeds.iter().all(|speed| speed.completion_tokens < 2) {
        bail!("`{model}` ended every answer after one token; there is no speed to measure");
    }
    let report = report(model, &speeds);
    if flags.json { terminal::json(&report) } else { terminal::write(&rendered(&report)) }
}

/// A prompt that no run before had the beginning of: a node keeps the state of what it has read.
fn prompt(run: u32, words: u32) -> String {
    const WORDS: [&str; 8] = ["river", "stone", "lamp", "garden", "letter", "bridge", "winter", "clock"];
    let list = (0..words).map(|idx| WORDS[(idx.wrapping_mul(7).wrapping_add(run) % 8) as usize]);
    let list: Vec<_> = list.collect();
    format!("Text {run} of a measurement. Tell a long story with these words: {}", list.join(" "))
}

fn report(model: String, speeds: &[Speed]) -> Report {
    let of = |value: fn(&Speed) -> f64| median(speeds.iter().map(value).collect());
    Report {
        model,
        runs: u32::try_from(speeds.len()).unwrap_or(u32::MAX),
        prompt_tokens: of(|speed| f64::from(speed.prompt_tokens)),
        completion_tokens: of(|speed| f64::from(speed.completion_tokens)),
        first_token_ms: of(|speed| speed.first_token_ms),
        prompt_tokens_per_sec: of(|speed| f64::from(speed.prompt_tokens) / (speed.prompt_ms / 1e3).max(1e-9)),
        tokens_per_sec: of(|speed| speed.tokens_per_sec),
    }
}

/// The mean of the two in the middle if there is no one in the middle; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (_, Some(upper)) if values.len() % 2 == 1 => *upper,
        (Some(lower), Some(upper)) => (lower + upper) / 2.0,
        (_, _) => 0.0,
    }
}

fn rendered(report: &Report) -> String {
    format!(
        "{}, median of {} runs\n  first token    {:.0} ms after {:.0} tokens of prompt ({:.1} tokens/s)\n  \
         then           {:.1} tokens/s over {:.0} tokens\n",
        report.model,
        report.runs,
        report.first_token_ms,
        report.prompt_tokens,
        report.prompt_tokens_per_sec,
        report.tokens_per_sec,
        report.completion_tokens
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
        assert_eq!(median(vec![5.0]), 5.0);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn a_report_has_the_medians() {
        let speed = |tokens_per_sec| Speed {
            prompt_tokens: 100,
            completion_tokens: 10,
            prompt_ms: 500.0,
            first_token_ms: 600.0,
            tokens_per_sec,
        };
        let report = report("org/tiny".to_owned(), &[speed(10.0), speed(30.0), speed(20.0)]);
        assert_eq!((report.tokens_per_sec, report.prompt_tokens_per_sec), (20.0, 200.0));
        assert_eq!(
            rendered(&report),
            "org/tiny, median of 3 runs\n  first token    600 ms after 100 tokens of prompt (200.0 tokens/s)\n  \
             then           20.0 tokens/s over 10 tokens\n"
        );
    }

    #[test]
    fn no_two_runs_begin_alike() {
        assert_ne!(prompt(0, 4), prompt(1, 4));
        assert_eq!(prompt(0, 4).split(": ").nth(1).map(|words| words.split(' ').count()), Some(4));
    }
}
