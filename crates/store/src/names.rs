//! Names that become paths: of repositories, of files in them, of commits and blobs.
//!
//! Some come from a user, some from a server. None of them can lead out of the cache: each type is checked once,
//! where it is made, and paths are built from these types alone.

use std::fmt;
use std::str::FromStr;

use domain::ModelId;

/// A repository of the hub, `org/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoId {
    org: String,
    name: String,
}

impl RepoId {
    /// The hub's own limit for each half.
    const HALF_LEN_MAX: usize = 96;

    pub fn org(&self) -> &str {
        &self.org
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder of the cache that holds it: `models--org--name`.
    pub(crate) fn folder_name(&self) -> String {
        format!("models--{}--{}", self.org, self.name)
    }

    /// The repository whose folder of the cache is called that, if it is a model's.
    pub(crate) fn from_folder_name(folder: &str) -> Option<Self> {
        let (org, name) = folder.strip_prefix("models--")?.split_once("--")?;
        Self::new(org, name)
    }

    fn new(org: &str, name: &str) -> Option<Self> {
        let half = |text: &str| {
            text.len() <= Self::HALF_LEN_MAX
                && is_plain(text)
                && !text.starts_with(['.', '-'])
                && !text.contains("--")
                && !text.contains("..")
        };
        (half(org) && half(name)).then(|| Self { org: org.to_owned(), name: name.to_owned() })
    }
}

impl FromStr for RepoId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let found = text.split_once('/').and_then(|(org, name)| Self::new(org, name));
        found.ok_or_else(|| BadName::new("repository", "`org/name`", text))
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.org, self.name)
    }
}

/// A file's path inside its repository, with forward slashes: `Q4_K_M/model-00001-of-00002.gguf`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RepoFile(String);

impl RepoFile {
    /// Folders above the file; deeper repositories are not models.
    pub const DEPTH_MAX: usize = 4;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Folders above the file.
    pub fn depth(&self) -> usize {
        self.0.matches('/').count()
    }

    /// The last part of the path.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl FromStr for RepoFile {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let parts = text.split('/');
        let safe = text.len() <= ModelId::LEN_MAX
            && parts.clone().count() <= Self::DEPTH_MAX + 1
            && parts.clone().all(|part| is_plain(part) && part != "." && part != "..");
        if safe { Ok(Self(text.to_owned())) } else { Err(BadName::new("file", "a path of plain names", text)) }
    }
}

impl fmt::Display for RepoFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The commit of a repository that a snapshot shows: 40 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Commit(String);

impl Commit {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Commit {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if text.len() == 40 && is_lower_hex(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName::new("commit", "40 hexadecimal digits", text))
        }
    }
}

/// What a blob is called: the SHA-256 of its bytes (large files), or its git hash (small ones).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlobId(String);

impl BlobId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The SHA-256 that the bytes must have, if the name is one.
    pub fn sha256(&self) -> Option<&str> {
        (self.0.len() == 64).then_some(self.0.as_str())
    }
}

impl FromStr for BlobId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if matches!(text.len(), 40 | 64) && is_lower_hex(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName::new("blob", "40 or 64 hexadecimal digits", text))
        }
    }
}

/// The repository, and the file of it if the id names one.
pub(crate) fn split_model_id(model: &ModelId) -> Result<(RepoId, Option<RepoFile>), BadName> {
    match model.as_str().split_once(':') {
        None => Ok((model.as_str().parse()?, None)),
        Some((repo, file)) => Ok((repo.parse()?, Some(file.parse()?))),
    }
}

/// Text that is no name of the kind asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a {kind} (expected {expected}): `{got}`")]
pub struct BadName {
    kind: &'static str,
    expected: &'static str,
    got: String,
}

impl BadName {
    fn new(kind: &'static str, expected: &'static str, got: &str) -> Self {
        Self { kind, expected, got: got.chars().filter(|c| !c.is_control()).take(80).collect() }
    }
}

/// Characters that a model's id may hold, the separators excepted.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b))
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_and_its_folder_are_one_to_one() {
        for text in ["HuggingFaceTB/SmolLM2-135M-Instruct", "a/b_c.d", "org-x/name-y"] {
            let repo: RepoId = text.parse().expect("a repository");
            assert_eq!(RepoId::from_folder_name(&repo.folder_name()), Some(repo.clone()));
            assert_eq!(repo.to_string(), text);
        }
        for folder in ["datasets--a--b", "models--gpt2", "models--a--b--c", "models----b", "models--..--b", "x"] {
            assert_eq!(RepoId::from_folder_name(folder), None, "{folder}");
        }
    }

    #[test]
    fn no_name_leads_out_of_the_cache() {
        let bad = ["", "a", "a/", "/a", "../b", "a/..", "a/b/c", "a\\b/c", ".a/b", "a/.git", "a--x/b", "a/b\0", "ä/b"];
        for text in bad {
            assert!(text.parse::<RepoId>().is_err(), "{text:?}");
        }
        for text in ["", "/a", "a//b", "../a", "a/../b", "./a", "a\\b", "a b", "1/2/3/4/5/6"] {
            assert!(text.parse::<RepoFile>().is_err(), "{text:?}");
        }
        assert!("../../../../../../../../../../../../etc".parse::<Commit>().is_err());
        assert!("A".repeat(64).parse::<BlobId>().is_err());
        assert!("../a".repeat(16).parse::<BlobId>().is_err());
    }

    #[test]
    fn a_model_is_a_repository_or_a_file_of_one() {
        let split = |text: &str| split_model_id(&text.parse().expect("an id")).map(|(r, f)| (r.to_string(), f));
        assert_eq!(split("a/b"), Ok(("a/b".to_owned(), None)));
        assert_eq!(split("a/b:q/c.gguf"), Ok(("a/b".to_owned(), Some("q/c.gguf".parse().expect("a file")))));
        assert!(split("just-a-stem").is_err());
    }
}
