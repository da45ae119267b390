//! What the tests are made of: nets with a home of their own, and bare QUIC ends that keep to no rules of ours.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{NodeId, Timestamp};
use node::home::{PairedNode, PeerBook};
use node::secure::{NetEvent, SecureNet, SecureOptions};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;
use tokio::sync::mpsc;
use transport::{Identity, Peers, SERVER_NAME};

pub const ALPN: &[u8] = b"macrame/1";
pub const PAIR_ALPN: &[u8] = b"macrame-pair/1";

/// Far more than any step on this machine takes, and the end of a test that hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A net, what it tells, and the folder of its peer book.
pub struct End {
    pub net: SecureNet,
    pub events: mpsc::Receiver<NetEvent>,
    pub identity: Identity,
    pub folder: TempDir,
}

impl End {
    pub fn start(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::start_as(name, Identity::generate().expect("a key"), folder, any_port())
    }

    pub fn start_as(name: &str, identity: Identity, folder: TempDir, listen: SocketAddr) -> Self {
        let (sender, events) = mpsc::channel(16);
        let book = PeerBook::open(folder.path().join("peers.json")).expect("a book");
        let start = || {
            let options = SecureOptions {
                identity: identity.clone(),
                listen: vec![listen],
                book: book.clone(),
                name: name.to_owned(),
                version: "1.2.3".to_owned(),
            };
            SecureNet::start(options, sender.clone())
        };
        // The port of a net that has just been shut down is free a moment later.
        let give_up = Instant::now() + PATIENCE;
        let net = loop {
            match start() {
                Ok(net) => break net,
                Err(error) if Instant::now() > give_up => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        Self { net, events, identity, folder }
    }

    pub fn addr(&self) -> SocketAddr {
        self.net.local_addrs()[0]
    }

    pub fn node(&self) -> NodeId {
        self.net.node()
    }

    /// As after a pairing.
    pub fn knows(&self, other: &Self, addrs: &[SocketAddr]) {
        let paired =
            PairedNode { node: other.node(), name: "?".to_owned(), addrs: addrs.to_vec(), paired_at: Timestamp(1) };
        self.net.book().insert(paired).expect("room in the book");
    }

    /// The next event that `wanted` takes something from; others are dropped.
    pub async fn wait<T>(&mut self, mut wanted: impl FnMut(NetEvent) -> Option<T>) -> T {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("the net runs");
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, found).await.expect("the event comes")
    }

    pub async fn connected(&mut self) -> NodeId {
        self.wait(|event| match event {
            NetEvent::Connected { node, .. } => Some(node),
            _ => None,
        })
        .await
    }

    pub async fn disconnected(&mut self) -> (NodeId, String) {
        self.wait(|event| match event {
            NetEvent::Disconnected { node, why } => Some((node, why)),
            _ => None,
        })
        .await
    }

    pub async fn message(&mut self) -> Vec<u8> {
        self.wait(|event| match event {
            NetEvent::Message { bytes, .. } => Some(bytes.to_vec()),
            _ => None,
        })
        .await
    }
}

/// Two nets that know each other and are connected.
pub async fn connected_pair() -> (End, End) {
    let (mut a, mut b) = (End::start("a"), End::start("b"));
    a.knows(&b, &[b.addr()]);
    b.knows(&a, &[a.addr()]);
    assert_eq!(a.connected().await, b.node());
    assert_eq!(b.connected().await, a.node());
    (a, b)
}

pub fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A QUIC end with any key, which answers and calls anybody.
pub fn bare_end(identity: &Identity, alpn: &[u8]) -> Endpoint {
    let tls = identity.server_config(Peers::Anyone, &[alpn]).expect("a configuration");
    let tls = QuicServerConfig::try_from(tls).expect("a cipher");
    Endpoint::server(ServerConfig::with_crypto(Arc::new(tls)), any_port()).expect("a free port")
}

pub async fn call(from: &Endpoint, identity: &Identity, to: SocketAddr, alpn: &[u8]) -> Connection {
    let tls = identity.client_config(Peers::Anyone, &[alpn]).expect("a configuration");
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("a cipher")));
    let connecting = from.connect_with(config, to, SERVER_NAME).expect("an address that can be called");
    tokio::time::timeout(PATIENCE, connecting).await.expect("an answer").expect("a handshake")
}

/// Whose key the other end has proven.
pub fn proven(connection: &Connection) -> NodeId {
    let certs = connection.peer_identity().expect("a key").downcast::<Vec<CertificateDer<'static>>>().expect("keys");
    transport::peer_id(&certs).expect("one key")
}

/// The code and the reason with which the other end closes.
pub async fn closed_with(connection: &Connection) -> (u64, String) {
    match tokio::time::timeout(PATIENCE, connection.closed()).await.expect("an end") {
        quinn::ConnectionError::ApplicationClosed(close) => {
            (close.error_code.into_inner(), String::from_utf8_lossy(&close.reason).into_owned())
        }
        other => panic!("ended otherwise: {other}"),
    }
}
