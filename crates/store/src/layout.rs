//! The hub cache's layout on disk, one repository of it:
//!
//! ```text
//! <cache>/models--org--name/
//!   blobs/<sha256>                  the bytes, once
//!   blobs/<sha256>.incomplete       bytes on their way
//!   refs/main                       the commit that `main` was at
//!   snapshots/<commit>/<file>       -> ../../blobs/<sha256>
//! <cache>/.locks/models--org--name/<sha256>.lock
//! ```
//!
//! Python's `huggingface_hub`, `hf-hub`, llama.cpp and mlx-lm read and write the same folders, so names and links are
//! exactly theirs.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::names::{BlobId, Commit, RepoFile};
use crate::{RepoId, StoreError};

/// Files looked at in one snapshot. Repositories of hundreds of quantisations exist; of thousands do not.
const SNAPSHOT_FILES_MAX: usize = 4_096;

/// One repository's folder in the cache. It need not exist.
#[derive(Clone, Debug)]
pub(crate) struct RepoFolder {
    cache: PathBuf,
    name: String,
}

impl RepoFolder {
    pub fn new(cache: &Path, repo: &RepoId) -> Self {
        Self { cache: cache.to_owned(), name: repo.folder_name() }
    }

    pub fn path(&self) -> PathBuf {
        self.cache.join(&self.name)
    }

    pub fn blobs(&self) -> PathBuf {
        self.path().join("blobs")
    }

    pub fn blob(&self, id: &BlobId) -> PathBuf {
        self.blobs().join(id.as_str())
    }

    pub fn incomplete(&self, id: &BlobId) -> PathBuf {
        self.blobs().join(format!("{}.incomplete", id.as_str()))
    }

    pub fn lock(&self, id: &BlobId) -> PathBuf {
        self.cache.join(".locks").join(&self.name).join(format!("{}.lock", id.as_str()))
    }

    pub fn pointer(&self, commit: &Commit, file: &RepoFile) -> PathBuf {
        self.path().join("snapshots").join(commit.as_str()).join(file.as_str())
    }

    fn ref_main(&self) -> PathBuf {
        self.path().join("refs/main")
    }

    /// The commit that `main` was at when something was last downloaded.
    pub fn main_commit(&self) -> Option<Commit> {
        fs::read_to_string(self.ref_main()).ok()?.trim().parse().ok()
    }

    pub fn set_main_commit(&self, commit: &Commit) -> Result<(), StoreError> {
        let path = self.ref_main();
        create_parent(&path)?;
        fs::write(&path, commit.as_str()).map_err(StoreError::disk("write", &path))
    }

    /// Snapshots on disk, that of `main` first.
    pub fn commits(&self) -> Vec<Commit> {
        let entries = fs::read_dir(self.path().join("snapshots")).into_iter().flatten().flatten();
        let mut commits: Vec<Commit> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let main = self.main_commit();
        commits.sort_by_key(|commit| (Some(commit) != main.as_ref(), commit.clone()));
        commits
    }

    /// Files of a snapshot whose bytes are there, by name.
    pub fn files(&self, commit: &Commit) -> Vec<RepoFile> {
        let root = self.path().join("snapshots").join(commit.as_str());
        let mut files = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(&root).ok().and_then(Path::to_str).and_then(|name| name.parse().ok());
                let Some(name): Option<RepoFile> = name else { continue };
                match fs::metadata(&path) {
                    Ok(found) if found.is_file() => files.push(name),
                    // A link to a folder is not the hub's, and could lead in circles.
                    Ok(found) if found.is_dir() && !path.is_symlink() => folders.push(path),
                    Ok(_) | Err(_) => {}
                }
                if files.len() >= SNAPSHOT_FILES_MAX {
                    tracing::warn!(folder = %root.display(), "more than {SNAPSHOT_FILES_MAX} files: the rest is passed over");
                    files.sort();
                    return files;
                }
            }
        }
        files.sort();
        files
    }

    /// Makes `file` of `commit` show the blob.
    pub fn point(&self, commit: &Commit, file: &RepoFile, blob: &BlobId) -> Result<(), StoreError> {
        let pointer = self.pointer(commit, file);
        create_parent(&pointer)?;
        match fs::remove_file(&pointer) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StoreError::disk("replace", &pointer)(error));
            }
            Ok(()) | Err(_) => {}
        }
        link(&self.blob(blob), file, blob, &pointer)
    }
}

/// Relative, as the hub's own library writes it, so that a cache can be moved as a whole.
#[cfg(unix)]
fn link(_blob: &Path, file: &RepoFile, id: &BlobId, pointer: &Path) -> Result<(), StoreError> {
    let up = "../".repeat(file.depth() + 2);
    std::os::unix::fs::symlink(format!("{up}blobs/{}", id.as_str()), pointer).map_err(StoreError::disk("link", pointer))
}

/// Links need rights there that users do not have; the hub's own library copies too.
#[cfg(not(unix))]
fn link(blob: &Path, _file: &RepoFile, _id: &BlobId, pointer: &Path) -> Result<(), StoreError> {
    fs::copy(blob, pointer).map(|_| ()).map_err(StoreError::disk("copy to", pointer))
}

pub(crate) fn create_parent(path: &Path) -> Result<(), StoreError> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).map_err(StoreError::disk("create", parent)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_relative_and_leads_to_its_blob_from_any_depth() {
        let cache = tempfile::tempdir().expect("a folder");
        let folder = RepoFolder::new(cache.path(), &"org/name".parse().expect("a repository"));
        let blob: BlobId = "ab".repeat(32).parse().expect("a blob");
        let commit: Commit = "0".repeat(40).parse().expect("a commit");
        fs::create_dir_all(folder.blobs()).expect("blobs");
        fs::write(folder.blob(&blob), "bytes").expect("a blob");
        for file in ["a.gguf", "q4/b.gguf", "x/y/c.gguf"] {
            let file: RepoFile = file.parse().expect("a file");
            folder.point(&commit, &file, &blob).expect("a pointer");
            folder.point(&commit, &file, &blob).expect("pointing again changes nothing");
            let pointer = folder.pointer(&commit, &file);
            assert_eq!(fs::read_to_string(&pointer).expect("the bytes"), "bytes");
            assert!(fs::read_link(&pointer).expect("a link").is_relative());
        }
        let names: Vec<_> = folder.files(&commit).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a.gguf", "q4/b.gguf", "x/y/c.gguf"]);
    }

    #[test]
    fn the_snapshot_of_main_comes_first() {
        let cache = tempfile::tempdir().expect("a folder");
        let folder = RepoFolder::new(cache.path(), &"org/name".parse().expect("a repository"));
        for digit in ["1", "2", "3"] {
            fs::create_dir_all(folder.path().join("snapshots").join(digit.repeat(40))).expect("a snapshot");
        }
        fs::create_dir_all(folder.path().join("snapshots/not-a-commit")).expect("a folder");
        assert_eq!(folder.main_commit(), None);
        folder.set_main_commit(&"2".repeat(40).parse().expect("a commit")).expect("a ref");
        let order: String = folder.commits().iter().map(|commit| &commit.as_str()[..1]).collect();
        assert_eq!(order, "213");
    }
}
