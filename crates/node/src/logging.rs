//! Where log lines go: a file of the day in the home, and the terminal.
//!
//! `MACRAME_LOG` chooses what is logged, in the words of `tracing`'s filters: `debug`, `node=trace,quinn=off`.

use std::fs::DirBuilder;
use std::io::IsTerminal;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// The variable that chooses what is logged.
pub const LOG_VARIABLE: &str = "MACRAME_LOG";

/// Unless the variable says otherwise: what a user would notice from us, what worries others.
const FILTER_DEFAULT: &str = "warn,macrame=info,node=info,api=info,control=info,engine=info,engine_candle=info,\
                              planner=info,store=info,transport=info";

/// Days of files kept. Two weeks cover "it worked last week".
const FILES_MAX: usize = 14;

/// What the terminal shows of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// What is logged, one line each: for `serve`.
    Lines,
    /// Warnings and errors only: for commands whose output is what matters.
    Warnings,
    /// Nothing: for the app, which has no terminal.
    Silent,
}

/// Keep it until the end: dropping it writes what is still waiting.
#[must_use]
pub struct LogGuard {
    _writer: WorkerGuard,
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot make the folder `{}` for logs", .dir.display())]
    Folder { dir: PathBuf, source: std::io::Error },
    #[error("cannot keep a log in `{}`", .dir.display())]
    File { dir: PathBuf, source: tracing_appender::rolling::InitError },
    #[error("`{LOG_VARIABLE}` is not a filter: `{got}`")]
    Filter { got: String, source: tracing_subscriber::filter::ParseError },
    #[error("logging is set up already")]
    Twice(#[from] TryInitError),
}

/// Sets up logging for this process, once. Log files are named `macrame.<day>.log` in `dir`.
pub fn start(dir: &Path, terminal: Terminal) -> Result<LogGuard, LogError> {
    // Before the home is opened, so it may be the first that is made of it.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| LogError::Folder { dir: dir.to_owned(), source })?;
    let file = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("macrame")
        .filename_suffix("log")
        .max_log_files(FILES_MAX)
        .build(dir)
        .map_err(|source| LogError::File { dir: dir.to_owned(), source })?;
    let (writer, guard) = tracing_appender::non_blocking(file);
    let to_file = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer).with_filter(filter()?);
    let to_terminal = match terminal_filter(terminal)? {
        None => None,
        Some(filter) => {
            let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let layer =
                tracing_subscriber::fmt::layer().with_ansi(ansi).with_target(false).with_writer(std::io::stderr);
            Some(layer.with_filter(filter))
        }
    };
    tracing_subscriber::registry().with(to_file).with(to_terminal).try_init()?;
    Ok(LogGuard { _writer: guard })
}

/// Sets up logging for a rank's process: everything asked for goes to standard error, which the node reads.
pub fn start_rank() -> Result<(), LogError> {
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_writer(std::io::stderr);
    tracing_subscriber::registry().with(layer.with_filter(filter()?)).try_init()?;
    Ok(())
}

fn terminal_filter(terminal: Terminal) -> Result<Option<EnvFilter>, LogError> {
    match terminal {
        Terminal::Lines => filter().map(Some),
        Terminal::Warnings => parse("warn").map(Some),
        Terminal::Silent => Ok(None),
    }
}

fn filter() -> Result<EnvFilter, LogError> {
    match std::env::var(LOG_VARIABLE) {
        Ok(wanted) if !wanted.trim().is_empty() => parse(&wanted),
        Ok(_) | Err(_) => parse(FILTER_DEFAULT),
    }
}

fn parse(text: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::try_new(text).map_err(|source| LogError::Filter { got: text.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_of_old_and_what_users_write_are_filters() {
        for good in [FILTER_DEFAULT, "debug", "node=trace,quinn=off"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        let error = parse("node=loudly").expect_err("no level");
        assert_eq!(error.to_string(), "`MACRAME_LOG` is not a filter: `node=loudly`");
    }

    #[test]
    fn lines_reach_the_file_when_the_guard_goes() {
        let dir = tempfile::tempdir().expect("a folder");
        let guard = start(dir.path(), Terminal::Silent).expect("the only logging of this process");
        tracing::warn!(bytes = 7, "something odd");
        drop(guard);
        let files: Vec<_> = std::fs::read_dir(dir.path()).expect("a folder").flatten().collect();
        assert_eq!(files.len(), 1);
        let text = std::fs::read_to_string(files[0].path()).expect("text");
        assert!(text.contains("something odd bytes=7"), "{text}");
        assert!(matches!(start(dir.path(), Terminal::Silent), Err(LogError::Twice(_))));
    }
}
