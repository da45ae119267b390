//! What an announcement says, once it has been found to make sense. Anybody on the network can send one.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use domain::NodeId;
use mdns_sd::{ResolvedService, ScopedIp};

use crate::secure::{PROTOCOL, shown_name, shown_version};

pub(super) const KEY_ID: &str = "id";
pub(super) const KEY_PROTOCOL: &str = "proto";
pub(super) const KEY_VERSION: &str = "v";
pub(super) const KEY_NAME: &str = "name";

/// Addresses of one machine that are worth trying.
const ADDRS_MAX: usize = 16;

/// A node that was seen on the network. Nothing in it is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub node: NodeId,
    pub name: String,
    /// Of the program that runs there.
    pub version: String,
    /// In order, at least one.
    pub addrs: Vec<SocketAddr>,
    /// Whether this node can talk to it at all.
    pub joinable: Result<(), OtherProtocol>,
}

/// A node that is there and cannot be joined, with the reason (exo #1471: two versions that never see each other).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it speaks protocol {theirs} and this node {ours}: update Macramé on {}",
    if theirs > ours { "this machine" } else { "that machine" }
)]
pub struct OtherProtocol {
    pub theirs: u32,
    pub ours: u32,
}

/// Reads an announcement; the error says why it is none of ours.
pub(super) fn read(service: &ResolvedService) -> Result<Sighting, &'static str> {
    let text = |key| service.get_property_val_str(key);
    // A set: the order of the answers says nothing, and the same addresses must compare equal.
    let mut addrs = BTreeSet::new();
    for ip in service.get_addresses() {
        addrs.insert(socket_addr(ip, service.get_port()));
    }
    sighting(text(KEY_ID), text(KEY_PROTOCOL), text(KEY_VERSION), text(KEY_NAME), addrs)
}

fn sighting(
    id: Option<&str>,
    protocol: Option<&str>,
    version: Option<&str>,
    name: Option<&str>,
    addrs: BTreeSet<SocketAddr>,
) -> Result<Sighting, &'static str> {
    let node = id.ok_or("it names no node")?.parse().map_err(|_| "its node id is none")?;
    let theirs: u32 = protocol.ok_or("it names no protocol")?.parse().map_err(|_| "its protocol is no number")?;
    let addrs: Vec<SocketAddr> = addrs.into_iter().filter(is_dialable).take(ADDRS_MAX).collect();
    if addrs.is_empty() {
        return Err("it has no address that can be dialled");
    }
    Ok(Sighting {
        node,
        name: shown_name(name.unwrap_or_default()),
        version: shown_version(version.unwrap_or_default()),
        addrs,
        joinable: if theirs == PROTOCOL { Ok(()) } else { Err(OtherProtocol { theirs, ours: PROTOCOL }) },
    })
}

fn is_dialable(addr: &SocketAddr) -> bool {
    let ip = addr.ip();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    addr.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast
}

fn socket_addr(ip: &ScopedIp, port: u16) -> SocketAddr {
    match ip {
        // Only link-local addresses need the interface, and it must not make others look different.
        ScopedIp::V6(v6) if v6.addr().is_unicast_link_local() => {
            SocketAddrV6::new(*v6.addr(), port, 0, v6.scope_id().index).into()
        }
        ScopedIp::V4(_) | ScopedIp::V6(_) | _ => SocketAddr::new(ip.to_ip_addr(), port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "abababababababababababababababababababababababababababababababab";

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_announcement_is_read() {
        let addrs = [addr("192.168.1.9:4748"), addr("[fe80::1%2]:4748"), addr("192.168.1.9:4748")];
        let seen = sighting(Some(ID), Some("1"), Some("0.1.0"), Some("studio"), addrs.into()).unwrap();
        assert_eq!(seen.node, NodeId::from_bytes([0xab; 32]));
        assert_eq!((seen.name.as_str(), seen.version.as_str()), ("studio", "0.1.0"));
        assert_eq!(seen.addrs, [addr("192.168.1.9:4748"), addr("[fe80::1%2]:4748")]);
        assert_eq!(seen.joinable, Ok(()));
    }

    #[test]
    fn another_protocol_is_seen_and_says_who_must_update() {
        let seen = |protocol| {
            let addrs = [addr("10.0.0.1:1")];
            sighting(Some(ID), Some(protocol), Some("9"), Some("mini"), addrs.into()).unwrap().joinable
        };
        let why = seen("2").unwrap_err().to_string();
        assert_eq!(why, "it speaks protocol 2 and this node 1: update Macramé on this machine");
        assert!(seen("0").unwrap_err().to_string().ends_with("that machine"));
    }

    #[test]
    fn what_makes_no_sense_is_ignored_and_what_is_shown_is_clean() {
        let good = || [addr("10.0.0.1:1")].into();
        let long = "x".repeat(60_000);
        assert!(sighting(None, Some("1"), None, None, good()).is_err());
        assert!(sighting(Some(&long), Some("1"), None, None, good()).is_err());
        assert!(sighting(Some(ID), None, None, None, good()).is_err());
        assert!(sighting(Some(ID), Some("-1"), None, None, good()).is_err());
        assert!(sighting(Some(ID), Some(&long), None, None, good()).is_err());
        for addrs in [vec![], vec![addr("0.0.0.0:1")], vec![addr("224.0.0.251:1")], vec![addr("10.0.0.1:0")]] {
            assert!(sighting(Some(ID), Some("1"), None, None, addrs.into_iter().collect()).is_err());
        }
        let seen = sighting(Some(ID), Some("1"), Some(&long), Some("\u{1b}[31m\n"), good()).unwrap();
        assert_eq!((seen.name.as_str(), seen.version.len()), ("[31m", 32));
        let many = (1..1000).map(|port| SocketAddr::from(([10, 0, 0, 1], port))).collect();
        assert_eq!(sighting(Some(ID), Some("1"), None, None, many).unwrap().addrs.len(), ADDRS_MAX);
    }
}
