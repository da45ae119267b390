//! Keeps each paired node connected: tries all its addresses, waits, tries again, for as long as it is paired.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::NodeId;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use quinn::{Connection, Endpoint};
use tokio::sync::Notify;
use transport::Identity;

use super::endpoint::{ALPN, Expect, Fault, FaultKind, connect};
use super::event::NetEvent;
use super::link::{self, LinkEnd};
use super::shared::Shared;
use super::table::CANDIDATES_MAX;

/// The first wait after a failure, and the least time between two tries whatever hints come in.
const WAIT_MIN: Duration = Duration::from_millis(250);
/// A machine that wakes up is found by its own dialling and by mDNS; this is for when both are lost.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Until a node that does not know this one is asked again: only a person can change its mind, by pairing.
const WAIT_NOT_PAIRED: Duration = Duration::from_secs(30);
/// A node that has just been paired may still be writing this one into its book.
const REFUSALS_BEFORE_BELIEVED: u32 = 3;
/// The node with the higher id lets the other dial first, so that the two rarely meet half-way.
const HEAD_START: Duration = Duration::from_millis(300);

/// Runs until the node leaves the book or the net stops.
pub(super) async fn keep_connected(net: Arc<Shared>, node: NodeId, wake: Arc<Notify>) {
    let stop = net.stop.clone();
    let mut wait = Wait::start();
    let mut said = String::new();
    let mut n_refusals = 0;
    let mut connected = net.table.connected();
    if net.me > node {
        tokio::time::sleep(HEAD_START).await;
    }
    while !has_ended(&net, node) {
        // The sender lives in `net`, so this only ends when the node is not connected.
        if stop.run_until_cancelled(connected.wait_for(|nodes| !nodes.contains(&node))).await.is_none() {
            return;
        }
        let dialled = tokio::select! {
            dialled = dial_once(&net, node) => dialled,
            // A new hint is worth more than what is being tried in vain.
            () = async { tokio::time::sleep(WAIT_MIN).await; wake.notified().await } => continue,
            () = stop.cancelled() => return,
        };
        let end = match dialled {
            Ok(connection) => link::run(&net, connection, node, net.me).await,
            Err(why) => LinkEnd::NeverUp(why),
        };
        let (why, pause) = match end {
            LinkEnd::WasUp => {
                wait = Wait::start();
                said.clear();
                n_refusals = 0;
                (None, wait.next())
            }
            LinkEnd::Duplicate => (None, wait.next()),
            LinkEnd::NeverUp(why) => (Some(why), wait.next()),
            LinkEnd::NotPaired(_) if n_refusals < REFUSALS_BEFORE_BELIEVED => {
                n_refusals += 1;
                (None, wait.next())
            }
            LinkEnd::NotPaired(why) => (Some(why), WAIT_NOT_PAIRED),
        };
        let is_missed = net.book.contains(node) && !connected.borrow().contains(&node);
        if let Some(why) = why.filter(|why| is_missed && *why != said) {
            tracing::debug!(node = %node.short(), why, "not reached");
            said.clone_from(&why);
            net.tell(NetEvent::Unreachable { node, why }).await;
        }
        let rest = async {
            tokio::time::sleep(WAIT_MIN).await;
            let _ = tokio::time::timeout(pause.saturating_sub(WAIT_MIN), wake.notified()).await;
        };
        if stop.run_until_cancelled(rest).await.is_none() {
            return;
        }
    }
}

/// Whether this task is not needed any more. Decided under the lock under which such tasks are started.
fn has_ended(net: &Shared, node: NodeId) -> bool {
    let mut nodes = net.table.lock();
    if net.book.contains(node) {
        return false;
    }
    if let Some(state) = nodes.get_mut(&node) {
        state.has_dialler = false;
    }
    true
}

async fn dial_once(net: &Shared, node: NodeId) -> Result<Connection, String> {
    let mut addrs = net.table.lock().get(&node).map(|state| state.candidates.clone()).unwrap_or_default();
    for remembered in net.book.get(node).map(|paired| paired.addrs).unwrap_or_default() {
        if !addrs.contains(&remembered) {
            addrs.push(remembered);
        }
    }
    addrs.truncate(CANDIDATES_MAX);
    if addrs.is_empty() {
        return Err("no address of it is known: wait until it is seen on the network, or type one".to_owned());
    }
    race(&net.endpoints, &net.identity, &addrs, Expect::Node(node), ALPN).await.map_err(|faults| {
        /// More addresses do not make the reason clearer.
        const SHOWN_MAX: usize = 3;
        let mut faults = faults;
        faults.sort_by_key(|fault| fault.kind == FaultKind::NoAnswer);
        let shown: Vec<_> =
            faults.iter().take(SHOWN_MAX).map(|fault| format!("{}: {}", fault.addr, fault.why)).collect();
        shown.join("; ")
    })
}

/// Dials all addresses at once; the first that answers wins and the others are dropped.
pub(super) async fn race(
    endpoints: &[Endpoint],
    identity: &Identity,
    addrs: &[SocketAddr],
    expect: Expect,
    alpn: &[u8],
) -> Result<Connection, Vec<Fault>> {
    let mut tries: FuturesUnordered<_> =
        addrs.iter().map(|addr| connect(endpoints, identity, *addr, expect, alpn)).collect();
    let mut faults = Vec::new();
    while let Some(tried) = tries.next().await {
        match tried {
            Ok(connection) => return Ok(connection),
            Err(fault) => faults.push(fault),
        }
    }
    faults.sort_by_key(|fault| fault.addr);
    Err(faults)
}

/// Growing waits, each a little random, so that nodes which lost each other do not keep meeting half-way.
#[derive(Debug)]
struct Wait {
    next: Duration,
}

impl Wait {
    const fn start() -> Self {
        Self { next: WAIT_MIN }
    }

    fn next(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(WAIT_MAX);
        wait.mul_f64(rand::random_range(1.0..1.25))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit() {
        let mut wait = Wait::start();
        let waits: Vec<_> = (0..10).map(|_| wait.next()).collect();
        assert!(waits[0] >= WAIT_MIN && waits[0] < WAIT_MIN * 2);
        assert!(waits.iter().all(|wait| *wait <= WAIT_MAX.mul_f64(1.25)));
        assert!(waits[9] >= WAIT_MAX);
    }
}
