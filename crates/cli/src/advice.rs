//! Errors on their way to the terminal: what happened, why, and what to do about it.

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use domain::{Hint, Hints};

/// An error that brings its hints along through `anyhow`.
#[derive(Debug)]
pub struct Advised {
    error: Box<dyn Error + Send + Sync>,
    hints: Hints,
}

impl Advised {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::with_hints(message, vec![hint.into()])
    }

    pub fn with_hints(message: impl Into<String>, hints: Hints) -> Self {
        Self { error: message.into().into(), hints }
    }

    pub fn of<E: Error + Hint + Send + Sync + 'static>(error: E) -> Self {
        let hints = error.hints();
        Self { error: Box::new(error), hints }
    }
}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for Advised {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// Keeps an error's hints when it becomes an [`anyhow::Error`].
pub trait Advise<T> {
    fn advise(self) -> anyhow::Result<T>;
}

impl<T, E: Error + Hint + Send + Sync + 'static> Advise<T> for Result<T, E> {
    fn advise(self) -> anyhow::Result<T> {
        self.map_err(|error| Advised::of(error).into())
    }
}

/// Says the error on standard error. Whoever closed our output, as `head` does, is told nothing and wants nothing.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    // If standard error is gone too there is nobody left to tell.
    let _ = io::stderr().write_all(rendered(error).as_bytes());
    ExitCode::FAILURE
}

/// Message, causes, hints.
fn rendered(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}\n");
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // An error often quotes its cause already.
        if !said.ends_with(&cause) {
            text += &format!("  because: {cause}\n");
            said = cause;
        }
    }
    for advised in error.chain().filter_map(|cause| cause.downcast_ref::<Advised>()) {
        for hint in &advised.hints {
            text += &format!("  try: {hint}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use expect_test::expect;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("port 4747 is taken")]
    struct Taken(#[source] io::Error);

    impl Hint for Taken {
        fn hints(&self) -> Hints {
            vec!["choose another port with `--port`".to_owned(), "end the other program".to_owned()]
        }
    }

    #[test]
    fn an_error_prints_its_causes_and_its_fix() {
        let error = Err::<(), _>(Taken(io::ErrorKind::AddrInUse.into())).advise().context("cannot start the node");
        expect![[r"
            error: cannot start the node
              because: port 4747 is taken
              because: address in use
              try: choose another port with `--port`
              try: end the other program
        "]]
        .assert_eq(&rendered(&error.expect_err("an error")));
    }

    #[test]
    fn a_cause_that_is_quoted_is_not_said_again() {
        let error = anyhow::Error::new(io::Error::other("no room")).context("cannot write: no room");
        expect![[r"
            error: cannot write: no room
        "]]
        .assert_eq(&rendered(&error));
    }
}
