//! Type-checks the whole workspace for a Mac from Debian, so that code for a Mac is never merely written.

use anyhow::Result;

use crate::command::{command, run_shown, succeeds};
use crate::places;

/// Why the check is left out, where it is.
pub fn obstacle() -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("this is a Mac: building was the check");
    }
    if !cfg!(target_arch = "x86_64") || !succeeds(&mut command("apt-get --version")) {
        return Some("it takes its compiler parts from Debian's packages for x86_64");
    }
    None
}

/// Runs `cargo check` for `aarch64-apple-darwin` over everything.
pub fn check() -> Result<()> {
    let mut check = command("bash");
    check.arg(places::repository().join("crates/xtask/macos-check"));
    check.args(["check", "--workspace", "--all-targets"]).current_dir(places::repository());
    run_shown(&mut check)
}
