//! The command line of `cargo xtask`.

use anyhow::{Context, Result, bail, ensure};

use crate::run::{self, Surface};
use crate::setup::Purpose;
use crate::starter;
use crate::test::{self, Extent, Record};

pub const HELP: &str = "\
cargo xtask setup [--test]   install what is missing
cargo xtask run              start a local cluster, deploy the starter model, open the app
    --nodes N                nodes on this machine (default 2)
    --model ID               another model, by its hub id
    --prompt TEXT            answer on standard output and end
    --no-app                 serve the UI over HTTP even where there is a display
cargo xtask test             every test, formatting, lints; ends with counts
    --full                   also tests that need larger models or many minutes
    --record                 note the wall time in tests/bench/RESULTS.md";

/// More local nodes than this only share out the same memory; each costs a process, a port and an mDNS name.
const NODES_MAX: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub enum Task {
    Help,
    Setup(Purpose),
    Run(run::Options),
    Test(test::Options),
}

pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Task> {
    let mut args = args.into_iter();
    let task = match args.next().as_deref() {
        None | Some("help" | "--help" | "-h") => Task::Help,
        Some("setup") => parse_setup(args)?,
        Some("run") => parse_run(args)?,
        Some("test") => parse_test(args)?,
        Some(other) => bail!("unknown task `{other}`\n{HELP}"),
    };
    Ok(task)
}

fn parse_setup(args: impl Iterator<Item = String>) -> Result<Task> {
    let mut purpose = Purpose::Run;
    for arg in args {
        match arg.as_str() {
            "--test" => purpose = Purpose::Test,
            other => bail!("`setup` has no flag `{other}`\n{HELP}"),
        }
    }
    Ok(Task::Setup(purpose))
}

fn parse_run(mut args: impl Iterator<Item = String>) -> Result<Task> {
    let mut options =
        run::Options { n_nodes: 2, model: starter::MODEL_ID.to_owned(), prompt: None, surface: Surface::BestAvailable };
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("`{arg}` needs a value"));
        match arg.as_str() {
            "--nodes" => {
                let text = value()?;
                options.n_nodes = text.parse().with_context(|| format!("`--nodes` needs a number, not `{text}`"))?;
                ensure!(
                    (1..=NODES_MAX).contains(&options.n_nodes),
                    "`--nodes` must be in 1..={NODES_MAX}, not {}",
                    options.n_nodes
                );
            }
            "--model" => options.model = value()?,
            "--prompt" => options.prompt = Some(value()?),
            "--no-app" => options.surface = Surface::Http,
            other => bail!("`run` has no flag `{other}`\n{HELP}"),
        }
    }
    Ok(Task::Run(options))
}

fn parse_test(args: impl Iterator<Item = String>) -> Result<Task> {
    let mut options = test::Options { extent: Extent::Quick, record: Record::Nothing };
    for arg in args {
        match arg.as_str() {
            "--full" => options.extent = Extent::Full,
            "--record" => options.record = Record::WallTime,
            other => bail!("`test` has no flag `{other}`\n{HELP}"),
        }
    }
    Ok(Task::Test(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Task> {
        parse(line.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn a_run_has_two_nodes_and_the_starter_model_unless_told_otherwise() {
        let Task::Run(options) = parsed(&["run"]).unwrap() else { panic!("not a run") };
        assert_eq!((options.n_nodes, options.prompt), (2, None));
        assert_eq!(options.model, starter::MODEL_ID);

        let Task::Run(options) = parsed(&["run", "--nodes", "3", "--prompt", "--nodes"]).unwrap() else {
            panic!("not a run")
        };
        assert_eq!((options.n_nodes, options.prompt.as_deref()), (3, Some("--nodes")));
    }

    #[test]
    fn what_cannot_be_understood_is_refused_by_name() {
        let said = |line: &[&str]| format!("{:#}", parsed(line).unwrap_err());
        assert!(said(&["run", "--nodes"]).contains("`--nodes` needs a value"));
        assert!(said(&["run", "--nodes", "0"]).contains("1..=8, not 0"));
        assert!(said(&["run", "--node", "2"]).contains("no flag `--node`"));
        assert!(said(&["tset"]).contains("unknown task `tset`"));
    }
}
