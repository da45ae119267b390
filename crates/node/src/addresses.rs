//! The addresses under which this machine can be reached.

use std::net::{IpAddr, SocketAddr};

use sysinfo::Networks;

/// Addresses for `listening` sockets, with "all of this machine" spelled out, best first: IPv4 before IPv6, and
/// what works only on this machine or one cable last.
pub(crate) fn reachable(listening: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for addr in listening {
        if addr.ip().is_unspecified() {
            found.extend(own_ips().into_iter().map(|ip| SocketAddr::new(ip, addr.port())));
        } else {
            found.push(*addr);
        }
    }
    found.sort_by_key(|addr| (rank(addr.ip()), addr.ip(), addr.port()));
    found.dedup();
    found
}

fn own_ips() -> Vec<IpAddr> {
    let Ok(networks) = &Networks::new_with_refreshed_list() else { return Vec::new() };
    networks.into_iter().flat_map(|(_, network)| network.ip_networks()).map(|network| network.addr).collect()
}

fn rank(ip: IpAddr) -> u8 {
    match ip {
        ip if ip.is_loopback() => 4,
        IpAddr::V4(ip) if ip.is_link_local() => 2,
        IpAddr::V4(_) => 0,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 3,
        IpAddr::V6(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_can_reach_comes_first() {
        let addrs =
            ["127.0.0.1:7", "[fe80::1]:7", "169.254.3.4:7", "[2001:db8::1]:7", "192.168.1.2:7", "192.168.1.2:7"];
        let addrs: Vec<SocketAddr> = addrs.iter().map(|addr| addr.parse().expect("an address")).collect();
        let sorted: Vec<_> = reachable(&addrs).iter().map(SocketAddr::to_string).collect();
        assert_eq!(sorted, ["192.168.1.2:7", "[2001:db8::1]:7", "169.254.3.4:7", "[fe80::1]:7", "127.0.0.1:7"]);
    }

    #[test]
    fn all_addresses_means_at_least_loopback_here() {
        let all = reachable(&["0.0.0.0:9".parse().expect("an address")]);
        assert!(all.contains(&"127.0.0.1:9".parse().expect("an address")), "{all:?}");
    }
}
