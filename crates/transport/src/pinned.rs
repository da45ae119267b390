//! The check of the other end's key in a TLS handshake: is it one of ours, and does it sign?

use std::sync::Arc;

use domain::NodeId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme};

use crate::identity::{Peers, node_of};

/// Lets pass the keys of `peers`, whichever end they are at.
#[derive(Debug)]
pub(crate) struct PinnedPeers {
    peers: Peers,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PinnedPeers {
    pub(crate) fn new(peers: Peers, provider: &CryptoProvider) -> Self {
        Self { peers, algorithms: provider.signature_verification_algorithms }
    }

    fn check(&self, key: &CertificateDer<'_>, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
        let Some(found) = node_of(key).filter(|_| chain.is_empty()) else {
            return Err(CertificateError::BadEncoding.into());
        };
        let known = match &self.peers {
            Peers::Only(nodes) => nodes.contains(&found),
            Peers::Anyone => true,
        };
        if known { Ok(()) } else { Err(CertificateError::Other(OtherError(Arc::new(UnknownKey(found)))).into()) }
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }
}

/// A key that proved to be somebody's, but nobody's we talk to here.
#[derive(Clone, Debug, thiserror::Error)]
#[error("node {} is not expected here", .0.short())]
pub(crate) struct UnknownKey(pub(crate) NodeId);

/// The node whose key made a handshake fail, if that is why it failed.
pub(crate) fn unknown_key(error: &Error) -> Option<NodeId> {
    if let Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error {
        cause.downcast_ref::<UnknownKey>().map(|UnknownKey(node)| *node)
    } else {
        None
    }
}

fn no_tls12() -> Error {
    Error::General("TLS 1.2 is not spoken here".to_owned())
}

impl ServerCertVerifier for PinnedPeers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for PinnedPeers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
