//! Writing to the terminal. Output is what a command is for; notes are what a person may want to know beside it.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result};
use serde::Serialize;

/// For whom output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    People,
    /// Programs, by `--json`.
    Json,
}

impl Format {
    pub const fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::People }
    }
}

/// On standard output, at once, as it is.
pub fn write(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// One line on standard output.
pub fn line(text: &str) -> Result<()> {
    write(&format!("{text}\n"))
}

/// One line of JSON on standard output.
pub fn json(value: &impl Serialize) -> Result<()> {
    line(&serde_json::to_string(value).context("cannot write JSON")?)
}

/// On standard error. If that is closed, nobody wants to know.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether a person types what we read and reads what we write.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}
