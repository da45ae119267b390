//! SHA-256, as the hub names large files by it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::StoreError;

/// Read at once: enough that the disk, not the calls, sets the pace.
const CHUNK_BYTES: usize = 1 << 20;

/// The hash of a stream of bytes, as it grows.
pub(crate) struct Sha256(Context);

impl Sha256 {
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// 64 lower-case hexadecimal digits.
    pub fn finish(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Hashes `file` from where it stands to its end.
pub(crate) fn hash_rest(file: &mut File, path: &Path, hash: &mut Sha256) -> Result<(), StoreError> {
    read_all(file, path, |bytes| {
        hash.update(bytes);
        Ok(())
    })
}

/// Gives `take` the bytes of `file` from where it stands to its end.
pub(crate) fn read_all(
    file: &mut File,
    path: &Path,
    mut take: impl FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let n_read = file.read(&mut chunk).map_err(StoreError::disk("read", path))?;
        if n_read == 0 {
            return Ok(());
        }
        take(&chunk[..n_read])?;
    }
}
