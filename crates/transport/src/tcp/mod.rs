//! Links over TCP, under TLS 1.3 with pinned node keys.
//!
//! Both ends prove their key before a byte of Macramé's is read, and every byte of the link is encrypted. The caller
//! then says which rank of which deployment it is ([`crate::Hello`]), and the listener repeats that or refuses.

mod carrier;
mod connect;
mod listen;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{DeploymentId, Epoch, NodeId, Rank};

use crate::framed::FramedLink;
use crate::hello::{Hello, Refusal};

pub use carrier::TcpCarrier;
pub use connect::tcp_connect;
pub use listen::TcpListener;

/// A link over TCP.
pub type TcpLink = FramedLink<TcpCarrier>;

/// The protocol of data links, as TLS names it (ALPN).
pub const DATA_ALPN: &[u8] = b"macrame-data/1";

/// How long a caller and a listener may take to agree, from the connection on. Three round trips and four
/// signatures take milliseconds; the rest is for a machine that has begun to swap.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

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

impl Expect {
    fn judge(&self, node: NodeId, hello: &Hello) -> Result<(), Refusal> {
        if hello.deployment != self.deployment {
            Err(Refusal::Deployment)
        } else if hello.epoch != self.epoch {
            Err(Refusal::Epoch)
        } else if hello.to != self.to || self.from.get(&hello.from) != Some(&node) {
            Err(Refusal::Rank)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_must_be_whom_it_claims_to_be() {
        let (left, right) = (NodeId::from_bytes([1; 32]), NodeId::from_bytes([2; 32]));
        let expect = Expect {
            deployment: DeploymentId(9),
            epoch: Epoch(3),
            to: Rank(1),
            from: BTreeMap::from([(Rank(0), left), (Rank(2), right)]),
        };
        let hello = Hello { deployment: DeploymentId(9), epoch: Epoch(3), from: Rank(0), to: Rank(1) };
        assert_eq!(expect.judge(left, &hello), Ok(()));
        assert_eq!(expect.judge(right, &hello), Err(Refusal::Rank), "that rank is another node's");
        assert_eq!(expect.judge(left, &Hello { to: Rank(2), ..hello }), Err(Refusal::Rank));
        assert_eq!(expect.judge(left, &Hello { from: Rank(5), ..hello }), Err(Refusal::Rank));
        assert_eq!(expect.judge(left, &Hello { epoch: Epoch(2), ..hello }), Err(Refusal::Epoch));
        assert_eq!(expect.judge(left, &Hello { deployment: DeploymentId(8), ..hello }), Err(Refusal::Deployment));
    }
}
