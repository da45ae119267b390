//! A cluster on this machine: real nodes as child processes, found by mDNS on the loopback, paired and ready.
//!
//! Every node ends when its standard input closes, so none is left behind however this process ends.

mod node;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

pub use node::LocalNode;

/// For a step that waits for other processes: long enough for a loaded machine with two cores, short enough to report.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long nodes that were introduced by a third may take to see each other, before they are paired one by one.
const INTRODUCTION: Duration = Duration::from_secs(3);

const POLL: Duration = Duration::from_millis(100);

/// Names of the nodes, first to last; after these they are numbered.
const NAMES: &[&str] = &["studio", "mini", "laptop", "attic", "shelf"];

/// What starts a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program `macrame`.
    pub macrame: PathBuf,
    /// The program of the first node, if it is to be the app, which is a node too.
    pub app: Option<PathBuf>,
    /// Each node's home is a folder in here, and is kept: the next start finds its identity and its pairings.
    pub homes: PathBuf,
    /// The hub cache that all of them use.
    pub models_dir: PathBuf,
    pub n_paired: usize,
    /// Further nodes on the same network that stay strangers.
    pub n_unpaired: usize,
}

impl Options {
    /// `n_paired` nodes of the `macrame` that lies beside this program.
    pub fn new(macrame: &Path, homes: &Path, models_dir: &Path, n_paired: usize) -> Self {
        Self {
            macrame: macrame.to_owned(),
            app: None,
            homes: homes.to_owned(),
            models_dir: models_dir.to_owned(),
            n_paired,
            n_unpaired: 0,
        }
    }
}

/// Running nodes; they end with this value.
pub struct LocalCluster {
    nodes: Vec<LocalNode>,
    n_paired: usize,
}

impl LocalCluster {
    /// Starts the nodes, pairs the first `n_paired` and returns when these see each other alive with their memory.
    pub fn start(options: &Options) -> Result<Self> {
        let mut nodes = Vec::new();
        for idx in 0..options.n_paired + options.n_unpaired {
            let app = if idx == 0 { options.app.as_deref() } else { None };
            nodes.push(LocalNode::spawn(&options.macrame, app, &options.homes, &name(idx), &options.models_dir)?);
        }
        let mut cluster = Self { nodes, n_paired: options.n_paired };
        let deadline = Instant::now() + PATIENCE;
        for node in &mut cluster.nodes {
            node.wait_for_api(deadline)?;
        }
        cluster.pair()?;
        Ok(cluster)
    }

    /// All nodes, the paired ones first.
    pub fn nodes(&self) -> &[LocalNode] {
        &self.nodes
    }

    /// One node, to end it or to wait for its end.
    pub fn node_mut(&mut self, idx: usize) -> Option<&mut LocalNode> {
        self.nodes.get_mut(idx)
    }

    /// The nodes that belong together.
    pub fn paired(&self) -> &[LocalNode] {
        &self.nodes[..self.n_paired]
    }

    /// Ends all nodes and says which did not end well.
    pub fn stop(mut self) -> Result<()> {
        for node in &mut self.nodes {
            node.begin_stop();
        }
        let mut bad = Vec::new();
        for node in &mut self.nodes {
            if let Err(error) = node.wait_for_stop() {
                bad.push(format!("{error:#}"));
            }
        }
        if bad.is_empty() { Ok(()) } else { bail!("{}", bad.join("; ")) }
    }

    fn pair(&self) -> Result<()> {
        let Some((first, others)) = self.paired().split_first() else { return Ok(()) };
        for other in others {
            pair_two(first, other)?;
        }
        // The first node introduces the others to each other; who was not introduced is paired by hand.
        let introduced = Instant::now() + INTRODUCTION;
        while !self.is_meshed()? && Instant::now() < introduced {
            thread::sleep(POLL);
        }
        for (idx, one) in others.iter().enumerate() {
            for other in &others[idx + 1..] {
                pair_two(one, other)?;
            }
        }
        self.wait_until("all nodes see each other alive", |cluster| cluster.is_meshed())
    }

    /// Whether every paired node can plan with every other.
    fn is_meshed(&self) -> Result<bool> {
        for node in self.paired() {
            let view = node.view()?;
            for other in self.paired() {
                if !view.can_plan_with(other.id()?) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Waits for a condition over the cluster, and if it does not come says what each node saw.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self)? {
            if Instant::now() >= deadline {
                let seen = |node: &LocalNode| match node.view() {
                    Ok(view) => format!("`{}` sees {}", node.name(), view.summary()),
                    Err(error) => format!("`{}`: {error:#}", node.name()),
                };
                let seen: Vec<String> = self.nodes.iter().map(seen).collect();
                bail!("waited {PATIENCE:?} until {what}; {}", seen.join("; "));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for LocalCluster {
    /// Tells all of them to end before each is waited for.
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.begin_stop();
        }
    }
}

/// Shows a code on one node and types it on the other, unless they know each other.
fn pair_two(shows: &LocalNode, types: &LocalNode) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let shows_id = shows.id()?;
    loop {
        let view = types.view()?;
        if view.knows(shows_id) {
            return Ok(());
        }
        if view.sights(shows_id) {
            break;
        }
        if Instant::now() >= deadline {
            bail!("`{}` did not find `{}` in {PATIENCE:?}; it sees {}", types.name(), shows.name(), view.summary());
        }
        thread::sleep(POLL);
    }
    let code = shows.show_code()?;
    types.type_code(&code, shows_id)
}

fn name(idx: usize) -> String {
    match NAMES.get(idx) {
        Some(name) => (*name).to_owned(),
        None => format!("node-{}", idx + 1),
    }
}
