//! A blob on its way: the bytes so far, under a lock that every program of the hub respects.
//!
//! All calls block on the disk. Whoever holds a [`Partial`] holds the lock; dropping it keeps the bytes for the next try.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use domain::Bytes;

use crate::StoreError;
use crate::digest::{Sha256, hash_rest};
use crate::disk::disk_free;
use crate::layout::{RepoFolder, create_parent};
use crate::names::BlobId;

/// How long another program may hold the lock before this one gives up: as long as the hub's own library waits.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Left free on the disk beside the download itself: a machine with a full disk does not run well.
const DISK_RESERVE: Bytes = Bytes::from_mib(256);

pub(crate) struct Partial {
    /// Locked until dropped.
    _lock: File,
    file: File,
    path: PathBuf,
    target: PathBuf,
    /// For errors.
    name: String,
    size: u64,
    expected: BlobId,
    /// Of the bytes so far; `None` for a blob that is not named by its SHA-256 and cannot be checked.
    hash: Option<Sha256>,
    len: u64,
}

/// What there is of a blob.
pub(crate) enum Opened {
    /// All of it, checked when it came.
    Whole,
    Partial(Box<Partial>),
}

impl Partial {
    /// Takes the lock and reads what an earlier try left. A blob of `size` bytes, called `name` in errors.
    pub fn open(folder: &RepoFolder, blob: &BlobId, name: &str, size: u64) -> Result<Opened, StoreError> {
        let lock = lock(folder, blob, name)?;
        let target = folder.blob(blob);
        if target.exists() {
            return Ok(Opened::Whole);
        }
        let path = folder.incomplete(blob);
        create_parent(&path)?;
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(StoreError::disk("open", &path))?;
        let mut len = file.metadata().map_err(StoreError::disk("read", &path))?.len();
        if len > size {
            file.set_len(0).map_err(StoreError::disk("write", &path))?;
            len = 0;
        }
        let mut hash = blob.sha256().map(|_| Sha256::new());
        if let Some(hash) = &mut hash {
            hash_rest(&mut file, &path, hash)?;
        }
        file.seek(SeekFrom::End(0)).map_err(StoreError::disk("read", &path))?;
        let expected = blob.clone();
        let partial = Self { _lock: lock, file, path, target, name: name.to_owned(), size, expected, hash, len };
        partial.check_room()?;
        Ok(Opened::Partial(Box::new(partial)))
    }

    /// Bytes there.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Adds the next bytes. More than the blob has are an error: then the server ignored where it should begin.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let len = self.len + bytes.len() as u64;
        if len > self.size {
            let (expected, got) = (format!("{} bytes", self.size), "more".to_owned());
            return Err(StoreError::WrongBytes { file: self.name.clone(), expected, got });
        }
        self.file.write_all(bytes).map_err(StoreError::disk("write", &self.path))?;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        self.len = len;
        Ok(())
    }

    /// Throws the bytes away, to begin again.
    pub fn restart(&mut self) -> Result<(), StoreError> {
        self.file.set_len(0).map_err(StoreError::disk("write", &self.path))?;
        self.file.seek(SeekFrom::Start(0)).map_err(StoreError::disk("write", &self.path))?;
        self.hash = self.expected.sha256().map(|_| Sha256::new());
        self.len = 0;
        Ok(())
    }

    /// Checks all the bytes and gives them their name. Wrong bytes are thrown away.
    pub fn finish(mut self) -> Result<(), (Box<Self>, StoreError)> {
        let got = self.hash.take().map_or_else(|| self.expected.as_str().to_owned(), Sha256::finish);
        if got != self.expected.as_str() {
            let expected = format!("sha256 {}", self.expected.as_str());
            let wrong = StoreError::WrongBytes { file: self.name.clone(), expected, got };
            return match self.restart() {
                Ok(()) => Err((Box::new(self), wrong)),
                Err(error) => Err((Box::new(self), error)),
            };
        }
        let named = self.file.sync_all().and_then(|()| fs::rename(&self.path, &self.target));
        named.map_err(|error| {
            let error = StoreError::disk("write", &self.path)(error);
            (Box::new(self), error)
        })
    }

    fn check_room(&self) -> Result<(), StoreError> {
        let folder = self.path.parent().unwrap_or(&self.path);
        let needed = Bytes::new(self.size - self.len) + DISK_RESERVE;
        match disk_free(folder) {
            Some(free) if free < needed => {
                Err(StoreError::DiskFull { file: self.name.clone(), needed, free, folder: folder.to_owned() })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// An advisory lock on the file that Python's `huggingface_hub` and `hf-hub` lock for the same blob.
fn lock(folder: &RepoFolder, blob: &BlobId, name: &str) -> Result<File, StoreError> {
    let path = folder.lock(blob);
    create_parent(&path)?;
    let options = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = options.map_err(StoreError::disk("open", &path))?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_WAIT_MAX => std::thread::sleep(LOCK_POLL),
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { file: name.to_owned(), waited_secs: LOCK_WAIT_MAX.as_secs() });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::disk("lock", &path)(error)),
        }
    }
}
