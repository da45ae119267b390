//! The browser tests, against a real cluster with a model in it.

use std::fs;

use anyhow::{Context, Result};

use super::Record;
use super::suite::Outcome;
use crate::command::run_kept;
use crate::local::{LocalCluster, Options};
use crate::places;
use crate::starter;
use crate::tally;

/// Two nodes that serve the starter model, and a stranger to pair with. The picture of the README is taken in any case
/// and kept where the run is recorded.
pub fn run(record: Record) -> Result<Outcome> {
    let starter = starter::fetched()?;
    let homes = std::env::temp_dir().join(format!("macrame-browser-{}", std::process::id()));
    fs::create_dir_all(&homes).with_context(|| format!("cannot create `{}`", homes.display()))?;
    let mut options = Options::new(&places::built_program("macrame")?, &homes, &starter.models_dir, 2);
    options.n_unpaired = 1;
    let cluster = LocalCluster::start(&options)?;
    let first = cluster.nodes().first().context("a cluster has a node")?;
    first.deploy(&starter.model, 2)?;

    let mut npm = super::npm_run("browser");
    for (node, variable) in cluster.nodes().iter().zip(["MACRAME_UI_URL", "MACRAME_UI_URL_2", "MACRAME_UI_URL_3"]) {
        npm.env(variable, node.ui_url()?);
    }
    npm.env(
        "MACRAME_SCREENSHOT_OUT",
        match record {
            Record::Nothing => homes.join("screenshot.png"),
            Record::WallTime => places::repository().join("assets/screenshot.png"),
        },
    );
    let tally = tally::of_vitest(&run_kept(&mut npm)?)?;
    cluster.stop()?;
    fs::remove_dir_all(&homes).with_context(|| format!("cannot remove `{}`", homes.display()))?;
    Ok(Outcome::Ran(tally))
}
