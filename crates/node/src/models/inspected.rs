//! What each model is, read once from its header.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use domain::{Bytes, ModelSpec};
use store::StoredModel;

/// Headers remembered. Each is some KiB; a cache of more models than this is read again from time to time.
const REMEMBERED_MAX: usize = 1_000;

/// Reads a model's header; an error is why it cannot run, in words.
type Inspect = fn(&StoredModel) -> Result<ModelSpec, String>;

/// Specs by file. Blocks on the disk for a file not seen before.
pub(super) struct Inspected {
    inspect: Inspect,
    known: Mutex<BTreeMap<FileState, Result<ModelSpec, String>>>,
}

/// A file as it was when it was read: another size or time is another file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileState {
    path: PathBuf,
    size: Bytes,
    modified: Option<SystemTime>,
}

impl Inspected {
    pub fn by_candle() -> Self {
        Self::by(by_candle)
    }

    pub fn by(inspect: Inspect) -> Self {
        Self { inspect, known: Mutex::default() }
    }

    /// The spec under the model's present id, which may change as its repository grows.
    pub fn spec(&self, stored: &StoredModel) -> Result<ModelSpec, String> {
        let Some(state) = FileState::of(stored) else {
            return Err("its file cannot be read".to_owned());
        };
        let known = self.lock().get(&state).cloned();
        let spec = known.unwrap_or_else(|| {
            let spec = (self.inspect)(stored);
            let mut known = self.lock();
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            known.insert(state, spec.clone());
            spec
        });
        spec.map(|spec| ModelSpec { id: stored.id.clone(), ..spec })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<FileState, Result<ModelSpec, String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileState {
    fn of(stored: &StoredModel) -> Option<Self> {
        let path = stored.files.first()?.clone();
        let found = fs::metadata(&path).ok()?;
        Some(Self { path, size: stored.size, modified: found.modified().ok() })
    }
}

fn by_candle(stored: &StoredModel) -> Result<ModelSpec, String> {
    match &stored.files[..] {
        [file] => engine_candle::inspect(file, stored.id.clone()).map_err(|error| error.to_string()),
        files => Err(format!(
            "it is in {} files, and the engine reads models of one; merge them with `gguf-split`",
            files.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use store::HubCache;

    use super::*;

    static N_READ: AtomicUsize = AtomicUsize::new(0);

    fn counting(_: &StoredModel) -> Result<ModelSpec, String> {
        N_READ.fetch_add(1, Ordering::Relaxed);
        Err("an obstacle".to_owned())
    }

    #[test]
    fn a_header_is_read_once_until_its_file_changes() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("m.gguf");
        fs::write(&file, "GGUF").expect("a file");
        let cache = HubCache::new(dir.path().join("hub"));
        let stored = cache.adopt(&"org/name".parse().expect("a repository"), &file).expect("adopted");
        let inspected = Inspected::by(counting);
        for _ in 0..3 {
            assert_eq!(inspected.spec(&stored), Err("an obstacle".to_owned()));
        }
        assert_eq!(N_READ.load(Ordering::Relaxed), 1);
        let grown = StoredModel { size: Bytes::new(5), ..stored };
        let _ = inspected.spec(&grown);
        assert_eq!(N_READ.load(Ordering::Relaxed), 2);
    }
}
