//! Which nodes are connected, by which connection, and which of two connections to a node stays.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::NodeId;
use quinn::Connection;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::queue::Queue;

/// Addresses tried for one node: those it announced on each network, those typed, those remembered.
pub(super) const CANDIDATES_MAX: usize = 16;

/// All that is known of one node while this process runs.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) link: Option<LinkHandle>,
    /// Where it may be, newest hint first.
    pub(super) candidates: Vec<SocketAddr>,
    /// Whether a task keeps dialling it.
    pub(super) has_dialler: bool,
    /// Wakes that task: there is a new hint, or the node has left the book.
    pub(super) wake: Arc<Notify>,
    /// Held while the link changes and until the event of it is sent, so that events come in the order of the changes.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

impl NodeState {
    pub(super) fn hint(&mut self, addrs: &[SocketAddr]) {
        for addr in addrs.iter().rev() {
            self.candidates.retain(|known| known != addr);
            self.candidates.insert(0, *addr);
        }
        self.candidates.truncate(CANDIDATES_MAX);
        self.wake.notify_one();
    }
}

/// The connection that stands for a node.
#[derive(Debug)]
pub(super) struct LinkHandle {
    pub(super) connection: Connection,
    pub(super) origin: Origin,
    pub(super) queue: Queue,
    pub(super) addr: SocketAddr,
    /// Cancelled when another connection takes this one's place.
    pub(super) replaced: CancellationToken,
}

/// What decides between two connections. Both ends know the same of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) dialled_by: NodeId,
    /// The other end's, from its hello.
    pub(super) session: u64,
}

impl Origin {
    /// Whether a new connection takes the place of one that stands.
    ///
    /// Both ends must decide alike, or each closes the one that the other keeps. A new session means that the other
    /// node was started again: its old connection is dead. One dialler that dials again has given its old one up.
    /// And where both have dialled, the connection of the node with the lower id stays.
    pub(super) fn takes_the_place_of(self, standing: Self, ends: [NodeId; 2]) -> bool {
        self.session != standing.session
            || self.dialled_by == standing.dialled_by
            || Some(&self.dialled_by) == ends.iter().min()
    }
}

/// The states of all nodes, and the list of the connected ones for whoever waits for a change.
#[derive(Debug)]
pub(super) struct Table {
    nodes: Mutex<BTreeMap<NodeId, NodeState>>,
    connected: watch::Sender<Vec<NodeId>>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { nodes: Mutex::new(BTreeMap::new()), connected: watch::channel(Vec::new()).0 }
    }

    /// A panic elsewhere leaves no state half changed: each change is one assignment.
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, NodeState>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connected(&self) -> watch::Receiver<Vec<NodeId>> {
        self.connected.subscribe()
    }

    pub(super) fn turn(&self, node: NodeId) -> Arc<tokio::sync::Mutex<()>> {
        self.lock().entry(node).or_default().turn.clone()
    }

    /// Publishes which nodes are connected; called with the lock held, so that the last to change is the last to say.
    pub(super) fn publish(&self, nodes: &BTreeMap<NodeId, NodeState>) {
        let now: Vec<NodeId> = nodes.iter().filter(|(_, state)| state.link.is_some()).map(|(node, _)| *node).collect();
        self.connected.send_if_modified(|before| {
            let is_changed = *before != now;
            *before = now;
            is_changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: NodeId = NodeId::from_bytes([1; 32]);
    const HIGH: NodeId = NodeId::from_bytes([2; 32]);

    const fn origin(dialled_by: NodeId, session: u64) -> Origin {
        Origin { dialled_by, session }
    }

    #[test]
    fn of_two_connections_the_lower_nodes_stays_whichever_came_first() {
        let (by_low, by_high) = (origin(LOW, 1), origin(HIGH, 1));
        for ends in [[LOW, HIGH], [HIGH, LOW]] {
            assert!(by_low.takes_the_place_of(by_high, ends));
            assert!(!by_high.takes_the_place_of(by_low, ends));
        }
    }

    #[test]
    fn a_node_that_was_started_again_or_dials_again_gets_its_new_connection() {
        let ends = [LOW, HIGH];
        assert!(origin(HIGH, 2).takes_the_place_of(origin(LOW, 1), ends));
        assert!(origin(HIGH, 1).takes_the_place_of(origin(HIGH, 1), ends));
    }

    #[test]
    fn hints_are_kept_newest_first_and_few() {
        let addr = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let mut state = NodeState::default();
        state.hint(&[addr(1), addr(2)]);
        state.hint(&[addr(2), addr(3)]);
        assert_eq!(state.candidates, [addr(2), addr(3), addr(1)]);
        state.hint(&(10..50).map(addr).collect::<Vec<_>>());
        assert_eq!((state.candidates.len(), state.candidates[0]), (CANDIDATES_MAX, addr(10)));
    }
}
