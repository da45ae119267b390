//! The contract of a link, over every carrier.

mod support;

use domain::NodeId;
use support::tcp_pair;
use transport::testing::{fault_contract, link_contract};
use transport::{CarrierKind, Link, MemLink, mem_pair};

fn mem() -> (MemLink, MemLink) {
    mem_pair(NodeId::from_bytes([0xaa; 32]), NodeId::from_bytes([0xbb; 32]))
}

#[test]
fn memory_keeps_the_contract() {
    link_contract(|| {
        let (a, b) = mem();
        assert_eq!(a.peer().short(), "bbbbbbbb");
        assert_eq!(b.peer().short(), "aaaaaaaa");
        assert_eq!(a.carrier(), CarrierKind::Memory);
        (Box::new(a), Box::new(b))
    });
}

#[test]
fn tcp_keeps_the_contract() {
    link_contract(|| {
        let (a, b) = tcp_pair();
        assert_eq!(a.carrier(), CarrierKind::Tcp);
        (Box::new(a), Box::new(b))
    });
}

#[test]
fn faults_are_noticed_over_memory() {
    fault_contract(mem);
}

#[test]
fn faults_are_noticed_over_tcp() {
    fault_contract(tcp_pair);
}
