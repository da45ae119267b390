//! The loop that joins the cluster's mind to the world: everything that happens goes into `control`, everything
//! that `control` wants is done here, and after each step the state is published.
//!
//! ```text
//! mod.rs       what can happen, one arm each
//! outputs.rs   what `control` wants, one arm each
//! ranks.rs     fetches and rank processes of this node
//! facts.rs     when facts are worth telling
//! publish.rs   the state that everyone outside reads
//! ```

mod facts;
mod outputs;
mod publish;
mod ranks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{Boot, Control, DeployRefused, Input, Message, RequestId};
use domain::{DeploymentId, Epoch, LinkFacts, NodeFacts, NodeId, Plan};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use crate::discovery::{Discovery, DiscoveryEvent, Sighting};
use crate::generations::serve_remote;
use crate::handle::Inner;
use crate::rank::{RankEvent, RankKey};
use crate::secure::{NetEvent, StreamKind};
use crate::state::ClusterState;
use crate::survey::Survey;

use ranks::Ranks;
pub(crate) use ranks::{HeadRanks, SLOTS};

/// How often the machine is looked at. Memory that an app took matters to a plan some seconds later, not sooner.
const SURVEY_EVERY: Duration = Duration::from_secs(5);

/// How often a link is measured again while it stands. A measurement fills it for up to a second.
const PROBE_EVERY: Duration = Duration::from_secs(300);

/// Asked of the driver by the node's handle.
pub(crate) enum Command {
    Deploy {
        plan: Plan,
        answer: oneshot::Sender<Result<DeploymentId, DeployRefused>>,
    },
    Stop {
        deployment: DeploymentId,
    },
    /// A node was taken out of the peer book.
    Forgot {
        node: NodeId,
    },
    Renamed {
        name: String,
    },
    /// Something that the state shows has changed outside of `control`.
    Refresh,
    Shutdown {
        done: oneshot::Sender<()>,
    },
}

/// What the driver hears.
pub(crate) struct Ears {
    pub commands: mpsc::Receiver<Command>,
    pub net: mpsc::Receiver<NetEvent>,
    pub discovery: mpsc::Receiver<DiscoveryEvent>,
    pub ranks: mpsc::Receiver<(RankKey, RankEvent)>,
    /// Of tasks that the driver itself began.
    pub own: mpsc::Receiver<OwnEvent>,
    pub downloads: watch::Receiver<u64>,
}

/// What the driver's own tasks tell it.
pub(crate) enum OwnEvent {
    Surveyed(NodeFacts),
    Probed(LinkFacts),
    /// The model's files are on disk.
    Fetched {
        deployment: DeploymentId,
        epoch: Epoch,
        files: Vec<PathBuf>,
    },
    Rank(control::RankReport),
}

pub(crate) struct Driver {
    node: Arc<Inner>,
    control: Control,
    survey: Survey,
    discovery: Discovery,
    ranks: Ranks,
    own: mpsc::Sender<OwnEvent>,
    name: String,
    /// As last told to `control`.
    facts: NodeFacts,
    links: BTreeMap<NodeId, LinkFacts>,
    sightings: BTreeMap<NodeId, Sighting>,
    last_request: u64,
    answers: BTreeMap<RequestId, oneshot::Sender<Result<DeploymentId, DeployRefused>>>,
    state: watch::Sender<Arc<ClusterState>>,
    rev: u64,
}

/// What a driver begins with.
pub(crate) struct Start {
    pub node: Arc<Inner>,
    pub survey: Survey,
    pub discovery: Discovery,
    pub rank_events: mpsc::Sender<(RankKey, RankEvent)>,
    pub own: mpsc::Sender<OwnEvent>,
    pub name: String,
    pub facts: NodeFacts,
    pub seed: u64,
    pub state: watch::Sender<Arc<ClusterState>>,
}

impl Driver {
    pub fn new(start: Start) -> Self {
        let Start { node, survey, discovery, rank_events, own, name, facts, seed, state } = start;
        let now = Instant::now();
        let mut control = Control::new(node.home.node(), facts.clone(), Boot(node.home.boot()), seed, now);
        for paired in node.home.peers().list() {
            control.handle(Input::Paired { node: paired.node, name: paired.name }, now);
        }
        let ranks = Ranks::new(node.clone(), rank_events, own.clone());
        let rev = state.borrow().rev;
        Self {
            node,
            control,
            survey,
            discovery,
            ranks,
            own,
            name,
            facts,
            links: BTreeMap::new(),
            sightings: BTreeMap::new(),
            last_request: 0,
            answers: BTreeMap::new(),
            state,
            rev,
        }
    }

    /// Runs until a shutdown is asked for, or every handle is gone.
    pub async fn run(mut self, mut ears: Ears) {
        let mut survey = tokio::time::interval(SURVEY_EVERY);
        survey.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut probe = tokio::time::interval_at(tokio::time::Instant::now() + PROBE_EVERY, PROBE_EVERY);
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.drain();
        loop {
            let timeout = self.control.poll_timeout().map_or_else(far, tokio::time::Instant::from_std);
            tokio::select! {
                command = ears.commands.recv() => match command {
                    Some(Command::Shutdown { done }) => {
                        self.shut_down(&mut ears.ranks).await;
                        // Whoever asked may have stopped waiting.
                        let _ = done.send(());
                        return;
                    }
                    Some(command) => self.command(command),
                    None => return self.shut_down(&mut ears.ranks).await,
                },
                Some(event) = ears.net.recv() => self.net(event),
                Some(event) = ears.discovery.recv() => self.discovered(event),
                Some((key, event)) = ears.ranks.recv() => self.rank(key, event),
                Some(event) = ears.own.recv() => self.own(event),
                Ok(()) = ears.downloads.changed() => self.publish(),
                _ = survey.tick() => self.begin_survey(),
                _ = probe.tick() => {
                    let connected = self.node.net.connected().borrow().clone();
                    connected.into_iter().for_each(|node| self.begin_probe(node));
                }
                () = tokio::time::sleep_until(timeout) => self.control.handle_timeout(Instant::now()),
            }
            self.drain();
        }
    }

    fn handle(&mut self, input: Input) {
        self.control.handle(input, Instant::now());
        self.drain();
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Deploy { plan, answer } => {
                self.last_request += 1;
                let request = RequestId(self.last_request);
                self.answers.insert(request, answer);
                self.handle(Input::Deploy { request, plan });
            }
            Command::Stop { deployment } => self.handle(Input::Stop { deployment }),
            Command::Forgot { node } => {
                self.links.remove(&node);
                self.handle(Input::Unpaired(node));
                self.tell_facts(self.facts.clone());
            }
            Command::Renamed { name } => {
                self.name = name;
                let facts = NodeFacts { name: self.name.clone(), ..self.facts.clone() };
                self.tell_facts(facts);
                self.discovery.rename(&self.name);
                self.node.net.rename(&self.name);
            }
            Command::Refresh => self.publish(),
            // Taken by the loop.
            Command::Shutdown { .. } => {}
        }
    }

    fn net(&mut self, event: NetEvent) {
        match event {
            NetEvent::Connected { node, name, version, addr } => {
                tracing::info!(node = %node.short(), name, version, %addr, "connected");
                self.handle(Input::Connected(node));
                self.begin_probe(node);
            }
            NetEvent::Disconnected { node, why } => {
                tracing::info!(node = %node.short(), why, "disconnected");
                self.handle(Input::Disconnected(node));
            }
            NetEvent::Unreachable { node, why } => tracing::info!(node = %node.short(), why, "not reachable"),
            NetEvent::Message { from, bytes } => match Message::decode(&bytes) {
                Ok(message) => self.handle(Input::Message { from, message }),
                Err(error) => tracing::warn!(node = %from.short(), %error, "a message that cannot be read"),
            },
            NetEvent::Stream { from, stream } => match stream.kind {
                StreamKind::Generation => {
                    let node = self.node.clone();
                    tokio::spawn(async move {
                        let served = serve_remote(stream, |id, request| node.start_local(id, request)).await;
                        if let Err(error) = served {
                            tracing::debug!(node = %from.short(), %error, "a forwarded generation was cut");
                        }
                    });
                }
                StreamKind::Probe => {
                    tokio::spawn(crate::probe::serve(stream));
                }
            },
            NetEvent::Paired { node, name, addr } => {
                tracing::info!(node = %node.short(), name, %addr, "paired");
                self.handle(Input::Paired { node, name });
                self.publish();
            }
            NetEvent::PairingChanged(_) => self.publish(),
        }
    }

    fn discovered(&mut self, event: DiscoveryEvent) {
        match event {
            DiscoveryEvent::Sighted(sighting) => {
                if sighting.joinable.is_ok() {
                    self.node.net.dial(sighting.node, &sighting.addrs);
                }
                self.sightings.insert(sighting.node, sighting);
            }
            DiscoveryEvent::Lost(node) => {
                self.sightings.remove(&node);
            }
        }
        self.publish();
    }

    fn own(&mut self, event: OwnEvent) {
        match event {
            OwnEvent::Surveyed(facts) => self.surveyed(facts),
            OwnEvent::Probed(link) => {
                self.links.insert(link.to, link);
                self.tell_facts(self.facts.clone());
            }
            OwnEvent::Fetched { deployment, epoch, files } => {
                self.ranks.fetched(deployment, epoch, files);
                let event = control::RankEvent::Fetched;
                self.handle(Input::Rank(control::RankReport { deployment, epoch, event }));
            }
            OwnEvent::Rank(report) => self.handle(Input::Rank(report)),
        }
    }

    async fn shut_down(mut self, rank_events: &mut mpsc::Receiver<(RankKey, RankEvent)>) {
        tracing::info!("stopping");
        self.ranks.stop_all(rank_events).await;
        self.discovery.shutdown().await;
        self.node.net.shutdown().await;
    }
}

/// No time-out is due: look again in an hour, which costs nothing.
fn far() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(3600)
}
