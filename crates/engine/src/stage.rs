//! One rank at work: its place in the pipeline, how it is told things, and its blocking run.

use std::fmt;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{GenerationId, NodeId, Rank};
use transport::{Cancel, Link, LinkError, Wait};

use crate::follower::{Follower, Onward};
use crate::head::{Head, Pipeline};
use crate::{Compute, GenerationError, GenerationRequest, StageCommand, StageReport, Text};

/// How long a rank may take for one step, or to take one in, before it counts as lost. A chunk of a prompt through
/// half of a 70B model on slow cores takes tens of seconds; a rank whose process has died is noticed by its link at
/// once, and a machine that fell asleep by the control plane within seconds. This is for what neither sees.
pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(120);

/// Commands under way from the node to the stage. A request is taken from here into the scheduler's own queue between
/// two steps; more than this between two steps is a flood, which the sender is to feel.
const COMMANDS_MAX: usize = 256;

/// One rank of one deployment. [`Stage::run`] is its life; it blocks, on a thread of its own.
pub struct Stage {
    post: Post,
    role: StageRole,
}

/// What every rank has, whatever its place.
pub(crate) struct Post {
    pub me: Member,
    pub compute: Box<dyn Compute>,
    pub options: StageOptions,
    pub orders: Receiver<Order>,
    pub ending: Arc<Ending>,
}

/// A rank by its number and the node it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub rank: Rank,
    pub node: NodeId,
    /// What people call the node.
    pub name: String,
}

/// A link and who is at its other end.
pub struct MemberLink {
    pub member: Member,
    pub link: Box<dyn Link>,
}

/// A rank's place in the pipeline, with what it needs there.
///
/// Neighbours share one link, which serves both directions. Draws go from the last rank to the head: over the link that
/// two ranks share, or, from three ranks on, over a link between the two ends.
pub enum StageRole {
    /// The only rank.
    Whole {
        text: Box<dyn Text>,
    },
    /// Rank 0 of several; `last` is `None` when the next rank is the last.
    Head {
        text: Box<dyn Text>,
        next: MemberLink,
        last: Option<MemberLink>,
    },
    Middle {
        previous: MemberLink,
        next: MemberLink,
    },
    /// `head` is `None` when the rank before is the head.
    Last {
        previous: MemberLink,
        head: Option<MemberLink>,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct StageOptions {
    /// Tokens of prompts in one step. Larger reads prompts a little faster; every other stream waits that much longer.
    pub prefill_chunk: usize,
    /// Requests that may wait for a slot. The 64th waits for minutes already; more would only time out at their clients.
    pub queued_max: usize,
}

impl Default for StageOptions {
    fn default() -> Self {
        Self { prefill_chunk: 128, queued_max: 64 }
    }
}

/// Tells a running stage things, from any thread.
#[derive(Clone)]
pub struct StageHandle {
    orders: SyncSender<Order>,
    ending: Arc<Ending>,
}

/// The stage has ended; nothing can be told any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stage has ended")]
pub struct StageEnded;

#[derive(Debug)]
pub(crate) enum Order {
    Generate(GenerationId, Box<GenerationRequest>),
    Cancel(GenerationId),
    /// The ending has changed: wakes a stage that has nothing to do.
    Look,
}

/// How the stage was told to end, and the switch that frees it from whatever it waits for.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    why: Mutex<Option<End>>,
    pub switch: Cancel,
}

#[derive(Clone, Debug)]
pub(crate) enum End {
    Shutdown,
    Abort(GenerationError),
}

impl Stage {
    pub fn new(me: Member, compute: Box<dyn Compute>, role: StageRole, options: StageOptions) -> (Self, StageHandle) {
        let (sender, orders) = mpsc::sync_channel(COMMANDS_MAX);
        let ending = Arc::new(Ending::default());
        let handle = StageHandle { orders: sender, ending: ending.clone() };
        (Self { post: Post { me, compute, options, orders, ending }, role }, handle)
    }

    /// Serves until it is told to end, every handle is dropped, or something fails. `Ok` is an end in good order.
    ///
    /// `report` is called on this thread and may block: the stage then computes no faster than its reports are taken.
    /// Only the head reports. Before an error is returned, every generation was reported as failed with it.
    pub fn run(self, report: impl FnMut(StageReport)) -> Result<(), GenerationError> {
        let Self { post, role } = self;
        let span = tracing::info_span!("stage", rank = %post.me.rank);
        let _entered = span.enter();
        match role {
            StageRole::Whole { text } => Head::new(post, text, Pipeline::Here).run(report),
            StageRole::Head { text, next, last } => Head::new(post, text, Pipeline::Ahead { next, last }).run(report),
            StageRole::Middle { previous, next } => Follower::new(post, previous, Onward::Next(next)).run(),
            StageRole::Last { previous, head } => Follower::new(post, previous, Onward::Head(head)).run(),
        }
    }
}

impl StageHandle {
    /// Hands a command over. Blocks while the stage has many to take in; an end is never held up.
    pub fn send(&self, command: StageCommand) -> Result<(), StageEnded> {
        let order = match command {
            StageCommand::Generate { id, request } => Order::Generate(id, request),
            StageCommand::Cancel { id } => Order::Cancel(id),
            StageCommand::Abort { error } => return self.end(End::Abort(error)),
            StageCommand::Shutdown => return self.end(End::Shutdown),
        };
        self.orders.send(order).map_err(|_| StageEnded)
    }

    fn end(&self, end: End) -> Result<(), StageEnded> {
        self.ending.order(end);
        match self.orders.try_send(Order::Look) {
            // A stage with a full channel has much to look at already.
            Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(StageEnded),
        }
    }
}

impl Ending {
    /// The first order counts.
    fn order(&self, end: End) {
        self.lock().get_or_insert(end);
        self.switch.cancel();
    }

    pub fn why(&self) -> Option<End> {
        self.lock().clone()
    }

    /// A thread that panicked with the lock held left a whole value.
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<End>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemberLink {
    pub(crate) fn send(&mut self, message: &[u8], wait: &Wait) -> Result<(), Broken> {
        self.link.send(message, wait).map_err(|error| self.broken(error))
    }

    pub(crate) fn recv(&mut self, message: &mut Vec<u8>, wait: &Wait) -> Result<(), Broken> {
        self.link.recv(message, wait).map_err(|error| self.broken(error))
    }

    /// Ends the link in good order; one that does not end within a moment is cut, which the peer takes as well.
    pub(crate) fn close(self) {
        let wait = Wait::within(Duration::from_secs(1), &Cancel::new());
        if let Err(error) = self.link.close(&wait) {
            tracing::debug!(%error, rank = %self.member.rank, "a link was cut rather than closed");
        }
    }

    fn broken(&self, error: LinkError) -> Broken {
        let cause = match error {
            LinkError::Cancelled => return Broken::Cancelled,
            LinkError::Lost { cause, .. } => cause,
            LinkError::Closed { .. } => "it closed the link".to_owned(),
            LinkError::Timeout { waited, .. } => {
                return Broken::TimedOut(self.member.lost(format!("no answer within {} s", waited.as_secs())));
            }
            error @ (LinkError::Corrupt { .. }
            | LinkError::Version { .. }
            | LinkError::TooLarge { .. }
            | LinkError::WrongPeer { .. }
            | LinkError::Refused { .. }
            | LinkError::Unreachable { .. }
            | LinkError::NobodyCame { .. }
            | LinkError::Listen { .. }
            | LinkError::Identity(_)) => error.to_string(),
        };
        Broken::Lost(self.member.lost(cause))
    }
}

/// Why a link call did not do its work.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The stage was told to end.
    Cancelled,
    /// The link is as good as before; whether the wait was too long is the caller's to judge.
    TimedOut(GenerationError),
    Lost(GenerationError),
}

impl Member {
    pub(crate) fn lost(&self, cause: String) -> GenerationError {
        GenerationError::RankLost { rank: self.rank, node: self.node, name: self.name.clone(), cause }
    }

    pub(crate) fn failed(&self, cause: &dyn fmt::Display) -> GenerationError {
        GenerationError::Compute { rank: self.rank, node: self.node, name: self.name.clone(), cause: cause.to_string() }
    }
}
