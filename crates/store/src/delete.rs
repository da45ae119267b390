//! Deletes a model, and only it: other files of its repository belong to whoever put them there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use domain::{Bytes, ModelId};

use crate::hub_cache::files_of;
use crate::layout::RepoFolder;
use crate::{HubCache, StoreError};

impl HubCache {
    /// Removes the model's files from every snapshot, and their bytes where nothing else shows them. Returns the
    /// bytes freed. A repository in which no file is left is removed with its refs.
    pub fn delete(&self, model: &ModelId) -> Result<Bytes, StoreError> {
        let (repo, files) = files_of(self, model)?;
        let folder = self.folder(&repo);
        let mut freed_blobs = BTreeSet::new();
        for commit in folder.commits() {
            for file in &files {
                let pointer = folder.pointer(&commit, file);
                if !pointer.is_file() {
                    continue;
                }
                freed_blobs.extend(blob_behind(&folder, &pointer));
                fs::remove_file(&pointer).map_err(StoreError::disk("delete", &pointer))?;
            }
        }
        let still_shown = blobs_shown(&folder);
        let mut freed = Bytes::ZERO;
        for blob in freed_blobs.difference(&still_shown) {
            let size = fs::metadata(blob).map_or(0, |found| found.len());
            fs::remove_file(blob).map_err(StoreError::disk("delete", blob))?;
            freed += Bytes::new(size);
        }
        if folder.commits().iter().all(|commit| folder.files(commit).is_empty()) {
            let path = folder.path();
            fs::remove_dir_all(&path).map_err(StoreError::disk("delete", &path))?;
        }
        Ok(freed)
    }
}

/// The blob that a pointer shows, if it is one of this repository: a link may lead anywhere, and what lies elsewhere
/// is not ours to delete.
fn blob_behind(folder: &RepoFolder, pointer: &Path) -> Option<PathBuf> {
    let blob = fs::canonicalize(pointer).ok()?;
    let blobs = fs::canonicalize(folder.blobs()).ok()?;
    (blob.parent() == Some(&blobs)).then_some(blob)
}

fn blobs_shown(folder: &RepoFolder) -> BTreeSet<PathBuf> {
    let commits = folder.commits();
    let shown = commits.iter().flat_map(|commit| {
        folder.files(commit).into_iter().filter_map(|file| blob_behind(folder, &folder.pointer(commit, &file)))
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adopted(files: &[(&str, &str)]) -> (tempfile::TempDir, HubCache) {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = HubCache::new(dir.path().join("hub"));
        for (name, bytes) in files {
            let file = dir.path().join(name);
            fs::write(&file, bytes).expect("a file");
            cache.adopt(&"org/name".parse().expect("a repository"), &file).expect("adopted");
        }
        (dir, cache)
    }

    fn id(text: &str) -> ModelId {
        text.parse().expect("an id")
    }

    #[test]
    fn the_last_model_takes_its_repository_along() {
        let (_dir, cache) = adopted(&[("a.gguf", "GGUF 1"), ("b.gguf", "GGUF 23")]);
        assert_eq!(cache.delete(&id("org/name:a.gguf")).expect("deleted"), Bytes::new(6));
        assert_eq!(cache.list().expect("models").len(), 1);
        assert_eq!(cache.delete(&id("org/name")).expect("deleted"), Bytes::new(7));
        assert!(!cache.dir().join("models--org--name").exists());
        assert!(matches!(cache.delete(&id("org/name")), Err(StoreError::NotHere { .. })));
    }

    #[test]
    fn bytes_that_something_else_shows_stay() {
        let (_dir, cache) = adopted(&[("a.gguf", "GGUF same"), ("b.gguf", "GGUF same")]);
        assert_eq!(cache.delete(&id("org/name:a.gguf")).expect("deleted"), Bytes::ZERO);
        assert_eq!(cache.list().expect("models")[0].size, Bytes::new(9));
    }

    #[test]
    fn others_files_stay() {
        let (_dir, cache) = adopted(&[("a.gguf", "GGUF 1")]);
        let folder = cache.folder(&"org/name".parse().expect("a repository"));
        let snapshot = folder.path().join("snapshots").join(folder.main_commit().expect("main").as_str());
        fs::write(snapshot.join("tokenizer.json"), "{}").expect("another program's file");
        cache.delete(&id("org/name")).expect("deleted");
        assert!(snapshot.join("tokenizer.json").exists());
        assert_eq!(cache.list().expect("models"), []);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_link_shows_outside_the_cache_is_not_deleted() {
        let (dir, cache) = adopted(&[("a.gguf", "GGUF 1")]);
        let outside = dir.path().join("a.gguf");
        let pointer = cache.find(&"org/name".parse().expect("an id")).expect("found").files.remove(0);
        fs::remove_file(&pointer).expect("removed");
        std::os::unix::fs::symlink(&outside, &pointer).expect("a link");
        assert_eq!(cache.delete(&id("org/name")).expect("deleted"), Bytes::ZERO);
        assert!(outside.exists());
    }
}
