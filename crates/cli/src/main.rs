//! The headless binary `macrame`: starts a node, or talks to the one that runs.

mod advice;
mod answer;
mod bench;
mod chat;
mod client;
mod deploy;
mod doctor;
mod events;
mod flags;
mod models;
mod names;
mod nodes;
mod pair;
mod pull;
mod run;
mod serve;
mod status;
mod table;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser as _};

use advice::report;
use client::Client;
use flags::{Command, Flags, ModelsFolder};
use terminal::Format;

fn main() -> ExitCode {
    match run(Flags::parse()) {
        Ok(code) => code,
        Err(error) => report(&error),
    }
}

fn run(flags: Flags) -> Result<ExitCode> {
    // Before any runtime: a rank computes on threads of its own.
    if let Command::Rank = flags.command {
        return Ok(node::rank_main());
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start the asynchronous runtime")?;
    let done = runtime.block_on(dispatch(flags.command, flags.home));
    // A read of standard input cannot be interrupted; the process ends without it.
    runtime.shutdown_background();
    done
}

async fn dispatch(command: Command, home: Option<PathBuf>) -> Result<ExitCode> {
    let home = client::home(home)?;
    let connect = || Client::connect(&home);
    match command {
        Command::Serve(flags) => serve::serve(flags, home).await?,
        Command::Run(flags) => run::run(&connect()?, flags).await?,
        Command::Chat { model } => chat::chat(&connect()?, model.as_deref()).await?,
        Command::Status { json } => status::status(&connect()?, Format::of(json)).await?,
        Command::Nodes { action, json } => nodes::nodes(&connect()?, action, Format::of(json)).await?,
        Command::Pair(flags) => pair::pair(&connect()?, flags).await?,
        Command::Models { action, json, models_dir } => {
            models::models(&home, action, ModelsFolder { models_dir }, Format::of(json)).await?;
        }
        Command::Pull { model, folder } => pull::pull(&home, &model, folder).await?,
        Command::Plan { goal, json } => deploy::plan(&connect()?, &goal, Format::of(json)).await?,
        Command::Deploy { goal, wait, json } => {
            let until = if wait { deploy::Until::Serving } else { deploy::Until::Accepted };
            deploy::deploy(&connect()?, &goal, until, Format::of(json)).await?;
        }
        Command::Stop { what } => deploy::stop(&connect()?, &what).await?,
        Command::Doctor { json, folder } => return doctor::doctor(&home, folder, Format::of(json)).await,
        Command::Bench(flags) => bench::bench(&connect()?, &flags).await?,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Flags::command(), "macrame", &mut std::io::stdout());
        }
        Command::Rank => unreachable!("done before there is a runtime"),
    }
    Ok(ExitCode::SUCCESS)
}
