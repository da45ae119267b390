//! What all tasks of the net share, and the one place where a connection starts and ends to stand for a node.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::NodeId;
use quinn::{Connection, Endpoint};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use transport::Identity;

use super::close::CloseCode;
use super::event::NetEvent;
use super::hello::Hello;
use super::link::Registration;
use super::pairing::Desk;
use super::table::{LinkHandle, NodeState, Table};
use super::{accept, dial};
use crate::home::PeerBook;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) me: NodeId,
    pub(super) identity: Identity,
    pub(super) book: PeerBook,
    pub(super) hello: Mutex<Hello>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) table: Table,
    pub(super) desk: Desk,
    /// One permit for each connection whose other end is not yet known to be paired.
    pub(super) strangers: Arc<Semaphore>,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    pub(super) events: mpsc::Sender<NetEvent>,
}

impl Shared {
    /// What this node says of itself. A panic elsewhere leaves it whole: it is only ever replaced.
    pub(super) fn hello(&self) -> Hello {
        self.hello.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells the node; waits while it has not taken what it was told before. A node that is gone needs to know nothing.
    pub(super) async fn tell(&self, event: NetEvent) {
        let _ = self.events.send(event).await;
    }

    /// Makes `link` stand for `node`, unless the one that does stays or the node has left the book.
    pub(super) async fn register(&self, node: NodeId, link: LinkHandle, hello: &Hello) -> Registration {
        let turn = self.table.turn(node);
        let _turn = turn.lock().await;
        let addr = link.addr;
        let was_session = {
            let mut nodes = self.table.lock();
            // Under the lock: whoever removes a node from the book takes it afterwards, and finds the link.
            if !self.book.contains(node) {
                return Registration::NotPaired;
            }
            let state = nodes.entry(node).or_default();
            let was_session = match &state.link {
                Some(standing) => {
                    let is_alive = standing.connection.close_reason().is_none();
                    if is_alive && !link.origin.takes_the_place_of(standing.origin, [self.me, node]) {
                        return Registration::Duplicate;
                    }
                    standing.replaced.cancel();
                    Some(standing.origin.session)
                }
                None => None,
            };
            state.link = Some(link);
            self.table.publish(&nodes);
            was_session
        };
        self.remember(node, hello.name.clone(), addr).await;
        if was_session == Some(hello.session) {
            return Registration::Stands; // another path to the same run: nobody needs to know
        }
        if was_session.is_some() {
            self.tell(NetEvent::Disconnected { node, why: "it was started again".to_owned() }).await;
        }
        tracing::info!(node = %node.short(), name = hello.name, %addr, "connected");
        let (name, version) = (hello.name.clone(), hello.version.clone());
        self.tell(NetEvent::Connected { node, name, version, addr }).await;
        Registration::Stands
    }

    /// Ends what [`register`](Self::register) began, unless another connection has taken the place.
    pub(super) async fn unregister(&self, node: NodeId, connection: &Connection, why: String) {
        let turn = self.table.turn(node);
        let _turn = turn.lock().await;
        let stood = {
            let mut nodes = self.table.lock();
            let state = nodes.entry(node).or_default();
            let stood = state.link.take_if(|link| link.connection.stable_id() == connection.stable_id()).is_some();
            self.table.publish(&nodes);
            stood
        };
        if stood {
            tracing::info!(node = %node.short(), why, "disconnected");
            self.tell(NetEvent::Disconnected { node, why }).await;
        }
    }

    /// Closes what is connected and not in the book, and dials what is in the book and not connected.
    pub(super) fn follow_book(self: &Arc<Self>) {
        let mut nodes = self.table.lock();
        for (node, state) in nodes.iter_mut().filter(|(node, _)| !self.book.contains(**node)) {
            if let Some(link) = &state.link {
                tracing::debug!(node = %node.short(), "left the peer book");
                CloseCode::NotPaired.close(&link.connection, "not paired any more");
            }
            state.wake.notify_one();
        }
        nodes.retain(|node, state| state.link.is_some() || state.has_dialler || self.book.contains(*node));
        for paired in self.book.list() {
            let state: &mut NodeState = nodes.entry(paired.node).or_default();
            if !state.has_dialler && !self.stop.is_cancelled() {
                state.has_dialler = true;
                self.tasks.spawn(dial::keep_connected(self.clone(), paired.node, state.wake.clone()));
            }
        }
    }

    /// Starts the tasks that live as long as the net.
    pub(super) fn start(self: &Arc<Self>) {
        for endpoint in &self.endpoints {
            self.tasks.spawn(accept::accept_connections(self.clone(), endpoint.clone()));
        }
        self.follow_book();
        let net = self.clone();
        let mut changes = self.book.changes();
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = net.stop.cancelled() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                }
                net.follow_book();
            }
        });
        self.tasks.spawn(super::pairing::watch_the_clock(self.clone()));
    }

    pub(super) async fn shut_down(&self) {
        /// The other ends hear it at once, or find out by themselves.
        const WITHIN: Duration = Duration::from_secs(1);
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(WITHIN, self.tasks.wait()).await;
        for endpoint in &self.endpoints {
            endpoint.close(CloseCode::ShuttingDown.varint(), b"shutting down");
        }
        for endpoint in &self.endpoints {
            let _ = tokio::time::timeout(WITHIN, endpoint.wait_idle()).await;
        }
    }

    /// An address that is not on the disk is only a little slower to find next time.
    async fn remember(&self, node: NodeId, name: String, addr: std::net::SocketAddr) {
        let book = self.book.clone();
        let written = tokio::task::spawn_blocking(move || book.remember(node, &name, addr)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the address of a paired node could not be noted");
        }
    }
}
