//! Links a rank to its neighbours in the pipeline.
//!
//! Ranks next to each other share a link; from three ranks on, the last shares one with the head too. Every rank but
//! the last calls the next one and then waits for the one before; the last waits first and then calls the head. So
//! there is always one end of the chain that is already listening, and nobody waits in a circle.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use domain::{DeploymentId, Epoch, Hint, Hints, NodeId, Rank};
use engine::{Member, MemberLink, RankPeer};
use transport::{Cancel, Expect, Hello, Identity, LinkError, TcpListener, Wait, tcp_connect};

/// For each link. All ranks have loaded by then, so only the network is waited for; a Mac that wakes its Wi-Fi takes
/// some seconds.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// The links of one rank.
#[derive(Default)]
pub(super) struct Neighbours {
    pub previous: Option<MemberLink>,
    pub next: Option<MemberLink>,
    /// Between head and last, where they are not next to each other.
    pub across: Option<MemberLink>,
}

/// This rank's end of the links to come.
pub(super) struct Station<'a> {
    pub identity: &'a Identity,
    pub deployment: DeploymentId,
    pub epoch: Epoch,
    pub me: Rank,
    /// In rank order, this one included.
    pub peers: &'a [RankPeer],
    pub cancel: &'a Cancel,
}

/// Opens the first of `addrs` that can be listened on: a system without IPv6 has no `::`.
pub(super) fn listen(identity: &Identity, addrs: &[SocketAddr]) -> Result<TcpListener, NoNeighbours> {
    let mut failed = None;
    for &addr in addrs {
        match TcpListener::bind(identity, addr) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = Some(Box::new(error)),
        }
    }
    Err(failed.map_or(NoNeighbours::Nowhere, NoNeighbours::Listen))
}

impl Station<'_> {
    pub fn connect(&self, listener: &mut TcpListener) -> Result<Neighbours, NoNeighbours> {
        let last = u16::try_from(self.peers.len().saturating_sub(1)).map_err(|_| NoNeighbours::Nowhere)?;
        let is_across = last >= 2;
        let mut links = Neighbours::default();
        if self.me.0 < last {
            links.next = Some(self.call(Rank(self.me.0 + 1))?);
        }
        if self.me.0 > 0 {
            links.previous = Some(self.wait_for(Rank(self.me.0 - 1), listener)?);
        }
        if is_across && self.me == Rank::HEAD {
            links.across = Some(self.wait_for(Rank(last), listener)?);
        }
        if is_across && self.me.0 == last {
            links.across = Some(self.call(Rank::HEAD)?);
        }
        Ok(links)
    }

    fn call(&self, rank: Rank) -> Result<MemberLink, NoNeighbours> {
        let peer = self.peer(rank)?;
        let hello = Hello { deployment: self.deployment, epoch: self.epoch, from: self.me, to: rank };
        let wait = Wait::within(CONNECT_LIMIT, self.cancel);
        let link = tcp_connect(self.identity, &peer.addrs, peer.node, hello, &wait);
        let link = link.map_err(|source| NoNeighbours::link(peer, source))?;
        Ok(MemberLink { member: member(peer), link: Box::new(link) })
    }

    fn wait_for(&self, rank: Rank, listener: &mut TcpListener) -> Result<MemberLink, NoNeighbours> {
        let peer = self.peer(rank)?;
        let from: BTreeMap<Rank, NodeId> = BTreeMap::from([(rank, peer.node)]);
        let expect = Expect { deployment: self.deployment, epoch: self.epoch, to: self.me, from };
        let accepted = listener.accept(&expect, &Wait::within(CONNECT_LIMIT, self.cancel));
        let (_, link) = accepted.map_err(|source| NoNeighbours::link(peer, source))?;
        Ok(MemberLink { member: member(peer), link: Box::new(link) })
    }

    fn peer(&self, rank: Rank) -> Result<&RankPeer, NoNeighbours> {
        let peer = self.peers.get(rank.idx()).filter(|peer| peer.rank == rank);
        peer.ok_or(NoNeighbours::Missing { rank })
    }
}

pub(super) fn member(peer: &RankPeer) -> Member {
    Member { rank: peer.rank, node: peer.node, name: peer.name.clone() }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum NoNeighbours {
    #[error("cannot listen for the other ranks")]
    Listen(#[source] Box<LinkError>),
    #[error("no address to listen on was given")]
    Nowhere,
    #[error("the node did not say where rank {rank} is")]
    Missing { rank: Rank },
    #[error("no link to rank {rank} on {name}")]
    Link { rank: Rank, name: String, source: Box<LinkError> },
}

impl NoNeighbours {
    /// Whether nothing failed: the rank was told to end while it waited.
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Link { source, .. } => **source == LinkError::Cancelled,
            Self::Listen(_) | Self::Nowhere | Self::Missing { .. } => false,
        }
    }

    fn link(peer: &RankPeer, source: LinkError) -> Self {
        Self::Link { rank: peer.rank, name: peer.name.clone(), source: Box::new(source) }
    }
}

impl Hint for NoNeighbours {
    fn hints(&self) -> Hints {
        match self {
            Self::Listen(source) | Self::Link { source, .. } => source.hints(),
            Self::Nowhere | Self::Missing { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// The links of each of `n` ranks, all on loopback.
    fn chain(n: u16) -> Vec<Result<Neighbours, NoNeighbours>> {
        let identities: Vec<_> = (0..n).map(|_| Identity::generate().expect("a key")).collect();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listeners: Vec<_> = identities.iter().map(|identity| listen(identity, &[any]).expect("a port")).collect();
        let peers: Vec<_> = (0..n)
            .map(|rank| RankPeer {
                rank: Rank(rank),
                node: identities[usize::from(rank)].node_id(),
                name: format!("node-{rank}"),
                addrs: vec![listeners[usize::from(rank)].local_addr()],
            })
            .collect();
        thread::scope(|scope| {
            let ranks = (0..n).zip(&identities).zip(listeners).map(|((rank, identity), mut listener)| {
                let peers = &peers;
                scope.spawn(move || {
                    let cancel = Cancel::new();
                    let (deployment, epoch, me) = (DeploymentId(1), Epoch(1), Rank(rank));
                    Station { identity, deployment, epoch, me, peers, cancel: &cancel }.connect(&mut listener)
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn a_chain_of_any_length_is_linked() {
        for n in 2..=4 {
            let links: Vec<_> = chain(n).into_iter().map(|links| links.expect("linked")).collect();
            for (rank, links) in (0..n).zip(&links) {
                let name = |link: &Option<MemberLink>| link.as_ref().map(|link| link.member.rank.0);
                let is_end = rank == 0 || rank == n - 1;
                assert_eq!(name(&links.previous), rank.checked_sub(1));
                assert_eq!(name(&links.next), (rank + 1 < n).then_some(rank + 1));
                let across = (n > 2 && is_end).then(|| n - 1 - rank);
                assert_eq!(name(&links.across), across, "rank {rank} of {n}");
            }
        }
    }

    #[test]
    fn the_first_address_that_works_is_taken() {
        let identity = Identity::generate().expect("a key");
        let foreign = SocketAddr::from(([192, 0, 2, 1], 0));
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = listen(&identity, &[foreign, here]).expect("the second");
        assert!(listener.local_addr().ip().is_loopback());
        assert!(matches!(listen(&identity, &[foreign]), Err(NoNeighbours::Listen(_))));
        assert!(matches!(listen(&identity, &[]), Err(NoNeighbours::Nowhere)));
    }
}
