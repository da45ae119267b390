//! Who sees whom, through sleep, cuts, crashes and jumping clocks.

use std::time::Duration;

use control::{GONE_AFTER, HEARTBEAT_EVERY, Input, Liveness};
use domain::{Bytes, Fact, NodeFacts, Timestamp};
use scenarios::sim::{Sim, Stuck, Weather};

const HOME: [&str; 3] = ["studio 64 GiB", "mini 16 GiB", "laptop 16 GiB"];
const SEEDS: u64 = 20;

#[test]
fn a_laptop_that_sleeps_leaves_and_returns() -> Result<(), Stuck> {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let [studio, mini, laptop] = sim.lan(HOME);
        sim.run_until("all see all", Sim::all_see_all)?;
        sim.sleep_lid(laptop);
        sim.run_until("it is gone", |s| s.liveness(laptop, studio) == Liveness::Gone)?;
        assert_eq!(sim.liveness(mini, studio), Liveness::Alive, "seed {seed}");
        sim.run_for(Duration::from_secs(120))?;
        sim.wake(laptop);
        // Whoever wakes has heard nothing for minutes, and still gives everybody time to answer.
        for _ in 0..30 {
            sim.run_for(Duration::from_millis(100))?;
            assert_ne!(sim.liveness(studio, laptop), Liveness::Gone, "seed {seed}");
        }
        sim.run_until("all see all again", Sim::all_see_all)?;
        sim.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn silence_makes_a_node_suspect_and_then_gone_within_the_stated_times() -> Result<(), Stuck> {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let [studio, mini, laptop] = sim.lan(HOME);
        sim.run_until("all see all", Sim::all_see_all)?;
        let crashed_at = sim.now();
        sim.crash(mini);
        sim.run_until("it is suspect", |s| s.liveness(mini, studio) == Liveness::Suspect)?;
        sim.run_until("it is gone", |s| s.liveness(mini, studio) == Liveness::Gone)?;
        let took = sim.now() - crashed_at;
        assert!(took <= GONE_AFTER + Duration::from_millis(50), "seed {seed}: {took:?}");
        assert!(took >= GONE_AFTER - 2 * HEARTBEAT_EVERY, "seed {seed}: {took:?}");
        assert_eq!(sim.liveness(laptop, studio), Liveness::Alive);
        sim.restart(mini);
        sim.run_until("it is back", Sim::all_see_all)?;
    }
    Ok(())
}

#[test]
fn a_clock_that_jumps_declares_nobody_gone() -> Result<(), Stuck> {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let [studio, mini, laptop] = sim.lan(HOME);
        sim.run_until("all see all", Sim::all_see_all)?;
        for _ in 0..5 {
            sim.jump_clock(mini, Duration::from_secs(600));
            for _ in 0..20 {
                sim.run_for(Duration::from_millis(100))?;
                assert_ne!(sim.liveness(studio, mini), Liveness::Gone, "seed {seed}");
                assert_eq!(sim.liveness(mini, laptop), Liveness::Alive, "seed {seed}");
            }
        }
        sim.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn a_loss_of_a_tenth_of_all_messages_makes_nobody_gone() -> Result<(), Stuck> {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let [studio, mini, _] = sim.lan(HOME);
        sim.run_until("all see all", Sim::all_see_all)?;
        sim.weather = Weather::foul();
        for _ in 0..120 {
            sim.run_for(Duration::from_millis(500))?;
            assert_ne!(sim.liveness(mini, studio), Liveness::Gone, "seed {seed}");
        }
        sim.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn what_a_node_says_of_itself_reaches_those_who_cannot_hear_it_through_others() -> Result<(), Stuck> {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let [studio, mini, laptop] = sim.lan(HOME);
        sim.run_until("all see all", Sim::all_see_all)?;
        sim.cut(studio, laptop);
        sim.run_until("they lost each other", |s| s.liveness(laptop, studio) == Liveness::Gone)?;
        assert_eq!(sim.liveness(laptop, mini), Liveness::Alive);
        let disk_free = Fact::known(Bytes::from_gib(7), Timestamp(1));
        let facts = NodeFacts { disk_free, ..sim.node(laptop).facts.clone() };
        sim.input(laptop, Input::Facts(Box::new(facts)))?;
        let hears = |s: &Sim| s.view(studio).nodes[&laptop].facts.as_ref().is_some_and(|f| f.disk_free == disk_free);
        sim.run_until("the news went round", hears)?;
        assert_eq!(sim.liveness(laptop, studio), Liveness::Gone, "hearsay is no sign of life");
        sim.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn an_unpaired_node_is_forgotten_and_heard_no_more() -> Result<(), Stuck> {
    let mut sim = Sim::new(7);
    let [studio, _mini, laptop] = sim.lan(HOME);
    sim.run_until("all see all", Sim::all_see_all)?;
    sim.input(studio, Input::Unpaired(laptop))?;
    sim.run_for(Duration::from_secs(10))?;
    let view = sim.view(studio);
    assert!(!view.nodes.contains_key(&laptop));
    let control = sim.node(studio).control().expect("it runs");
    assert!(control.records().all(|record| record.writer != laptop), "nor does hearsay bring it back");
    Ok(())
}
