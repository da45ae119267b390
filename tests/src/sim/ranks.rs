//! Rank processes, played: fetching, loading and connecting take a while and sometimes fail.

use std::time::Duration;

use control::{RankEvent, RankPeer, RankReport};
use domain::{Bytes, DeploymentId, Epoch, Fetching, NodeId, PlanShare};

use super::wire::Event;
use super::{Sim, Stuck};

/// A rank that has a process.
pub struct FakeRank {
    pub epoch: Epoch,
    pub is_linked: bool,
    pub bytes: Bytes,
}

/// How often a rank notices at once that a neighbour's process is gone. Else its control must.
const NOTICED_PER_MILLE: u32 = 500;

impl Sim {
    pub(super) fn fetch(&mut self, at: NodeId, deployment: DeploymentId, epoch: Epoch) {
        let total = Bytes::from_mib(100);
        let half = self.millis(1..400);
        let whole = half + self.millis(1..400);
        let halfway = RankEvent::Fetching(Fetching { done: total.scaled(1, 2), total });
        self.report_after(half, at, deployment, epoch, halfway);
        let end = self.or_failed(RankEvent::Fetched, "the hub answered 503");
        self.report_after(whole, at, deployment, epoch, end);
    }

    pub(super) fn start_rank(
        &mut self,
        at: NodeId,
        deployment: DeploymentId,
        epoch: Epoch,
        share: &PlanShare,
    ) -> Result<(), Stuck> {
        self.check_start(at, deployment, epoch)?;
        let bytes = share.reserved_bytes();
        self.node_mut(at).ranks.insert(deployment, FakeRank { epoch, is_linked: false, bytes });
        let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 4000 + u16::from(at.as_bytes()[0])));
        let loaded = RankEvent::Loaded { data_addrs: vec![addr], resident: bytes };
        let end = self.or_failed(loaded, "the file is damaged");
        let delay = self.millis(50..800);
        self.report_after(delay, at, deployment, epoch, end);
        Ok(())
    }

    pub(super) fn connect(
        &mut self,
        at: NodeId,
        deployment: DeploymentId,
        epoch: Epoch,
        ranks: &[RankPeer],
    ) -> Result<(), Stuck> {
        if ranks.iter().any(|peer| peer.data_addrs.is_empty()) {
            return Err(self.stuck(format!("{} shall connect to a rank that does not listen", self.name(at))));
        }
        let all_there = ranks.iter().all(|peer| {
            let rank = self.nodes[&peer.node].ranks.get(&deployment);
            let reachable = peer.node == at || self.is_reachable(at, peer.node);
            reachable && rank.is_some_and(|rank| rank.epoch == epoch)
        });
        let event = if all_there {
            self.or_failed(RankEvent::Serving, "a link did not come up")
        } else {
            RankEvent::Failed { reason: "a neighbour does not answer".to_owned() }
        };
        let delay = self.millis(5..200);
        self.report_after(delay, at, deployment, epoch, event);
        Ok(())
    }

    pub(super) fn stop_rank(&mut self, at: NodeId, deployment: DeploymentId, epoch: Epoch) {
        let delay = self.millis(5..200);
        self.report_after(delay, at, deployment, epoch, RankEvent::Exited { reason: "stopped".to_owned() });
    }

    /// The first process on `at` dies.
    pub(super) fn end_process(&mut self, at: NodeId) {
        let Some((&deployment, rank)) = self.nodes[&at].ranks.first_key_value() else { return };
        let epoch = rank.epoch;
        self.note(|s| format!("the rank of {deployment} on {} is killed", s.name(at)));
        let reason = "its process was killed (signal 9)".to_owned();
        self.report_after(Duration::from_millis(2), at, deployment, epoch, RankEvent::Exited { reason });
    }

    /// A process tells; those that end are gone at that moment.
    pub(super) fn rank_reports(&mut self, at: NodeId, report: RankReport) -> Result<(), Stuck> {
        let (deployment, epoch) = (report.deployment, report.epoch);
        let is_mine = self.nodes[&at].ranks.get(&deployment).is_some_and(|rank| rank.epoch == epoch);
        match &report.event {
            RankEvent::Serving if is_mine => {
                self.node_mut(at).ranks.get_mut(&deployment).expect("it is mine").is_linked = true;
            }
            RankEvent::Exited { .. } if is_mine => {
                self.node_mut(at).ranks.remove(&deployment);
                self.break_neighbours(at, deployment);
            }
            RankEvent::Fetching(_)
            | RankEvent::Fetched
            | RankEvent::Loaded { .. }
            | RankEvent::Serving
            | RankEvent::Resident(_)
            | RankEvent::Failed { .. }
            | RankEvent::Exited { .. } => {}
        }
        self.input(at, control::Input::Rank(report))
    }

    /// Processes that had a link to that of `deployment` on `gone` may notice.
    pub(super) fn break_neighbours(&mut self, gone: NodeId, deployment: DeploymentId) {
        let others = self.nodes.values().filter(|node| node.id != gone);
        let of =
            |node: &super::SimNode| Some((node.id, node.ranks.get(&deployment).filter(|rank| rank.is_linked)?.epoch));
        let linked: Vec<_> = others.filter_map(of).collect();
        for (at, epoch) in linked {
            if self.chance(NOTICED_PER_MILLE) {
                let reason = format!("the link to `{}` broke", self.name(gone));
                let delay = self.millis(1..50);
                self.report_after(delay, at, deployment, epoch, RankEvent::Failed { reason });
            }
        }
    }

    fn or_failed(&mut self, event: RankEvent, reason: &str) -> RankEvent {
        if self.chance(self.weather.rank_fails) { RankEvent::Failed { reason: reason.to_owned() } } else { event }
    }

    fn report_after(&mut self, delay: Duration, at: NodeId, deployment: DeploymentId, epoch: Epoch, event: RankEvent) {
        let boot = self.nodes[&at].boot;
        let report = RankReport { deployment, epoch, event };
        self.queue.push(self.now + delay, Event::Rank { at, boot, report });
    }
}
