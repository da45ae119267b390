//! The cryptography of a pairing: SPAKE2 over the code, then keys for one proof and one sealed name each way.
//!
//! The identities in the SPAKE2 are the two nodes as TLS has proven them on this very connection. A machine in the
//! middle, which terminates TLS with a key of its own on both sides, therefore sits between two exchanges with
//! different identities: relaying is of no use to it, and taking part costs it one guess of the code.

use std::array::TryFromSliceError;

use domain::NodeId;
use quinn::Connection;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::hmac;
use spake2::{Ed25519Group, Identity, Password, Spake2};

use super::code::Code;

pub(super) const KEY_LEN: usize = 32;
pub(super) const PROOF_LEN: usize = 32;

/// Both ends of a pairing: who typed the code, and who shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parties {
    pub(super) guest: NodeId,
    pub(super) host: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Guest,
    Host,
}

impl Role {
    const fn other(self) -> Self {
        match self {
            Self::Guest => Self::Host,
            Self::Host => Self::Guest,
        }
    }

    /// What the key of each purpose is derived for.
    const fn labels(self) -> [&'static [u8]; 2] {
        match self {
            Self::Guest => [b"guest proves", b"guest seals"],
            Self::Host => [b"host proves", b"host seals"],
        }
    }
}

/// What the other end sent is no part of this exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other end does not keep to the pairing protocol")]
pub(super) struct BadExchange;

impl From<TryFromSliceError> for BadExchange {
    fn from(_: TryFromSliceError) -> Self {
        Self
    }
}

/// An exchange whose first message is on its way.
pub(super) struct Exchange {
    spake: Spake2<Ed25519Group>,
    role: Role,
}

impl Exchange {
    /// The exchange and its message to the other end.
    pub(super) fn start(role: Role, code: &Code, parties: Parties) -> (Self, Vec<u8>) {
        let password = Password::new(code.as_bytes());
        let [guest, host] = [parties.guest, parties.host].map(|node| Identity::new(node.as_bytes()));
        let (spake, message) = match role {
            Role::Guest => Spake2::start_a(&password, &guest, &host),
            Role::Host => Spake2::start_b(&password, &guest, &host),
        };
        (Self { spake, role }, message)
    }

    /// `message` is the other end's, `binding` what only the two ends of this connection know. The keys match the
    /// other end's if, and only if, it used the same code, parties and connection.
    pub(super) fn finish(self, message: &[u8], binding: &[u8; KEY_LEN]) -> Result<PairingKeys, BadExchange> {
        let secret = self.spake.finish(message).map_err(|_| BadExchange)?;
        let secret = Salt::new(HKDF_SHA256, b"macrame-pair/1").extract(&secret);
        let key = |label: &[u8]| -> Result<[u8; KEY_LEN], BadExchange> {
            let mut key = [0; KEY_LEN];
            let info = [label, binding];
            secret.expand(&info, Len).and_then(|okm| okm.fill(&mut key)).map_err(|_| BadExchange)?;
            Ok(key)
        };
        let keys = |role: Role| -> Result<HalfKeys, BadExchange> {
            let [proves, seals] = role.labels();
            let seal = UnboundKey::new(&CHACHA20_POLY1305, &key(seals)?).map_err(|_| BadExchange)?;
            Ok(HalfKeys { proof: hmac::Key::new(hmac::HMAC_SHA256, &key(proves)?), seal: LessSafeKey::new(seal) })
        };
        Ok(PairingKeys { own: keys(self.role)?, other: keys(self.role.other())? })
    }
}

struct Len;

impl KeyType for Len {
    fn len(&self) -> usize {
        KEY_LEN
    }
}

/// The keys of both directions; each is used once.
pub(super) struct PairingKeys {
    own: HalfKeys,
    other: HalfKeys,
}

struct HalfKeys {
    proof: hmac::Key,
    seal: LessSafeKey,
}

/// All that a proof says; the key says by whom, to whom and over which connection.
const PROVEN: &[u8] = b"I know the code";

impl PairingKeys {
    pub(super) fn prove(&self) -> [u8; PROOF_LEN] {
        let mut proof = [0; PROOF_LEN];
        proof.copy_from_slice(hmac::sign(&self.own.proof, PROVEN).as_ref());
        proof
    }

    /// In constant time.
    pub(super) fn verify(&self, proof: &[u8]) -> Result<(), BadExchange> {
        hmac::verify(&self.other.proof, PROVEN, proof).map_err(|_| BadExchange)
    }

    /// Encrypts this end's name.
    pub(super) fn seal(&self, name: &str) -> Result<Vec<u8>, BadExchange> {
        let mut sealed = name.as_bytes().to_vec();
        self.own.seal.seal_in_place_append_tag(only_nonce(), Aad::empty(), &mut sealed).map_err(|_| BadExchange)?;
        Ok(sealed)
    }

    /// Decrypts the other end's name.
    pub(super) fn unseal(&self, sealed: &[u8]) -> Result<String, BadExchange> {
        let mut sealed = sealed.to_vec();
        let name = self.other.seal.open_in_place(only_nonce(), Aad::empty(), &mut sealed).map_err(|_| BadExchange)?;
        String::from_utf8(name.to_vec()).map_err(|_| BadExchange)
    }
}

/// A key that seals one message needs no second nonce.
fn only_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// A value that only the two ends of this connection can compute.
pub(super) fn channel_binding(connection: &Connection) -> Result<[u8; KEY_LEN], BadExchange> {
    let mut binding = [0; KEY_LEN];
    connection.export_keying_material(&mut binding, b"EXPORTER-macrame-pair", b"").map_err(|_| BadExchange)?;
    Ok(binding)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTIES: Parties = Parties { guest: NodeId::from_bytes([1; 32]), host: NodeId::from_bytes([2; 32]) };
    const BINDING: [u8; KEY_LEN] = [9; KEY_LEN];

    #[test]
    fn both_ends_prove_the_code_and_read_each_others_name() {
        let (guest, host) = exchange("123456", "123456", PARTIES, PARTIES, BINDING);
        host.verify(&guest.prove()).unwrap();
        guest.verify(&host.prove()).unwrap();
        assert_eq!(host.unseal(&guest.seal("laptop").unwrap()).unwrap(), "laptop");
        assert_eq!(guest.unseal(&host.seal("studio").unwrap()).unwrap(), "studio");
    }

    #[test]
    fn a_proof_sent_back_proves_nothing() {
        let (guest, host) = exchange("123456", "123456", PARTIES, PARTIES, BINDING);
        assert_eq!(guest.verify(&guest.prove()), Err(BadExchange));
        assert_eq!(host.unseal(&host.seal("studio").unwrap()), Err(BadExchange));
    }

    #[test]
    fn another_code_another_party_or_another_connection_fails_both_ways() {
        let stranger = Parties { host: NodeId::from_bytes([3; 32]), ..PARTIES };
        for (host_code, host_parties, host_binding) in
            [("123457", PARTIES, BINDING), ("123456", stranger, BINDING), ("123456", PARTIES, [8; KEY_LEN])]
        {
            let (guest, host) = exchange_bound("123456", host_code, PARTIES, host_parties, BINDING, host_binding);
            assert_eq!(host.verify(&guest.prove()), Err(BadExchange));
            assert_eq!(guest.verify(&host.prove()), Err(BadExchange));
            assert_eq!(host.unseal(&guest.seal("laptop").unwrap()), Err(BadExchange));
        }
    }

    #[test]
    fn what_is_no_message_of_the_exchange_is_refused() {
        let code: Code = "123456".parse().unwrap();
        for message in [&[][..], &[0; 33], &[0x42; 32], &[0xff; 33]] {
            let (guest, _) = Exchange::start(Role::Guest, &code, PARTIES);
            assert!(guest.finish(message, &BINDING).is_err());
        }
        let (guest, own) = Exchange::start(Role::Guest, &code, PARTIES);
        assert!(guest.finish(&own, &BINDING).is_err(), "its own message sent back");
    }

    fn exchange(
        guest_code: &str,
        host_code: &str,
        guest_parties: Parties,
        host_parties: Parties,
        binding: [u8; KEY_LEN],
    ) -> (PairingKeys, PairingKeys) {
        exchange_bound(guest_code, host_code, guest_parties, host_parties, binding, binding)
    }

    fn exchange_bound(
        guest_code: &str,
        host_code: &str,
        guest_parties: Parties,
        host_parties: Parties,
        guest_binding: [u8; KEY_LEN],
        host_binding: [u8; KEY_LEN],
    ) -> (PairingKeys, PairingKeys) {
        let (guest, from_guest) = Exchange::start(Role::Guest, &guest_code.parse().unwrap(), guest_parties);
        let (host, from_host) = Exchange::start(Role::Host, &host_code.parse().unwrap(), host_parties);
        let guest = guest.finish(&from_host, &guest_binding).ok().unwrap();
        let host = host.finish(&from_guest, &host_binding).ok().unwrap();
        (guest, host)
    }
}
