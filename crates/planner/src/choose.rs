//! Which nodes, in which order, with which cuts.

use domain::{Bytes, LayerIdx, ModelSpec, NodeId, Plan, TokenCount, Topology};

use crate::cuts::{any_order, balanced, least_short};
use crate::need::Needs;
use crate::{Blocker, CONTEXT_DEFAULT, Goal, NoPlan, NodeChoice, Objective};

/// Contexts that are offered instead of one that does not fit are whole multiples of this.
const CONTEXT_STEP: u32 = 256;

/// The best plan for `spec` on `topology` by `goal`, or everything that stands in its way.
///
/// Of the nodes that are used, the head comes first (the one with the most memory if none is asked for), the others
/// by memory, the largest first. The layers are cut so that the fullest node is as empty as it can be in that order.
/// If that order cannot hold the model, another one that can is taken: up to twelve nodes, if any choice of nodes, order
/// and cuts fits, there is a plan.
pub fn plan(topology: &Topology, spec: &ModelSpec, goal: &Goal) -> Result<Plan, NoPlan> {
    let context = goal.context.unwrap_or_else(|| CONTEXT_DEFAULT.min(spec.context_max));
    let refuse = |blockers, context_that_fits| NoPlan { model: spec.id.clone(), context, blockers, context_that_fits };
    let wrong = wrong_goal(spec, goal, context);
    if !wrong.is_empty() {
        return Err(refuse(wrong, None));
    }
    let candidates = Candidates::of(topology, spec, goal);
    if !candidates.missing.is_empty() {
        return Err(refuse(candidates.missing, None));
    }
    let needs = Needs::new(spec, context, goal.n_slots);
    if let Some((nodes, cuts)) = candidates.arrange(&needs) {
        let cuts: Vec<_> = cuts.into_iter().map(LayerIdx).collect();
        return Plan::from_cuts(spec, &nodes, &cuts, context, goal.n_slots).map_err(|bad| {
            unreachable!("cuts are strictly increasing and inside the model, one fewer than the distinct nodes: {bad}")
        });
    }
    let mut blockers = candidates.shortfalls(&needs);
    blockers.extend(candidates.unmeasured.iter().map(|name| Blocker::MemoryUnknown { name: name.clone() }));
    let shorter =
        longest_context(context, |shorter| candidates.arrange(&Needs::new(spec, shorter, goal.n_slots)).is_some());
    Err(refuse(blockers, shorter))
}

/// What no topology could mend.
fn wrong_goal(spec: &ModelSpec, goal: &Goal, context: TokenCount) -> Vec<Blocker> {
    let mut wrong = Vec::new();
    if spec.n_layers().0 == 0 {
        wrong.push(Blocker::NoLayers);
    }
    if context.0 == 0 || goal.n_slots == 0 {
        wrong.push(Blocker::NoContext);
    }
    if context > spec.context_max {
        wrong.push(Blocker::ContextTooLong { asked: context, max: spec.context_max });
    }
    wrong
}

/// The nodes that may be used.
struct Candidates {
    /// In natural order: the head that is asked for, then by memory, the largest first.
    nodes: Vec<Candidate>,
    has_head: HasHead,
    /// How many nodes to use, best number first.
    numbers: Vec<usize>,
    /// What forbids any plan.
    missing: Vec<Blocker>,
    /// Names of nodes that could help once their memory is known.
    unmeasured: Vec<String>,
}

struct Candidate {
    id: NodeId,
    name: String,
    plannable: Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HasHead {
    /// The first candidate holds the first layers, come what may.
    Yes,
    No,
}

impl Candidates {
    fn of(topology: &Topology, spec: &ModelSpec, goal: &Goal) -> Self {
        let name = |id: NodeId| topology.nodes.get(&id).map_or_else(|| id.short(), |node| node.facts.name.clone());
        let chosen = match &goal.nodes {
            NodeChoice::Any => topology.nodes.keys().copied().collect(),
            NodeChoice::Only(ids) => distinct(ids),
        };
        // Each of these must take part, so nothing may be amiss with it.
        let must = |id: NodeId| {
            let all = matches!((&goal.nodes, goal.objective), (NodeChoice::Only(_), Objective::Spread));
            all || goal.head == Some(id)
        };
        let mut missing = Vec::new();
        let mut nodes = Vec::new();
        let mut unmeasured = Vec::new();
        for &id in &chosen {
            match topology.nodes.get(&id).map(|node| node.plannable()) {
                None => missing.push(Blocker::NodeAbsent { name: name(id) }),
                Some(None) if must(id) => missing.push(Blocker::MemoryUnknown { name: name(id) }),
                Some(None) => unmeasured.push(name(id)),
                Some(Some(plannable)) => nodes.push(Candidate { id, name: name(id), plannable }),
            }
        }
        if let Some(head) = goal.head.filter(|head| !chosen.contains(head)) {
            missing.push(match goal.nodes {
                NodeChoice::Any => Blocker::NodeAbsent { name: name(head) },
                NodeChoice::Only(_) => Blocker::HeadNotChosen { name: name(head) },
            });
        }
        if chosen.is_empty() {
            missing.push(Blocker::NoNode);
        }
        nodes.sort_by_key(|node| (goal.head != Some(node.id), std::cmp::Reverse(node.plannable), node.id));
        let n_max = nodes.len().min(spec.n_layers().0 as usize);
        let numbers = match (goal.objective, &goal.nodes) {
            (Objective::Fewest, NodeChoice::Any | NodeChoice::Only(_)) => (1..=n_max).collect(),
            (Objective::Spread, NodeChoice::Any) => (1..=n_max).rev().collect(),
            (Objective::Spread, NodeChoice::Only(_)) => {
                if n_max < nodes.len() {
                    let (n_nodes, n_layers) = (nodes.len(), spec.n_layers());
                    missing.push(Blocker::MoreNodesThanLayers { n_nodes, n_layers });
                }
                vec![nodes.len()]
            }
        };
        let has_head = if goal.head.is_some() { HasHead::Yes } else { HasHead::No };
        Self { nodes, has_head, numbers, missing, unmeasured }
    }

    /// Nodes in rank order with their cuts, if the model fits.
    fn arrange(&self, needs: &Needs<'_>) -> Option<(Vec<NodeId>, Vec<u32>)> {
        let memory: Vec<_> = self.nodes.iter().map(|node| node.plannable).collect();
        self.numbers.iter().find_map(|&n_used| {
            let order: Vec<_> = (0..n_used).collect();
            if let Some(cuts) = balanced(needs, &memory[..n_used]) {
                return Some((self.ids(&order), cuts));
            }
            let first = match self.has_head {
                HasHead::Yes => Some(0),
                HasHead::No => None,
            };
            let order = any_order(needs, &memory, n_used, first)?;
            let ordered: Vec<_> = order.iter().map(|&idx| memory[idx]).collect();
            Some((self.ids(&order), balanced(needs, &ordered)?))
        })
    }

    fn ids(&self, order: &[usize]) -> Vec<NodeId> {
        order.iter().map(|&idx| self.nodes[idx].id).collect()
    }

    /// What each node lacks, for the number of nodes that lack the least in all.
    fn shortfalls(&self, needs: &Needs<'_>) -> Vec<Blocker> {
        let mut best: Option<(Bytes, Vec<Blocker>)> = None;
        for &n_used in &self.numbers {
            let nodes = &self.nodes[..n_used];
            let memory: Vec<_> = nodes.iter().map(|node| node.plannable).collect();
            let Some(cuts) = least_short(needs, &memory) else { continue };
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let ends = cuts.iter().copied().chain([needs.n_layers()]);
            let mut missing = Bytes::ZERO;
            let mut blockers = Vec::new();
            for (node, (start, end)) in nodes.iter().zip(starts.zip(ends)) {
                let (needed, plannable) = (needs.of(start, end), node.plannable);
                if needed > plannable {
                    missing += needed - plannable;
                    blockers.push(Blocker::Memory { name: node.name.clone(), needed, plannable });
                }
            }
            if best.as_ref().is_none_or(|(least, _)| missing < *least) {
                best = Some((missing, blockers));
            }
        }
        best.map(|(_, blockers)| blockers).unwrap_or_default()
    }
}

fn distinct(ids: &[NodeId]) -> Vec<NodeId> {
    let set: std::collections::BTreeSet<_> = ids.iter().copied().collect();
    set.into_iter().collect()
}

/// The longest context below `context`, in whole steps, that `fits`; shorter ones fit whenever longer ones do.
fn longest_context(context: TokenCount, fits: impl Fn(TokenCount) -> bool) -> Option<TokenCount> {
    let (mut low, mut high) = (0, context.0.div_ceil(CONTEXT_STEP));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(TokenCount(middle * CONTEXT_STEP)) { low = middle } else { high = middle }
    }
    (low > 0).then_some(TokenCount(low * CONTEXT_STEP))
}
