//! Deployments in the simulator: made, served, broken, mended, taken over, stopped.

use std::time::Duration;

use control::{DeploymentStatus, Liveness, Refusal, WarningCode, warnings};
use domain::{Bytes, DeploymentId, Epoch, NodeId, Plan};
use planner::{Goal, NodeChoice, Objective};
use scenarios::sim::{Sim, Weather, tiny_model};

const HOME: [&str; 3] = ["studio 64 GiB", "mini 16 GiB", "laptop 16 GiB"];
const SEEDS: u64 = 20;

/// A home whose `nodes` serve a model that `owner` deployed.
fn serving(
    seed: u64,
    pick: impl Fn([NodeId; 3]) -> (NodeId, Vec<NodeId>),
) -> anyhow::Result<(Sim, [NodeId; 3], DeploymentId)> {
    let mut sim = Sim::new(seed);
    let ids = sim.lan(HOME);
    sim.run_until("all see all", Sim::all_see_all)?;
    let (owner, nodes) = pick(ids);
    let plan = sim.plan_over(&nodes, 1);
    let id = sim.deployed(owner, plan)??;
    sim.run_until("all see it serving", |s| s.all_see_serving(id))?;
    Ok((sim, ids, id))
}

fn epoch(sim: &Sim, id: DeploymentId, seen_by: NodeId) -> Option<Epoch> {
    sim.view(seen_by).deployments.get(&id).map(|view| view.deployment.epoch)
}

#[test]
fn a_plan_over_all_nodes_comes_to_serve_through_foul_weather() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let [studio, ..] = sim.lan(HOME);
        sim.run_until("all see all", Sim::all_see_all)?;
        sim.weather = Weather { rank_fails: 0, ..Weather::foul() };
        let goal = Goal { objective: Objective::Spread, nodes: NodeChoice::Any, ..Goal::default() };
        let topology = sim.view(studio).topology();
        let plan = planner::plan(&topology, &tiny_model(30, Bytes::from_gib(1)), &goal)?;
        assert_eq!(plan.shares().len(), 3);
        // A tenth of the messages is lost, yet the answers come within the ten tries.
        let id = sim.deployed(studio, plan)??;
        sim.run_until("all see it serving", |s| s.all_see_serving(id))?;
        sim.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn memory_is_promised_once_and_every_refusal_has_its_numbers() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let [studio, mini, laptop] = sim.lan(HOME);
        sim.run_until("all see all", Sim::all_see_all)?;
        // Two owners ask for two thirds of the same memory at once: never do both get it.
        let plan = sim.plan_over(&[mini, laptop], 2);
        sim.deploy(studio, plan.clone())?;
        sim.deploy(laptop, plan.clone())?;
        sim.run_until("both are answered", |s| s.answers().count() == 2)?;
        assert!(sim.answers().filter(|answer| answer.is_ok()).count() <= 1, "seed {seed}");
        let needed = plan.shares()[0].reserved_bytes();
        for refused in sim.answers().filter_map(|answer| answer.as_ref().err()) {
            let short = |no: &control::NodeRefusal| {
                no.refusal == Refusal::Memory { needed, usable: Bytes::from_gib(16) - needed }
            };
            assert!(refused.by_node.iter().all(short), "seed {seed}: {refused}");
        }
        sim.run_until_quiet()?;
        // What the loser was promised meanwhile is free again.
        let n_served = sim.view(studio).deployments.len() as u64;
        assert_eq!(sim.view(studio).nodes[&mini].reserved, needed * n_served, "seed {seed}");
    }
    Ok(())
}

#[test]
fn a_node_that_does_not_answer_is_named_and_nothing_stays_reserved() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let [studio, mini, laptop] = sim.lan(HOME);
        sim.run_until("all see all", Sim::all_see_all)?;
        let plan = sim.plan_over(&[mini, laptop], 1);
        sim.sleep_lid(laptop);
        let refused = sim.deployed(studio, plan)?.expect_err("the laptop sleeps");
        let named: Vec<_> = refused.by_node.iter().map(|no| (no.name.as_str(), &no.refusal)).collect();
        assert_eq!(named, [("laptop", &Refusal::NoAnswer)], "seed {seed}");
        assert_eq!(refused.to_string(), "`org/simulated` was not deployed: `laptop`: it did not answer within 5 s");
        sim.run_for(Duration::from_secs(1))?;
        assert_eq!(sim.view(studio).nodes[&mini].reserved, Bytes::ZERO, "seed {seed}");
    }
    Ok(())
}

#[test]
fn stopping_at_any_node_frees_everything_within_a_second() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let (mut sim, [studio, mini, laptop], id) = serving(seed, |[s, m, l]| (s, vec![m, l]))?;
        let at = [studio, mini, laptop][seed as usize % 3];
        sim.stop(at, id)?;
        sim.run_for(Duration::from_secs(1))?;
        for seen_by in [studio, mini, laptop] {
            assert_eq!(sim.status(id, seen_by), None, "seed {seed}");
            assert_eq!(sim.view(seen_by).nodes[&mini].reserved, Bytes::ZERO, "seed {seed}");
        }
        sim.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn a_killed_rank_is_told_to_the_others_and_the_deployment_starts_again() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let (mut sim, [_, mini, laptop], id) = serving(seed, |[s, m, l]| (s, vec![m, l]))?;
        sim.kill_rank(laptop);
        sim.run_for(Duration::from_secs(1))?;
        let told: Vec<_> = sim.node(mini).losses.iter().filter(|(of, node, _)| (*of, *node) == (id, laptop)).collect();
        assert_eq!(told.len(), 1, "seed {seed}: once");
        assert!(told[0].2.contains("laptop"), "seed {seed}: {}", told[0].2);
        sim.run_until("it serves in a higher epoch", |s| s.all_see_serving(id) && epoch(s, id, mini) > Some(Epoch(1)))?;
        sim.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn a_lost_node_fails_the_deployment_by_name_and_its_return_mends_it() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let (mut sim, [studio, mini, laptop], id) = serving(seed, |[s, m, l]| (s, vec![s, m, l]))?;
        sim.crash(laptop);
        sim.run_until("it is gone", |s| s.liveness(laptop, mini) == Liveness::Gone)?;
        let Some(DeploymentStatus::Failed(why)) = sim.status(id, mini) else { panic!("seed {seed}: not failed") };
        assert!(why.contains("laptop"), "seed {seed}: {why}");
        assert!(sim.node(mini).losses.iter().any(|(_, node, _)| *node == laptop), "seed {seed}");
        sim.run_until("the studio sees it too", |s| s.liveness(laptop, studio) == Liveness::Gone)?;
        assert!(warnings(&sim.view(studio)).iter().any(|w| w.code == WarningCode::NodeSilent), "seed {seed}");
        sim.restart(laptop);
        sim.run_until("it serves again", |s| s.all_see_serving(id))?;
        assert!(epoch(&sim, id, studio) > Some(Epoch(1)), "seed {seed}");
        assert_eq!(warnings(&sim.view(studio)), [], "seed {seed}");
        sim.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn an_owner_that_starts_anew_is_replaced_and_the_deployment_serves_on() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let (mut sim, [studio, mini, laptop], id) = serving(seed, |[s, m, l]| (s, vec![m, l]))?;
        sim.crash(studio);
        sim.run_for(Duration::from_millis(200 * (seed % 50)))?;
        sim.restart(studio);
        sim.run_for(Duration::from_secs(10))?;
        assert!(sim.all_see_serving(id), "seed {seed}");
        let owner = sim.view(studio).deployments[&id].owner;
        assert!(owner == mini || owner == laptop, "seed {seed}");
        assert_eq!(epoch(&sim, id, studio), Some(Epoch(1)), "seed {seed}: nothing had to start again");
        // The new owner does its duty.
        sim.kill_rank(mini);
        sim.run_until("it starts again", |s| s.all_see_serving(id) && epoch(s, id, studio) > Some(Epoch(1)))?;
        sim.stop(studio, id)?;
        sim.run_until_quiet()?;
        assert_eq!(sim.status(id, laptop), None, "seed {seed}");
    }
    Ok(())
}

#[test]
fn a_deployment_whose_owner_is_gone_is_mended_by_a_survivor() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let (mut sim, [studio, mini, laptop], id) = serving(seed, |[s, m, l]| (s, vec![m, l]))?;
        sim.crash(studio);
        sim.run_until("the owner is gone", |s| s.liveness(studio, mini) == Liveness::Gone)?;
        sim.kill_rank(laptop);
        sim.run_until("a survivor starts it again", |s| s.all_see_serving(id) && epoch(s, id, mini) > Some(Epoch(1)))?;
        assert_ne!(sim.view(mini).deployments[&id].owner, studio, "seed {seed}");
        sim.run_until_quiet()?;
        assert!(sim.all_see_serving(id), "seed {seed}");
    }
    Ok(())
}

#[test]
fn a_node_that_was_away_cannot_bring_back_what_was_stopped() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let (mut sim, [studio, mini, laptop], id) = serving(seed, |[s, m, l]| (l, vec![s, m, l]))?;
        sim.cut(studio, laptop);
        sim.cut(mini, laptop);
        sim.run_until("the owner is gone", |s| s.liveness(laptop, mini) == Liveness::Gone)?;
        sim.stop(mini, id)?;
        sim.run_for(Duration::from_secs(300))?;
        assert_eq!(sim.status(id, studio), None, "seed {seed}");
        sim.run_until_quiet()?;
        for seen_by in [studio, mini, laptop] {
            assert_eq!(sim.status(id, seen_by), None, "seed {seed}");
        }
        let wishes = |id: NodeId| sim.node(id).control().expect("it runs").own_record().body.stops.len();
        assert_eq!(wishes(mini) + wishes(laptop) + wishes(studio), 0, "seed {seed}: met everybody, hence over");
    }
    Ok(())
}

#[test]
fn a_deployment_that_keeps_failing_is_started_four_times_and_then_left_to_people() -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let [studio, mini, _] = sim.lan(HOME);
        sim.run_until("all see all", Sim::all_see_all)?;
        sim.weather.rank_fails = 1000;
        let plan: Plan = sim.plan_over(&[studio, mini], 1);
        let id = sim.deployed(studio, plan)??;
        sim.run_for(Duration::from_secs(120))?;
        assert!(matches!(sim.status(id, mini), Some(DeploymentStatus::Failed(_))), "seed {seed}");
        assert_eq!(epoch(&sim, id, mini), Some(Epoch(4)), "seed {seed}");
        sim.run_until_quiet()?;
    }
    Ok(())
}
