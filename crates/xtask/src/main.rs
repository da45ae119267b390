//! `cargo xtask`: sets up, runs and tests Macramé.

use std::process::ExitCode;

use anyhow::Result;
use xtask::flags::{self, Task};
use xtask::progress;
use xtask::{run, setup, test};

fn main() -> ExitCode {
    match flags::parse(std::env::args().skip(1)).and_then(carry_out) {
        Ok(code) => code,
        Err(error) => {
            progress::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn carry_out(task: Task) -> Result<ExitCode> {
    match task {
        Task::Help => {
            progress::say(flags::HELP);
            Ok(ExitCode::SUCCESS)
        }
        Task::Setup(purpose) => setup::run(purpose).map(|()| ExitCode::SUCCESS),
        Task::Run(options) => run::run(&options),
        Task::Test(options) => test::run(&options),
    }
}
