//! The menu-bar app: a node with its API in this process, and a shell around it.

mod commands;
mod dialog;
mod flags;
mod icons;
mod menu;
mod quit;
mod shell;
mod summary;
mod tray;
mod window;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use api::Bind;
use node::logging::{self, Terminal};
use node::{Config, Node};
use tokio::runtime::Runtime;

use flags::Flags;

fn main() -> ExitCode {
    // A node starts its own program for each rank it runs.
    if std::env::args_os().nth(1).is_some_and(|first| first == "rank") {
        return node::rank_main();
    }
    match run() {
        Ok(code) => code,
        Err(error) => dialog::fatal(&error),
    }
}

fn run() -> Result<ExitCode> {
    let flags = Flags::parse(std::env::args().skip(1))?;
    let config = Config::resolve(&flags.node)?;
    let _log = logging::start(&config.log_dir(), Terminal::Warnings).context("cannot set up the log")?;
    let runtime = Runtime::new().context("cannot start the asynchronous runtime")?;
    // If the app runs already, this shows its window and ends here, before a second node asks for the same home.
    let app = shell::build(&flags, runtime.handle())?;
    let node = runtime.block_on(Node::start(config)).context("the node cannot start")?;
    let server = runtime.block_on(api::serve(node.clone(), Bind::Loopback)).context("the API cannot start")?;
    let code = shell::run(app, &flags, &node, &server);
    runtime.block_on(quit::drain(node, server));
    // A read of standard input cannot be interrupted; the process ends without it.
    runtime.shutdown_background();
    code
}
