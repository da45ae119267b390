//! A node's key, and the only place that makes TLS configurations.
//!
//! A node is its ed25519 key: the public half is its [`NodeId`]. There are no certificates and no authorities; TLS 1.3
//! carries the raw public key (RFC 7250) both ways and each end checks it against the nodes it is paired with.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use domain::NodeId;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring as tls_ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::pinned::PinnedPeers;

/// A node's key pair. Cheap to clone.
#[derive(Clone)]
pub struct Identity(Arc<Inner>);

struct Inner {
    pkcs8: Vec<u8>,
    node_id: NodeId,
    certified: Arc<CertifiedKey>,
}

impl Identity {
    /// A new key from the system's random source.
    pub fn generate() -> Result<Self, IdentityError> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| IdentityError::NoRandomness)?;
        Self::from_pkcs8(document.as_ref())
    }

    /// The key of an earlier [`Identity::pkcs8`].
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, IdentityError> {
        let key_pair = Ed25519KeyPair::from_pkcs8(der)
            .map_err(|error| IdentityError::BadKey { len: der.len(), cause: error.to_string() })?;
        let public_key: [u8; 32] = key_pair
            .public_key()
            .as_ref()
            .try_into()
            .map_err(|_| IdentityError::BadKey { len: der.len(), cause: "public key is not 32 bytes".to_owned() })?;
        let signer = tls_ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(der))?;
        let node_id = NodeId::from_bytes(public_key);
        let certified = Arc::new(CertifiedKey::new(vec![public_key_info(node_id)], signer));
        Ok(Self(Arc::new(Inner { pkcs8: der.to_vec(), node_id, certified })))
    }

    /// The private key as PKCS#8 v2 DER. For the key file and for the rank's standard input, nowhere else.
    pub fn pkcs8(&self) -> &[u8] {
        &self.0.pkcs8
    }

    pub fn node_id(&self) -> NodeId {
        self.0.node_id
    }

    /// For the end that listens. TLS 1.3 only; the caller must prove a key that `peers` lets pass.
    ///
    /// Of `alpn`, the protocols spoken, most wanted first, one must be shared. Sessions are never resumed: a resumed
    /// one would skip the check of the key, and so outlive an unpairing.
    pub fn server_config(&self, peers: Peers, alpn: &[&[u8]]) -> Result<ServerConfig, IdentityError> {
        let provider = provider();
        let verifier = Arc::new(PinnedPeers::new(peers, &provider));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.0.certified.clone())));
        config.alpn_protocols = owned(alpn);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// For the end that calls. The server's name does not matter ([`SERVER_NAME`] does); its key does.
    pub fn client_config(&self, peers: Peers, alpn: &[&[u8]]) -> Result<ClientConfig, IdentityError> {
        let provider = provider();
        let verifier = Arc::new(PinnedPeers::new(peers, &provider));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(self.0.certified.clone())));
        config.alpn_protocols = owned(alpn);
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(config)
    }
}

impl fmt::Debug for Identity {
    /// Without the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.0.node_id).finish()
    }
}

/// What to pass where a TLS library asks for the server's name. It is neither sent nor checked.
pub const SERVER_NAME: &str = "macrame";

/// Whose key passes the TLS handshake. That the other end holds the private half is proven either way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    Only(BTreeSet<NodeId>),
    /// For pairing: the caller must look at [`peer_id`] afterwards and prove the code before trusting it.
    Anyone,
}

/// The node that the raw public key of a finished handshake belongs to.
///
/// `certs` is what rustls gives as the peer's certificates. `None` if it is anything but one ed25519 key.
pub fn peer_id(certs: &[CertificateDer<'_>]) -> Option<NodeId> {
    match certs {
        [only] => node_of(only),
        _ => None,
    }
}

pub(crate) fn node_of(public_key_info: &CertificateDer<'_>) -> Option<NodeId> {
    let key: &[u8; 32] = public_key_info.strip_prefix(&ED25519_PUBLIC_KEY_INFO)?.try_into().ok()?;
    Some(NodeId::from_bytes(*key))
}

/// What precedes the 32 bytes of an ed25519 key in its SubjectPublicKeyInfo (RFC 8410, section 4): a sequence of the
/// algorithm's identifier (1.3.101.112) and a bit string. DER has one form, so comparing bytes is parsing.
const ED25519_PUBLIC_KEY_INFO: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

fn public_key_info(node: NodeId) -> CertificateDer<'static> {
    let mut der = ED25519_PUBLIC_KEY_INFO.to_vec();
    der.extend_from_slice(node.as_bytes());
    CertificateDer::from(der)
}

/// Always ring, said aloud: another provider is in the program too, so rustls could not choose by itself.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(tls_ring::default_provider())
}

fn owned(alpn: &[&[u8]]) -> Vec<Vec<u8>> {
    alpn.iter().map(|protocol| protocol.to_vec()).collect()
}

/// Why there is no key or no TLS configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum IdentityError {
    #[error("the system gave no random numbers for a new key")]
    NoRandomness,
    #[error("not an ed25519 key in PKCS#8 form ({len} bytes): {cause}")]
    BadKey { len: usize, cause: String },
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}
