//! Remembers what a step was last done with, so that it is left out while its inputs are the same.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A digest of the names and contents of all files under `inputs`; a folder stands for everything in it.
///
/// Not cryptographic: it tells a changed file from an unchanged one, nobody forges it. An input that is absent counts as such.
pub fn digest(inputs: &[PathBuf]) -> Result<String> {
    let mut files = BTreeSet::new();
    for input in inputs {
        collect(input, &mut files)?;
    }
    let mut hasher = DefaultHasher::new();
    for file in &files {
        let contents = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        hasher.write(file.as_os_str().as_encoded_bytes());
        hasher.write_usize(contents.len());
        hasher.write(&contents);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Does `work` unless `stamp` says it was last done with this `digest`; writes the stamp after it went well.
pub fn unless_done(stamp: &Path, digest: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    if fs::read_to_string(stamp).is_ok_and(|last| last == digest) {
        return Ok(());
    }
    work()?;
    fs::write(stamp, digest).with_context(|| format!("cannot write `{}`", stamp.display()))
}

fn collect(path: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.insert(path.to_owned());
        return Ok(());
    }
    if !path.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| format!("cannot list `{}`", path.display()))? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this test's own.
    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("macrame-stamp-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn the_digest_follows_names_and_contents() {
        let dir = scratch("digest");
        fs::write(dir.join("a"), "1").unwrap();
        let first = digest(std::slice::from_ref(&dir)).unwrap();
        assert_eq!(first, digest(&[dir.join("a")]).unwrap());
        fs::write(dir.join("a"), "2").unwrap();
        let changed = digest(std::slice::from_ref(&dir)).unwrap();
        assert_ne!(first, changed);
        fs::rename(dir.join("a"), dir.join("b")).unwrap();
        assert_ne!(changed, digest(std::slice::from_ref(&dir)).unwrap());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn work_is_done_once_per_digest_and_again_after_a_failure() {
        let dir = scratch("work");
        let stamp = dir.join("stamp");
        let mut n_done = 0;
        let mut work = |outcome: Result<()>| {
            n_done += 1;
            outcome
        };
        assert!(unless_done(&stamp, "x", || work(Err(anyhow::anyhow!("torn")))).is_err());
        unless_done(&stamp, "x", || work(Ok(()))).unwrap();
        unless_done(&stamp, "x", || work(Ok(()))).unwrap();
        unless_done(&stamp, "y", || work(Ok(()))).unwrap();
        assert_eq!(n_done, 3);
        fs::remove_dir_all(dir).unwrap();
    }
}
