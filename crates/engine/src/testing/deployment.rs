//! A whole deployment in one process: each rank on a thread, links in memory.

use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use domain::{GenerationId, NodeId, Rank};
use transport::{Link, mem_pair};

use crate::{
    Compute, FinishReason, GenerationError, GenerationRequest, Member, MemberLink, Stage, StageCommand, StageHandle,
    StageOptions, StageReport, StageRole, Text, TokenEvent, TokenLogprob, Usage,
};

/// Nothing that a test waits for takes longer, unless something hangs.
const TEST_WAIT: Duration = Duration::from_secs(60);

/// Ranks that run until they are stopped or one fails.
pub struct LocalDeployment {
    handles: Vec<StageHandle>,
    reports: Receiver<StageReport>,
    ranks: Vec<JoinHandle<Result<(), GenerationError>>>,
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    pub text: String,
    pub logprobs: Vec<TokenLogprob>,
    /// How it ended, or why it did not.
    pub end: Result<(FinishReason, Usage), GenerationError>,
}

impl LocalDeployment {
    /// Starts a rank for each of `computes`, in order. Rank `i` runs on a node called `node-i`.
    pub fn start(
        computes: impl IntoIterator<Item = Box<dyn Compute>>,
        text: Box<dyn Text>,
        options: StageOptions,
    ) -> Self {
        let computes: Vec<_> = computes.into_iter().collect();
        let roles = roles(computes.len(), text);
        let (sender, reports) = mpsc::channel();
        let mut handles = Vec::new();
        let mut ranks = Vec::new();
        for (rank, (compute, role)) in computes.into_iter().zip(roles).enumerate() {
            let (stage, handle) = Stage::new(Self::member(rank), compute, role, options);
            let sender = sender.clone();
            handles.push(handle);
            ranks.push(thread::spawn(move || {
                // A test that has seen enough stops listening.
                stage.run(|report| {
                    sender.send(report).ok();
                })
            }));
        }
        Self { handles, reports, ranks }
    }

    pub fn member(rank: usize) -> Member {
        let rank = u16::try_from(rank).expect("ranks are few");
        let [high, low] = rank.to_be_bytes();
        let mut key = [0; 32];
        (key[0], key[1]) = (high, low + 1);
        Member { rank: Rank(rank), node: NodeId::from_bytes(key), name: format!("node-{rank}") }
    }

    pub fn send(&self, rank: usize, command: StageCommand) {
        // A rank that has ended hears nothing; the test sees that by what it reports.
        self.handles[rank].send(command).ok();
    }

    pub fn ask(&self, id: u64, request: GenerationRequest) {
        self.send(0, StageCommand::Generate { id: GenerationId(id), request: Box::new(request) });
    }

    /// The head's next report.
    pub fn report(&self) -> StageReport {
        self.reports.recv_timeout(TEST_WAIT).expect("the head reports before it ends")
    }

    /// Asks, and waits for the end of the answer. Reports of other generations are dropped.
    pub fn answer(&self, id: u64, request: GenerationRequest) -> Answered {
        self.ask(id, request);
        self.await_answer(id)
    }

    pub fn await_answer(&self, wanted: u64) -> Answered {
        let (mut text, mut logprobs) = (String::new(), Vec::new());
        loop {
            match self.report() {
                StageReport::Event { id, event } if id.0 == wanted => match event {
                    TokenEvent::Started { .. } => {}
                    TokenEvent::Text { text: more, logprobs: scores } => {
                        text.push_str(&more);
                        logprobs.extend(scores);
                    }
                    TokenEvent::Finished { reason, usage, .. } => {
                        return Answered { text, logprobs, end: Ok((reason, usage)) };
                    }
                },
                StageReport::GenerationFailed { id, error } if id.0 == wanted => {
                    return Answered { text, logprobs, end: Err(error) };
                }
                StageReport::Event { .. } | StageReport::GenerationFailed { .. } | StageReport::Activity { .. } => {}
            }
        }
    }

    /// Stops the head in good order, and says how each rank ended.
    pub fn shut_down(self) -> Vec<Result<(), GenerationError>> {
        self.send(0, StageCommand::Shutdown);
        self.ends()
    }

    /// Waits for every rank to end.
    pub fn ends(self) -> Vec<Result<(), GenerationError>> {
        self.ranks.into_iter().map(|rank| rank.join().expect("no rank panics")).collect()
    }
}

fn roles(n_ranks: usize, text: Box<dyn Text>) -> Vec<StageRole> {
    let member = LocalDeployment::member;
    let pair = |a: usize, b: usize| {
        let (at_a, at_b) = mem_pair(member(a).node, member(b).node);
        let to = |member, link: Box<dyn Link>| MemberLink { member, link };
        (to(member(b), Box::new(at_a)), to(member(a), Box::new(at_b)))
    };
    let last = n_ranks - 1;
    if last == 0 {
        return vec![StageRole::Whole { text }];
    }
    let (far, near) = if n_ranks > 2 { Some(pair(0, last)).unzip() } else { (None, None) };
    let (next, mut previous) = pair(0, 1);
    let mut roles = vec![StageRole::Head { text, next, last: far }];
    for rank in 1..last {
        let (next, after) = pair(rank, rank + 1);
        roles.push(StageRole::Middle { previous: std::mem::replace(&mut previous, after), next });
    }
    roles.push(StageRole::Last { previous, head: near });
    roles
}
