//! The owner's side of a new deployment: ask every node of the plan, commit when all said yes.

use domain::{DeploymentId, Epoch, NodeId, Plan};

use crate::clock::Awake;
use crate::reserve::{Pending, RESERVE_DEADLINE, RESERVE_EVERY};
use crate::{
    Boot, Control, DEPLOYMENTS_MAX, DeployRefused, Liveness, Message, NodeRefusal, Output, OwnedDeployment, Refusal,
    RequestId,
};

/// The epoch of a deployment that is made.
const FIRST: Epoch = Epoch(1);

impl Control {
    pub(crate) fn deploy(&mut self, request: RequestId, plan: Plan) {
        let id = DeploymentId(self.rng.next_u64());
        let mut pending = Pending::new(request, plan, self.clock.now());
        if Self::is_too_large(&pending.plan) || self.owned.len() + self.pending.len() >= DEPLOYMENTS_MAX {
            pending.refused.insert(self.me, Refusal::TooMany);
        }
        for share in pending.plan.shares() {
            if self.liveness(share.node) == Liveness::Gone {
                pending.refused.insert(share.node, Refusal::NotAlive);
            }
        }
        if !pending.refused.is_empty() {
            self.refuse(&pending);
            return;
        }
        self.pending.insert(id, pending);
        self.change();
    }

    pub(crate) fn take_answer(&mut self, id: DeploymentId, from: NodeId, boot: Boot, refused: Option<Refusal>) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        if pending.plan.rank_of(from).is_none() {
            return;
        }
        match refused {
            None => {
                // The latest start counts: an answer of an earlier one may come late.
                let known = pending.granted.entry(from).or_insert(boot);
                *known = boot.max(*known);
            }
            Some(refusal) => {
                pending.refused.insert(from, refusal);
            }
        }
    }

    /// After a sleep nobody's promise can be counted on: ask everybody again, with a new deadline.
    pub(crate) fn ask_anew(&mut self) {
        let now = self.clock.now();
        for pending in self.pending.values_mut() {
            pending.granted.clear();
            pending.ask_at = now;
            pending.deadline = now.plus(RESERVE_DEADLINE);
        }
    }

    pub(crate) fn next_ask(&self) -> Option<Awake> {
        self.pending.values().map(|pending| pending.ask_at.min(pending.deadline)).min()
    }

    pub(crate) fn ask_and_conclude(&mut self) {
        let now = self.clock.now();
        let ids: Vec<_> = self.pending.keys().copied().collect();
        for id in ids {
            let Some(mut pending) = self.pending.remove(&id) else { continue };
            if now >= pending.ask_at {
                pending.ask_at = now.plus(RESERVE_EVERY);
                self.ask(id, &mut pending);
            }
            let unanswered = pending.unanswered();
            if unanswered.is_empty() && pending.refused.is_empty() {
                self.commit(id, pending);
                continue;
            }
            if now >= pending.deadline {
                pending.refused.extend(unanswered.iter().map(|&(node, _)| (node, Refusal::NoAnswer)));
            }
            if pending.unanswered().is_empty() {
                self.give_up(id, &pending);
            } else {
                self.pending.insert(id, pending);
            }
        }
    }

    /// Somebody wants it ended before it began. Whether there was anything to end.
    pub(crate) fn cancel_pending(&mut self, id: DeploymentId) -> bool {
        let Some(mut pending) = self.pending.remove(&id) else { return false };
        pending.refused.insert(self.me, Refusal::Stopped);
        self.give_up(id, &pending);
        true
    }

    fn ask(&mut self, id: DeploymentId, pending: &mut Pending) {
        for (node, bytes) in pending.unanswered() {
            if node == self.me {
                match self.reserve(id, bytes) {
                    Ok(()) => drop(pending.granted.insert(node, self.boot())),
                    Err(refusal) => drop(pending.refused.insert(node, refusal)),
                }
            } else {
                self.send(node, Message::Reserve { deployment: id, epoch: FIRST, bytes });
            }
        }
    }

    fn commit(&mut self, id: DeploymentId, pending: Pending) {
        let boots = pending.plan.shares().iter().filter_map(|share| pending.granted.get(&share.node).copied());
        let entry = OwnedDeployment { id, epoch: FIRST, boots: boots.collect(), plan: pending.plan };
        self.owned.insert(id, entry);
        self.outputs.push_back(Output::DeployAnswer { request: pending.request, answer: Ok(id) });
        self.change();
    }

    fn give_up(&mut self, id: DeploymentId, pending: &Pending) {
        for share in pending.plan.shares() {
            if share.node == self.me {
                self.ledger.release_uncommitted(id);
            } else {
                self.send(share.node, Message::Release { deployment: id });
            }
        }
        self.refuse(pending);
    }

    fn refuse(&mut self, pending: &Pending) {
        let in_rank_order = |&(&node, _): &(&NodeId, &Refusal)| pending.plan.rank_of(node);
        let mut refused: Vec<_> = pending.refused.iter().collect();
        refused.sort_by_key(in_rank_order);
        let refusals = refused.into_iter().map(|(&node, refusal)| NodeRefusal {
            node,
            name: self.name_of(node),
            refusal: refusal.clone(),
        });
        let answer = Err(DeployRefused { model: pending.plan.model().clone(), by_node: refusals.collect() });
        self.outputs.push_back(Output::DeployAnswer { request: pending.request, answer });
        self.change();
    }
}
