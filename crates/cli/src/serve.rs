//! `macrame serve`: a node with its API, until someone ends it.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use api::Bind;
use node::logging::{self, Terminal};
use node::{Config, Node, NodeHandle};
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::advice::Advise as _;
use crate::flags::ServeFlags;
use crate::terminal;

pub async fn serve(flags: ServeFlags, home: PathBuf) -> Result<()> {
    let bind = if flags.lan { Bind::Lan } else { Bind::Loopback };
    let parent = if flags.parent_stdin { Parent::OnStdin } else { Parent::None };
    let config = Config::resolve(&node_flags(flags, home))?;
    let _log = logging::start(&config.log_dir(), Terminal::Lines).context("cannot set up the log")?;
    let node = Node::start(config).await.advise()?;
    let served = serve_node(&node, bind, parent).await;
    node.shutdown().await;
    served
}

/// Whose end ends the node too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    None,
    /// Whoever holds the other end of our standard input.
    OnStdin,
}

async fn serve_node(node: &NodeHandle, bind: Bind, parent: Parent) -> Result<()> {
    let server = api::serve(node.clone(), bind).await.advise()?;
    terminal::line(&format!("Macramé runs: {}", server.ui_url()))?;
    let ended = until_ended(node, parent).await;
    server.shutdown().await;
    ended
}

/// Returns when the node shall end: a signal, its parent's end, or its own.
async fn until_ended(node: &NodeHandle, parent: Parent) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot hear Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot hear the signal to end")?;
    let mut state = node.watch();
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = parent_ends(parent) => {}
        () = async { while state.changed().await.is_ok() {} } => {}
    }
    Ok(())
}

async fn parent_ends(parent: Parent) {
    match parent {
        Parent::None => std::future::pending().await,
        Parent::OnStdin => {
            let mut stdin = tokio::io::stdin();
            let mut ignored = [0; 64];
            while matches!(stdin.read(&mut ignored).await, Ok(n_bytes) if n_bytes > 0) {}
        }
    }
}

fn node_flags(flags: ServeFlags, home: PathBuf) -> node::Flags {
    node::Flags {
        home: Some(home),
        name: flags.name,
        port: flags.port,
        control_port: flags.control_port,
        discovery: flags.discovery,
        memory_limit: flags.memory_limit,
        models_dir: flags.folder.models_dir,
        threads: flags.threads,
        rank_program: None,
    }
}
