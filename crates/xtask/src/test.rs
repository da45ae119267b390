//! `cargo xtask test`: every test and check, one after the other, each counted; ends with one line of counts.

mod browser;
mod suite;

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Result;

use crate::command::{command, run_kept, run_shown};
use crate::macos;
use crate::places;
use crate::progress::Progress;
use crate::record::{self, State};
use crate::setup::{self, Purpose};
use crate::starter;
use crate::tally::{self, Tally};
use crate::ui;

use suite::{Outcome, Suite};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub extent: Extent,
    pub record: Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Quick,
    /// Also the tests that need larger models or many minutes: they ask for [`FULL_VARIABLE`].
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Nothing,
    WallTime,
}

/// Of [`run`].
const N_STEPS: usize = 13;

/// Set to `1` for tests that may take their time.
pub const FULL_VARIABLE: &str = "MACRAME_FULL";

pub fn run(options: &Options) -> Result<ExitCode> {
    let begun = Instant::now();
    let state = if places::built_program("macrame").is_ok() { State::Warm } else { State::Cold };
    let mut suite = Suite::new(N_STEPS);
    suite.step("setup", || setup::steps(Purpose::Test, &mut Progress::new(Purpose::Test.n_steps())).map(passed));
    suite.step("formatting", || cargo("fmt --all -- --check"));
    suite.step("ui types and lints", || npm("check"));
    suite.step("ui tests", || tally::of_vitest(&run_kept(&mut npm_run("test"))?).map(Outcome::Ran));
    suite.step("ui build", || ui::build().map(passed));
    suite.step("ui size", || npm("size"));
    suite.step("clippy", || cargo("clippy --workspace --all-targets -- -D warnings"));
    suite.step("build", || cargo("build --workspace --all-targets"));
    suite.step("starter model", || starter::for_tests(&places::built_program("macrame")?).map(|_| passed(())));
    suite.step("rust tests", || nextest(options.extent.profile(), options.extent));
    suite.step("slow rust tests", || nextest("slow", options.extent));
    suite.step("browser tests", || browser::run(options.record));
    suite.step("macos-check", || match macos::obstacle() {
        Some(why) => Ok(Outcome::Skipped(why)),
        None => macos::check().map(passed),
    });
    let tally = suite.finish();
    match options.record {
        Record::Nothing => {}
        Record::WallTime => record::wall_time(options.extent.command_line(), state, tally, begun.elapsed())?,
    }
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Extent {
    const fn profile(self) -> &'static str {
        match self {
            Self::Quick => "default",
            Self::Full => "full",
        }
    }

    const fn command_line(self) -> &'static str {
        match self {
            Self::Quick => "cargo xtask test",
            Self::Full => "cargo xtask test --full",
        }
    }
}

fn nextest(profile: &str, extent: Extent) -> Result<Outcome> {
    // Always the whole workspace: another selection would have other features, and so another build.
    let mut nextest = workspace("nextest run --workspace --no-fail-fast --profile");
    nextest.arg(profile);
    match extent {
        Extent::Quick => {}
        Extent::Full => {
            nextest.env(FULL_VARIABLE, "1");
        }
    }
    tally::of_nextest(&run_kept(&mut nextest)?).map(Outcome::Ran)
}

fn cargo(arguments: &str) -> Result<Outcome> {
    run_shown(&mut workspace(arguments)).map(passed)
}

fn workspace(arguments: &str) -> Command {
    let mut cargo = command(&format!("cargo {arguments}"));
    cargo.current_dir(places::repository());
    cargo
}

fn npm(script: &str) -> Result<Outcome> {
    run_shown(&mut npm_run(script)).map(passed)
}

fn npm_run(script: &str) -> Command {
    let mut npm = ui::npm(&["run", "--silent", script]);
    npm.env("NO_COLOR", "1");
    npm
}

fn passed((): ()) -> Outcome {
    Outcome::Ran(Tally::PASSED)
}
