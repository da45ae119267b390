//! Plans as people would draw them, and refusals as people read them.

mod cases;

use std::fmt::Write;

use cases::{node, spec, topology};
use domain::{Hint, ModelSpec, Plan, TokenCount, Topology};
use expect_test::{Expect, expect};
use planner::{Goal, NoPlan, NodeChoice, Objective, plan};

fn check(nodes: &[(&str, Option<u64>)], spec: &ModelSpec, goal: &Goal, expected: Expect) {
    let topology = topology(nodes);
    expected.assert_eq(&table(&topology, &plan(&topology, spec, goal)));
}

fn spread() -> Goal {
    Goal { objective: Objective::Spread, ..Goal::default() }
}

const HOME: [(&str, Option<u64>); 3] = [("laptop", Some(1000)), ("mini", Some(2000)), ("studio", Some(4000))];

#[test]
fn one_node_that_holds_it_all_is_enough() {
    check(
        &HOME,
        &spec(&[50; 32], 100, 100),
        &Goal::default(),
        expect![[r#"
        studio    0–31  2.0 GiB of 3.9 GiB
    "#]],
    );
}

#[test]
fn spread_fills_each_node_in_proportion() {
    check(
        &HOME,
        &spec(&[50; 32], 100, 100),
        &spread(),
        expect![[r#"
        studio    0–19  1.3 GiB of 3.9 GiB
        mini     20–29  668.0 MiB of 2.0 GiB
        laptop   30–31  336.0 MiB of 1.0 GiB
    "#]],
    );
}

#[test]
fn equal_nodes_get_equal_shares() {
    let nodes = [("one", Some(1000)), ("two", Some(1000))];
    check(
        &nodes,
        &spec(&[4; 30], 28, 28),
        &spread(),
        expect![[r#"
        one       0–14  276.0 MiB of 1.0 GiB
        two      15–29  276.0 MiB of 1.0 GiB
    "#]],
    );
}

#[test]
fn the_head_that_is_asked_for_comes_first() {
    let goal = Goal { head: Some(node(1)), ..spread() };
    check(
        &HOME,
        &spec(&[50; 32], 100, 100),
        &goal,
        expect![[r#"
        laptop     0–1  336.0 MiB of 1.0 GiB
        studio    2–23  1.3 GiB of 3.9 GiB
        mini     24–31  660.0 MiB of 2.0 GiB
    "#]],
    );
}

#[test]
fn a_model_larger_than_any_node_takes_as_few_as_hold_it() {
    check(
        &HOME,
        &spec(&[150; 32], 100, 100),
        &Goal::default(),
        expect![[r#"
        studio    0–21  3.5 GiB of 3.9 GiB
        mini     22–31  1.7 GiB of 2.0 GiB
    "#]],
    );
}

#[test]
fn the_natural_order_yields_where_only_another_one_fits() {
    // `slim` cannot hold the large layer, but the embedding beside the small one.
    let nodes = [("wide", Some(610)), ("slim", Some(560))];
    check(
        &nodes,
        &spec(&[20, 470], 400, 0),
        &spread(),
        expect![[r#"
        slim       0–0  552.0 MiB of 560.0 MiB
        wide       1–1  602.0 MiB of 610.0 MiB
    "#]],
    );
}

#[test]
fn what_does_not_fit_says_what_each_node_lacks_and_what_would_fit() {
    let nodes = [("laptop", Some(400)), ("mini", Some(500)), ("new", None)];
    let goal = Goal { context: Some(TokenCount(16_384)), ..Goal::default() };
    check(
        &nodes,
        &spec(&[20; 24], 10, 10),
        &goal,
        expect![[r#"
        no plan for `org/case` with a context of 16384 tokens: `mini` has 500.0 MiB to give, its smallest share needs 606.0 MiB; `laptop` has 400.0 MiB to give, its smallest share needs 534.0 MiB; the memory of `new` is not known yet
        - ask for a context of 5888 tokens, for which there is a plan
        - free 106.0 MiB on `mini`: close programs or stop a deployment there
        - free 134.0 MiB on `laptop`: close programs or stop a deployment there
        - wait until `new` has measured its memory
        - pair another machine, or take the model in a smaller quantisation
    "#]],
    );
}

#[test]
fn every_obstacle_is_named_at_once() {
    let goal = Goal {
        nodes: NodeChoice::Only(vec![node(1), node(9)]),
        head: Some(node(2)),
        objective: Objective::Spread,
        ..Goal::default()
    };
    check(
        &[("laptop", None), ("mini", Some(500))],
        &spec(&[20; 24], 10, 10),
        &goal,
        expect![[r#"
        no plan for `org/case` with a context of 4096 tokens: the memory of `laptop` is not known yet; node `09090909` is not alive; node `mini` shall be the head but is not among the nodes to use
        - wait until `laptop` has measured its memory
        - wake `09090909` or check its network, or plan without it
        - add `mini` to the nodes to use, or choose another head
    "#]],
    );
    let goal = Goal { context: Some(TokenCount(40_000)), n_slots: 0, ..Goal::default() };
    check(
        &HOME,
        &spec(&[], 10, 10),
        &goal,
        expect![[r#"
        no plan for `org/case` with a context of 40000 tokens: the model has no layers; a context of no tokens or of no sequences holds nothing; a context of 40000 tokens is asked for, the model was made for 32768 tokens
        - fetch the model's file again: it is not whole
        - ask for a context of at least one token and one sequence
        - ask for a context of at most 32768 tokens
    "#]],
    );
    check(
        &[],
        &spec(&[20; 24], 10, 10),
        &Goal::default(),
        expect![[r#"
        no plan for `org/case` with a context of 4096 tokens: no node is alive
        - start Macramé on a machine and pair it
    "#]],
    );
    let goal = Goal { nodes: NodeChoice::Only(vec![node(1), node(2), node(3)]), ..spread() };
    check(
        &HOME,
        &spec(&[20; 2], 10, 10),
        &goal,
        expect![[r#"
        no plan for `org/case` with a context of 4096 tokens: 3 nodes are more than its 2 layers
        - use at most 2 nodes
    "#]],
    );
}

/// One line for each share: its node, its layers, what it reserves of what there is.
fn table(topology: &Topology, plan: &Result<Plan, NoPlan>) -> String {
    let mut table = String::new();
    match plan {
        Ok(plan) => {
            for share in plan.shares() {
                let node = &topology.nodes[&share.node];
                let (name, layers) = (&node.facts.name, share.layers.to_string());
                let plannable = node.plannable().expect("a planned node's memory is known");
                writeln!(table, "{name:<8}{layers:>6}  {} of {plannable}", share.reserved_bytes())
                    .expect("to a string");
            }
        }
        Err(no_plan) => {
            writeln!(table, "{no_plan}").expect("to a string");
            for hint in no_plan.hints() {
                writeln!(table, "- {hint}").expect("to a string");
            }
        }
    }
    table
}
