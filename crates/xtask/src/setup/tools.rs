//! Programs that cargo and npm users have, or that cargo installs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{command, run_quietly, run_shown, succeeds};
use crate::places;
use crate::progress::say;

/// Vite's own lower bound.
const NODE_VERSION_MIN: (u32, u32) = (20, 19);

/// Translates WebDriver's `tauri:options` for WebKitWebDriver.
const TAURI_DRIVER_VERSION: &str = "2.1.0";

pub fn check_node() -> Result<()> {
    let said = run_quietly(&mut command("node --version")).context("install Node.js 20.19 or newer, with npm")?;
    let version = node_version(&said).with_context(|| format!("`node --version` said `{}`", said.trim()))?;
    let (major, minor) = NODE_VERSION_MIN;
    ensure!(version >= NODE_VERSION_MIN, "Node.js is {}; the UI's build needs {major}.{minor} or newer", said.trim());
    Ok(())
}

fn node_version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().strip_prefix('v')?.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

pub fn ensure_test_tools() -> Result<()> {
    if !succeeds(&mut command("cargo nextest --version")) {
        say("      installing cargo-nextest");
        run_shown(cargo_install().args(["cargo-nextest"]))?;
    }
    // On macOS the window cannot be driven: WKWebView has no driver.
    if cfg!(target_os = "linux") && !tauri_driver()?.is_file() {
        say("      installing tauri-driver");
        let root = tools()?;
        run_shown(cargo_install().args(["tauri-driver", "--version", TAURI_DRIVER_VERSION, "--root"]).arg(root))?;
    }
    Ok(())
}

/// Where [`ensure_test_tools`] puts tauri-driver.
pub fn tauri_driver() -> Result<PathBuf> {
    Ok(tools()?.join("bin/tauri-driver"))
}

/// One folder per version, so that a new version is a new install.
fn tools() -> Result<PathBuf> {
    Ok(places::cache()?.join(format!("tools/tauri-driver-{TAURI_DRIVER_VERSION}")))
}

fn cargo_install() -> Command {
    let mut cargo = command("cargo install --locked --quiet");
    // The tools' own builds are of no use to ours.
    cargo.env_remove("CARGO_TARGET_DIR");
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_compared_as_numbers() {
        assert_eq!(node_version("v20.20.2\n"), Some((20, 20)));
        assert_eq!(node_version("v9.11.1"), Some((9, 11)));
        assert!(node_version("v9.11.1").unwrap() < NODE_VERSION_MIN);
        assert_eq!(node_version("command not found"), None);
    }
}
