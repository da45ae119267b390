//! Which paired nodes are alive, by what was heard of them and how long ago.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::NodeId;
use serde::{Deserialize, Serialize};

use crate::NODES_MAX;
use crate::clock::Awake;

/// How often a node says that it lives. Once a second: a person who unplugs a cable sees it at once, and 32 nodes
/// cost each other 31 small messages.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);

/// Silence after which a node is suspect: two heartbeats lost and half a second of delay.
pub const SUSPECT_AFTER: Duration = Duration::from_millis(2500);

/// Silence after which a node is gone: four heartbeats lost. Deployments over it have failed then.
pub const GONE_AFTER: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    Alive,
    /// Silent, or its channel broke, a moment ago.
    Suspect,
    /// Silent for long, or never heard.
    Gone,
}

/// The trusted nodes, without this one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    peers: BTreeMap<NodeId, Peer>,
}

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub name: String,
    pub liveness: Liveness,
    pub heard_at: Option<Awake>,
    is_connected: bool,
}

impl Members {
    /// Whether that changed anything.
    pub fn pair(&mut self, node: NodeId, name: String) -> bool {
        if let Some(peer) = self.peers.get_mut(&node) {
            let renamed = peer.name != name;
            peer.name = name;
            return renamed;
        }
        // One place is this node's own.
        if self.peers.len() + 1 >= NODES_MAX {
            return false;
        }
        self.peers.insert(node, Peer { name, liveness: Liveness::Gone, heard_at: None, is_connected: false });
        true
    }

    pub fn unpair(&mut self, node: NodeId) -> bool {
        self.peers.remove(&node).is_some()
    }

    pub fn is_paired(&self, node: NodeId) -> bool {
        self.peers.contains_key(&node)
    }

    pub fn get(&self, node: NodeId) -> Option<&Peer> {
        self.peers.get(&node)
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Peer)> {
        self.peers.iter().map(|(&node, peer)| (node, peer))
    }

    pub fn connected(&self) -> impl Iterator<Item = NodeId> {
        self.peers.iter().filter(|(_, peer)| peer.is_connected).map(|(&node, _)| node)
    }

    /// Whether `node` is paired, hence whether the channel may be used.
    pub fn connect(&mut self, node: NodeId) -> bool {
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        peer.is_connected = true;
        true
    }

    /// Whether that changed the liveness.
    pub fn disconnect(&mut self, node: NodeId) -> bool {
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        peer.is_connected = false;
        match peer.liveness {
            Liveness::Alive => {
                peer.liveness = Liveness::Suspect;
                true
            }
            Liveness::Suspect | Liveness::Gone => false,
        }
    }

    /// Whether that changed the liveness.
    pub fn hear(&mut self, node: NodeId, now: Awake) -> bool {
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let returned = peer.liveness != Liveness::Alive;
        peer.heard_at = Some(now);
        peer.liveness = Liveness::Alive;
        returned
    }

    /// Lets time pass. Whether that changed any liveness.
    pub fn age(&mut self, now: Awake) -> bool {
        let mut changed = false;
        for peer in self.peers.values_mut() {
            let Some(heard_at) = peer.heard_at else { continue };
            let silence = now.since(heard_at);
            let aged = match peer.liveness {
                Liveness::Alive | Liveness::Suspect if silence >= GONE_AFTER => Liveness::Gone,
                Liveness::Alive if silence >= SUSPECT_AFTER => Liveness::Suspect,
                Liveness::Alive | Liveness::Suspect | Liveness::Gone => continue,
            };
            peer.liveness = aged;
            changed = true;
        }
        changed
    }

    /// When [`Self::age`] will change something next, if nothing is heard.
    pub fn next_age(&self) -> Option<Awake> {
        let due = self.peers.values().filter_map(|peer| match peer.liveness {
            Liveness::Alive => Some(peer.heard_at?.plus(SUSPECT_AFTER)),
            Liveness::Suspect => Some(peer.heard_at?.plus(GONE_AFTER)),
            Liveness::Gone => None,
        });
        due.min()
    }
}
