//! The head's loop: takes orders, runs steps through its own layers and on to the next rank, takes draws in.

use std::collections::VecDeque;
use std::sync::mpsc::{RecvError, TryRecvError};
use std::time::{Duration, Instant};

use domain::GenerationId;
use transport::{Cancel, Wait};

use crate::draws::Draws;
use crate::message::{self, Downstream, StepHeader, Upstream};
use crate::sampling::Drawn;
use crate::scheduler::{Limits, Planned, Scheduler};
use crate::stage::{Broken, End, MemberLink, Order, Post, STEP_DEADLINE};
use crate::{BadRequest, GenerationError, GenerationRequest, Input, Output, StageReport, Text};

/// How long the head asks the far end which rank failed when its own link breaks: a failure in the middle of the
/// pipeline cuts both, and only the far end knows who it was.
const VERDICT_WAIT: Duration = Duration::from_millis(250);

/// The ranks after the head.
pub(crate) enum Pipeline {
    /// None: the head has all layers, and draws.
    Here,
    Ahead {
        next: MemberLink,
        /// `None` when the next rank is the last.
        last: Option<MemberLink>,
    },
}

pub(crate) struct Head {
    post: Post,
    text: Box<dyn Text>,
    pipeline: Pipeline,
    scheduler: Scheduler,
    /// For a head that has all layers.
    draws: Draws,
    /// Oldest first; the last rank answers in this order.
    under_way: VecDeque<UnderWay>,
    n_steps: u64,
    message: Vec<u8>,
}

/// A step that the last rank has not answered yet.
struct UnderWay {
    number: u64,
    draws: Vec<GenerationId>,
}

/// Why the loop is over.
enum Over {
    InGoodOrder,
    Failed(GenerationError),
}

impl Head {
    pub fn new(post: Post, text: Box<dyn Text>, pipeline: Pipeline) -> Self {
        let shape = post.compute.shape();
        let scheduler = Scheduler::new(Limits {
            n_slots: shape.n_slots,
            context: shape.context,
            prefill_chunk: post.options.prefill_chunk.max(1),
            queued_max: post.options.queued_max,
        });
        Self {
            post,
            text,
            pipeline,
            scheduler,
            draws: Draws::new(shape.n_slots),
            under_way: VecDeque::new(),
            n_steps: 0,
            message: Vec::new(),
        }
    }

    pub fn run(mut self, mut report: impl FnMut(StageReport)) -> Result<(), GenerationError> {
        let over = loop {
            if let Err(over) = self.turn(&mut report) {
                break over;
            }
        };
        // However the loop came to its end, an ordered one says why better than a broken link does.
        let over = match self.post.ending.why() {
            Some(End::Abort(error)) => Over::Failed(error),
            Some(End::Shutdown) => Over::InGoodOrder,
            None => over,
        };
        let (failed_with, result) = match over {
            Over::InGoodOrder => (GenerationError::ShuttingDown, Ok(())),
            Over::Failed(error) => (error.clone(), Err(error)),
        };
        self.scheduler.fail_all(&failed_with);
        self.scheduler.take_reports().into_iter().for_each(&mut report);
        if result.is_ok() {
            self.say_goodbye();
        }
        result
    }

    /// Takes in what was ordered, then does one thing: starts a step, takes an answer in, or waits for orders.
    fn turn(&mut self, report: &mut impl FnMut(StageReport)) -> Result<(), Over> {
        self.take_orders(report)?;
        let has_room = self.under_way.len() < self.steps_max();
        let planned = if has_room { self.scheduler.next_step(Instant::now()) } else { None };
        // Before anything that takes time: a step, or a wait.
        self.scheduler.take_reports().into_iter().for_each(&mut *report);
        if let Some(planned) = planned {
            return self.start(planned);
        }
        if !self.under_way.is_empty() {
            return self.take_answer();
        }
        match self.post.orders.recv() {
            Ok(order) => self.take(order, report),
            Err(RecvError) => Err(Over::InGoodOrder),
        }
    }

    /// Steps under way at once: one for each rank to compute, so that chunks of a long prompt overlap.
    fn steps_max(&self) -> usize {
        match &self.pipeline {
            Pipeline::Here => 1,
            Pipeline::Ahead { next, last } => last.as_ref().unwrap_or(next).member.rank.idx() + 1,
        }
    }

    fn take_orders(&mut self, report: &mut impl FnMut(StageReport)) -> Result<(), Over> {
        loop {
            if self.post.ending.switch.is_cancelled() {
                return Err(Over::InGoodOrder);
            }
            match self.post.orders.try_recv() {
                Ok(order) => self.take(order, report)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(Over::InGoodOrder),
            }
        }
    }

    fn take(&mut self, order: Order, report: &mut impl FnMut(StageReport)) -> Result<(), Over> {
        match order {
            Order::Generate(id, request) => {
                if let Err(error) = self.submit(id, *request) {
                    report(StageReport::GenerationFailed { id, error });
                }
            }
            Order::Cancel(id) => self.scheduler.cancel(id),
            Order::Look => {}
        }
        Ok(())
    }

    fn submit(&mut self, id: GenerationId, request: GenerationRequest) -> Result<(), GenerationError> {
        let now = Instant::now();
        request.check()?;
        let prompt = self.text.prompt(&request.messages).map_err(|error| BadRequest {
            field: "messages".to_owned(),
            expected: "what the model's chat template takes".to_owned(),
            got: error.cause,
        })?;
        self.scheduler.submit(id, request, prompt, rand::random(), now)
    }

    /// Runs this rank's layers over a step and sends it on; draws at once if there is no other rank.
    fn start(&mut self, planned: Planned) -> Result<(), Over> {
        let Planned { step, rules, draws } = planned;
        let number = self.n_steps;
        self.n_steps += 1;
        let failed = |error: &dyn std::fmt::Display| Over::Failed(self.post.me.failed(error));
        let output = self.post.compute.forward(&step, Input::Tokens).map_err(|error| failed(&error))?;
        match (&mut self.pipeline, output) {
            (Pipeline::Here, Output::Logits(mut logits)) => {
                let vocab_size = self.post.compute.shape().vocab_size;
                let drawn = self.draws.draw(&step, rules, &mut logits, vocab_size).map_err(|error| failed(&error))?;
                self.take_draws(draws, drawn)
            }
            (Pipeline::Ahead { next, .. }, Output::Hidden(hidden)) => {
                let header = Downstream::Step(StepHeader { number, step, rules });
                message::encode(&header, &hidden, &mut self.message);
                let wait = Wait::within(STEP_DEADLINE, &self.post.ending.switch);
                let sent = next.send(&self.message, &wait);
                self.under_way.push_back(UnderWay { number, draws });
                sent.map_err(|broken| self.verdict(broken))
            }
            (Pipeline::Here, Output::Hidden(_)) => Err(failed(&"the only rank gave no scores")),
            (Pipeline::Ahead { .. }, Output::Logits(_)) => Err(failed(&"the first of several ranks gave scores")),
        }
    }

    /// Waits for the last rank's answer to the oldest step under way.
    fn take_answer(&mut self) -> Result<(), Over> {
        let wait = Wait::within(STEP_DEADLINE, &self.post.ending.switch);
        let Pipeline::Ahead { next, last } = &mut self.pipeline else { return Ok(()) };
        let far = last.as_mut().unwrap_or(next);
        if let Err(broken) = far.recv(&mut self.message, &wait) {
            return Err(Over::from(broken));
        }
        let member = far.member.clone();
        let broken = |cause: String| Over::Failed(member.failed(&cause));
        match message::decode(&self.message) {
            Ok((Upstream::Drawn { number, drawn }, _)) => match self.under_way.pop_front() {
                Some(step) if step.number == number => self.take_draws(step.draws, drawn),
                Some(step) => Err(broken(format!("it answered step {number}, expected {}", step.number))),
                None => Err(broken(format!("it answered step {number}, which was not sent"))),
            },
            Ok((Upstream::Failed(error), _)) => Err(Over::Failed(error)),
            Err(error) => Err(broken(error.to_string())),
        }
    }

    fn take_draws(&mut self, draws: Vec<GenerationId>, drawn: Vec<Drawn>) -> Result<(), Over> {
        if draws.len() != drawn.len() {
            let cause = format!("{} tokens were drawn for {} generations", drawn.len(), draws.len());
            return Err(Over::Failed(self.post.me.failed(&cause)));
        }
        let now = Instant::now();
        for (id, drawn) in draws.into_iter().zip(drawn) {
            self.scheduler.drawn(id, drawn, self.text.as_ref(), now);
        }
        Ok(())
    }

    /// Who is to blame for a broken link to the next rank: the far end knows better, if it still speaks.
    fn verdict(&mut self, broken: Broken) -> Over {
        let Pipeline::Ahead { last: Some(last), .. } = &mut self.pipeline else { return Over::from(broken) };
        let wait = Wait::within(VERDICT_WAIT, &self.post.ending.switch);
        loop {
            match last.recv(&mut self.message, &wait) {
                Ok(()) => match message::decode(&self.message) {
                    Ok((Upstream::Failed(error), _)) => return Over::Failed(error),
                    // Answers to steps that had passed the break.
                    Ok((Upstream::Drawn { .. }, _)) => {}
                    Err(_) => return Over::from(broken),
                },
                Err(Broken::TimedOut(_) | Broken::Cancelled) => return Over::from(broken),
                Err(Broken::Lost(error)) => return Over::Failed(error),
            }
        }
    }

    fn say_goodbye(self) {
        let Pipeline::Ahead { mut next, last } = self.pipeline else { return };
        let mut message = self.message;
        message::encode(&Downstream::Goodbye, &[], &mut message);
        // The switch is thrown already; a goodbye gets a moment of its own.
        let wait = Wait::within(Duration::from_secs(1), &Cancel::new());
        if next.send(&message, &wait).is_ok() {
            next.close();
            last.into_iter().for_each(MemberLink::close);
        }
    }
}

impl From<Broken> for Over {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Cancelled => Self::InGoodOrder,
            Broken::TimedOut(error) | Broken::Lost(error) => Self::Failed(error),
        }
    }
}
