//! Links over TCP, under TLS 1.3 with pinned node keys.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use domain::{DeploymentId, Epoch, NodeId, Rank};

use crate::carrier::{Carrier, CarrierError};
use crate::error::LinkError;
use crate::framed::FramedLink;
use crate::hello::Hello;
use crate::identity::Identity;
use crate::link::CarrierKind;
use crate::wait::Wait;

/// The protocol of data links, as TLS names it (ALPN).
pub const DATA_ALPN: &[u8] = b"macrame-data/1";

pub type TcpLink = FramedLink<TcpCarrier>;
pub struct TcpCarrier;

/// Whom a listening rank lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    pub deployment: DeploymentId,
    pub epoch: Epoch,
    /// The rank that listens.
    pub to: Rank,
    /// The ranks that may call, each with the node that it must prove to be.
    pub from: BTreeMap<Rank, NodeId>,
}

pub struct TcpListener;

impl TcpListener {
    pub fn bind(_identity: &Identity, _addr: SocketAddr) -> Result<Self, LinkError> {
        unimplemented!()
    }
    pub fn local_addr(&self) -> SocketAddr {
        unimplemented!()
    }
    pub fn accept(&mut self, _expect: &Expect, _wait: &Wait) -> Result<(Hello, TcpLink), LinkError> {
        unimplemented!()
    }
}

pub fn tcp_connect(
    _identity: &Identity,
    _addrs: &[SocketAddr],
    _peer: NodeId,
    _hello: Hello,
    _wait: &Wait,
) -> Result<TcpLink, LinkError> {
    unimplemented!()
}

impl Carrier for TcpCarrier {
    fn kind(&self) -> CarrierKind {
        CarrierKind::Tcp
    }
    fn has_room(&mut self) -> Result<bool, CarrierError> {
        unimplemented!()
    }
    fn put(&mut self, _frame: &[u8]) -> Result<(), CarrierError> {
        unimplemented!()
    }
    fn flush(&mut self) -> Result<bool, CarrierError> {
        unimplemented!()
    }
    fn take(&mut self) -> Result<Option<&[u8]>, CarrierError> {
        unimplemented!()
    }
    fn park(&mut self, _limit: Duration) {}
    fn finish(&mut self) {}
}
