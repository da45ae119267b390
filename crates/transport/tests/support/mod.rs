//! What the tests of TCP links share: two nodes that know each other, on this machine's loopback.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use domain::{DeploymentId, Epoch, Rank};
use transport::{Cancel, Expect, Hello, Identity, TcpLink, TcpListener, Wait, tcp_connect};

pub const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub const HELLO: Hello = Hello { deployment: DeploymentId(0xdeb), epoch: Epoch(1), from: Rank(0), to: Rank(1) };

pub fn identity() -> Identity {
    Identity::generate().expect("a key")
}

pub fn patient() -> Wait {
    within(Duration::from_secs(30))
}

pub fn within(limit: Duration) -> Wait {
    Wait::within(limit, &Cancel::new())
}

/// Rank 1, which expects rank 0 from `caller`.
pub fn expecting(caller: &Identity) -> Expect {
    let from = BTreeMap::from([(HELLO.from, caller.node_id())]);
    Expect { deployment: HELLO.deployment, epoch: HELLO.epoch, to: HELLO.to, from }
}

/// The two ends of a new link: the caller's, then the listener's.
pub fn tcp_pair() -> (TcpLink, TcpLink) {
    let (caller, callee) = (identity(), identity());
    let mut listener = TcpListener::bind(&callee, LOOPBACK).expect("bind");
    let addr = listener.local_addr();
    thread::scope(|threads| {
        let accepting = threads.spawn(|| listener.accept(&expecting(&caller), &patient()));
        let called = tcp_connect(&caller, &[addr], callee.node_id(), HELLO, &patient()).expect("connect");
        let (hello, accepted) = accepting.join().expect("acceptor").expect("accept");
        assert_eq!(hello, HELLO);
        (called, accepted)
    })
}
