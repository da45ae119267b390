//! Whole deployments of the toy model: ranks on threads, links in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use domain::{GenerationId, LayerRange, TokenCount};
use engine::testing::{Answered, LocalDeployment, ToyCompute, ToyText};
use engine::{
    Compute, ComputeError, FinishReason, Footprint, GenerationError, GenerationRequest, Input, Logits, Output,
    Sampling, Shape, StageCommand, StageOptions, StageReport, Step, TokenEvent,
};

const N_LAYERS: u32 = 5;

#[test]
fn every_cut_answers_as_the_whole_does() {
    let requests = [
        request("one"),
        GenerationRequest { sampling: Sampling { seed: Some(7), ..Sampling::MODEL }, ..request("two") },
        GenerationRequest { top_logprobs: Some(3), ..request("three") },
    ];
    let answers = |cuts: &[u32]| {
        let deployment = start(toys(cuts, Duration::ZERO), options());
        let answers: Vec<_> =
            (0..).zip(&requests).map(|(id, request)| deployment.answer(id, request.clone())).collect();
        assert!(deployment.shut_down().iter().all(Result::is_ok), "every rank ends in good order");
        answers
    };
    let whole = answers(&[]);
    assert!(whole.iter().all(|answer| answer.end.is_ok() && answer.text.len() > 3), "{whole:?}");
    assert_ne!(whole[0].text, whole[1].text);
    for cut in 1..N_LAYERS {
        assert_eq!(answers(&[cut]), whole, "a cut at {cut}");
        for second in cut + 1..N_LAYERS {
            assert_eq!(answers(&[cut, second]), whole, "cuts at {cut} and {second}");
        }
    }
    assert_eq!(answers(&[1, 2, 3, 4]), whole, "five ranks");
}

#[test]
fn answers_do_not_depend_on_who_else_is_served() {
    let ask = |id: u64| GenerationRequest {
        max_tokens: Some(TokenCount(12)),
        sampling: Sampling { seed: Some(id), ..Sampling::MODEL },
        ..request(&"word ".repeat(id as usize * 5))
    };
    let alone: Vec<_> = (0..6).map(|id| start(toys(&[2], Duration::ZERO), options()).answer(id, ask(id))).collect();
    let deployment = start(toys(&[2], Duration::ZERO), options());
    (0..6).for_each(|id| deployment.ask(id, ask(id)));
    let mut together = vec![String::new(); 6];
    let mut n_running_max = 0;
    let mut n_ended = 0;
    while n_ended < together.len() {
        match deployment.report() {
            StageReport::Event { id, event: TokenEvent::Text { text, .. } } => together[id.0 as usize].push_str(&text),
            StageReport::Event { event: TokenEvent::Finished { .. }, .. } => n_ended += 1,
            StageReport::Event { event: TokenEvent::Started { .. }, .. } => {}
            StageReport::Activity { running, .. } => n_running_max = n_running_max.max(running),
            StageReport::GenerationFailed { id, error } => panic!("generation {id} failed: {error}"),
        }
    }
    assert_eq!(together, alone.into_iter().map(|answer| answer.text).collect::<Vec<_>>());
    assert_eq!(n_running_max, 2, "both slots were in use at once");
}

#[test]
fn a_chat_that_goes_on_is_not_computed_again() {
    let counter = Arc::new(AtomicUsize::new(0));
    let counted: Box<dyn Compute> = Box::new(Counted { inner: ToyCompute::whole(), n_tokens: counter.clone() });
    let deployment = start(vec![counted], options());
    let prompt = "a long beginning that both requests share";
    deployment.answer(1, GenerationRequest { max_tokens: Some(TokenCount(1)), ..request(prompt) });
    let first = counter.swap(0, Ordering::Relaxed);
    deployment
        .answer(2, GenerationRequest { max_tokens: Some(TokenCount(1)), ..request(&format!("{prompt}, and more")) });
    let second = counter.load(Ordering::Relaxed);
    assert!(second + prompt.len() < first + ", and more".len() + 5, "{second} tokens after {first}");
}

#[test]
fn a_stop_text_ends_an_answer_before_it() {
    let deployment = start(toys(&[2], Duration::ZERO), options());
    let whole = deployment.answer(1, request("stop"));
    let stop = whole.text[4..7].to_owned();
    let cut = deployment.answer(2, GenerationRequest { stop: vec![stop.clone()], ..request("stop") });
    let at = whole.text.find(&stop).expect("it is there");
    assert_eq!(cut.text, whole.text[..at]);
    assert_eq!(cut.end.map(|(reason, _)| reason), Ok(FinishReason::Stop));
}

#[test]
fn lengths_are_counted_and_kept() {
    let deployment = start(toys(&[2], Duration::ZERO), options());
    let answer = deployment.answer(1, GenerationRequest { max_tokens: Some(TokenCount(2)), ..request("x") });
    let (reason, usage) = answer.end.expect("an answer");
    assert_eq!((reason, usage.completion_tokens, answer.text.len()), (FinishReason::Length, TokenCount(2), 2));
    let too_long = deployment.answer(2, request(&"x".repeat(300)));
    let error = too_long.end.expect_err("longer than the context");
    assert!(matches!(error, GenerationError::ContextTooLong { context: TokenCount(256), .. }), "{error}");
}

#[test]
fn bad_requests_are_refused_and_the_next_one_is_served() {
    let deployment = start(toys(&[2], Duration::ZERO), options());
    let bad = GenerationRequest { sampling: Sampling { temperature: -1.0, ..Sampling::MODEL }, ..request("x") };
    let error = deployment.answer(1, bad).end.expect_err("a negative temperature");
    assert_eq!(error.code(), "bad_request");
    assert!(deployment.answer(2, request("x")).end.is_ok());
}

#[test]
fn a_cancelled_answer_ends_at_once_and_frees_its_slot() {
    let deployment = start(toys(&[2], Duration::from_millis(5)), options());
    deployment.ask(1, request(&endless()));
    await_text(&deployment);
    deployment.send(0, StageCommand::Cancel { id: GenerationId(1) });
    let asked = Instant::now();
    let cancelled = deployment.await_answer(1);
    assert_eq!(cancelled.end, Err(GenerationError::Cancelled));
    assert!(asked.elapsed() < Duration::from_secs(2));
    assert!(deployment.answer(2, request("x")).end.is_ok(), "the next is served");
}

#[test]
fn a_full_queue_refuses() {
    let options = StageOptions { queued_max: 1, ..options() };
    let deployment = start(toys(&[2], Duration::from_millis(5)), options);
    (1..=4).for_each(|id| deployment.ask(id, request(&endless())));
    let refused = deployment.await_answer(4);
    assert_eq!(refused.end, Err(GenerationError::QueueFull { queued: 1, queued_max: 1 }));
}

#[test]
fn whoever_takes_reports_slowly_slows_the_stage() {
    // A rendezvous: the stage waits for each report to be taken.
    let (sender, reports) = std::sync::mpsc::sync_channel(0);
    let counter = Arc::new(AtomicUsize::new(0));
    let compute = Box::new(Counted { inner: ToyCompute::whole(), n_tokens: counter.clone() });
    let role = engine::StageRole::Whole { text: Box::new(ToyText) };
    let (stage, handle) = engine::Stage::new(LocalDeployment::member(0), compute, role, options());
    let rank = std::thread::spawn(move || stage.run(|report| drop(sender.send(report))));
    let ask = StageCommand::Generate { id: GenerationId(1), request: Box::new(request(&endless())) };
    handle.send(ask).expect("it runs");
    let is_text = |report: &StageReport| matches!(report, StageReport::Event { event: TokenEvent::Text { .. }, .. });
    reports.iter().find(is_text).expect("a first text");
    let n_computed = counter.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(50));
    assert!(counter.load(Ordering::Relaxed) <= n_computed + 1, "it did not compute ahead of its reports");
    drop(reports);
    handle.send(StageCommand::Shutdown).expect("it runs");
    assert_eq!(rank.join().expect("no panic"), Ok(()));
}

#[test]
fn a_rank_that_fails_is_named_whatever_its_place() {
    for n_ranks in 2..=4_u32 {
        for broken in 0..n_ranks {
            let cuts: Vec<_> = (1..n_ranks).collect();
            let mut ranks = toys(&cuts, Duration::ZERO);
            let inner = ranks.remove(broken as usize);
            ranks.insert(broken as usize, Box::new(Failing { inner, n_steps_left: 3 }));
            let deployment = start(ranks, options());
            let error = deployment.answer(1, request(&endless())).end.expect_err("a rank fails");
            assert_eq!(
                error.to_string(),
                format!("rank {broken} on node-{broken} could not compute: slot 0 of 0 does not exist"),
                "{n_ranks} ranks"
            );
            assert!(deployment.ends().iter().all(Result::is_err), "every rank ends");
        }
    }
}

#[test]
fn a_rank_that_vanishes_is_named_whatever_its_place() {
    for n_ranks in 2..=4_u32 {
        for vanishing in 1..n_ranks {
            let cuts: Vec<_> = (1..n_ranks).collect();
            let deployment = start(toys(&cuts, Duration::from_millis(2)), options());
            deployment.ask(1, request(&endless()));
            await_text(&deployment);
            let asked = Instant::now();
            // As after `kill -9`: its links are cut, without a word.
            let error = GenerationError::ShuttingDown;
            deployment.send(vanishing as usize, StageCommand::Abort { error });
            let error = deployment.await_answer(1).end.expect_err("a rank is gone");
            assert!(
                error.to_string().starts_with(&format!("rank {vanishing} on node-{vanishing} was lost: ")),
                "{n_ranks} ranks, {vanishing} vanished: {error}"
            );
            assert!(asked.elapsed() < Duration::from_secs(3));
        }
    }
}

#[test]
fn an_abort_carries_its_reason_to_every_generation() {
    let deployment = start(toys(&[2], Duration::from_millis(2)), options());
    deployment.ask(1, request(&endless()));
    await_text(&deployment);
    let member = LocalDeployment::member(1);
    let lost = GenerationError::RankLost {
        rank: member.rank,
        node: member.node,
        name: member.name,
        cause: "its process was killed".to_owned(),
    };
    deployment.send(0, StageCommand::Abort { error: lost.clone() });
    assert_eq!(deployment.await_answer(1).end, Err(lost.clone()));
    assert_eq!(deployment.ends()[0], Err(lost));
}

#[test]
fn shutting_down_in_mid_answer_fails_it_and_ends_every_rank_well() {
    let deployment = start(toys(&[2, 3], Duration::from_millis(2)), options());
    deployment.ask(1, request(&endless()));
    await_text(&deployment);
    deployment.send(0, StageCommand::Shutdown);
    assert_eq!(deployment.await_answer(1).end, Err(GenerationError::ShuttingDown));
    assert_eq!(deployment.ends(), [Ok(()), Ok(()), Ok(())]);
}

#[test]
fn an_idle_stage_hears_its_end() {
    let deployment = start(toys(&[2], Duration::ZERO), options());
    assert_eq!(deployment.shut_down(), [Ok(()), Ok(())]);
}

/// A prompt whose greedy answer is long: found by trying, checked by the tests that need it to go on.
fn endless() -> String {
    let long = |n: &u32| {
        let answer: Answered = start(toys(&[], Duration::ZERO), options()).answer(1, request(&n.to_string()));
        answer.text.len() > 60
    };
    (0..1000).find(long).expect("one in a few prompts has a long answer").to_string()
}

fn request(prompt: &str) -> GenerationRequest {
    GenerationRequest::greedy(prompt)
}

fn options() -> StageOptions {
    StageOptions { prefill_chunk: 16, ..StageOptions::default() }
}

fn start(ranks: Vec<Box<dyn Compute>>, options: StageOptions) -> LocalDeployment {
    LocalDeployment::start(ranks, Box::new(ToyText), options)
}

fn toys(cuts: &[u32], step_time: Duration) -> Vec<Box<dyn Compute>> {
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([N_LAYERS]);
    let toy = |range| -> Box<dyn Compute> {
        let layers = LayerRange::try_from(range).expect("a range");
        Box::new(ToyCompute::new(layers, N_LAYERS, 2, TokenCount(256)).slowed(step_time))
    };
    starts.zip(ends).map(toy).collect()
}

fn await_text(deployment: &LocalDeployment) {
    while !matches!(deployment.report(), StageReport::Event { event: TokenEvent::Text { .. }, .. }) {}
}

/// Counts the tokens that go through.
struct Counted {
    inner: ToyCompute,
    n_tokens: Arc<AtomicUsize>,
}

impl Compute for Counted {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn footprint(&self) -> Footprint {
        self.inner.footprint()
    }

    fn forward(&mut self, step: &Step, input: Input<'_>) -> Result<Output, ComputeError> {
        self.n_tokens.fetch_add(step.n_rows(), Ordering::Relaxed);
        self.inner.forward(step, input)
    }
}

/// Fails at some draw.
struct Failing {
    inner: Box<dyn Compute>,
    n_steps_left: u32,
}

impl Compute for Failing {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn footprint(&self) -> Footprint {
        self.inner.footprint()
    }

    fn forward(&mut self, step: &Step, input: Input<'_>) -> Result<Output, ComputeError> {
        if step.parts.iter().any(|part| part.logits == Logits::OfLastToken) {
            if self.n_steps_left == 0 {
                return Err(ComputeError::NoSuchSlot { slot: 0, n_slots: 0 });
            }
            self.n_steps_left -= 1;
        }
        self.inner.forward(step, input)
    }
}
