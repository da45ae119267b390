//! The steps of a test run, and the table they end with.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::progress::{say, seconds};
use crate::tally::Tally;

/// How a step ended that did not break.
pub enum Outcome {
    Ran(Tally),
    Skipped(&'static str),
}

/// Collects what each step came to; a broken one does not keep the others from running.
pub struct Suite {
    n_steps: usize,
    rows: Vec<Row>,
    begun: Instant,
}

struct Row {
    name: &'static str,
    tally: Tally,
    note: String,
    took: Duration,
}

impl Suite {
    pub fn new(n_steps: usize) -> Self {
        Self { n_steps, rows: Vec::new(), begun: Instant::now() }
    }

    pub fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<Outcome>) {
        say(&format!("\n[{}/{}] {name} …", self.rows.len() + 1, self.n_steps));
        let begun = Instant::now();
        let (tally, note) = match work() {
            Ok(Outcome::Ran(tally)) => (tally, String::new()),
            Ok(Outcome::Skipped(why)) => (Tally::SKIPPED, why.to_owned()),
            Err(error) => {
                say(&format!("{name}: {error:#}"));
                (Tally::FAILED, first_line(&format!("{error:#}")))
            }
        };
        self.rows.push(Row { name, tally, note, took: begun.elapsed() });
    }

    /// Prints the table and, alone on the last line, the counts.
    pub fn finish(self) -> Tally {
        let (table, tally) = self.table();
        // To standard output: this is what the run was for. With nobody there to read it, the exit code still tells.
        let _ = write!(std::io::stdout().lock(), "\n{table}\n{tally}\n");
        tally
    }

    fn table(&self) -> (String, Tally) {
        let mut sum = Tally::default();
        let mut table = String::new();
        for row in &self.rows {
            sum += row.tally;
            let line = format!("{:<20} {:>12}  {}  {}", row.name, seconds(row.took), row.tally, row.note);
            table.push_str(line.trim_end());
            table.push('\n');
        }
        table.push_str(&format!("{:<20} {:>12}\n", "in all", seconds(self.begun.elapsed())));
        (table, sum)
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_step_is_a_failure_and_the_rest_still_runs() {
        let mut suite = Suite::new(3);
        suite.step("knots", || Ok(Outcome::Ran(Tally { passed: 4, failed: 0, skipped: 1 })));
        suite.step("cords", || anyhow::bail!("torn\nin two places"));
        suite.step("beads", || Ok(Outcome::Skipped("none here")));
        let (table, sum) = suite.table();
        assert_eq!(sum.to_string(), "4 passed, 1 failed, 2 skipped");
        let rows: Vec<&str> = table.lines().collect();
        assert!(rows[0].starts_with("knots") && rows[0].ends_with("4 passed, 0 failed, 1 skipped"), "{table}");
        assert!(rows[1].ends_with("torn") && rows[2].ends_with("none here"), "{table}");
    }
}
