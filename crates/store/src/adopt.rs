//! Takes a local file into the cache, as if it had been downloaded.
//!
//! For models that come another way than from the hub: the starter model from a Python package, a file from a friend.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::digest::{Sha256, hash_rest, read_all};
use crate::names::{BadName, BlobId, Commit, RepoFile};
use crate::partial::{Opened, Partial};
use crate::{HubCache, RepoId, StoreError, StoredModel};

/// What a GGUF file begins with.
const GGUF_MAGIC: [u8; 4] = *b"GGUF";

impl HubCache {
    /// Copies the GGUF file into the cache as one of `repo`; `file` itself stays.
    ///
    /// Which commit of the repository the file belongs to is not known. It joins the snapshot of `main` if there is
    /// one; else a snapshot named by the file's own hash is made, which a download replaces as `main` later.
    pub fn adopt(&self, repo: &RepoId, file: &Path) -> Result<StoredModel, StoreError> {
        let not_gguf = || StoreError::NotGguf { path: file.to_owned() };
        let name: RepoFile = file.file_name().and_then(|name| name.to_str()).ok_or_else(not_gguf)?.parse()?;
        if !name.as_str().to_ascii_lowercase().ends_with(".gguf") {
            return Err(not_gguf());
        }
        let (blob, size) = hash_gguf(file)?;
        let folder = self.folder(repo);
        match Partial::open(&folder, &blob, name.as_str(), size)? {
            Opened::Whole => {}
            Opened::Partial(partial) => copy(file, partial)?,
        }
        let commit = match folder.main_commit() {
            Some(commit) => commit,
            None => {
                let commit = commit_of(&blob)?;
                folder.set_main_commit(&commit)?;
                commit
            }
        };
        folder.point(&commit, &name, &blob)?;
        let id = format!("{repo}:{name}");
        self.find(&id.parse().map_err(|_| not_gguf())?)
    }
}

/// The hash and length of a GGUF file; anything else is refused by its first bytes.
fn hash_gguf(path: &Path) -> Result<(BlobId, u64), StoreError> {
    let mut file = File::open(path).map_err(StoreError::disk("open", path))?;
    let mut magic = [0; GGUF_MAGIC.len()];
    if file.read_exact(&mut magic).is_err() || magic != GGUF_MAGIC {
        return Err(StoreError::NotGguf { path: path.to_owned() });
    }
    file.seek(SeekFrom::Start(0)).map_err(StoreError::disk("read", path))?;
    let mut hash = Sha256::new();
    hash_rest(&mut file, path, &mut hash)?;
    let size = file.stream_position().map_err(StoreError::disk("read", path))?;
    Ok((hash.finish().parse()?, size))
}

/// All of `file`, whatever an earlier try left of it.
fn copy(file: &Path, mut partial: Box<Partial>) -> Result<(), StoreError> {
    partial.restart()?;
    let mut file_open = File::open(file).map_err(StoreError::disk("open", file))?;
    read_all(&mut file_open, file, |bytes| partial.append(bytes))?;
    partial.finish().map_err(|(_, error)| error)
}

fn commit_of(blob: &BlobId) -> Result<Commit, BadName> {
    blob.as_str()[..40].parse()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn adopt(bytes: &[u8], name: &str) -> (tempfile::TempDir, HubCache, Result<StoredModel, StoreError>) {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join(name);
        fs::write(&file, bytes).expect("a file");
        let cache = HubCache::new(dir.path().join("hub"));
        let adopted = cache.adopt(&"org/name".parse().expect("a repository"), &file);
        (dir, cache, adopted)
    }

    #[test]
    fn an_adopted_file_lies_as_a_downloaded_one_does() {
        let (_dir, cache, adopted) = adopt(b"GGUF and weights", "m-Q4_1.gguf");
        let model = adopted.expect("adopted");
        assert_eq!(model.id.as_str(), "org/name");
        assert_eq!(cache.list().expect("models"), std::slice::from_ref(&model));
        // sha256("GGUF and weights"), by `sha256sum`.
        let sha256 = "c3659ff24a54e2c23a2ad3e0ee81ecdd853bc02a1946514c427663c1d8c94dbb";
        let blob = fs::canonicalize(&model.files[0]).expect("a blob");
        assert!(blob.ends_with(Path::new("models--org--name/blobs").join(sha256)), "{}", blob.display());
        let main = fs::read_to_string(cache.dir().join("models--org--name/refs/main")).expect("a ref");
        assert_eq!(main, sha256[..40]);
    }

    #[test]
    fn a_second_file_joins_the_snapshot_of_main() {
        let (dir, cache, first) = adopt(b"GGUF one", "m-Q4_0.gguf");
        let second = dir.path().join("m-Q8_0.gguf");
        fs::write(&second, b"GGUF two").expect("a file");
        let adopted = cache.adopt(&"org/name".parse().expect("a repository"), &second).expect("adopted");
        assert_eq!(adopted.id.as_str(), "org/name:m-Q8_0.gguf");
        assert_eq!(adopted.files[0].parent(), first.expect("the first").files[0].parent());
        assert_eq!(cache.list().expect("models").len(), 2);
    }

    #[test]
    fn what_is_no_gguf_file_is_refused_and_leaves_nothing() {
        for (bytes, name) in [(&b"PK\x03\x04"[..], "m.gguf"), (b"GG", "m.gguf"), (b"GGUF", "m.bin")] {
            let (_dir, cache, adopted) = adopt(bytes, name);
            assert!(matches!(adopted, Err(StoreError::NotGguf { .. })), "{name}");
            assert!(!cache.dir().exists());
        }
    }
}
