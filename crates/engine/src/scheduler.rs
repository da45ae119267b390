//! The head's book of generations: who waits, who runs, what goes into the next step.
//!
//! Pure: requests, draws and the time come in; steps and reports go out. Every step takes one token of each generation
//! that is drawing, and fills up with a chunk of the prompts that are still being read, in turns. So a long prompt never
//! stalls another stream for longer than a chunk takes, and a short prompt does not wait for a long one to end.

use std::collections::VecDeque;
use std::time::Instant;

use domain::{GenerationId, TokenCount};

use crate::answer::{Answer, Chunk, Pushed};
use crate::sampling::{DrawRule, Drawn};
use crate::slots::Slots;
use crate::{
    FinishReason, GenerationError, GenerationRequest, Logits, SlotIdx, StageReport, Step, StepPart, Text, Timings,
    TokenEvent, TokenLogprob, TokenScore, Usage,
};

/// What the scheduler may hand out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub n_slots: usize,
    pub context: TokenCount,
    /// Tokens of prompts in one step.
    pub prefill_chunk: usize,
    pub queued_max: usize,
}

#[derive(Debug)]
pub(crate) struct Scheduler {
    limits: Limits,
    slots: Slots,
    queue: VecDeque<Waiting>,
    running: Vec<Running>,
    /// Generations whose prompt is not wholly sent, in the order of their turns.
    prefilling: VecDeque<GenerationId>,
    reports: Vec<StageReport>,
    /// The last reported count of running and queued.
    activity: (usize, usize),
}

/// A step to be run, and whose draws it will bring.
#[derive(Debug, PartialEq)]
pub(crate) struct Planned {
    pub step: Step,
    pub rules: Vec<(SlotIdx, DrawRule)>,
    /// One for each part that asks for logits, in order.
    pub draws: Vec<GenerationId>,
}

#[derive(Debug)]
struct Waiting {
    id: GenerationId,
    prompt: Vec<u32>,
    rule: DrawRule,
    stop: Vec<String>,
    answer_max: usize,
    asked_at: Instant,
}

#[derive(Debug)]
struct Running {
    id: GenerationId,
    slot: SlotIdx,
    rule: DrawRule,
    /// Whether the last rank knows `rule`.
    announced: bool,
    /// Prompt and answer.
    tokens: Vec<u32>,
    /// How many of `tokens` went into steps, or were cached.
    n_sent: usize,
    n_prompt: usize,
    answer_max: usize,
    /// Tokens drawn, one that ended the answer included.
    n_drawn: usize,
    answer: Answer,
    asked_at: Instant,
    started_at: Instant,
    first_token_at: Option<Instant>,
}

impl Scheduler {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            slots: Slots::new(limits.n_slots),
            queue: VecDeque::new(),
            running: Vec::new(),
            prefilling: VecDeque::new(),
            reports: Vec::new(),
            activity: (0, 0),
        }
    }

    /// Queues a request whose messages are `prompt` in tokens. `seed` serves if the request has none.
    pub fn submit(
        &mut self,
        id: GenerationId,
        request: GenerationRequest,
        prompt: Vec<u32>,
        seed: u64,
        now: Instant,
    ) -> Result<(), GenerationError> {
        let answer_max = self.answer_max(&request, prompt.len())?;
        // A slot that is free now is not waited for.
        let n_ahead = (self.queue.len() + self.running.len()).saturating_sub(self.limits.n_slots);
        if n_ahead >= self.limits.queued_max {
            let count = |n| u32::try_from(n).unwrap_or(u32::MAX);
            return Err(GenerationError::QueueFull {
                queued: count(n_ahead),
                queued_max: count(self.limits.queued_max),
            });
        }
        let rule = DrawRule {
            seed: request.sampling.seed.unwrap_or(seed),
            sampling: request.sampling,
            n_prompt: token_count(prompt.len()).0,
            top_logprobs: request.top_logprobs,
        };
        self.queue.push_back(Waiting { id, prompt, rule, stop: request.stop, answer_max, asked_at: now });
        Ok(())
    }

    /// How long the answer may get; an error if prompt and answer do not fit the context together.
    fn answer_max(&self, request: &GenerationRequest, n_prompt: usize) -> Result<usize, GenerationError> {
        let room = (self.limits.context.0 as usize).saturating_sub(n_prompt);
        let wanted = request.max_tokens.map_or(room.max(1), |max_tokens| max_tokens.0 as usize);
        if wanted <= room {
            return Ok(wanted);
        }
        Err(GenerationError::ContextTooLong {
            prompt: token_count(n_prompt),
            max_tokens: request.max_tokens,
            context: self.limits.context,
        })
    }

    /// The next step, if there is anything to compute.
    pub fn next_step(&mut self, now: Instant) -> Option<Planned> {
        self.admit(now);
        let mut planned = Planned { step: Step::default(), rules: Vec::new(), draws: Vec::new() };
        for running in self.running.iter_mut().filter(|running| running.n_sent >= running.n_prompt) {
            if running.n_sent < running.tokens.len() {
                running.send(1, &mut self.slots, &mut planned);
            }
        }
        let mut room = self.limits.prefill_chunk;
        for _ in 0..self.prefilling.len() {
            let Some(id) = self.prefilling.pop_front() else { break };
            let Some(running) = self.running.iter_mut().find(|running| running.id == id) else { continue };
            let n_tokens = room.min(running.n_prompt - running.n_sent);
            running.send(n_tokens, &mut self.slots, &mut planned);
            room -= n_tokens;
            if running.n_sent < running.n_prompt {
                self.prefilling.push_back(id);
                break;
            }
            if room == 0 {
                break;
            }
        }
        (!planned.step.parts.is_empty()).then_some(planned)
    }

    /// Gives free slots to those who wait, first come first served.
    fn admit(&mut self, now: Instant) {
        while let Some(waiting) = self.queue.front() {
            let Some(taken) = self.slots.take(&waiting.prompt) else { break };
            let Some(Waiting { id, prompt, rule, stop, answer_max, asked_at }) = self.queue.pop_front() else { break };
            let n_prompt = prompt.len();
            self.report(
                id,
                TokenEvent::Started {
                    prompt_tokens: token_count(n_prompt),
                    cached_tokens: token_count(taken.n_cached),
                },
            );
            self.prefilling.push_back(id);
            self.running.push(Running {
                id,
                slot: taken.slot,
                rule,
                announced: false,
                tokens: prompt,
                n_sent: taken.n_cached,
                n_prompt,
                answer_max,
                n_drawn: 0,
                answer: Answer::new(stop),
                asked_at,
                started_at: now,
                first_token_at: None,
            });
        }
    }

    /// Takes a draw in. Draws for generations that have ended meanwhile are dropped.
    pub fn drawn(&mut self, id: GenerationId, drawn: Drawn, text: &dyn Text, now: Instant) {
        let Some(idx) = self.running.iter().position(|running| running.id == id) else { return };
        let running = &mut self.running[idx];
        running.first_token_at.get_or_insert(now);
        running.n_drawn += 1;
        if text.is_end(drawn.token) {
            return self.finish(idx, FinishReason::Stop, Tail::Held, now);
        }
        running.tokens.push(drawn.token);
        let logprob = token_logprob(&drawn, text);
        match running.answer.push(text.bytes(drawn.token), logprob) {
            Pushed::Stopped(chunk) => {
                self.report_chunk(id, chunk);
                self.finish(idx, FinishReason::Stop, Tail::Cut, now);
            }
            Pushed::Grown(chunk) => {
                let is_full = running.n_drawn >= running.answer_max;
                self.report_chunk(id, chunk);
                if is_full {
                    self.finish(idx, FinishReason::Length, Tail::Held, now);
                }
            }
        }
    }

    fn finish(&mut self, idx: usize, reason: FinishReason, tail: Tail, now: Instant) {
        let running = self.running.remove(idx);
        self.slots.release(running.slot);
        let (usage, timings) = (running.usage(), running.timings(now));
        match tail {
            Tail::Held => self.report_chunk(running.id, running.answer.finish()),
            Tail::Cut => {}
        }
        self.report(running.id, TokenEvent::Finished { reason, usage, timings });
    }

    /// Ends a generation, waiting or running. An unknown id is none of ours any more.
    pub fn cancel(&mut self, id: GenerationId) {
        let waiting = self.queue.iter().position(|waiting| waiting.id == id);
        let running = self.running.iter().position(|running| running.id == id);
        if let Some(idx) = waiting {
            self.queue.remove(idx);
        } else if let Some(idx) = running {
            let slot = self.running.remove(idx).slot;
            self.slots.release(slot);
            self.prefilling.retain(|&prefilling| prefilling != id);
        } else {
            return;
        }
        self.reports.push(StageReport::GenerationFailed { id, error: GenerationError::Cancelled });
    }

    /// Ends every generation with `error`.
    pub fn fail_all(&mut self, error: &GenerationError) {
        let running = self.running.drain(..).map(|running| running.id);
        let ids: Vec<_> = running.chain(self.queue.drain(..).map(|waiting| waiting.id)).collect();
        self.prefilling.clear();
        let failed = |id| StageReport::GenerationFailed { id, error: error.clone() };
        self.reports.extend(ids.into_iter().map(failed));
    }

    /// What is to be told since the last call.
    pub fn take_reports(&mut self) -> Vec<StageReport> {
        let activity = (self.running.len(), self.queue.len());
        if activity != self.activity {
            self.activity = activity;
            let count = |n| u32::try_from(n).unwrap_or(u32::MAX);
            self.reports.push(StageReport::Activity { running: count(activity.0), queued: count(activity.1) });
        }
        std::mem::take(&mut self.reports)
    }

    fn report(&mut self, id: GenerationId, event: TokenEvent) {
        self.reports.push(StageReport::Event { id, event });
    }

    fn report_chunk(&mut self, id: GenerationId, chunk: Chunk) {
        let Chunk { text, logprobs } = chunk;
        if !text.is_empty() {
            self.report(id, TokenEvent::Text { text, logprobs });
        }
    }
}

/// What happens to text that was held back when an answer ends.
#[derive(Clone, Copy)]
enum Tail {
    /// It turned out to be part of the answer.
    Held,
    /// It was part of a stop text.
    Cut,
}

impl Running {
    /// Puts the next `n_tokens` into the step, and asks for a draw if nothing is left to send after them.
    fn send(&mut self, n_tokens: usize, slots: &mut Slots, planned: &mut Planned) {
        let tokens = self.tokens[self.n_sent..self.n_sent + n_tokens].to_vec();
        slots.extend(self.slot, &tokens);
        let position = token_count(self.n_sent).0;
        self.n_sent += n_tokens;
        if !self.announced {
            self.announced = true;
            planned.rules.push((self.slot, self.rule.clone()));
        }
        let logits = if self.n_sent == self.tokens.len() {
            planned.draws.push(self.id);
            Logits::OfLastToken
        } else {
            Logits::None
        };
        planned.step.parts.push(StepPart { slot: self.slot, position, tokens, logits });
    }

    fn usage(&self) -> Usage {
        Usage { prompt_tokens: token_count(self.n_prompt), completion_tokens: token_count(self.n_drawn) }
    }

    fn timings(&self, now: Instant) -> Timings {
        let first_token_at = self.first_token_at.unwrap_or(now);
        Timings {
            queued: self.started_at - self.asked_at,
            first_token: first_token_at - self.asked_at,
            decode: now - first_token_at,
        }
    }
}

fn token_logprob(drawn: &Drawn, text: &dyn Text) -> Option<TokenLogprob> {
    let logprobs = drawn.logprobs.as_ref()?;
    let score = |token, logprob| {
        let bytes = text.bytes(token).to_vec();
        TokenScore { text: String::from_utf8_lossy(&bytes).into_owned(), bytes, logprob }
    };
    let top = logprobs.top.iter().map(|&(token, logprob)| score(token, logprob)).collect();
    Some(TokenLogprob { token: score(drawn.token, logprobs.drawn), top })
}

fn token_count(n: usize) -> TokenCount {
    TokenCount(u32::try_from(n).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ToyText;

    #[test]
    fn a_long_prompt_and_a_drawing_generation_share_every_step() {
        let mut scheduler = scheduler(2);
        submit(&mut scheduler, 1, 3, None);
        assert_eq!(shape(&mut scheduler), ["0@0+3!"], "a whole prompt asks for a draw");
        draw(&mut scheduler, 1);
        submit(&mut scheduler, 2, 20, None);
        assert_eq!(shape(&mut scheduler), ["0@3+1!", "1@0+8"]);
        assert_eq!(shape(&mut scheduler), ["1@8+8"], "the draw is under way, the prompt need not wait for it");
        draw(&mut scheduler, 1);
        assert_eq!(shape(&mut scheduler), ["0@4+1!", "1@16+4!"]);
    }

    #[test]
    fn prompts_take_turns_and_small_ones_fill_what_is_left_of_a_chunk() {
        let mut scheduler = scheduler(3);
        submit(&mut scheduler, 1, 20, None);
        submit(&mut scheduler, 2, 12, None);
        submit(&mut scheduler, 3, 3, None);
        assert_eq!(shape(&mut scheduler), ["0@0+8"]);
        assert_eq!(shape(&mut scheduler), ["1@0+8"]);
        assert_eq!(shape(&mut scheduler), ["2@0+3!", "0@8+5"]);
        assert_eq!(shape(&mut scheduler), ["1@8+4!", "0@13+4"]);
        assert_eq!(shape(&mut scheduler), ["0@17+3!"]);
        assert_eq!(shape(&mut scheduler), Vec::<String>::new(), "all wait for their draws");
    }

    #[test]
    fn whoever_comes_first_gets_the_slot() {
        let mut scheduler = scheduler(1);
        for id in 1..=3 {
            submit(&mut scheduler, id, 2, Some(1));
        }
        assert_eq!(shape(&mut scheduler), ["0@0+2!"]);
        scheduler.cancel(GenerationId(2));
        draw(&mut scheduler, 1);
        assert_eq!(shape(&mut scheduler), ["0@1+1!"], "the third runs, and its first token was still held");
        assert_eq!(
            told(&mut scheduler),
            ["1 started", "2 cancelled", "1 text", "1 finished Length", "3 started", "1 running 0 queued"]
        );
    }

    #[test]
    fn the_queue_has_an_end() {
        let mut scheduler = scheduler(1);
        for id in 0..3 {
            submit(&mut scheduler, id, 2, None);
        }
        let request = GenerationRequest::greedy("");
        let full = scheduler.submit(GenerationId(9), request, vec![1], 0, Instant::now());
        assert_eq!(full, Err(GenerationError::QueueFull { queued: 2, queued_max: 2 }));
    }

    #[test]
    fn the_context_is_kept() {
        let mut scheduler = scheduler(1);
        let request = |max_tokens: Option<u32>| GenerationRequest {
            max_tokens: max_tokens.map(TokenCount),
            ..GenerationRequest::greedy("")
        };
        let mut submit =
            |n_prompt, max| scheduler.submit(GenerationId(1), request(max), vec![1; n_prompt], 0, Instant::now());
        assert_eq!(submit(100, None).map_err(|error| error.code()), Err("context_too_long"));
        assert_eq!(submit(90, Some(11)).map_err(|error| error.code()), Err("context_too_long"));
        assert_eq!(submit(90, Some(10)), Ok(()));
        assert_eq!(submit(99, None), Ok(()));
    }

    #[test]
    fn an_answer_fills_the_context_and_no_more() {
        let mut scheduler = scheduler(1);
        submit(&mut scheduler, 1, 97, None);
        while scheduler.next_step(Instant::now()).is_some_and(|planned| planned.draws.is_empty()) {}
        draw(&mut scheduler, 1);
        assert_eq!(shape(&mut scheduler), ["0@97+1!"]);
        draw(&mut scheduler, 1);
        assert_eq!(shape(&mut scheduler), ["0@98+1!"]);
        draw(&mut scheduler, 1);
        assert!(told(&mut scheduler).contains(&"1 finished Length".to_owned()));
    }

    #[test]
    fn a_lost_rank_ends_everyone() {
        let mut scheduler = scheduler(1);
        submit(&mut scheduler, 1, 2, None);
        submit(&mut scheduler, 2, 2, None);
        shape(&mut scheduler);
        scheduler.fail_all(&GenerationError::ShuttingDown);
        assert_eq!(told(&mut scheduler), ["1 started", "1 shutting_down", "2 shutting_down"]);
        assert_eq!(shape(&mut scheduler), Vec::<String>::new());
    }

    fn scheduler(n_slots: usize) -> Scheduler {
        Scheduler::new(Limits { n_slots, context: TokenCount(100), prefill_chunk: 8, queued_max: 2 })
    }

    fn submit(scheduler: &mut Scheduler, id: u64, n_prompt: u32, max_tokens: Option<u32>) {
        let request = GenerationRequest { max_tokens: max_tokens.map(TokenCount), ..GenerationRequest::greedy("") };
        let prompt = (0..n_prompt).collect();
        scheduler.submit(GenerationId(id), request, prompt, 0, Instant::now()).expect("room in the queue");
    }

    fn draw(scheduler: &mut Scheduler, id: u64) {
        let drawn = Drawn { token: u32::from(b'x'), logprobs: None };
        scheduler.drawn(GenerationId(id), drawn, &ToyText, Instant::now());
    }

    /// The next step's parts as `slot@position+tokens`, with `!` where a draw is asked for.
    fn shape(scheduler: &mut Scheduler) -> Vec<String> {
        let planned = scheduler.next_step(Instant::now());
        let parts = planned.into_iter().flat_map(|planned| planned.step.parts);
        parts
            .map(|part| {
                let draw = if part.logits == Logits::OfLastToken { "!" } else { "" };
                format!("{}@{}+{}{draw}", part.slot.0, part.position, part.tokens.len())
            })
            .collect()
    }

    fn told(scheduler: &mut Scheduler) -> Vec<String> {
        let tell = |report| match report {
            StageReport::Event { id, event: TokenEvent::Started { .. } } => format!("{id} started"),
            StageReport::Event { id, event: TokenEvent::Text { .. } } => format!("{id} text"),
            StageReport::Event { id, event: TokenEvent::Finished { reason, .. } } => {
                format!("{id} finished {reason:?}")
            }
            StageReport::GenerationFailed { id, error } => format!("{id} {}", error.code()),
            StageReport::Activity { running, queued } => format!("{running} running {queued} queued"),
        };
        scheduler.take_reports().into_iter().map(tell).collect()
    }
}
