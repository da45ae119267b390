//! The loop of every rank but the head: takes a step from the rank before, runs its layers, hands the result on.

use std::time::Duration;

use transport::{Cancel, Wait};

use crate::draws::Draws;
use crate::message::{self, Downstream, StepHeader, Upstream};
use crate::stage::{Broken, End, MemberLink, Post, STEP_DEADLINE};
use crate::{GenerationError, Input, Output};

/// How long one look for the next step lasts. An idle pipeline is no failure: the follower looks again, and hears of a
/// dead neighbour from its link or its node.
const LOOK: Duration = Duration::from_secs(60);

/// How long a failing rank tries to tell the ranks after it.
const PASS_ON_WAIT: Duration = Duration::from_millis(250);

/// Where a follower's results go.
pub(crate) enum Onward {
    Next(MemberLink),
    /// The last rank's draws. `None`: the rank before is the head.
    Head(Option<MemberLink>),
}

pub(crate) struct Follower {
    post: Post,
    previous: MemberLink,
    onward: Onward,
    draws: Draws,
    hidden: Vec<f32>,
    message: Vec<u8>,
}

/// Why the loop is over.
enum Over {
    InGoodOrder,
    Failed(GenerationError),
}

impl From<Broken> for Over {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Cancelled => Self::InGoodOrder,
            Broken::TimedOut(error) | Broken::Lost(error) => Self::Failed(error),
        }
    }
}

impl Follower {
    pub fn new(post: Post, previous: MemberLink, onward: Onward) -> Self {
        let draws = Draws::new(post.compute.shape().n_slots);
        Self { post, previous, onward, draws, hidden: Vec::new(), message: Vec::new() }
    }

    pub fn run(mut self) -> Result<(), GenerationError> {
        let over = loop {
            if let Err(over) = self.turn() {
                break over;
            }
        };
        match (self.post.ending.why(), over) {
            (Some(End::Abort(error)), _) => Err(error),
            (Some(End::Shutdown), _) | (None, Over::InGoodOrder) => {
                self.close();
                Ok(())
            }
            (None, Over::Failed(error)) => {
                self.pass_on(&error);
                Err(error)
            }
        }
    }

    fn turn(&mut self) -> Result<(), Over> {
        match self.previous.recv(&mut self.message, &Wait::within(LOOK, &self.post.ending.switch)) {
            Ok(()) => {}
            Err(Broken::TimedOut(_)) => return Ok(()),
            Err(broken @ (Broken::Cancelled | Broken::Lost(_))) => return Err(broken.into()),
        }
        let (header, payload) =
            message::decode(&self.message).map_err(|error| Over::Failed(self.previous.member.failed(&error)))?;
        match header {
            Downstream::Step(header) => {
                let n_values = header.step.n_rows().saturating_mul(self.post.compute.shape().hidden_size);
                message::decode_hidden(payload, n_values, &mut self.hidden)
                    .map_err(|error| Over::Failed(self.previous.member.failed(&error)))?;
                self.compute(header)
            }
            Downstream::Failed(error) => Err(Over::Failed(error)),
            Downstream::Goodbye => Err(Over::InGoodOrder),
        }
    }

    fn compute(&mut self, header: StepHeader) -> Result<(), Over> {
        let me = &self.post.me;
        let failed = |error: &dyn std::fmt::Display| Over::Failed(me.failed(error));
        let output =
            self.post.compute.forward(&header.step, Input::Hidden(&self.hidden)).map_err(|error| failed(&error))?;
        let wait = Wait::within(STEP_DEADLINE, &self.post.ending.switch);
        match (&mut self.onward, output) {
            (Onward::Next(next), Output::Hidden(hidden)) => {
                message::encode(&Downstream::Step(header), &hidden, &mut self.message);
                Ok(next.send(&self.message, &wait)?)
            }
            (Onward::Head(head), Output::Logits(mut logits)) => {
                let StepHeader { number, step, rules } = header;
                let vocab_size = self.post.compute.shape().vocab_size;
                let drawn = self.draws.draw(&step, rules, &mut logits, vocab_size).map_err(|error| failed(&error))?;
                message::encode(&Upstream::Drawn { number, drawn }, &[], &mut self.message);
                Ok(head.as_mut().unwrap_or(&mut self.previous).send(&self.message, &wait)?)
            }
            (Onward::Next(_), Output::Logits(_)) => Err(failed(&"a rank in the middle gave scores")),
            (Onward::Head(_), Output::Hidden(_)) => Err(failed(&"the last rank gave no scores")),
        }
    }

    /// Tells the ranks after this one, and so the head, who failed. One that does not hear it notices by its links.
    fn pass_on(mut self, error: &GenerationError) {
        let wait = Wait::within(PASS_ON_WAIT, &Cancel::new());
        let told = match &mut self.onward {
            Onward::Next(next) => {
                message::encode(&Downstream::Failed(error.clone()), &[], &mut self.message);
                next.send(&self.message, &wait)
            }
            Onward::Head(head) => {
                message::encode(&Upstream::Failed(error.clone()), &[], &mut self.message);
                head.as_mut().unwrap_or(&mut self.previous).send(&self.message, &wait)
            }
        };
        if told.is_ok() {
            // In good order, so that what was sent is not lost with the link.
            match self.onward {
                Onward::Next(next) => next.close(),
                Onward::Head(Some(head)) => head.close(),
                Onward::Head(None) => self.previous.close(),
            }
        }
    }

    /// Passes the goodbye on and closes the links.
    fn close(mut self) {
        match self.onward {
            Onward::Next(mut next) => {
                message::encode(&Downstream::Goodbye, &[], &mut self.message);
                let wait = Wait::within(PASS_ON_WAIT, &Cancel::new());
                if next.send(&self.message, &wait).is_ok() {
                    next.close();
                }
            }
            Onward::Head(head) => head.into_iter().for_each(MemberLink::close),
        }
        self.previous.close();
    }
}
