//! The official OpenAI clients, for Python and for Node, against the API over a scripted backend.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use api::Bind;
use scenarios::scripted::{MODEL, Scripted};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use xtask::command::run_quietly;
use xtask::{places, stamp};

/// For installing a client, once on a machine, and running its script.
const PATIENCE: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pythons_client_is_served() {
    check(|url| {
        let python = python_with_client()?;
        run_quietly(Command::new(python).arg(clients().join("chat.py")).args([&url, MODEL]))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_client_is_served() {
    check(|url| {
        let script = node_client()?.join("chat.mjs");
        run_quietly(Command::new("node").arg(script).args([&url, MODEL]))
    })
    .await;
}

/// Runs a client's script to its end. Its last question is one without an end, which it breaks off.
async fn check(script: impl FnOnce(String) -> Result<String> + Send + 'static) {
    let backend = Scripted::default();
    let server = backend.serve(Bind::Loopback).await;
    let url = format!("{}/v1", server.url());
    let said = timeout(PATIENCE, spawn_blocking(move || script(url))).await.expect("in time").expect("no panic");
    assert_eq!(said.map_err(|error| format!("{error:#}")).as_deref().map(str::trim), Ok("done"));
    let mut n_running = backend.n_running();
    timeout(PATIENCE, n_running.wait_for(|&n| n == 0)).await.expect("cancelled in time").expect("counted");
}

fn clients() -> PathBuf {
    places::repository().join("tests/clients")
}

/// A Python environment with the client and nothing else.
fn python_with_client() -> Result<PathBuf> {
    let requirements = clients().join("requirements.txt");
    let environment = places::cache()?.join("openai-clients/python");
    let python = environment.join("bin/python");
    let digest = stamp::digest(std::slice::from_ref(&requirements))?;
    stamp::unless_done(&environment.join("macrame-stamp"), &digest, || {
        run_quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
            .arg(&requirements);
        run_quietly(&mut pip).map(drop)
    })?;
    Ok(python)
}

/// A folder with the client's package and the script, which must lie above the package to find it.
fn node_client() -> Result<PathBuf> {
    let folder = places::cache()?.join("openai-clients/node");
    let files = ["package.json", "package-lock.json", "chat.mjs"].map(|file| clients().join(file));
    let digest = stamp::digest(&files)?;
    std::fs::create_dir_all(&folder).context("cannot create the folder of Node's client")?;
    stamp::unless_done(&folder.join("macrame-stamp"), &digest, || {
        for file in &files {
            copy_into(&folder, file)?;
        }
        let mut npm = Command::new("npm");
        run_quietly(npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(&folder)).map(drop)
    })?;
    Ok(folder)
}

fn copy_into(folder: &Path, file: &Path) -> Result<()> {
    let name = file.file_name().context("a file has a name")?;
    std::fs::copy(file, folder.join(name)).with_context(|| format!("cannot copy `{}`", file.display()))?;
    Ok(())
}
