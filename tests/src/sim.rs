//! A cluster of [`Control`]s in one thread, in virtual time, out of one seed.
//!
//! Messages are encoded and decoded on every hop, and may be lost, doubled, late or out of order ([`Weather`]). Nodes
//! crash, sleep, are cut off, and their clocks jump. Ranks are played by [`ranks`]. The invariants of [`invariants`]
//! are checked after every step; whatever breaks one ends the run as [`Stuck`], with the last events and the seed.

mod invariants;
mod node;
mod operation;
mod ranks;
mod stuck;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use control::{Control, DeployRefused, DeploymentStatus, Input, Liveness, Message, RequestId, View};
use domain::{DeploymentId, NodeId, Plan};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use node::SimNode;
pub use operation::{Operation, random_script, tiny_model};
pub use stuck::Stuck;
pub use wire::{Mangling, Weather};

use node::NodeState;
use stuck::Log;
use wire::{Event, Queue};

/// Steps without virtual time passing after which something spins.
const STEPS_AT_ONE_TIME_MAX: u32 = 20_000;

/// How often what waits for a sleeping node is tried again.
const ASLEEP_CHECKED_EVERY: Duration = Duration::from_millis(500);

pub struct Sim {
    seed: u64,
    rng: ChaCha8Rng,
    /// The instant at which virtual time is zero.
    start: Instant,
    now: Duration,
    nodes: BTreeMap<NodeId, SimNode>,
    queue: Queue,
    pub weather: Weather,
    cuts: BTreeSet<(NodeId, NodeId)>,
    answers: BTreeMap<RequestId, Result<DeploymentId, DeployRefused>>,
    n_requests: u64,
    watched: invariants::Watched,
    log: Log,
}

impl Sim {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            rng: ChaCha8Rng::seed_from_u64(seed),
            start: Instant::now(),
            now: Duration::ZERO,
            nodes: BTreeMap::new(),
            queue: Queue::default(),
            weather: Weather::fair(),
            cuts: BTreeSet::new(),
            answers: BTreeMap::new(),
            n_requests: 0,
            watched: invariants::Watched::default(),
            log: Log::default(),
        }
    }

    /// Paired nodes on one network, each described as `name` and memory: `studio 64 GiB`.
    pub fn lan<const N: usize>(&mut self, described: [&str; N]) -> [NodeId; N] {
        let first = self.nodes.len();
        let ids: [NodeId; N] = std::array::from_fn(|idx| node::id(first + idx));
        for (&id, described) in ids.iter().zip(described) {
            self.nodes.insert(id, SimNode::new(id, described));
        }
        for id in ids {
            self.start_node(id);
        }
        self.join_channels();
        ids
    }

    // What befalls nodes and the paths between them.

    /// No byte passes between `a` and `b` any more.
    pub fn cut(&mut self, a: NodeId, b: NodeId) {
        if a == b {
            return;
        }
        self.note(|s| format!("cut between {} and {}", s.name(a), s.name(b)));
        self.cuts.insert(pair(a, b));
        self.join_channels();
    }

    pub fn mend(&mut self, a: NodeId, b: NodeId) {
        self.note(|s| format!("mend between {} and {}", s.name(a), s.name(b)));
        self.cuts.remove(&pair(a, b));
        self.join_channels();
    }

    /// The node ends without a word, its ranks with it; its counter of starts is on disk and survives.
    pub fn crash(&mut self, id: NodeId) {
        if !matches!(self.nodes[&id].state, NodeState::Crashed) {
            self.note(|s| format!("{} crashes", s.name(id)));
            self.node_mut(id).state = NodeState::Crashed;
            self.queue.drop_rank_events(id);
            for (deployment, _) in std::mem::take(&mut self.node_mut(id).ranks) {
                self.break_neighbours(id, deployment);
            }
            self.join_channels();
        }
    }

    pub fn restart(&mut self, id: NodeId) {
        if matches!(self.nodes[&id].state, NodeState::Crashed) {
            self.note(|s| format!("{} starts again", s.name(id)));
            self.start_node(id);
            self.join_channels();
        }
    }

    /// The process stands still, its clock goes on; nothing arrives.
    pub fn sleep_lid(&mut self, id: NodeId) {
        let state = &mut self.node_mut(id).state;
        match std::mem::replace(state, NodeState::Crashed) {
            NodeState::Running(control) => *state = NodeState::Asleep(control),
            other @ (NodeState::Asleep(_) | NodeState::Crashed) => {
                *state = other;
                return;
            }
        }
        self.note(|s| format!("{} falls asleep", s.name(id)));
        self.join_channels();
    }

    pub fn wake(&mut self, id: NodeId) {
        let state = &mut self.node_mut(id).state;
        match std::mem::replace(state, NodeState::Crashed) {
            NodeState::Asleep(control) => *state = NodeState::Running(control),
            other @ (NodeState::Running(_) | NodeState::Crashed) => {
                *state = other;
                return;
            }
        }
        self.note(|s| format!("{} wakes", s.name(id)));
        self.join_channels();
    }

    /// The clock of one node leaps ahead of everybody's.
    pub fn jump_clock(&mut self, id: NodeId, by: Duration) {
        self.note(|s| format!("the clock of {} jumps by {by:?}", s.name(id)));
        self.node_mut(id).clock_ahead += by;
    }

    /// The process of one rank on `id` dies, if there is one.
    pub fn kill_rank(&mut self, id: NodeId) {
        self.end_process(id);
    }

    /// Mends every cut, wakes and starts every node, and calms the weather.
    pub fn heal(&mut self) {
        self.note(|_| "everything heals".to_owned());
        self.cuts.clear();
        self.weather = Weather::fair();
        for id in self.ids() {
            self.wake(id);
            self.restart(id);
        }
        self.join_channels();
    }

    // What people do.

    pub fn deploy(&mut self, owner: NodeId, plan: Plan) -> Result<RequestId, Stuck> {
        self.n_requests += 1;
        let request = RequestId(self.n_requests);
        self.input(owner, Input::Deploy { request, plan })?;
        Ok(request)
    }

    pub fn stop(&mut self, at: NodeId, deployment: DeploymentId) -> Result<(), Stuck> {
        self.input(at, Input::Stop { deployment })
    }

    /// Deploys and waits for the answer.
    pub fn deployed(&mut self, owner: NodeId, plan: Plan) -> Result<Result<DeploymentId, DeployRefused>, Stuck> {
        let request = self.deploy(owner, plan)?;
        self.run_until("the deployment is answered", |sim| sim.answers.contains_key(&request))?;
        Ok(self.answers[&request].clone())
    }

    /// Says something to a node as if it had happened there; nothing if it does not run.
    pub fn input(&mut self, id: NodeId, input: Input) -> Result<(), Stuck> {
        if self.nodes[&id].is_running() {
            self.log.input(self.now, id, &input);
            let at = self.instant_at(id);
            self.control_mut(id).handle(input, at);
            self.drain(id)?;
        }
        Ok(())
    }

    // Time.

    pub fn run_for(&mut self, time: Duration) -> Result<(), Stuck> {
        let end = self.now + time;
        while self.step(end)? {}
        self.now = end;
        Ok(())
    }

    /// At most ten virtual minutes.
    pub fn run_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<(), Stuck> {
        let end = self.now + Duration::from_secs(600);
        while !is_so(self) {
            if !self.step(end)? {
                return Err(self.stuck(format!("ten minutes passed before {what}")));
            }
        }
        Ok(())
    }

    /// Runs until nothing is left to happen but heartbeats, then checks that all nodes agree.
    pub fn run_until_quiet(&mut self) -> Result<(), Stuck> {
        self.heal();
        // Three restarts with their waits, the longest promise and the longest wish lie well within.
        self.run_for(Duration::from_secs(50))?;
        self.check_agreement()
    }

    /// Lets the next thing happen, if it does before `end`.
    fn step(&mut self, end: Duration) -> Result<bool, Stuck> {
        let timeout = self.nodes.values().filter_map(|node| Some((self.timeout_of(node)?, node.id))).min();
        let event_at = self.queue.next_at();
        let due = event_at.into_iter().chain(timeout.map(|(at, _)| at)).min();
        let Some(due) = due.filter(|&due| due <= end) else { return Ok(false) };
        self.pass_to(due)?;
        match timeout {
            Some((at, id)) if event_at.is_none_or(|event_at| at <= event_at) => {
                let at = self.instant_at(id);
                self.control_mut(id).handle_timeout(at);
                self.drain(id)?;
            }
            Some(_) | None => {
                if let Some(event) = self.queue.pop() {
                    self.happen(event)?;
                }
            }
        }
        Ok(true)
    }

    fn pass_to(&mut self, due: Duration) -> Result<(), Stuck> {
        if due > self.now {
            self.now = due;
            self.watched.n_steps_now = 0;
        }
        self.watched.n_steps_now += 1;
        if self.watched.n_steps_now > STEPS_AT_ONE_TIME_MAX {
            return Err(self.stuck(format!("{STEPS_AT_ONE_TIME_MAX} steps without time passing")));
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), Stuck> {
        match event {
            Event::Arrive { from, to, json } => {
                if self.is_reachable(from, to) {
                    let message = Message::decode(&json).map_err(|bad| self.stuck(format!("bad message: {bad}")))?;
                    self.input(to, Input::Message { from, message })?;
                }
            }
            Event::Channel { at, to, join } => {
                // Only the latest word about a channel counts.
                if self.node_mut(at).channel_word.get(&to) == Some(&join.number) {
                    let input = if join.is_up { Input::Connected(to) } else { Input::Disconnected(to) };
                    self.input(at, input)?;
                }
            }
            Event::Rank { at, boot, report } => {
                match self.nodes[&at].state {
                    NodeState::Running(_) if self.nodes[&at].boot == boot => self.rank_reports(at, report)?,
                    // Its processes stand still with it.
                    NodeState::Asleep(_) => {
                        self.queue.push(self.now + ASLEEP_CHECKED_EVERY, Event::Rank { at, boot, report })
                    }
                    NodeState::Running(_) | NodeState::Crashed => {}
                }
            }
        }
        Ok(())
    }

    fn timeout_of(&self, node: &SimNode) -> Option<Duration> {
        match &node.state {
            NodeState::Running(control) => {
                let at = control.poll_timeout()?.saturating_duration_since(self.start);
                Some(at.saturating_sub(node.clock_ahead).max(self.now))
            }
            NodeState::Asleep(_) | NodeState::Crashed => None,
        }
    }

    /// What the clock of `id` shows.
    fn instant_at(&self, id: NodeId) -> Instant {
        self.start + self.now + self.nodes[&id].clock_ahead
    }

    fn control_mut(&mut self, id: NodeId) -> &mut Control {
        match &mut self.node_mut(id).state {
            NodeState::Running(control) | NodeState::Asleep(control) => control,
            NodeState::Crashed => panic!("a crashed node has no control"),
        }
    }

    fn node_mut(&mut self, id: NodeId) -> &mut SimNode {
        self.nodes.get_mut(&id).expect("a node of this simulation")
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        self.rng.random_range(0..1000) < per_mille
    }

    fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(range))
    }

    fn note(&mut self, what: impl FnOnce(&Self) -> String) {
        let text = what(self);
        self.log.note(self.now, text);
    }

    fn stuck(&self, what: String) -> Stuck {
        Stuck { seed: self.seed, at: self.now, what, last: self.log.lines() }
    }
}

/// What tests look at.
impl Sim {
    pub fn ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    pub fn name(&self, id: NodeId) -> &str {
        self.nodes.get(&id).map_or("a stranger", |node| &node.name)
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    /// The view of a node that has not crashed.
    pub fn view(&self, id: NodeId) -> View {
        self.nodes[&id].control().expect("the node has not crashed").view()
    }

    pub fn liveness(&self, of: NodeId, seen_by: NodeId) -> Liveness {
        self.view(seen_by).nodes[&of].liveness
    }

    pub fn status(&self, deployment: DeploymentId, seen_by: NodeId) -> Option<DeploymentStatus> {
        Some(self.view(seen_by).deployments.remove(&deployment)?.status)
    }

    /// Whether every node that runs sees `deployment` serving.
    pub fn all_see_serving(&self, deployment: DeploymentId) -> bool {
        let running = self.nodes.values().filter(|node| node.is_running());
        let mut statuses = running.map(|node| self.status(deployment, node.id));
        statuses.all(|status| status == Some(DeploymentStatus::Serving))
    }

    /// Whether every node that runs sees all nodes that run alive.
    pub fn all_see_all(&self) -> bool {
        let running: Vec<_> = self.nodes.values().filter(|node| node.is_running()).map(|node| node.id).collect();
        running.iter().all(|&by| {
            let view = self.view(by);
            running.iter().all(|of| view.nodes[of].liveness == Liveness::Alive && view.nodes[of].facts.is_some())
        })
    }

    pub fn node(&self, id: NodeId) -> &SimNode {
        &self.nodes[&id]
    }

    pub fn answers(&self) -> impl Iterator<Item = &Result<DeploymentId, DeployRefused>> {
        self.answers.values()
    }
}

fn pair(a: NodeId, b: NodeId) -> (NodeId, NodeId) {
    (a.min(b), a.max(b))
}
