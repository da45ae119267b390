//! The last word of an app that cannot start: there is no window yet, and often no terminal.

use std::io::Write as _;
use std::process::{Command, ExitCode};

/// Says why, in a system dialog where there is one, and in the terminal and the log anyway.
pub fn fatal(error: &anyhow::Error) -> ExitCode {
    let text = format!("{error:#}");
    tracing::error!(%text, "the app cannot start");
    // With nobody at the terminal, the dialog is the one that is read.
    let _ = writeln!(std::io::stderr().lock(), "error: {text}");
    if let Err(error) = dialog("Macramé cannot start", &text).status() {
        tracing::warn!(%error, "no dialog could be shown");
    }
    ExitCode::FAILURE
}

#[cfg(target_os = "macos")]
fn dialog(title: &str, text: &str) -> Command {
    // As arguments of the script, so that no quote in an error can end a string of it.
    const SCRIPT: &str = "on run {title, text}\ndisplay alert title message text as critical\nend run";
    let mut osascript = Command::new("osascript");
    osascript.args(["-e", SCRIPT, title, text]);
    osascript
}

#[cfg(not(target_os = "macos"))]
fn dialog(title: &str, text: &str) -> Command {
    let mut zenity = Command::new("zenity");
    zenity.args(["--error", "--no-markup", "--title", title, "--text", text]);
    zenity
}
