//! The UI's packages and its build, each left out while its inputs are unchanged.

use std::process::Command;

use anyhow::Result;

use crate::command::run_quietly;
use crate::places;
use crate::stamp;

/// Installs `ui/node_modules` exactly as the lock file says.
pub fn install_packages() -> Result<()> {
    let ui = places::ui();
    let digest = stamp::digest(&[ui.join("package.json"), ui.join("package-lock.json")])?;
    stamp::unless_done(&ui.join("node_modules/.macrame-packages"), &digest, || {
        run_quietly(&mut npm(&["ci", "--no-audit", "--no-fund"])).map(drop)
    })
}

/// Builds `ui/dist`, which the API serves.
pub fn build() -> Result<()> {
    let ui = places::ui();
    let sources =
        ["src", "public", "index.html", "package-lock.json", "vite.config.ts", "svelte.config.js", "tsconfig.json"];
    let digest = stamp::digest(&sources.map(|source| ui.join(source)))?;
    // In the folder that it is about: whoever deletes the build deletes the stamp.
    stamp::unless_done(&ui.join("dist/.stamp"), &digest, || run_quietly(&mut npm(&["run", "build"])).map(drop))
}

/// `npm` in the UI's folder.
pub fn npm(args: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(args).current_dir(places::ui());
    npm
}
