//! What can befall a cluster, as values: scripts of them are drawn from a seed, or by proptest, which shrinks them.

use std::time::Duration;

use domain::{Architecture, Bytes, DeploymentId, Fact, LayerIdx, ModelSpec, NodeId, Plan, Timestamp, TokenCount};
use rand::RngExt;

use super::{Sim, Stuck, Weather};

/// One thing that people, machines or the network do. Nodes are counted modulo how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Wait {
        millis: u16,
    },
    /// Over `n_ranks` nodes from `owner + first` on, taking about `thirds` of each node's memory.
    Deploy {
        owner: u8,
        first: u8,
        n_ranks: u8,
        thirds: u8,
    },
    /// `which` of the deployments that the node knows.
    Stop {
        at: u8,
        which: u8,
    },
    Crash {
        node: u8,
    },
    Restart {
        node: u8,
    },
    Sleep {
        node: u8,
    },
    Wake {
        node: u8,
    },
    Cut {
        a: u8,
        b: u8,
    },
    Mend {
        a: u8,
        b: u8,
    },
    JumpClock {
        node: u8,
        millis: u16,
    },
    KillRank {
        node: u8,
    },
    NewFacts {
        node: u8,
    },
    Foul,
    Fair,
}

/// A script of `n_operations`, most of them waits and deployments.
pub fn random_script(rng: &mut impl RngExt, n_operations: usize) -> Vec<Operation> {
    let mut one = || {
        let mut small = || rng.random::<u8>();
        let (a, b, c) = (small(), small(), small());
        match rng.random_range(0..26) {
            0..8 => Operation::Wait { millis: rng.random_range(1..4000) },
            8..12 => Operation::Deploy { owner: a, first: b, n_ranks: c, thirds: a },
            12..14 => Operation::Stop { at: a, which: b },
            14 => Operation::Crash { node: a },
            15..17 => Operation::Restart { node: a },
            17 => Operation::Sleep { node: a },
            18 => Operation::Wake { node: a },
            19 => Operation::Cut { a, b },
            20 => Operation::Mend { a, b },
            21 => Operation::JumpClock { node: a, millis: rng.random_range(1..30_000) },
            22 => Operation::KillRank { node: a },
            23 => Operation::NewFacts { node: a },
            24 => Operation::Foul,
            _ => Operation::Fair,
        }
    };
    (0..n_operations).map(|_| one()).collect()
}

impl Sim {
    pub fn apply(&mut self, operation: &Operation) -> Result<(), Stuck> {
        match *operation {
            Operation::Wait { millis } => self.run_for(Duration::from_millis(u64::from(millis)))?,
            Operation::Deploy { owner, first, n_ranks, thirds } => {
                let ids = self.ids();
                let n_ranks = 1 + usize::from(n_ranks) % ids.len();
                let start = usize::from(owner) + usize::from(first);
                let over: Vec<_> = (start..start + n_ranks).map(|idx| ids[idx % ids.len()]).collect();
                let plan = self.plan_over(&over, 1 + u64::from(thirds) % 3);
                self.deploy(self.nth(owner), plan)?;
            }
            Operation::Stop { at, which } => {
                let at = self.nth(at);
                let known: Vec<DeploymentId> = match self.node(at).control() {
                    Some(control) => control.view().deployments.into_keys().collect(),
                    None => Vec::new(),
                };
                if let Some(&deployment) = known.get(usize::from(which) % known.len().max(1)) {
                    self.stop(at, deployment)?;
                }
            }
            Operation::Crash { node } => self.crash(self.nth(node)),
            Operation::Restart { node } => self.restart(self.nth(node)),
            Operation::Sleep { node } => self.sleep_lid(self.nth(node)),
            Operation::Wake { node } => self.wake(self.nth(node)),
            Operation::Cut { a, b } => self.cut(self.nth(a), self.nth(b)),
            Operation::Mend { a, b } => self.mend(self.nth(a), self.nth(b)),
            Operation::JumpClock { node, millis } => {
                self.jump_clock(self.nth(node), Duration::from_millis(u64::from(millis)));
            }
            Operation::KillRank { node } => self.kill_rank(self.nth(node)),
            Operation::NewFacts { node } => {
                let id = self.nth(node);
                let at = Timestamp(self.now().as_secs() * 1000);
                let facts = &mut self.node_mut(id).facts;
                facts.disk_free = Fact::known(Bytes::from_gib(at.0 % 100), at);
                let facts = facts.clone();
                self.input(id, control::Input::Facts(Box::new(facts)))?;
            }
            Operation::Foul => self.weather = Weather { mangling: self.weather.mangling, ..Weather::foul() },
            Operation::Fair => self.weather = Weather { mangling: self.weather.mangling, ..Weather::fair() },
        }
        Ok(())
    }

    /// A plan over `nodes` in this order, one layer each, which takes about `thirds` of the smallest one's memory.
    pub fn plan_over(&self, nodes: &[NodeId], thirds: u64) -> Plan {
        let usable = |id: &NodeId| self.node(*id).facts.memory.value().expect("every simulated node has memory").usable;
        let smallest = nodes.iter().map(usable).min().expect("a plan has nodes");
        let spec = tiny_model(nodes.len(), smallest.scaled(thirds, 3) - Plan::WORKSPACE * 2);
        let cuts: Vec<_> = (1..).map(LayerIdx).take(nodes.len() - 1).collect();
        Plan::from_cuts(&spec, nodes, &cuts, TokenCount(64), 1).expect("one layer for each node")
    }

    fn nth(&self, n: u8) -> NodeId {
        let ids = self.ids();
        ids[usize::from(n) % ids.len()]
    }
}

/// A model whose layers are `layer` large each, with no more to it than a plan needs.
pub fn tiny_model(n_layers: usize, layer: Bytes) -> ModelSpec {
    ModelSpec {
        id: "org/simulated".parse().expect("a model id"),
        architecture: Architecture::Llama,
        quantisation: "F32".to_owned(),
        layer_bytes: vec![layer; n_layers],
        embedding_bytes: Bytes::ZERO,
        head_bytes: Bytes::ZERO,
        tied_embeddings: false,
        hidden_size: 8,
        n_kv_heads: 2,
        head_dim: 4,
        vocab_size: 16,
        context_max: TokenCount(4096),
    }
}
