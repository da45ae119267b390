//! The control plane: QUIC between node keys.
//!
//! Every byte between nodes is encrypted and comes from a node that is known: TLS 1.3 proves the key, the peer book
//! says whether it may stay. Between two nodes stands one connection, whoever dialled it, over which they exchange
//! messages (in order, bounded, lost with the connection) and open streams for requests. A node that is not in the
//! book can do one thing: pair, while a code is shown.

mod accept;
mod close;
mod dial;
mod endpoint;
mod error;
mod event;
mod frame;
mod hello;
mod link;
mod pairing;
mod queue;
mod shared;
mod stream;
mod table;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use domain::NodeId;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use transport::Identity;

use crate::home::{HomeError, PeerBook};
use hello::Hello;
use pairing::Desk;
use shared::Shared;
use table::Table;

pub use error::{OpenError, SendError, StartError};
pub use event::NetEvent;
pub use frame::{FRAME_MAX, FrameError, FrameReader, FrameWriter};
pub use hello::shown_name;
pub(crate) use hello::shown_version;
pub use pairing::{PairError, PairTarget, PairingCode, PairingStatus};
pub use stream::{NetStream, StreamKind};

/// The version of the protocol between nodes, `macrame/1`. Nodes of different ones cannot talk to each other.
pub const PROTOCOL: u32 = 1;

/// How long a stream may wait for the other end to have room for it.
const OPEN_WITHIN: Duration = Duration::from_secs(3);

/// What a net is started with.
#[derive(Debug)]
pub struct SecureOptions {
    pub identity: Identity,
    /// UDP addresses; port 0 takes a free one. `[::]` listens on IPv4 too.
    pub listen: Vec<SocketAddr>,
    pub book: PeerBook,
    /// What other nodes call this one.
    pub name: String,
    /// Of the program.
    pub version: String,
}

/// A handle to the net; clones share it. It runs until [`shutdown`](Self::shutdown).
#[derive(Clone, Debug)]
pub struct SecureNet {
    shared: Arc<Shared>,
}

impl SecureNet {
    /// Listens, and dials every node of the book from now on. Must be called inside a Tokio runtime. Whoever holds the
    /// other end of `events` must keep reading: while it does not, the other nodes wait.
    pub fn start(options: SecureOptions, events: mpsc::Sender<NetEvent>) -> Result<Self, StartError> {
        let endpoints = endpoint::bind(&options.identity, &options.listen)?;
        let shared = Arc::new(Shared {
            me: options.identity.node_id(),
            identity: options.identity,
            book: options.book,
            hello: Mutex::new(Hello::new(&options.name, &options.version)),
            endpoints,
            table: Table::new(),
            desk: Desk::new(),
            strangers: Arc::new(Semaphore::new(accept::STRANGERS_MAX)),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            events,
        });
        shared.start();
        Ok(Self { shared })
    }

    pub fn node(&self) -> NodeId {
        self.shared.me
    }

    pub fn book(&self) -> &PeerBook {
        &self.shared.book
    }

    /// What other nodes are told to call this one from now on, at pairings and new connections.
    pub fn rename(&self, name: &str) {
        let mut hello = self.shared.hello.lock().unwrap_or_else(PoisonError::into_inner);
        hello.name = shown_name(name);
    }

    /// Where this node listens, with the ports it got.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.shared.endpoints.iter().filter_map(|endpoint| endpoint.local_addr().ok()).collect()
    }

    /// Notes where a paired node may be and tries there soon. Of other nodes nothing is noted: they are not dialled.
    pub fn dial(&self, node: NodeId, addrs: &[SocketAddr]) {
        if self.shared.book.contains(node) {
            self.shared.table.lock().entry(node).or_default().hint(addrs);
        }
    }

    /// The connected nodes, in order of their ids; changes as they come and go.
    pub fn connected(&self) -> watch::Receiver<Vec<NodeId>> {
        self.shared.table.connected()
    }

    pub fn is_connected(&self, node: NodeId) -> bool {
        self.shared.table.lock().get(&node).is_some_and(|state| state.link.is_some())
    }

    /// Where a connected node is: the address that the connection runs over at the moment.
    pub fn remote_addr(&self, node: NodeId) -> Option<SocketAddr> {
        self.connection(node).map(|connection| endpoint::remote_addr(&connection))
    }

    /// This machine's address on the connection to a node, where the system tells.
    pub(crate) fn local_ip(&self, node: NodeId) -> Option<std::net::IpAddr> {
        self.connection(node)?.local_ip().map(|ip| ip.to_canonical())
    }

    /// Queues a message of at most [`FRAME_MAX`] bytes. Never waits. Messages of one connection arrive in order and
    /// once, or are lost with it.
    pub fn send(&self, to: NodeId, message: Bytes) -> Result<(), SendError> {
        let nodes = self.shared.table.lock();
        let link = nodes.get(&to).and_then(|state| state.link.as_ref()).ok_or(SendError::NotConnected { to })?;
        link.queue.push(to, message)
    }

    /// Opens a stream for one request.
    pub async fn open(&self, to: NodeId, kind: StreamKind) -> Result<NetStream, OpenError> {
        let connection = self.connection(to).ok_or(OpenError::NotConnected { to })?;
        let lost = |source| OpenError::Lost { to, source };
        let (send, recv) = timeout(OPEN_WITHIN, connection.open_bi())
            .await
            .map_err(|_| OpenError::Busy { to, within_s: OPEN_WITHIN.as_secs() })?
            .map_err(|error| lost(FrameError::Lost(error)))?;
        let (mut send, recv) = (FrameWriter::new(send), FrameReader::new(recv));
        send.write_raw(&[kind.byte()]).await.map_err(lost)?;
        Ok(NetStream { kind, send, recv })
    }

    /// Takes a node out of the peer book; its connection is closed at once. Whether it was in there.
    pub fn forget(&self, node: NodeId) -> Result<bool, HomeError> {
        let was_paired = self.shared.book.remove(node)?;
        self.shared.follow_book();
        Ok(was_paired)
    }

    /// Shows a new pairing code, in place of the one that is shown.
    pub fn open_pairing(&self) -> Result<PairingCode, PairError> {
        self.shared.desk.open()
    }

    pub fn close_pairing(&self) {
        self.shared.desk.close();
    }

    pub fn pairing(&self) -> PairingStatus {
        self.shared.desk.status()
    }

    /// Pairs with a machine by the code it shows. Its node and name, once both have stored each other.
    pub async fn pair(&self, target: &PairTarget, code: &str) -> Result<(NodeId, String), PairError> {
        pairing::pair(&self.shared, target, code).await
    }

    /// Closes every connection and stops. The other nodes are told.
    pub async fn shutdown(&self) {
        self.shared.shut_down().await;
    }

    fn connection(&self, node: NodeId) -> Option<quinn::Connection> {
        self.shared.table.lock().get(&node)?.link.as_ref().map(|link| link.connection.clone())
    }
}
