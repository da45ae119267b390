//! The peer book: which nodes are paired with this one. It alone decides who may connect.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{NodeId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::HomeError;
use super::files::{read_private, write_private};

/// What this version writes. A change that an older version would misread takes the next number.
const FORMAT: u32 = 1;
/// More machines than any home has, and few enough that each can hold a connection to each.
pub const PAIRED_MAX: usize = 64;
/// Addresses kept for a node, newest first: a few networks and a cable or two.
pub const REMEMBERED_ADDRS_MAX: usize = 8;
/// 64 nodes with all their addresses are some 50 KiB.
const LEN_MAX: usize = 256 << 10;

/// A node that proved in a pairing that it is to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairedNode {
    pub node: NodeId,
    pub name: String,
    /// Where it was last reached, newest first.
    pub addrs: Vec<SocketAddr>,
    pub paired_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct BookFile {
    format: u32,
    nodes: Vec<PairedNode>,
}

/// Only the format of a file, to tell a newer file from a damaged one.
#[derive(Deserialize)]
struct BookFormat {
    format: u32,
}

/// A handle to the book; clones share it. Each change is on the disk before the call returns.
#[derive(Clone, Debug)]
pub struct PeerBook {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    nodes: Mutex<BTreeMap<NodeId, PairedNode>>,
    n_changes: watch::Sender<u64>,
}

impl PeerBook {
    /// The book in that file, empty if there is no such file. A file that cannot be read is an error: an empty book in
    /// its place would drop every paired node without a word.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, HomeError> {
        let path = path.into();
        let mut nodes = BTreeMap::new();
        if let Some(content) = read_private(&path, LEN_MAX)? {
            let damaged = |error: serde_json::Error| HomeError::damaged(&path, error);
            let BookFormat { format } = serde_json::from_slice(&content).map_err(damaged)?;
            if format > FORMAT {
                return Err(HomeError::Newer { path, found: format, known: FORMAT });
            }
            let book: BookFile = serde_json::from_slice(&content).map_err(damaged)?;
            if book.nodes.len() > PAIRED_MAX {
                return Err(HomeError::damaged(path, format!("it names more than {PAIRED_MAX} nodes")));
            }
            nodes.extend(book.nodes.into_iter().map(|paired| (paired.node, paired)));
        }
        let (n_changes, _) = watch::channel(0);
        Ok(Self { shared: Arc::new(Shared { path, nodes: Mutex::new(nodes), n_changes }) })
    }

    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes().contains_key(&node)
    }

    pub fn get(&self, node: NodeId) -> Option<PairedNode> {
        self.nodes().get(&node).cloned()
    }

    pub fn list(&self) -> Vec<PairedNode> {
        self.nodes().values().cloned().collect()
    }

    pub fn insert(&self, paired: PairedNode) -> Result<(), HomeError> {
        self.change(|nodes| {
            if nodes.len() >= PAIRED_MAX && !nodes.contains_key(&paired.node) {
                return Err(HomeError::BookFull { n_paired: nodes.len() });
            }
            Ok(nodes.insert(paired.node, paired.clone()).as_ref() != Some(&paired))
        })?;
        Ok(())
    }

    /// Whether the node was in the book.
    pub fn remove(&self, node: NodeId) -> Result<bool, HomeError> {
        self.change(|nodes| Ok(nodes.remove(&node).is_some()))
    }

    /// Notes where a paired node was reached and what it calls itself now. A node that is not in the book stays out.
    pub fn remember(&self, node: NodeId, name: &str, addr: SocketAddr) -> Result<(), HomeError> {
        self.change(|nodes| {
            let Some(paired) = nodes.get_mut(&node) else { return Ok(false) };
            if paired.name == name && paired.addrs.first() == Some(&addr) {
                return Ok(false);
            }
            paired.name = name.to_owned();
            paired.addrs.retain(|known| *known != addr);
            paired.addrs.insert(0, addr);
            paired.addrs.truncate(REMEMBERED_ADDRS_MAX);
            Ok(true)
        })?;
        Ok(())
    }

    /// Wakes after each change; the number has no meaning of its own.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.n_changes.subscribe()
    }

    /// Applies `edit` to a copy, which becomes the book once it is on the disk. `edit` says whether it changed anything.
    fn change(
        &self,
        edit: impl FnOnce(&mut BTreeMap<NodeId, PairedNode>) -> Result<bool, HomeError>,
    ) -> Result<bool, HomeError> {
        let mut nodes = self.nodes();
        let mut edited = nodes.clone();
        if !edit(&mut edited)? {
            return Ok(false);
        }
        let book = BookFile { format: FORMAT, nodes: edited.values().cloned().collect() };
        let content = serde_json::to_vec_pretty(&book).map_err(|error| HomeError::damaged(&self.shared.path, error))?;
        write_private(&self.shared.path, &content)?;
        *nodes = edited;
        drop(nodes);
        self.shared.n_changes.send_modify(|n| *n += 1);
        Ok(true)
    }

    /// The map is replaced whole, so a thread that panicked while it held the lock cannot have left half of one.
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, PairedNode>> {
        self.shared.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn paired(byte: u8) -> PairedNode {
        PairedNode {
            node: NodeId::from_bytes([byte; 32]),
            name: format!("node {byte}"),
            addrs: vec!["127.0.0.1:4748".parse().unwrap(), "[fe80::1%3]:4748".parse().unwrap()],
            paired_at: Timestamp(1_796_000_000_000),
        }
    }

    #[test]
    fn the_book_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.json");
        let book = PeerBook::open(&path).unwrap();
        let mut changes = book.changes();
        book.insert(paired(1)).unwrap();
        book.insert(paired(2)).unwrap();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(book.remove(paired(1).node).unwrap());
        assert!(!book.remove(paired(1).node).unwrap());
        assert!(changes.has_changed().unwrap());
        assert_eq!(PeerBook::open(&path).unwrap().list(), [paired(2)]);
    }

    #[test]
    fn addresses_are_kept_newest_first_and_few() {
        let folder = tempfile::tempdir().unwrap();
        let book = PeerBook::open(folder.path().join("peers.json")).unwrap();
        let node = paired(1).node;
        let addr = |port| SocketAddr::from(([10, 0, 0, 1], port));
        book.remember(node, "stranger", addr(1)).unwrap();
        assert!(!book.contains(node), "only a pairing puts a node into the book");
        book.insert(paired(1)).unwrap();
        for port in 1..=20 {
            book.remember(node, "studio", addr(port)).unwrap();
        }
        let kept = book.get(node).unwrap();
        assert_eq!((kept.name.as_str(), kept.addrs[0], kept.addrs.len()), ("studio", addr(20), REMEMBERED_ADDRS_MAX));
        let mut changes = book.changes();
        book.remember(node, "studio", addr(20)).unwrap();
        assert!(!changes.has_changed().unwrap(), "nothing new writes nothing");
        changes.mark_unchanged();
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.json");
        for (content, expected) in [
            ("{\"format\": 1, \"nodes\": [{]}", "is damaged"),
            ("", "is damaged"),
            ("{\"format\": 2, \"folks\": []}", "has format 2"),
        ] {
            fs::write(&path, content).unwrap();
            let error = PeerBook::open(&path).unwrap_err().to_string();
            assert!(error.contains("peers.json") && error.contains(expected), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn the_book_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let book = PeerBook::open(folder.path().join("peers.json")).unwrap();
        for byte in 0..PAIRED_MAX as u8 {
            book.insert(paired(byte)).unwrap();
        }
        assert!(matches!(book.insert(paired(200)), Err(HomeError::BookFull { n_paired: PAIRED_MAX })));
        book.insert(PairedNode { name: "again".to_owned(), ..paired(3) }).unwrap();
        assert_eq!(book.list().len(), PAIRED_MAX);
    }
}
