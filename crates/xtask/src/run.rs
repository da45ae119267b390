//! `cargo xtask run`: the main job, from a bare checkout to an answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::command::{command, run_shown};
use crate::local::{self, LocalCluster, LocalNode};
use crate::places;
use crate::progress::{Progress, say};
use crate::setup::{self, Purpose};
use crate::starter::{self, Starter};
use crate::ui;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub n_nodes: usize,
    pub model: String,
    /// Answer this and end.
    pub prompt: Option<String>,
    pub surface: Surface,
}

/// How the UI is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// In the app where there is a display, over HTTP elsewhere.
    BestAvailable,
    Http,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let mut progress = Progress::new(Purpose::Run.n_steps() + 5);
    setup::steps(Purpose::Run, &mut progress)?;
    progress.step("building the UI", ui::build)?;
    progress.step("building the programs", build_programs)?;
    let macrame = places::built_program("macrame")?;
    let starter = progress.step("fetching the model", || model(&macrame, &options.model))?;
    let mut cluster = progress.step(&format!("starting {} nodes", options.n_nodes), || {
        let homes = places::dev_homes()?;
        fs::create_dir_all(&homes).with_context(|| format!("cannot create `{}`", homes.display()))?;
        let mut local = local::Options::new(&macrame, &homes, &starter.models_dir, options.n_nodes);
        local.app = app(options)?;
        LocalCluster::start(&local)
    })?;
    let first = cluster.nodes().first().context("a cluster has a node")?;
    progress.step(&format!("deploying {}", starter.model), || first.deploy(&starter.model, options.n_nodes))?;
    match &options.prompt {
        Some(prompt) => {
            let status = answer(first, &starter.model, prompt)?;
            cluster.stop()?;
            Ok(status)
        }
        None => {
            run_shown(&mut first.cli("status"))?;
            say(&format!("\nthe UI: {}\nend with Ctrl-C", first.ui_url()?));
            if let Some(first) = cluster.node_mut(0) {
                first.wait()?;
            }
            cluster.stop()?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// All of them with the workspace's features, so that `cargo xtask test` finds the same build.
pub fn build_programs() -> Result<()> {
    run_shown(command("cargo build --workspace --bins").current_dir(places::repository()))
}

fn model(macrame: &Path, wanted: &str) -> Result<Starter> {
    if wanted == starter::MODEL_ID {
        return starter::for_person(macrame);
    }
    let models_dir = places::dev_models()?;
    let mut pull = Command::new(macrame);
    pull.args(["pull", wanted, "--models-dir"]).arg(&models_dir);
    run_shown(&mut pull)?;
    Ok(Starter { model: wanted.to_owned(), models_dir })
}

fn app(options: &Options) -> Result<Option<PathBuf>> {
    match (options.surface, &options.prompt) {
        (Surface::BestAvailable, None) if has_display() => places::built_program("macrame-app").map(Some),
        (Surface::BestAvailable | Surface::Http, _) => Ok(None),
    }
}

fn has_display() -> bool {
    let is_set = |variable: &str| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    if cfg!(target_os = "linux") { is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") } else { !is_set("SSH_CONNECTION") }
}

/// Streams the answer to standard output; the plan and the speeds go to standard error.
fn answer(node: &LocalNode, model: &str, prompt: &str) -> Result<ExitCode> {
    let mut run = node.cli("run");
    run.args(["--model", model, "--prompt", prompt]);
    let status = run.status().context("cannot start `macrame run`")?;
    // A program ended by a signal has no code.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
