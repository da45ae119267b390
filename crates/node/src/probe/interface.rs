//! What carries a connection: the interface, and by its name the kind of link.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Command;

use domain::LinkKind;
use sysinfo::{IpNetwork, Networks};

/// What is known of the carrier; parts may be unknown (a tunnel has an interface and no kind of ours).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carrier {
    pub(super) interface: Option<String>,
    pub(super) kind: Option<LinkKind>,
}

/// The carrier of a connection between these addresses. `local` is `None` where the system does not tell.
pub(super) async fn carrier(local: Option<IpAddr>, remote: IpAddr) -> Carrier {
    let find = move || {
        let Ok(networks) = &Networks::new_with_refreshed_list() else { return Carrier::default() };
        let named: BTreeMap<_, _> =
            networks.into_iter().map(|(name, network)| (name.to_string_lossy(), network)).collect();
        let interfaces: Vec<(&str, &[IpNetwork])> =
            named.iter().map(|(name, network)| (name.as_ref(), network.ip_networks())).collect();
        // Only macOS gives Wi-Fi and Ethernet names of one form.
        let ports = if cfg!(target_os = "macos") { hardware_ports() } else { String::new() };
        carrier_among(&interfaces, &ports, local, remote)
    };
    // Lists interfaces and, on macOS, runs a program.
    tokio::task::spawn_blocking(find).await.unwrap_or_default()
}

fn carrier_among(
    interfaces: &[(&str, &[IpNetwork])],
    hardware_ports: &str,
    local: Option<IpAddr>,
    remote: IpAddr,
) -> Carrier {
    let has = |ip: IpAddr| {
        interfaces.iter().find(|(_, networks)| networks.iter().any(|network| network.addr == ip)).map(|(name, _)| *name)
    };
    let interface = local
        .filter(|local| !local.is_unspecified())
        .and_then(has)
        .or_else(|| has(remote))
        .or_else(|| longest_match(interfaces, remote))
        .map(str::to_owned);
    let is_this_machine = remote.is_loopback() || has(remote).is_some();
    let kind = if is_this_machine {
        Some(LinkKind::Loopback)
    } else {
        interface.as_deref().and_then(|name| kind_in_ports(hardware_ports, name).or_else(|| kind_by_name(name)))
    };
    Carrier { interface, kind }
}

/// The interface whose network the address belongs to, the narrowest if several do.
fn longest_match<'a>(interfaces: &[(&'a str, &[IpNetwork])], ip: IpAddr) -> Option<&'a str> {
    interfaces
        .iter()
        .flat_map(|(name, networks)| networks.iter().map(move |network| (*name, network)))
        .filter(|(_, network)| network.prefix > 0 && is_in(network, ip))
        .max_by_key(|(_, network)| network.prefix)
        .map(|(name, _)| name)
}

fn is_in(network: &IpNetwork, ip: IpAddr) -> bool {
    let differs = match (network.addr, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
        (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
    };
    differs.leading_zeros() >= u32::from(network.prefix)
}

/// By the names that Linux gives, and that never change their meaning on macOS.
fn kind_by_name(interface: &str) -> Option<LinkKind> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| interface.starts_with(prefix));
    if starts(&["wl", "awdl", "ath"]) {
        Some(LinkKind::Wifi)
    } else if starts(&["thunderbolt", "tbt"]) {
        Some(LinkKind::Thunderbolt)
    } else if starts(&["en", "eth"]) {
        Some(LinkKind::Ethernet)
    } else if interface == "lo" || interface == "lo0" {
        Some(LinkKind::Loopback)
    } else {
        None
    }
}

/// What `networksetup -listallhardwareports` says of an interface.
fn kind_in_ports(listing: &str, interface: &str) -> Option<LinkKind> {
    let mut port = "";
    for line in listing.lines() {
        if let Some(name) = line.strip_prefix("Hardware Port: ") {
            port = name.trim();
        } else if line.strip_prefix("Device: ").is_some_and(|device| device.trim() == interface) {
            return kind_of_port(port);
        }
    }
    None
}

fn kind_of_port(port: &str) -> Option<LinkKind> {
    // An Ethernet adapter at a Thunderbolt port says both.
    if port.contains("Ethernet") || port.contains("LAN") {
        Some(LinkKind::Ethernet)
    } else if port.contains("Thunderbolt") {
        Some(LinkKind::Thunderbolt)
    } else if port.contains("Wi-Fi") || port.contains("AirPort") {
        Some(LinkKind::Wifi)
    } else {
        None
    }
}

fn hardware_ports() -> String {
    let listing = Command::new("/usr/sbin/networksetup").arg("-listallhardwareports").output();
    listing.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: &str = "\nHardware Port: Ethernet\nDevice: en0\nEthernet Address: 00:00:00:00:00:01\n\nHardware Port: \
                         Wi-Fi\nDevice: en1\nEthernet Address: 00:00:00:00:00:02\n\nHardware Port: Thunderbolt \
                         Bridge\nDevice: bridge0\n\nHardware Port: Thunderbolt 1\nDevice: en2\n\nHardware Port: \
                         Thunderbolt Ethernet Slot 1\nDevice: en7\n";

    fn network(addr: &str, prefix: u8) -> IpNetwork {
        IpNetwork { addr: addr.parse().unwrap(), prefix }
    }

    fn found(ports: &str, local: Option<&str>, remote: &str) -> (Option<String>, Option<LinkKind>) {
        let (lo, en0, en1) = ([network("127.0.0.1", 8)], [network("192.168.1.5", 24)], [network("192.168.1.6", 24)]);
        let bridge = [network("169.254.10.1", 16), network("fe80::1", 64)];
        let interfaces: [(&str, &[IpNetwork]); 4] = [("lo", &lo), ("en0", &en0), ("en1", &en1), ("bridge0", &bridge)];
        let local = local.map(|ip| ip.parse().unwrap());
        let carrier = carrier_among(&interfaces, ports, local, remote.parse().unwrap());
        (carrier.interface, carrier.kind)
    }

    #[test]
    fn the_own_address_tells_the_interface_and_the_port_its_kind() {
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(found(PORTS, Some("192.168.1.6"), "192.168.1.9"), (name("en1"), Some(LinkKind::Wifi)));
        assert_eq!(found(PORTS, Some("192.168.1.5"), "192.168.1.9"), (name("en0"), Some(LinkKind::Ethernet)));
        assert_eq!(found(PORTS, None, "169.254.99.99"), (name("bridge0"), Some(LinkKind::Thunderbolt)));
        assert_eq!(found("", Some("192.168.1.5"), "192.168.1.9"), (name("en0"), Some(LinkKind::Ethernet)));
        assert_eq!(found("", None, "8.8.8.8"), (None, None));
    }

    #[test]
    fn this_machine_is_known_by_any_of_its_addresses() {
        assert_eq!(found("", None, "127.0.0.1").1, Some(LinkKind::Loopback));
        assert_eq!(found("", None, "192.168.1.5").1, Some(LinkKind::Loopback));
        assert_eq!(found("", None, "fe80::1").1, Some(LinkKind::Loopback));
        assert_eq!(found("", None, "fe80::2").1, None, "a bridge says nothing by its name");
    }

    #[test]
    fn names_of_linux_tell_the_kind() {
        for (name, kind) in [
            ("wlp3s0", Some(LinkKind::Wifi)),
            ("enp5s0", Some(LinkKind::Ethernet)),
            ("eth0", Some(LinkKind::Ethernet)),
            ("thunderbolt0", Some(LinkKind::Thunderbolt)),
            ("docker0", None),
            ("utun3", None),
        ] {
            assert_eq!(kind_by_name(name), kind, "{name}");
        }
        assert_eq!(kind_in_ports(PORTS, "en7"), Some(LinkKind::Ethernet));
        assert_eq!(kind_in_ports(PORTS, "en9"), None);
    }
}
