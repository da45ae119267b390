//! The QUIC sockets: how they are set up, and what is known of a connection when its handshake is done.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use domain::NodeId;
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::CertificateDer;
use transport::{Identity, Peers, SERVER_NAME, peer_id};

use super::close::{describe, speaks_otherwise};
use super::error::StartError;

/// Between paired nodes. The number is [`PROTOCOL`](super::PROTOCOL).
pub(super) const ALPN: &[u8] = b"macrame/1";
/// Between nodes that are being paired.
pub(super) const PAIR_ALPN: &[u8] = b"macrame-pair/1";

/// Keeps idle connections known to be alive, and the tables of home routers open.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Three keep-alives in a row may be lost, as on busy Wi-Fi; then the node is gone. Whoever waits for an answer from a
/// dead machine should not wait longer than people do before they try again.
const IDLE_MAX_MS: u32 = 4_000;
/// How long one address is tried. A handshake in a home takes milliseconds, on bad Wi-Fi some tenths of a second.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Bytes one connection may send ahead of being read, over all its streams: the measure of bandwidth wants some
/// megabytes, and 64 nodes that all misbehave still fit.
const RECEIVE_WINDOW: VarInt = VarInt::from_u32(8 << 20);
/// Bytes of one connection that wait for the network: enough to keep a fast cable busy, and on a slow link soon gone,
/// so that what was measured was really sent.
const SEND_WINDOW: u64 = 2 << 20;
/// Handshakes that the kernel of QUIC holds for us before we look at them.
const INCOMING_MAX: usize = 64;

pub(super) fn bind(identity: &Identity, listen: &[SocketAddr]) -> Result<Vec<Endpoint>, StartError> {
    if listen.is_empty() {
        return Err(StartError::NoAddress);
    }
    // Anyone's key passes the handshake: who may stay is looked up in the peer book after it, and told why if not.
    let tls = identity.server_config(Peers::Anyone, &[ALPN, PAIR_ALPN]).map_err(StartError::Tls)?;
    let tls = QuicServerConfig::try_from(tls).map_err(|_| StartError::NoCipher)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(Arc::new(transport_config())).max_incoming(INCOMING_MAX);
    listen.iter().map(|addr| bind_one(config.clone(), *addr)).collect()
}

fn bind_one(config: ServerConfig, addr: SocketAddr) -> Result<Endpoint, StartError> {
    Endpoint::server(config.clone(), addr)
        .or_else(|error| {
            // Where IPv6 is switched off, `[::]` cannot be bound, and every IPv4 address is what was meant.
            if addr.ip() == IpAddr::from([0u16; 8]) && error.kind() != io::ErrorKind::AddrInUse {
                return Endpoint::server(config, SocketAddr::from((Ipv4Addr::UNSPECIFIED, addr.port())));
            }
            Err(error)
        })
        .map_err(|source| StartError::Listen { addr, source })
}

fn transport_config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        // No stream before the other end is known to be paired; see `link`.
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .receive_window(RECEIVE_WINDOW)
        .send_window(SEND_WINDOW)
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MAX_MS))));
    config
}

/// Why one address led nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) addr: SocketAddr,
    pub(super) why: String,
    pub(super) kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    NoAnswer,
    OtherProtocol,
    Other,
}

/// Whose key the other end has to prove.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expect {
    Node(NodeId),
    /// For pairing; the caller looks at the key afterwards.
    Anyone,
}

/// One connection to one address.
pub(super) async fn connect(
    endpoints: &[Endpoint],
    identity: &Identity,
    addr: SocketAddr,
    expect: Expect,
    alpn: &[u8],
) -> Result<Connection, Fault> {
    let other = |why: String| Fault { addr, why, kind: FaultKind::Other };
    let endpoint = endpoints
        .iter()
        .find(|endpoint| can_reach(endpoint, addr))
        .ok_or_else(|| other("this node listens on no address from which it can be reached".to_owned()))?;
    let peers = match expect {
        Expect::Node(node) => Peers::Only(BTreeSet::from([node])),
        Expect::Anyone => Peers::Anyone,
    };
    let tls = identity.client_config(peers, &[alpn]).map_err(|error| other(error.to_string()))?;
    let tls = QuicClientConfig::try_from(tls).map_err(|error| other(error.to_string()))?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport_config()));
    let connecting = endpoint.connect_with(config, addr, SERVER_NAME).map_err(|error| other(error.to_string()))?;
    match tokio::time::timeout(CONNECT_WITHIN, connecting).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) if speaks_otherwise(&error) => {
            Err(Fault { addr, why: describe(&error), kind: FaultKind::OtherProtocol })
        }
        Ok(Err(quinn::ConnectionError::TimedOut)) | Err(_) => Err(Fault {
            addr,
            why: format!("no answer within {} s", CONNECT_WITHIN.as_secs()),
            kind: FaultKind::NoAnswer,
        }),
        Ok(Err(error)) => Err(other(describe(&error))),
    }
}

fn can_reach(endpoint: &Endpoint, addr: SocketAddr) -> bool {
    let Ok(local) = endpoint.local_addr() else { return false };
    let is_of_family = match local {
        SocketAddr::V4(_) => addr.is_ipv4(),
        // A socket on `[::]` speaks IPv4 too; one on a single IPv6 address does not.
        SocketAddr::V6(_) => addr.is_ipv6() || local.ip().is_unspecified(),
    };
    is_of_family && (!local.ip().is_loopback() || addr.ip().is_loopback())
}

/// Whose key the other end has proven; `None` only if it proved none, which our TLS configuration does not let pass.
pub(super) fn proven_node(connection: &Connection) -> Option<NodeId> {
    let certs = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    peer_id(&certs)
}

pub(super) fn negotiated_alpn(connection: &Connection) -> Option<Vec<u8>> {
    connection.handshake_data()?.downcast::<HandshakeData>().ok()?.protocol
}

/// Where the other end is, an IPv4 address as such also on a socket that speaks both.
pub(super) fn remote_addr(connection: &Connection) -> SocketAddr {
    let addr = connection.remote_address();
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, addr.port())),
        IpAddr::V6(_) => addr,
    }
}
