//! The models in a hub cache, found by looking.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use domain::{Bytes, ModelId};

use crate::gguf::{self, GgufModel};
use crate::layout::RepoFolder;
use crate::names::{Commit, RepoFile, split_model_id};
use crate::{RepoId, StoreError};

/// Repositories looked at in one cache. The heaviest caches hold some hundreds.
const REPOS_MAX: usize = 10_000;

/// A model whose files are on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredModel {
    /// `org/name` where the repository holds one model here, `org/name:file.gguf` where it holds several.
    pub id: ModelId,
    /// One file, or the parts of one in order. Absolute if the cache's folder is.
    pub files: Vec<PathBuf>,
    pub size: Bytes,
    pub source: Source,
}

/// Where models come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    HubCache,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HubCache => f.write_str("Hugging Face cache"),
        }
    }
}

/// A hub cache, in place. All calls block on the disk.
#[derive(Clone, Debug)]
pub struct HubCache {
    dir: PathBuf,
}

impl HubCache {
    /// `dir` need not exist yet.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every model here, by id.
    pub fn list(&self) -> Result<Vec<StoredModel>, StoreError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::disk("read", &self.dir)(error)),
        };
        let repos = entries.flatten().take(REPOS_MAX);
        let repos = repos.filter_map(|entry| RepoId::from_folder_name(entry.file_name().to_str()?));
        let mut models: Vec<StoredModel> = repos.flat_map(|repo| self.models_of(&repo)).collect();
        models.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(models)
    }

    /// The model of that id. `org/name` also finds one of several: the usual balance of size and quality.
    pub fn find(&self, model: &ModelId) -> Result<StoredModel, StoreError> {
        let (repo, file) = split_model_id(model)?;
        let located = self.located(&repo);
        let models: Vec<GgufModel> = located.iter().map(|found| found.model.clone()).collect();
        let wanted = match &file {
            Some(file) => models.iter().position(|found| found.name() == file.as_str()),
            None => gguf::preferred(&models).and_then(|best| models.iter().position(|found| found == best)),
        };
        let found = wanted.and_then(|idx| located[idx].stored(&self.folder(&repo), &repo, models.len()));
        found.ok_or_else(|| StoreError::NotHere { model: model.clone(), folder: self.dir.clone() })
    }

    pub(crate) fn folder(&self, repo: &RepoId) -> RepoFolder {
        RepoFolder::new(&self.dir, repo)
    }

    fn models_of(&self, repo: &RepoId) -> Vec<StoredModel> {
        let located = self.located(repo);
        let folder = self.folder(repo);
        located.iter().filter_map(|found| found.stored(&folder, repo, located.len())).collect()
    }

    /// The models of a repository, each in the first snapshot that has it whole.
    fn located(&self, repo: &RepoId) -> Vec<Located> {
        let folder = self.folder(repo);
        let mut seen = BTreeSet::new();
        let mut located = Vec::new();
        for commit in folder.commits() {
            for model in gguf::models(folder.files(&commit)) {
                if seen.insert(model.name().to_owned()) {
                    located.push(Located { commit: commit.clone(), model });
                }
            }
        }
        located.sort_by(|a, b| a.model.name().cmp(b.model.name()));
        located
    }
}

/// A model and the snapshot it lies in.
struct Located {
    commit: Commit,
    model: GgufModel,
}

impl Located {
    /// `None` if the name cannot be an id, or a file vanished meanwhile.
    fn stored(&self, folder: &RepoFolder, repo: &RepoId, n_models: usize) -> Option<StoredModel> {
        let id = match n_models {
            1 => repo.to_string(),
            _ => format!("{repo}:{}", self.model.name()),
        };
        let files: Vec<PathBuf> = self.model.parts.iter().map(|part| folder.pointer(&self.commit, part)).collect();
        let sizes: Result<Vec<u64>, _> = files.iter().map(|file| fs::metadata(file).map(|found| found.len())).collect();
        let size = sizes.ok()?.into_iter().map(Bytes::new).sum();
        Some(StoredModel { id: id.parse().ok()?, files, size, source: Source::HubCache })
    }
}

/// The files that `model` consists of in any snapshot, with the repository that holds them.
pub(crate) fn files_of(cache: &HubCache, model: &ModelId) -> Result<(RepoId, Vec<RepoFile>), StoreError> {
    let (repo, _) = split_model_id(model)?;
    let found = cache.find(model)?;
    let located = cache.located(&repo);
    let folder = cache.folder(&repo);
    let parts = located.into_iter().find_map(|candidate| {
        let here = candidate.stored(&folder, &repo, 1)?;
        (here.files == found.files).then_some(candidate.model.parts)
    });
    parts
        .map(|parts| (repo, parts))
        .ok_or_else(|| StoreError::NotHere { model: model.clone(), folder: cache.dir.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "1111111111111111111111111111111111111111";
    const NEW: &str = "2222222222222222222222222222222222222222";

    /// A cache as the hub's library would leave it: `(repository, commit, file, bytes)`, the last commit being `main`.
    fn cache(files: &[(&str, &str, &str, &str)]) -> (tempfile::TempDir, HubCache) {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = HubCache::new(dir.path().to_owned());
        for (idx, (repo, commit, file, bytes)) in files.iter().enumerate() {
            let folder = cache.folder(&repo.parse().expect("a repository"));
            let (commit, blob) = (commit.parse().expect("a commit"), format!("{idx:064x}").parse().expect("a blob"));
            fs::create_dir_all(folder.blobs()).expect("blobs");
            fs::write(folder.blob(&blob), bytes).expect("a blob");
            folder.point(&commit, &file.parse().expect("a file"), &blob).expect("a pointer");
            folder.set_main_commit(&commit).expect("a ref");
        }
        (dir, cache)
    }

    fn id(text: &str) -> ModelId {
        text.parse().expect("an id")
    }

    #[test]
    fn a_repository_of_one_model_gives_it_its_name_and_of_several_does_not() {
        let (_dir, cache) = cache(&[
            ("org/one", NEW, "one-Q4_1.gguf", "12345"),
            ("org/two", NEW, "two-Q8_0.gguf", "1"),
            ("org/two", NEW, "two-Q4_0.gguf", "12"),
            ("org/none", NEW, "model.safetensors", "1"),
        ]);
        let models = cache.list().expect("models");
        let shown: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.size.as_u64())).collect();
        assert_eq!(shown, [("org/one", 5), ("org/two:two-Q4_0.gguf", 2), ("org/two:two-Q8_0.gguf", 1)]);
        for model in &models {
            assert_eq!(&cache.find(&model.id).expect("found by its id"), model);
        }
        assert_eq!(cache.find(&id("org/two")).expect("the usual one").id.as_str(), "org/two:two-Q4_0.gguf");
        assert_eq!(cache.find(&id("org/one:one-Q4_1.gguf")).expect("also by file").id.as_str(), "org/one");
    }

    #[test]
    fn the_snapshot_of_main_wins_and_older_ones_still_count() {
        let (_dir, cache) = cache(&[
            ("org/m", OLD, "m-Q4_0.gguf", "old"),
            ("org/m", OLD, "m-Q8_0.gguf", "only here"),
            ("org/m", NEW, "m-Q4_0.gguf", "newer"),
        ]);
        let sizes: Vec<_> = cache.list().expect("models").iter().map(|model| model.size.as_u64()).collect();
        assert_eq!(sizes, [5, 9]);
    }

    #[test]
    fn parts_are_one_model() {
        let (_dir, cache) = cache(&[
            ("org/big", NEW, "big-00002-of-00002.gguf", "22"),
            ("org/big", NEW, "big-00001-of-00002.gguf", "1"),
        ]);
        let model = cache.find(&id("org/big")).expect("the model");
        assert_eq!((model.files.len(), model.size), (2, Bytes::new(3)));
        assert!(model.files[0].ends_with("big-00001-of-00002.gguf"));
    }

    #[test]
    fn what_is_not_here_is_said_with_a_way_out() {
        let (_dir, cache) = cache(&[]);
        assert_eq!(HubCache::new(cache.dir().join("no such folder")).list().expect("nothing"), []);
        let error = cache.find(&id("org/name")).expect_err("nothing is here");
        assert!(matches!(error, StoreError::NotHere { .. }), "{error}");
        assert!(matches!(cache.find(&id("name")), Err(StoreError::BadName(_))));
    }

    #[test]
    fn a_pointer_without_its_bytes_is_no_model() {
        let (_dir, cache) = cache(&[("org/m", NEW, "m.gguf", "x")]);
        let blobs = cache.folder(&"org/m".parse().expect("a repository")).blobs();
        fs::remove_dir_all(blobs).expect("removed");
        assert_eq!(cache.list().expect("models"), []);
    }
}
