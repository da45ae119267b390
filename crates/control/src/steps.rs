//! This node's own ranks, brought one step nearer to what is wanted.

use std::collections::BTreeSet;

use domain::{DeploymentId, NodeId, RankPhase};

use crate::deployments::rank_of_epoch;
use crate::ranks::LocalRank;
use crate::reconcile::{Action, AllListen, Desired, Stage, next_action};
use crate::{Control, Liveness, Output, OwnedDeployment, RankPeer};

impl Control {
    pub(crate) fn reconcile(&mut self) {
        let wanted: Vec<_> = self.wanted().into_values().map(|wanted| wanted.entry.clone()).collect();
        let here: Vec<_> = wanted.into_iter().filter(|entry| entry.boot_of(self.me) == Some(self.boot())).collect();
        let ended: Vec<_> = self.ranks.ids().filter(|id| here.iter().all(|entry| entry.id != *id)).collect();
        for id in ended {
            self.end_rank(id);
        }
        for entry in &here {
            self.step_rank(entry);
            self.tell_losses(entry);
        }
        self.free_memory(&here);
    }

    fn end_rank(&mut self, id: DeploymentId) {
        while let Some(action) = next_action(None, self.ranks.actual(id)) {
            self.act_to_end(id, action, "the deployment was stopped");
        }
    }

    fn step_rank(&mut self, entry: &OwnedDeployment) {
        let id = entry.id;
        loop {
            let all_listen = if self.listeners(entry).is_some() { AllListen::Yes } else { AllListen::NotYet };
            let desired = Desired { epoch: entry.epoch, all_listen };
            let Some(action) = next_action(Some(desired), self.ranks.actual(id)) else { return };
            match action {
                Action::Fetch => self.take_on(entry),
                Action::Start => self.start(entry),
                Action::Connect => self.connect(entry),
                Action::Stop | Action::Forget => {
                    self.act_to_end(id, action, "the deployment starts again");
                }
            }
        }
    }

    fn act_to_end(&mut self, id: DeploymentId, action: Action, reason: &str) {
        match action {
            Action::Stop => {
                let Some(rank) = self.ranks.get_mut(id) else { return };
                rank.stage = Stage::Stopping;
                let epoch = rank.epoch;
                self.outputs.push_back(Output::StopRank { deployment: id, epoch, reason: reason.to_owned() });
            }
            Action::Forget => self.ranks.forget(id),
            Action::Fetch | Action::Start | Action::Connect => {}
        }
    }

    fn take_on(&mut self, entry: &OwnedDeployment) {
        let (id, epoch) = (entry.id, entry.epoch);
        let plan = &entry.plan;
        let (Some(rank), Some(shard), Some(share)) =
            (plan.rank_of(self.me), plan.shard_of(self.me), plan.share_of(self.me))
        else {
            return;
        };
        let obstacle = if self.ranks.has_ended(id, epoch) {
            Some("it has ended here already and must start again on all nodes".to_owned())
        } else {
            // The promise made to the owner, or a new one when the deployment starts again after a loss.
            self.reserve(id, share.reserved_bytes()).err().map(|refusal| refusal.to_string())
        };
        match obstacle {
            Some(why) => self.ranks.insert(id, epoch, rank, Stage::Over, why),
            None => {
                self.ledger.keep(id);
                self.ranks.insert(id, epoch, rank, Stage::Fetching, String::new());
                self.outputs.push_back(Output::Fetch { deployment: id, epoch, shard });
            }
        }
    }

    fn start(&mut self, entry: &OwnedDeployment) {
        let (Some(shard), Some(share)) = (entry.plan.shard_of(self.me), entry.plan.share_of(self.me)) else { return };
        if let Some(rank) = self.ranks.get_mut(entry.id) {
            rank.stage = Stage::Loading;
        }
        let share = share.clone();
        self.outputs.push_back(Output::StartRank { deployment: entry.id, epoch: entry.epoch, shard, share });
    }

    fn connect(&mut self, entry: &OwnedDeployment) {
        let Some(ranks) = self.listeners(entry) else { return };
        let Some(local) = self.ranks.get_mut(entry.id) else { return };
        local.stage = Stage::Connecting;
        let rank = local.rank;
        self.outputs.push_back(Output::Connect { deployment: entry.id, epoch: entry.epoch, rank, ranks });
    }

    /// Where every rank of this epoch listens, once all do. A lone rank has no neighbours and listens nowhere.
    fn listeners(&self, entry: &OwnedDeployment) -> Option<Vec<RankPeer>> {
        let is_alone = entry.plan.n_ranks() == 1;
        let listener = |node| {
            let rank = rank_of_epoch(entry, self.records.get(node)?)?;
            match rank.phase {
                RankPhase::Connecting | RankPhase::Serving if is_alone || !rank.data_addrs.is_empty() => {}
                RankPhase::Connecting
                | RankPhase::Serving
                | RankPhase::Fetching(_)
                | RankPhase::Loading
                | RankPhase::Failed(_) => return None,
            }
            Some(RankPeer { rank: rank.rank, node, data_addrs: rank.data_addrs.clone() })
        };
        entry.plan.shares().iter().map(|share| listener(share.node)).collect()
    }

    /// Says which other ranks of a deployment that runs here were lost since it was last said.
    fn tell_losses(&mut self, entry: &OwnedDeployment) {
        let Some(local) = self.ranks.get(entry.id).filter(|local| local.epoch == entry.epoch) else { return };
        let lost = self.losses(entry, local);
        let known = local.lost.clone();
        for (node, reason) in &lost {
            if !known.contains(node) {
                let (deployment, epoch) = (entry.id, entry.epoch);
                self.outputs.push_back(Output::PeerLost { deployment, epoch, node: *node, reason: reason.clone() });
            }
        }
        let lost: BTreeSet<_> = lost.into_iter().map(|(node, _)| node).collect();
        if let Some(local) = self.ranks.get_mut(entry.id) {
            local.lost = lost;
        }
    }

    fn losses(&self, entry: &OwnedDeployment, local: &LocalRank) -> Vec<(NodeId, String)> {
        match local.stage {
            Stage::Loading | Stage::Loaded | Stage::Connecting | Stage::Serving | Stage::Failed => {}
            Stage::Fetching | Stage::Fetched | Stage::Stopping | Stage::Over => return Vec::new(),
        }
        let others = entry.plan.shares().iter().zip(&entry.boots).filter(|(share, _)| share.node != self.me);
        let loss = |node: NodeId, boot| {
            let name = self.name_of(node);
            if self.liveness(node) == Liveness::Gone {
                return Some(format!("node `{name}` is gone"));
            }
            let record = self.records.get(node)?;
            if record.stamp.boot > boot {
                return Some(format!("node `{name}` has started anew"));
            }
            match &rank_of_epoch(entry, record)?.phase {
                RankPhase::Failed(why) => Some(format!("rank on node `{name}` failed: {why}")),
                RankPhase::Fetching(_) | RankPhase::Loading | RankPhase::Connecting | RankPhase::Serving => None,
            }
        };
        others.filter_map(|(share, &boot)| Some((share.node, loss(share.node, boot)?))).collect()
    }

    /// Frees memory whose deployment is over and of whose rank nothing is left.
    fn free_memory(&mut self, here: &[OwnedDeployment]) {
        for entry in here {
            self.ledger.keep(entry.id);
        }
        for id in self.ledger.committed() {
            let is_needed = here.iter().any(|entry| entry.id == id) || self.ranks.get(id).is_some();
            if !is_needed && self.ledger.release(id) {
                self.change();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use domain::{Architecture, Bytes, Fact, Memory, ModelSpec, NodeFacts, NodeId, Plan, Timestamp, TokenCount};

    use super::*;
    use crate::{Boot, Input, RankEvent, RankReport, RequestId};

    /// A rank without neighbours has no listener, so waiting for its address would never end.
    #[test]
    fn a_lone_rank_connects_though_it_listens_nowhere() {
        let (now, me) = (Instant::now(), NodeId::from_bytes([1; 32]));
        let memory = Memory { total: Bytes::from_gib(8), used_by_others: Bytes::ZERO, usable: Bytes::from_gib(8) };
        let facts = NodeFacts { memory: Fact::known(memory, Timestamp(0)), ..NodeFacts::named("studio") };
        let mut control = Control::new(me, facts, Boot(1), 7, now);
        control.handle(Input::Deploy { request: RequestId(1), plan: lone_plan(me) }, now);
        let fetch = drain(&mut control).into_iter().find(|output| matches!(output, Output::Fetch { .. }));
        let Some(Output::Fetch { deployment, epoch, .. }) = fetch else { panic!("no fetch") };
        let mut report = |event| {
            control.handle(Input::Rank(RankReport { deployment, epoch, event }), now);
            drain(&mut control)
        };
        let outputs = report(RankEvent::Fetched);
        assert!(outputs.iter().any(|output| matches!(output, Output::StartRank { .. })), "{outputs:?}");
        let outputs = report(RankEvent::Loaded { data_addrs: Vec::new(), resident: Bytes::ZERO });
        assert!(
            outputs.iter().any(|output| matches!(output, Output::Connect { ranks, .. } if ranks.len() == 1)),
            "{outputs:?}"
        );
    }

    fn drain(control: &mut Control) -> Vec<Output> {
        std::iter::from_fn(|| control.poll_output()).collect()
    }

    fn lone_plan(node: NodeId) -> Plan {
        let spec = ModelSpec {
            id: "org/tiny".parse().expect("a model id"),
            architecture: Architecture::Llama,
            quantisation: "F32".to_owned(),
            layer_bytes: vec![Bytes::new(10); 2],
            embedding_bytes: Bytes::new(100),
            head_bytes: Bytes::new(100),
            tied_embeddings: false,
            hidden_size: 8,
            n_kv_heads: 2,
            head_dim: 4,
            vocab_size: 16,
            context_max: TokenCount(64),
        };
        Plan::from_cuts(&spec, &[node], &[], TokenCount(64), 1).expect("one rank")
    }
}
