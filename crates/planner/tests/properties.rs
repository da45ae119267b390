//! What holds of every plan and every refusal, over many small clusters.

mod cases;

use cases::{node, spec, topology};
use domain::{Bytes, Fact, LayerIdx, Memory, ModelSpec, NodeId, Plan, TokenCount, Topology};
use planner::{Goal, NoPlan, NodeChoice, Objective, plan};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const CONTEXT: TokenCount = TokenCount(1024);

#[derive(Clone, Debug)]
struct Case {
    nodes_mib: Vec<u64>,
    layers_mib: Vec<u64>,
    ends_mib: (u64, u64),
    objective: Objective,
    only: Option<Vec<u8>>,
    head: Option<u8>,
}

impl Case {
    fn topology(&self) -> Topology {
        let nodes: Vec<_> = self.nodes_mib.iter().map(|&mib| ("node", Some(mib))).collect();
        topology(&nodes)
    }

    fn spec(&self) -> ModelSpec {
        spec(&self.layers_mib, self.ends_mib.0, self.ends_mib.1)
    }

    fn goal(&self) -> Goal {
        let nodes = match &self.only {
            None => NodeChoice::Any,
            Some(only) => NodeChoice::Only(only.iter().copied().map(node).collect()),
        };
        Goal { objective: self.objective, context: Some(CONTEXT), nodes, head: self.head.map(node), n_slots: 1 }
    }

    fn plan(&self) -> Result<Plan, NoPlan> {
        plan(&self.topology(), &self.spec(), &self.goal())
    }

    /// Nodes that the goal allows.
    fn allowed(&self) -> Vec<NodeId> {
        let all: Vec<_> = self.topology().nodes.into_keys().collect();
        match &self.only {
            None => all,
            Some(only) => all.into_iter().filter(|id| only.iter().any(|&n| node(n) == *id)).collect(),
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    // Around the workspace of 128 MiB and a few layers, so that fitting and not fitting are both common.
    let nodes = prop::collection::vec(100u64..260, 1..=4);
    let layers = prop::collection::vec(1u64..40, 1..=8);
    let objective = prop_oneof![Just(Objective::Fewest), Just(Objective::Spread)];
    (nodes, layers, (0u64..60, 0u64..60), objective, any::<u16>(), any::<u8>()).prop_map(
        |(nodes_mib, layers_mib, ends_mib, objective, only_bits, head)| {
            let all: Vec<u8> = (1..).take(nodes_mib.len()).collect();
            let picked: Vec<u8> = all.iter().copied().filter(|n| only_bits & (1 << n) != 0).collect();
            let only = (only_bits % 3 == 0 && !picked.is_empty()).then_some(picked);
            let choice = only.as_ref().unwrap_or(&all);
            let head = (head % 2 == 0).then(|| choice[usize::from(head / 2) % choice.len()]);
            Case { nodes_mib, layers_mib, ends_mib, objective, only, head }
        },
    )
}

fn fits(plan: &Plan, topology: &Topology) -> bool {
    plan.shares().iter().all(|share| topology.nodes[&share.node].plannable() >= Some(share.reserved_bytes()))
}

/// Whether any choice, order and cuts meet the goal: all of them are tried.
fn any_plan_by_force(case: &Case) -> bool {
    let allowed = case.allowed();
    let (topology, spec) = (case.topology(), case.spec());
    let all_needed = case.only.is_some() && case.objective == Objective::Spread;
    orders(&allowed).iter().any(|order| {
        let rightly_led = case.head.is_none_or(|head| order.first() == Some(&node(head)));
        let complete = !all_needed || order.len() == allowed.len();
        rightly_led
            && complete
            && cuts(order.len(), spec.n_layers().0).iter().any(|cuts| {
                let plan = Plan::from_cuts(&spec, order, cuts, CONTEXT, 1).expect("increasing cuts");
                fits(&plan, &topology)
            })
    })
}

/// Every non-empty sequence of distinct `nodes`.
fn orders(nodes: &[NodeId]) -> Vec<Vec<NodeId>> {
    let mut found = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(order) = open.pop() {
        for &id in nodes.iter().filter(|id| !order.contains(*id)) {
            let longer: Vec<_> = order.iter().copied().chain([id]).collect();
            found.push(longer.clone());
            open.push(longer);
        }
    }
    found
}

/// Every set of `n_ranks - 1` cuts of `n_layers` layers.
fn cuts(n_ranks: usize, n_layers: u32) -> Vec<Vec<LayerIdx>> {
    let sets = (0u32..1 << (n_layers - 1)).filter(|set| set.count_ones() as usize == n_ranks - 1);
    let of_set = |set: u32| (1..n_layers).filter(|cut| set & (1 << (cut - 1)) != 0).map(LayerIdx).collect();
    sets.map(of_set).collect()
}

proptest! {
    // The same cases in every run: another seed here is how to look for more.
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(3),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_plan_tiles_the_layers_fits_and_keeps_to_the_goal(case in cases()) {
        let Ok(plan) = case.plan() else { return Ok(()) };
        let topology = case.topology();
        prop_assert!(fits(&plan, &topology));
        let n_layers: u32 = plan.shares().iter().map(|share| share.layers.count()).sum();
        prop_assert_eq!(n_layers, case.spec().n_layers().0);
        let allowed = case.allowed();
        prop_assert!(plan.shares().iter().all(|share| allowed.contains(&share.node)));
        if let Some(head) = case.head {
            prop_assert_eq!(plan.head(), node(head));
        }
        if case.only.is_some() && case.objective == Objective::Spread {
            prop_assert_eq!(plan.shares().len(), allowed.len());
        }
    }

    #[test]
    fn there_is_a_plan_exactly_when_force_finds_one(case in cases()) {
        prop_assert_eq!(case.plan().is_ok(), any_plan_by_force(&case));
    }

    #[test]
    fn more_memory_never_takes_a_plan_away(case in cases(), idx in 0usize..4, more in 1u64..200) {
        let mut richer = case.clone();
        let idx = idx % richer.nodes_mib.len();
        richer.nodes_mib[idx] += more;
        prop_assert!(case.plan().is_err() || richer.plan().is_ok());
    }

    #[test]
    fn the_order_in_which_nodes_are_named_does_not_matter(case in cases()) {
        let mut reversed = case.clone();
        if let Some(only) = &mut reversed.only {
            only.reverse();
        }
        prop_assert_eq!(case.plan(), reversed.plan());
    }

    /// Renaming ids renames the plan and nothing else, as long as no two nodes are alike.
    #[test]
    fn ids_only_break_ties(case in cases()) {
        let mut sizes = case.nodes_mib.clone();
        sizes.sort_unstable();
        sizes.dedup();
        prop_assume!(sizes.len() == case.nodes_mib.len());
        let n = case.nodes_mib.len() as u8;
        let mirror = |idx: u8| n + 1 - idx;
        let mut mirrored = case.clone();
        mirrored.nodes_mib.reverse();
        mirrored.only = case.only.as_ref().map(|only| only.iter().copied().map(mirror).collect());
        mirrored.head = case.head.map(mirror);
        let shape = |plan: Result<Plan, NoPlan>, topology: Topology| {
            plan.ok().map(|plan| {
                let share = |share: &domain::PlanShare| (topology.nodes[&share.node].plannable(), share.layers);
                plan.shares().iter().map(share).collect::<Vec<_>>()
            })
        };
        prop_assert_eq!(shape(case.plan(), case.topology()), shape(mirrored.plan(), mirrored.topology()));
    }

    /// In the plan's own order no other cuts leave the fullest node emptier, but for the rounding of ratios.
    #[test]
    fn no_other_cuts_leave_the_fullest_node_emptier(case in cases()) {
        let Ok(plan) = case.plan() else { return Ok(()) };
        let topology = case.topology();
        let fullest = |plan: &Plan| {
            let ratio = |share: &domain::PlanShare| {
                let plannable = topology.nodes[&share.node].plannable().expect("measured");
                share.reserved_bytes().as_u64() as f64 / plannable.as_u64() as f64
            };
            plan.shares().iter().map(ratio).fold(0.0, f64::max)
        };
        let order: Vec<_> = plan.shares().iter().map(|share| share.node).collect();
        for cuts in cuts(order.len(), case.spec().n_layers().0) {
            let other = Plan::from_cuts(&case.spec(), &order, &cuts, CONTEXT, 1).expect("increasing cuts");
            prop_assert!(fullest(&plan) <= fullest(&other) + 2e-6);
        }
    }

    /// Doing what the refusal asks for, for each node it names, gives a plan.
    #[test]
    fn freeing_what_is_short_gives_a_plan(case in cases()) {
        let Err(no_plan) = case.plan() else { return Ok(()) };
        let mut topology = case.topology();
        // All nodes are called alike here, so each is given the largest of what is missing.
        let missing = no_plan.blockers.iter().filter_map(|blocker| match blocker {
            planner::Blocker::Memory { needed, plannable, .. } => Some(*needed - *plannable),
            planner::Blocker::NoNode
            | planner::Blocker::NodeAbsent { .. }
            | planner::Blocker::HeadNotChosen { .. }
            | planner::Blocker::MemoryUnknown { .. }
            | planner::Blocker::MoreNodesThanLayers { .. }
            | planner::Blocker::ContextTooLong { .. }
            | planner::Blocker::NoContext
            | planner::Blocker::NoLayers => None,
        });
        let Some(missing) = missing.max() else { return Ok(()) };
        for node in topology.nodes.values_mut() {
            if let Fact::Known { value, .. } = &mut node.facts.memory {
                *value = Memory { usable: value.usable + missing, ..*value };
            }
        }
        prop_assert!(plan(&topology, &case.spec(), &case.goal()).is_ok());
        prop_assert!(missing > Bytes::ZERO);
    }

    #[test]
    fn the_context_that_is_offered_fits(case in cases(), context in 1025u32..32_768) {
        let goal = Goal { context: Some(TokenCount(context)), ..case.goal() };
        let Err(no_plan) = plan(&case.topology(), &case.spec(), &goal) else { return Ok(()) };
        let at = |context: u32| {
            plan(&case.topology(), &case.spec(), &Goal { context: Some(TokenCount(context)), ..case.goal() }).is_ok()
        };
        match no_plan.context_that_fits {
            Some(TokenCount(fits)) => prop_assert!(fits < context && at(fits)),
            None => prop_assert!(!at(256)),
        }
    }
}
