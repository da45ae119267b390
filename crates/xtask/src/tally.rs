//! How many tests ran and how they ended, read from what the test runners print.

use std::fmt;
use std::ops::AddAssign;

use anyhow::{Result, ensure};

use crate::command::Said;

/// Counts of tests, or of checks that count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Tally {
    pub const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    pub const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    pub const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Of nextest: `Summary [   1.2s] 12 tests run: 11 passed (1 slow), 1 failed, 2 skipped`.
///
/// What its own filter leaves out it calls skipped; another step runs these, so they are not counted here.
pub fn of_nextest(said: &Said) -> Result<Tally> {
    of(said, "tests run:", |number, word, tally| match word {
        "passed" => tally.passed += number,
        "failed" | "timed" | "exec" => tally.failed += number,
        _ => {}
    })
}

/// Of vitest: `Tests  1 failed | 12 passed | 2 skipped (15)`.
pub fn of_vitest(said: &Said) -> Result<Tally> {
    of(said, "Tests  ", |number, word, tally| match word {
        "passed" => tally.passed += number,
        "failed" => tally.failed += number,
        "skipped" | "todo" => tally.skipped += number,
        _ => {}
    })
}

/// Reads the numbers after `marker`; a runner that failed has at least one failure, and one that ran nothing has failed.
fn of(said: &Said, marker: &str, count: impl Fn(u64, &str, &mut Tally)) -> Result<Tally> {
    let text = without_colour(&said.text);
    let mut tally = Tally::default();
    if let Some((_, line)) = text.lines().rev().find_map(|line| line.split_once(marker)) {
        let words: Vec<&str> = line.split([' ', ',', '|', '(', ')']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            if let (Ok(number), word) = (pair[0].parse(), pair[1]) {
                count(number, word, &mut tally);
            }
        }
    }
    if !said.status.success() && tally.failed == 0 {
        tally.failed = 1;
    }
    ensure!(tally.passed + tally.failed > 0, "the runner ended with {} and ran no test", said.status);
    Ok(tally)
}

/// Without the escape sequences that colour a terminal: `ESC [ … m`.
fn without_colour(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = escape.split_once('m').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use std::process::{Command, ExitStatus};

    use super::*;

    fn ended(code: u8) -> ExitStatus {
        Command::new("sh").args(["-c", &format!("exit {code}")]).status().unwrap()
    }

    fn said(code: u8, text: &str) -> Said {
        Said { status: ended(code), text: text.to_owned() }
    }

    #[test]
    fn nextest_is_read() {
        let text = "    Starting 14 tests\n────\n     Summary [   1.205s] 14 tests run: 12 passed (1 slow), 1 failed, 1 timed out, 7 skipped\n";
        assert_eq!(of_nextest(&said(100, text)).unwrap(), Tally { passed: 12, failed: 2, skipped: 0 });
    }

    #[test]
    fn vitest_is_read_with_and_without_colour() {
        let plain = " Test Files  2 passed (2)\n      Tests  1 failed | 12 passed | 2 skipped (15)\n";
        let wanted = Tally { passed: 12, failed: 1, skipped: 2 };
        assert_eq!(of_vitest(&said(1, plain)).unwrap(), wanted);
        let coloured = "\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[31m1 failed\x1b[39m\x1b[22m | \x1b[32m12 passed\x1b[39m | 2 skipped (15)\n";
        assert_eq!(of_vitest(&said(1, coloured)).unwrap(), wanted);
    }

    #[test]
    fn a_runner_that_fails_or_runs_nothing_never_looks_green() {
        assert_eq!(of_nextest(&said(101, "error: could not compile `node`\n")).unwrap(), Tally::FAILED);
        assert_eq!(of_nextest(&said(1, "Summary [ 1s] 2 tests run: 2 passed\n")).unwrap().failed, 1);
        assert!(of_nextest(&said(0, "Summary [ 0s] 0 tests run: 0 passed, 7 skipped\n")).is_err());
        assert!(of_vitest(&said(0, "")).is_err());
    }
}
