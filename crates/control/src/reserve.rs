//! Memory is promised by the node that owns it; a deployment exists once every node of its plan has promised.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Bytes, DeploymentId, Hint, Hints, ModelId, NodeId, Plan};
use serde::{Deserialize, Serialize};

use crate::clock::Awake;
use crate::records::DEPLOYMENTS_MAX;
use crate::{Boot, RequestId, Reservation};

/// How long an owner waits for all answers. A living node answers within milliseconds; two lost messages cost a second.
pub const RESERVE_DEADLINE: Duration = Duration::from_secs(5);

/// How often it asks again who has not answered: ten times before the deadline.
pub(crate) const RESERVE_EVERY: Duration = Duration::from_millis(500);

/// How long memory stays promised to an owner who says nothing more. Longer than the deadline by enough that a
/// promise cannot end between the last yes and the commit's arrival, whichever clock is a little fast.
pub const RESERVATION_HOLD: Duration = Duration::from_secs(15);

/// Why one node cannot take its share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    #[error("{needed} needed, {usable} usable")]
    Memory { needed: Bytes, usable: Bytes },
    #[error("its memory is not known yet")]
    MemoryUnknown,
    #[error("it already has {DEPLOYMENTS_MAX} deployments, the most a node takes")]
    TooMany,
    #[error("it is not alive")]
    NotAlive,
    #[error("it did not answer within {} s", RESERVE_DEADLINE.as_secs())]
    NoAnswer,
    #[error("it was stopped before it began")]
    Stopped,
}

/// Why a deployment was not made: every node that said no, with its numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{model}` was not deployed: {}", listed(.by_node))]
pub struct DeployRefused {
    pub model: ModelId,
    /// Never empty; in rank order.
    pub by_node: Vec<NodeRefusal>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRefusal {
    pub node: NodeId,
    pub name: String,
    pub refusal: Refusal,
}

fn listed(by_node: &[NodeRefusal]) -> String {
    let each: Vec<_> = by_node.iter().map(|no| format!("`{}`: {}", no.name, no.refusal)).collect();
    each.join("; ")
}

impl Hint for DeployRefused {
    fn hints(&self) -> Hints {
        let hint = |no: &NodeRefusal| match &no.refusal {
            Refusal::Memory { needed, usable } => format!(
                "free {} on `{}`: close programs there, stop another deployment, or plan again with a shorter context",
                *needed - *usable,
                no.name
            ),
            Refusal::MemoryUnknown => format!("wait until `{}` has measured its memory, then deploy again", no.name),
            Refusal::TooMany => format!("stop a deployment on `{}`", no.name),
            Refusal::NotAlive | Refusal::NoAnswer => {
                format!("wake `{0}` or check its network, or plan again without `{0}`", no.name)
            }
            Refusal::Stopped => "deploy it again".to_owned(),
        };
        self.by_node.iter().map(hint).collect()
    }
}

/// What this node has promised of its own memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    held: BTreeMap<DeploymentId, Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: Bytes,
    /// `None` once the deployment is committed.
    until: Option<Awake>,
}

impl Ledger {
    /// Promises `bytes` to `id`, for [`RESERVATION_HOLD`] unless it is kept. Asking again prolongs, nothing else.
    pub fn reserve(
        &mut self,
        id: DeploymentId,
        bytes: Bytes,
        usable: Option<Bytes>,
        now: Awake,
    ) -> Result<(), Refusal> {
        let usable = usable.ok_or(Refusal::MemoryUnknown)?;
        let others: Bytes = self.held.iter().filter(|(held, _)| **held != id).map(|(_, held)| held.bytes).sum();
        if let Some(held) = self.held.get_mut(&id).filter(|held| held.bytes >= bytes) {
            held.until = held.until.map(|_| now.plus(RESERVATION_HOLD));
            return Ok(());
        }
        if bytes > usable - others {
            return Err(Refusal::Memory { needed: bytes, usable: usable - others });
        }
        if !self.held.contains_key(&id) && self.held.len() >= DEPLOYMENTS_MAX {
            return Err(Refusal::TooMany);
        }
        let until = self.held.get(&id).map_or(Some(now.plus(RESERVATION_HOLD)), |held| held.until);
        self.held.insert(id, Held { bytes, until });
        Ok(())
    }

    /// The deployment is committed: the promise has no end of its own any more.
    pub fn keep(&mut self, id: DeploymentId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.until = None;
        }
    }

    pub fn release(&mut self, id: DeploymentId) -> bool {
        self.held.remove(&id).is_some()
    }

    /// Takes a promise back that was not committed.
    pub fn release_uncommitted(&mut self, id: DeploymentId) -> bool {
        self.held.get(&id).is_some_and(|held| held.until.is_some()) && self.release(id)
    }

    /// Ends promises whose time is over. Whether there were any.
    pub fn expire(&mut self, now: Awake) -> bool {
        let before = self.held.len();
        self.held.retain(|_, held| held.until.is_none_or(|until| now < until));
        self.held.len() < before
    }

    pub fn next_expiry(&self) -> Option<Awake> {
        self.held.values().filter_map(|held| held.until).min()
    }

    pub fn committed(&self) -> Vec<DeploymentId> {
        self.held.iter().filter(|(_, held)| held.until.is_none()).map(|(&id, _)| id).collect()
    }

    pub fn reservations(&self) -> Vec<Reservation> {
        self.held.iter().map(|(&deployment, held)| Reservation { deployment, bytes: held.bytes }).collect()
    }
}

/// A deployment whose nodes are being asked.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub request: RequestId,
    pub plan: Plan,
    /// The start in which each node said yes.
    pub granted: BTreeMap<NodeId, Boot>,
    pub refused: BTreeMap<NodeId, Refusal>,
    pub ask_at: Awake,
    pub deadline: Awake,
}

impl Pending {
    pub fn new(request: RequestId, plan: Plan, now: Awake) -> Self {
        let deadline = now.plus(RESERVE_DEADLINE);
        Self { request, plan, granted: BTreeMap::new(), refused: BTreeMap::new(), ask_at: now, deadline }
    }

    /// Nodes that have said neither yes nor no, with what they are asked for.
    pub fn unanswered(&self) -> Vec<(NodeId, Bytes)> {
        let open = self
            .plan
            .shares()
            .iter()
            .filter(|share| !self.granted.contains_key(&share.node) && !self.refused.contains_key(&share.node));
        open.map(|share| (share.node, share.reserved_bytes())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::clock::Clock;

    const A: DeploymentId = DeploymentId(1);
    const B: DeploymentId = DeploymentId(2);

    fn mib(n: u64) -> Bytes {
        Bytes::from_mib(n)
    }

    #[test]
    fn memory_is_promised_once() {
        let now = Clock::new(Instant::now()).now();
        let mut ledger = Ledger::default();
        let usable = Some(mib(100));
        assert_eq!(ledger.reserve(A, mib(60), usable, now), Ok(()));
        assert_eq!(ledger.reserve(A, mib(60), usable, now), Ok(()), "asking again is no second promise");
        let refusal = Refusal::Memory { needed: mib(60), usable: mib(40) };
        assert_eq!(ledger.reserve(B, mib(60), usable, now), Err(refusal));
        assert_eq!(ledger.reserve(B, mib(40), usable, now), Ok(()));
        assert_eq!(ledger.reservations().len(), 2);
        assert_eq!(ledger.reserve(B, mib(40), None, now), Err(Refusal::MemoryUnknown));
    }

    #[test]
    fn a_promise_ends_unless_it_is_kept() {
        let now = Clock::new(Instant::now()).now();
        let mut ledger = Ledger::default();
        for id in [A, B] {
            ledger.reserve(id, mib(10), Some(mib(100)), now).expect("there is room");
        }
        ledger.keep(A);
        let over = now.plus(RESERVATION_HOLD);
        assert_eq!(ledger.next_expiry(), Some(over));
        assert!(ledger.expire(over));
        assert_eq!(ledger.committed(), [A]);
        assert!(!ledger.release_uncommitted(A), "a late release does not undo a commit");
        assert_eq!(ledger.reservations().len(), 1);
    }

    #[test]
    fn a_refusal_names_each_node_with_numbers_and_a_way_out() {
        let no =
            |name: &str, refusal| NodeRefusal { node: NodeId::from_bytes([1; 32]), name: name.to_owned(), refusal };
        let error = DeployRefused {
            model: "org/tiny".parse().expect("a model id"),
            by_node: vec![
                no("studio", Refusal::Memory { needed: mib(300), usable: mib(100) }),
                no("mini", Refusal::NoAnswer),
            ],
        };
        assert_eq!(
            error.to_string(),
            "`org/tiny` was not deployed: `studio`: 300.0 MiB needed, 100.0 MiB usable; `mini`: it did not answer within 5 s"
        );
        assert!(error.hints()[0].starts_with("free 200.0 MiB on `studio`"));
        assert_eq!(error.hints()[1], "wake `mini` or check its network, or plan again without `mini`");
    }
}
