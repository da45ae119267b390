//! Runs other programs, and says enough when one fails.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

/// Lines of a failed program's output that are repeated in the error: enough for a compiler's first complaint.
const TAIL_LINES: usize = 40;

/// A command from one line, split at blanks.
///
/// What cargo told this program of its own package is kept from it: build scripts of dependencies (`ring`'s) take that
/// for a change, and a cargo inside this one would build half of them anew.
pub fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&variable);
        }
    }
    command
}

/// What a program said, on both streams together.
pub struct Said {
    pub status: ExitStatus,
    pub text: String,
}

/// Whether the program is there and ends well.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs it with nothing shown, unless it fails: then its last lines are in the error.
pub fn run_quietly(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| cannot_start(command))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let both = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
        bail!("`{}` ended with {}:\n{}", shown(command), output.status, tail(&both));
    }
    Ok(stdout)
}

/// Runs it on this terminal. Its standard output goes to standard error, since ours is for answers.
pub fn run_shown(command: &mut Command) -> Result<()> {
    let status = command.stdout(std::io::stderr()).status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs it with its output shown line by line and kept.
pub fn run_kept(command: &mut Command) -> Result<Said> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| cannot_start(command))?;
    let stdout = child.stdout.take().context("a piped child has a standard output")?;
    let stderr = child.stderr.take().context("a piped child has a standard error")?;
    let (out, err) = thread::scope(|scope| {
        let err = scope.spawn(|| shown_and_kept(stderr));
        (shown_and_kept(stdout), err.join())
    });
    let err = err.unwrap_or_else(|_| Err(std::io::Error::other("the reader of standard error stopped")));
    let text = format!("{}{}", out.context("reading its output")?, err.context("reading its errors")?);
    Ok(Said { status: child.wait().context("waiting for its end")?, text })
}

fn shown_and_kept(stream: impl Read) -> std::io::Result<String> {
    let mut kept = String::new();
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        std::io::stderr().lock().write_all(&line)?;
        kept.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(kept)
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", shown(command))
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_command_and_its_last_words() {
        let error = run_quietly(Command::new("sh").args(["-c", "echo torn >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c") && error.contains("3") && error.ends_with("torn"), "{error}");
    }

    #[test]
    fn both_streams_are_kept() {
        let said = run_kept(Command::new("sh").args(["-c", "echo warp; echo weft >&2"])).unwrap();
        assert!(said.status.success());
        assert!(said.text.contains("warp\n") && said.text.contains("weft\n"), "{}", said.text);
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!succeeds(&mut command("macrame-of-nowhere --version")));
        assert!(succeeds(&mut command("true")));
    }

    #[test]
    fn only_the_tail_is_repeated() {
        let text: String = (0..100).map(|line| format!("{line}\n")).collect();
        assert!(tail(&text).starts_with("60\n") && tail(&text).ends_with("\n99"));
    }
}
