//! Notes measured times in `tests/bench/RESULTS.md`, with the command and the machine.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::command::{command, run_quietly};
use crate::places;
use crate::progress::seconds;
use crate::tally::Tally;

const HEADER: &str = "\
# Results of measurements

Each row says what was run, on what, and what it took. Newer rows are added at the end of their table.

## Wall time of `cargo xtask test`

Cold: no build, no UI packages, no model. Warm: everything built, nothing changed.

| date | command | state | machine | tests | wall time |
|---|---|---|---|---|---|
";

/// What the run found at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Cold,
    Warm,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// Adds a row for a test run to the end of its table.
pub fn wall_time(command_line: &str, state: State, tally: Tally, took: Duration) -> Result<()> {
    let file = places::repository().join("tests/bench/RESULTS.md");
    let before = fs::read_to_string(&file).unwrap_or_else(|_| HEADER.to_owned());
    let date = run_quietly(&mut command("date -u +%Y-%m-%d"))?;
    let (date, state, machine, wall) = (date.trim(), state.as_str(), machine()?, seconds(took));
    let row = format!("| {date} | `{command_line}` | {state} | {machine} | {tally} | {wall} |");
    let after = with_row(&before, "## Wall time of `cargo xtask test`", &row)?;
    fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).context("cannot create tests/bench")?;
    fs::write(&file, after).with_context(|| format!("cannot write `{}`", file.display()))
}

/// Puts `row` after the last row of the table below `heading`.
fn with_row(text: &str, heading: &str, row: &str) -> Result<String> {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| *line == heading).with_context(|| format!("no heading `{heading}`"))?;
    let is_row = |line: &&str| line.starts_with('|');
    let first = lines[at..].iter().position(is_row).with_context(|| format!("no table below `{heading}`"))? + at;
    let end = lines[first..].iter().position(|line| !is_row(line)).map_or(lines.len(), |n_rows| first + n_rows);
    let mut out = lines[..end].to_vec();
    out.push(row);
    out.extend(&lines[end..]);
    Ok(out.join("\n") + "\n")
}

/// `2 cores, 23 GiB, Linux x86_64`: what decides how long a build takes.
fn machine() -> Result<String> {
    let n_cores = std::thread::available_parallelism().context("cannot count the cores")?;
    let system = run_quietly(&mut command("uname -sm"))?;
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| memory_gib(&text));
    let memory = memory.map_or_else(String::new, |gib| format!(", {gib} GiB"));
    Ok(format!("{n_cores} cores{memory}, {}", system.trim()))
}

fn memory_gib(meminfo: &str) -> Option<u64> {
    let kib: u64 = meminfo.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok()?;
    Some(kib.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_to_the_end_of_its_table() {
        let text = "# R\n\n## A\n\n| x |\n|---|\n| 1 |\n\n## B\n\n| y |\n|---|\n";
        let with_a = with_row(text, "## A", "| 2 |").unwrap();
        assert_eq!(with_a, "# R\n\n## A\n\n| x |\n|---|\n| 1 |\n| 2 |\n\n## B\n\n| y |\n|---|\n");
        let with_b = with_row(text, "## B", "| 3 |").unwrap();
        assert!(with_b.ends_with("|---|\n| 3 |\n"), "{with_b}");
        assert!(with_row(text, "## C", "| 4 |").is_err());
    }

    #[test]
    fn a_new_file_takes_a_row() {
        let heading = "## Wall time of `cargo xtask test`";
        assert!(with_row(HEADER, heading, "| today |").unwrap().ends_with("|---|---|---|---|---|---|\n| today |\n"));
    }

    #[test]
    fn memory_is_in_whole_gib() {
        assert_eq!(memory_gib("MemTotal:       24689764 kB\nMemFree: 1 kB\n"), Some(24));
        assert_eq!(memory_gib("nonsense"), None);
    }
}
