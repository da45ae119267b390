//! A node's folder: its key, the nodes it is paired with, its token, its logs.
//!
//! One process uses a home at a time, and only its user reads it. What is written is on the disk, whole, before the
//! call that wrote it returns; what cannot be read is an error that names the file, never a fresh start.

mod error;
mod files;
mod lock;
mod machine;
mod peers;
mod running;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::{NodeId, Timestamp};
use ring::rand::{SecureRandom, SystemRandom};
use transport::Identity;

use files::{ensure_private_folder, read_private, write_private};
use lock::HomeLock;
use machine::MachineFingerprint;

pub use error::HomeError;
pub use peers::{PAIRED_MAX, PairedNode, PeerBook, REMEMBERED_ADDRS_MAX};
pub use running::{ApiFile, RunningApi, running_api};

pub(crate) const KEY_FILE: &str = "node.key";
pub(crate) const BOOT_FILE: &str = "boot";
const PEERS_FILE: &str = "peers.json";
const MACHINE_FILE: &str = "machine";
const TOKEN_FILE: &str = "api-token";
const LOGS_FOLDER: &str = "logs";

/// An ed25519 key in PKCS #8 is some 85 bytes.
const KEY_LEN_MAX: usize = 1 << 10;
/// A number in decimal digits.
const BOOT_LEN_MAX: usize = 24;
/// 32 random bytes in hexadecimal digits.
const TOKEN_LEN: usize = 64;
const FINGERPRINT_LEN: usize = 64;

/// An open home. While it lives, no other process can open it.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    identity: Identity,
    moved_from: Option<NodeId>,
    boot: u64,
    api_token: String,
    peers: PeerBook,
    _lock: HomeLock,
}

impl Home {
    /// Opens the home at `path`, making what is missing: on the first start, a new identity.
    pub fn open(path: &Path) -> Result<Self, HomeError> {
        Self::open_on(path, MachineFingerprint::of_this_machine())
    }

    fn open_on(path: &Path, machine: Option<MachineFingerprint>) -> Result<Self, HomeError> {
        ensure_private_folder(path)?;
        ensure_private_folder(&path.join(LOGS_FOLDER))?;
        let lock = HomeLock::take(path)?;
        let moved_from = set_aside_if_moved(path, machine.as_ref())?;
        let identity = load_or_make_identity(path)?;
        if let Some(machine) = machine {
            write_private(&path.join(MACHINE_FILE), machine.as_str().as_bytes())?;
        }
        let boot = next_boot(path)?;
        let api_token = load_or_make_token(path)?;
        let peers = PeerBook::open(path.join(PEERS_FILE))?;
        if let Some(old) = moved_from {
            tracing::warn!(
                was = %old.short(), is = %identity.node_id().short(),
                "this home was made on another machine: it got an identity of its own, pair it again"
            );
        }
        Ok(Self { path: path.to_owned(), identity, moved_from, boot, api_token, peers, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn logs(&self) -> PathBuf {
        self.path.join(LOGS_FOLDER)
    }

    /// Where a file of that name belongs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The text of a file of that name, of at most `len_max` bytes; `None` if there is none.
    pub fn read_text(&self, name: impl AsRef<Path>, len_max: usize) -> Result<Option<String>, HomeError> {
        let path = self.path.join(name);
        let Some(content) = read_private(&path, len_max)? else { return Ok(None) };
        String::from_utf8(content).map(Some).map_err(|error| HomeError::damaged(path, error))
    }

    /// Replaces the file of that name.
    pub fn write_text(&self, name: impl AsRef<Path>, text: &str) -> Result<(), HomeError> {
        write_private(&self.path.join(name), text.as_bytes())
    }

    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn node(&self) -> NodeId {
        self.identity.node_id()
    }

    /// The identity that was left behind because the home has been copied to this machine from another.
    pub const fn moved_from(&self) -> Option<NodeId> {
        self.moved_from
    }

    /// The number of this start, higher than that of every start before, also if one of them was cut off.
    pub const fn boot(&self) -> u64 {
        self.boot
    }

    pub const fn peers(&self) -> &PeerBook {
        &self.peers
    }

    /// What control routes of the API ask for, 64 hexadecimal digits.
    pub fn api_token(&self) -> &str {
        &self.api_token
    }

    /// Lets [`running_api`] find the API at `url` until the returned value is dropped.
    pub fn announce_api(&self, url: &str) -> Result<ApiFile, HomeError> {
        ApiFile::write(&self.path, url, &self.api_token)
    }
}

/// The wall clock. For people and for the age of facts; nothing is ordered by it.
pub(crate) fn wall_clock() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}

/// If the home was made on another machine, moves its key and its peer book aside. Both ends of a copy would be one
/// node to everybody else; and the nodes in the book know the other end, not this one. Nothing is deleted: where only
/// the machine's id was made anew, the old identity can be put back by hand.
fn set_aside_if_moved(path: &Path, machine: Option<&MachineFingerprint>) -> Result<Option<NodeId>, HomeError> {
    let (Some(here), Some(made_on)) = (machine, read_private(&path.join(MACHINE_FILE), FINGERPRINT_LEN)?) else {
        return Ok(None);
    };
    let Some(key) = read_private(&path.join(KEY_FILE), KEY_LEN_MAX)? else { return Ok(None) };
    if made_on == here.as_str().as_bytes() {
        return Ok(None);
    }
    let old = identity_in(path, &key)?.node_id();
    for name in [KEY_FILE, PEERS_FILE] {
        let file = path.join(name);
        if file.exists() {
            let aside = file.with_added_extension(format!("of-{}", old.short()));
            fs::rename(&file, aside).map_err(HomeError::io("move aside", &file))?;
        }
    }
    Ok(Some(old))
}

fn load_or_make_identity(path: &Path) -> Result<Identity, HomeError> {
    let file = path.join(KEY_FILE);
    if let Some(key) = read_private(&file, KEY_LEN_MAX)? {
        return identity_in(path, &key);
    }
    let identity = Identity::generate().map_err(HomeError::NoKey)?;
    write_private(&file, identity.pkcs8())?;
    Ok(identity)
}

fn identity_in(path: &Path, pkcs8: &[u8]) -> Result<Identity, HomeError> {
    Identity::from_pkcs8(pkcs8).map_err(|error| HomeError::damaged(path.join(KEY_FILE), error))
}

fn next_boot(path: &Path) -> Result<u64, HomeError> {
    let file = path.join(BOOT_FILE);
    let last = match read_private(&file, BOOT_LEN_MAX)? {
        None => 0,
        Some(text) => {
            let number = String::from_utf8_lossy(&text).trim().parse::<u64>();
            number.map_err(|error| HomeError::damaged(&file, format!("not a number of starts: {error}")))?
        }
    };
    let boot = last.checked_add(1).ok_or_else(|| HomeError::damaged(&file, "no start can have a higher number"))?;
    write_private(&file, boot.to_string().as_bytes())?;
    Ok(boot)
}

fn load_or_make_token(path: &Path) -> Result<String, HomeError> {
    let file = path.join(TOKEN_FILE);
    if let Some(token) = read_private(&file, TOKEN_LEN)? {
        let token = String::from_utf8_lossy(&token).into_owned();
        if token.len() != TOKEN_LEN || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(HomeError::damaged(&file, format!("not {TOKEN_LEN} hexadecimal digits")));
        }
        return Ok(token);
    }
    let mut secret = [0; TOKEN_LEN / 2];
    SystemRandom::new()
        .fill(&mut secret)
        .map_err(|_| HomeError::io("draw random bytes for", &file)(std::io::Error::other("no randomness")))?;
    let mut token = String::with_capacity(TOKEN_LEN);
    for byte in secret {
        let _ = write!(token, "{byte:02x}"); // writing to a String cannot fail
    }
    write_private(&file, token.as_bytes())?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_home_keeps_its_identity_token_and_book_and_counts_its_starts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home");
        let home = Home::open(&path).unwrap();
        let (node, token) = (home.node(), home.api_token().to_owned());
        assert_eq!((home.boot(), home.moved_from()), (1, None));
        home.peers().insert(paired()).unwrap();
        for entry in fs::read_dir(&path).unwrap().map(Result::unwrap) {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            let expected = if entry.file_type().unwrap().is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{:?}", entry.path());
        }
        assert!(matches!(Home::open(&path), Err(HomeError::InUse { pid: Some(_), .. })));
        drop(home);
        let home = Home::open(&path).unwrap();
        assert_eq!((home.node(), home.api_token(), home.boot()), (node, token.as_str(), 2));
        assert_eq!(home.peers().list(), [paired()]);
    }

    #[test]
    fn a_cloned_disk_gets_an_identity_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let machine = |id| Some(MachineFingerprint::of(id));
        let first = Home::open_on(folder.path(), machine("studio")).unwrap();
        let node = first.node();
        first.peers().insert(paired()).unwrap();
        drop(first);

        let unknown = Home::open_on(folder.path(), None).unwrap();
        assert_eq!((unknown.node(), unknown.moved_from()), (node, None), "no id to compare changes nothing");
        drop(unknown);

        let clone = Home::open_on(folder.path(), machine("mini")).unwrap();
        assert_eq!(clone.moved_from(), Some(node));
        assert_ne!(clone.node(), node);
        assert!(clone.peers().list().is_empty(), "the nodes in the book know the other one");
        let (own, boot) = (clone.node(), clone.boot());
        drop(clone);

        let again = Home::open_on(folder.path(), machine("mini")).unwrap();
        assert_eq!((again.node(), again.moved_from(), again.boot()), (own, None, boot + 1));
        assert!(folder.path().join(format!("node.key.of-{}", node.short())).exists());
    }

    #[test]
    fn what_is_damaged_is_named_with_a_way_out() {
        use domain::Hint;
        for name in [KEY_FILE, BOOT_FILE, PEERS_FILE, TOKEN_FILE] {
            let folder = tempfile::tempdir().unwrap();
            drop(Home::open(folder.path()).unwrap());
            fs::write(folder.path().join(name), "not it").unwrap();
            let error = Home::open(folder.path()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            assert!(!error.hints().is_empty());
        }
    }

    #[test]
    fn the_running_api_is_found_and_gone_with_its_node() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(running_api(folder.path()).unwrap(), None);
        let home = Home::open(folder.path()).unwrap();
        assert_eq!(running_api(folder.path()).unwrap(), None);
        let api = home.announce_api("http://127.0.0.1:4747").unwrap();
        let found = running_api(folder.path()).unwrap().unwrap();
        assert_eq!((found.url.as_str(), found.token.as_str()), ("http://127.0.0.1:4747", home.api_token()));
        assert_eq!(found.pid, std::process::id());
        // A killed node leaves the file and drops the lock.
        let left = fs::read(folder.path().join("api.json")).unwrap();
        drop((api, home));
        fs::write(folder.path().join("api.json"), left).unwrap();
        assert_eq!(running_api(folder.path()).unwrap(), None);
    }

    fn paired() -> PairedNode {
        PairedNode {
            node: NodeId::from_bytes([7; 32]),
            name: "studio".to_owned(),
            addrs: Vec::new(),
            paired_at: Timestamp(1),
        }
    }
}
