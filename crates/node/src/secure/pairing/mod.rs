//! Pairing: six digits shown on one machine and typed on the other make two nodes trust each other's keys.

mod code;
mod desk;
mod error;
mod exchange;
mod guest;
mod host;
mod wire;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::{NodeId, Timestamp};
use tokio::sync::Notify;

use self::code::Code;
use self::desk::{PairingDesk, Shown};
use super::event::NetEvent;
use super::shared::Shared;
use crate::home::{HomeError, PairedNode, wall_clock};

pub use error::PairError;
pub(super) use guest::pair;
pub(super) use host::serve_guest;

/// Whom to pair with: the machine at one of these addresses, which must be that node if one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairTarget {
    pub addrs: Vec<SocketAddr>,
    pub node: Option<NodeId>,
}

/// A code to show, and until when it is good.
#[derive(Clone, PartialEq, Eq)]
pub struct PairingCode {
    /// Six digits.
    pub code: String,
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for PairingCode {
    /// Codes do not belong into logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairingCode").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// What the pairing dialog of this machine shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairingStatus {
    Closed,
    Showing(PairingCode),
    /// After too many wrong codes. A new code follows by itself.
    Locked {
        remaining: Duration,
    },
}

/// The [`PairingDesk`] with a lock and a clock around it.
#[derive(Debug)]
pub(super) struct Desk {
    desk: Mutex<PairingDesk>,
    /// The next deadline may have changed.
    changed: Notify,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self { desk: Mutex::new(PairingDesk::new()), changed: Notify::new() }
    }

    pub(super) fn open(&self) -> Result<PairingCode, PairError> {
        let (code, now) = (Code::random(), Instant::now());
        let mut desk = self.lock();
        desk.open(code, now)?;
        let status = status(&desk, now);
        drop(desk);
        self.changed.notify_one();
        match status {
            PairingStatus::Showing(code) => Ok(code),
            PairingStatus::Closed | PairingStatus::Locked { .. } => Err(PairError::NotShowing),
        }
    }

    pub(super) fn close(&self) {
        self.lock().close();
        self.changed.notify_one();
    }

    pub(super) fn status(&self) -> PairingStatus {
        status(&self.lock(), Instant::now())
    }

    /// Lets the dialog follow a change that came from outside.
    async fn tell_change(&self, net: &Shared) {
        self.changed.notify_one();
        net.tell(NetEvent::PairingChanged(self.status())).await;
    }

    /// Never held across an await; a panic under it cannot leave a half-made state, each is assigned whole.
    fn lock(&self) -> MutexGuard<'_, PairingDesk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes expired codes away and ends locks, for as long as the net lives.
pub(super) async fn watch_the_clock(net: Arc<Shared>) {
    loop {
        let deadline = net.desk.lock().next_deadline();
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = net.stop.cancelled() => return,
            () = net.desk.changed.notified() => continue,
            () = due => {}
        }
        let is_changed = net.desk.lock().on_time(Code::random(), Instant::now());
        if is_changed {
            net.tell(NetEvent::PairingChanged(net.desk.status())).await;
        }
    }
}

fn status(desk: &PairingDesk, now: Instant) -> PairingStatus {
    match desk.shown(now) {
        Shown::Nothing => PairingStatus::Closed,
        Shown::Code { code, expires_at } => {
            let life_ms = u64::try_from(expires_at.saturating_duration_since(now).as_millis()).unwrap_or(u64::MAX);
            let expires_at = Timestamp(wall_clock().0.saturating_add(life_ms));
            PairingStatus::Showing(PairingCode { code: code.digits(), expires_at })
        }
        Shown::Lock { until } => PairingStatus::Locked { remaining: until.saturating_duration_since(now) },
    }
}

/// Puts a node that has proven the code into the peer book, and tells of it; the net dials it then by itself.
///
/// In the node's turn, so that [`NetEvent::Paired`] comes before the `Connected` that the book's change brings about: who
/// hears of a connection with a stranger does nothing with it.
async fn store(net: &Arc<Shared>, node: NodeId, name: &str, addr: SocketAddr) -> Result<(), HomeError> {
    let turn = net.table.turn(node);
    let _turn = turn.lock().await;
    let paired = PairedNode { node, name: name.to_owned(), addrs: vec![addr], paired_at: wall_clock() };
    let book = net.book.clone();
    match tokio::task::spawn_blocking(move || book.insert(paired)).await {
        Ok(stored) => stored?,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
    net.tell(NetEvent::Paired { node, name: name.to_owned(), addr }).await;
    Ok(())
}
