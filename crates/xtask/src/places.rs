//! Where things lie: the checkout, the cache, the programs that cargo built.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The checkout this program was built from.
pub fn repository() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("crates/xtask lies two folders below the root")
}

pub fn ui() -> PathBuf {
    repository().join("ui")
}

/// What is kept between runs and clones, and can be deleted at any time: the starter model, test tools.
pub fn cache() -> Result<PathBuf> {
    Ok(base("XDG_CACHE_HOME", ".cache")?.join("macrame"))
}

/// Homes of the nodes that `cargo xtask run` starts: their identities and who is paired with whom.
pub fn dev_homes() -> Result<PathBuf> {
    Ok(base("XDG_DATA_HOME", ".local/share")?.join("macrame-dev"))
}

/// The hub cache of local clusters. Not the user's own, which is for models the user asked for.
pub fn dev_models() -> Result<PathBuf> {
    Ok(cache()?.join("hub"))
}

/// A program of this workspace, beside the one that is running: `target/debug`, or one folder up from a test binary.
pub fn built_program(name: &str) -> Result<PathBuf> {
    let current = std::env::current_exe().context("cannot tell where this program lies")?;
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let found = current.ancestors().skip(1).take(2).map(|folder| folder.join(&file)).find(|path| path.is_file());
    found.with_context(|| format!("`{name}` is not built; build it with `cargo build --workspace --bins`"))
}

fn base(variable: &str, under_home: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute()) {
        return Ok(path);
    }
    let home = std::env::home_dir().context("this user has no home folder; set `HOME`")?;
    ensure!(home.is_absolute(), "the home folder `{}` is not an absolute path", home.display());
    Ok(home.join(under_home))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_the_workspace() {
        let manifest = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
        assert!(manifest.starts_with("[workspace]"), "{manifest}");
        assert!(ui().join("package.json").is_file());
    }

    #[test]
    fn a_program_that_is_not_built_is_an_error_with_its_fix() {
        let error = built_program("macrame-of-nowhere").unwrap_err().to_string();
        assert!(error.contains("cargo build"), "{error}");
    }
}
