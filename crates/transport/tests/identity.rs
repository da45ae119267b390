//! TLS between two keys, without a network.

use std::sync::Arc;

use domain::NodeId;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, ServerConfig, ServerConnection};
use transport::{Identity, IdentityError, Peers, SERVER_NAME, peer_id};

fn identity() -> Identity {
    Identity::generate().expect("a key")
}

fn only(identity: &Identity) -> Peers {
    Peers::Only([identity.node_id()].into())
}

type Shaken = Result<(ClientConnection, ServerConnection), rustls::Error>;

/// Carries the handshake's bytes to and fro until both are done or one has had enough.
fn shake(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Shaken {
    let name = ServerName::try_from(SERVER_NAME).map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut client = ClientConnection::new(client, name)?;
    let mut server = ServerConnection::new(server)?;
    let in_memory = |error: std::io::Error| rustls::Error::General(error.to_string());
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).map_err(in_memory)?;
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).map_err(in_memory)?;
            server.process_new_packets()?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).map_err(in_memory)?;
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).map_err(in_memory)?;
            client.process_new_packets()?;
        }
    }
    Ok((client, server))
}

fn between(caller: &Identity, callee: &Identity, called: Peers, calling: Peers) -> Shaken {
    shake(calling_config(caller, called), listening_config(callee, calling))
}

fn calling_config(caller: &Identity, peers: Peers) -> Arc<ClientConfig> {
    Arc::new(caller.client_config(peers, &[b"macrame/1"]).expect("client"))
}

fn listening_config(callee: &Identity, peers: Peers) -> Arc<ServerConfig> {
    Arc::new(callee.server_config(peers, &[b"macrame/1"]).expect("server"))
}

#[test]
fn each_end_learns_the_other_ones_key() {
    let (caller, callee) = (identity(), identity());
    let (client, server) = between(&caller, &callee, only(&callee), only(&caller)).expect("a handshake");
    assert_eq!(client.peer_certificates().and_then(peer_id), Some(callee.node_id()));
    assert_eq!(server.peer_certificates().and_then(peer_id), Some(caller.node_id()));
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(client.alpn_protocol(), Some(&b"macrame/1"[..]));
}

#[test]
fn pairing_takes_any_key_and_says_which() {
    let (caller, callee) = (identity(), identity());
    let (client, server) = between(&caller, &callee, Peers::Anyone, Peers::Anyone).expect("a handshake");
    assert_eq!(client.peer_certificates().and_then(peer_id), Some(callee.node_id()));
    assert_eq!(server.peer_certificates().and_then(peer_id), Some(caller.node_id()));
}

#[test]
fn an_unpaired_key_passes_neither_way() {
    let (caller, callee, other) = (identity(), identity(), identity());
    let nobody = Peers::Only([].into());
    assert!(between(&caller, &callee, only(&callee), only(&other)).is_err(), "the server lets in others only");
    assert!(between(&caller, &callee, only(&callee), nobody).is_err(), "the server lets nobody in");
    assert!(between(&caller, &callee, only(&other), only(&caller)).is_err(), "the client called another");
}

#[test]
fn a_key_is_only_shown_by_who_can_sign_with_it() {
    let (victim, thief, callee) = (identity(), identity(), identity());
    // The thief shows the victim's public key, with its own private one behind.
    let mut config = thief.client_config(only(&callee), &[b"macrame/1"]).expect("client");
    let stolen = vec![public_key_info(victim.node_id())];
    let der = rustls::pki_types::PrivatePkcs8KeyDer::from(thief.pkcs8().to_vec());
    let signer = rustls::crypto::ring::sign::any_eddsa_type(&der).expect("a signer");
    let shown = Arc::new(rustls::sign::CertifiedKey::new(stolen, signer));
    config.client_auth_cert_resolver = Arc::new(rustls::client::AlwaysResolvesClientRawPublicKeys::new(shown));
    assert!(shake(Arc::new(config), listening_config(&callee, only(&victim))).is_err());
}

#[test]
fn a_second_connection_is_checked_like_the_first() {
    let (caller, callee) = (identity(), identity());
    let client = calling_config(&caller, only(&callee));
    let server = listening_config(&callee, only(&caller));
    for _ in 0..2 {
        let (client, server) = shake(client.clone(), server.clone()).expect("a handshake");
        assert_eq!(client.handshake_kind(), Some(HandshakeKind::Full), "a resumed one would skip the key");
        assert_eq!(server.handshake_kind(), Some(HandshakeKind::Full));
    }
}

#[test]
fn two_protocols_do_not_meet() {
    let (caller, callee) = (identity(), identity());
    let client = calling_config(&caller, only(&callee));
    let server = callee.server_config(only(&caller), &[b"macrame-data/1"]).expect("server");
    assert!(shake(client, Arc::new(server)).is_err());
}

#[test]
fn a_key_survives_its_file_and_stays_out_of_logs() {
    let key = identity();
    let read = Identity::from_pkcs8(key.pkcs8()).expect("its own form");
    assert_eq!(read.node_id(), key.node_id());
    assert_ne!(identity().node_id(), key.node_id());
    assert_eq!(format!("{key:?}"), format!("Identity(NodeId({}))", key.node_id().short()));
    let error = Identity::from_pkcs8(&key.pkcs8()[..40]).expect_err("a key cut short");
    assert!(matches!(error, IdentityError::BadKey { len: 40, .. }), "{error}");
}

#[test]
fn only_one_ed25519_key_is_an_identity() {
    let node = identity().node_id();
    let good = public_key_info(node);
    assert_eq!(peer_id(std::slice::from_ref(&good)), Some(node));
    assert_eq!(peer_id(&[]), None);
    assert_eq!(peer_id(&[good.clone(), good.clone()]), None);
    assert_eq!(peer_id(&[CertificateDer::from(good[..43].to_vec())]), None);
    let mut x25519 = good.to_vec();
    x25519[8] = 0x6e;
    assert_eq!(peer_id(&[CertificateDer::from(x25519)]), None);
}

/// RFC 8410: the SubjectPublicKeyInfo of an ed25519 key, written by rustls.
fn public_key_info(node: NodeId) -> CertificateDer<'static> {
    let info = rustls::sign::public_key_to_spki(&rustls::pki_types::alg_id::ED25519, node.as_bytes());
    CertificateDer::from(info.as_ref().to_vec())
}
