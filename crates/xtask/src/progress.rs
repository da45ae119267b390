//! What a person sees while waiting: numbered steps with their times, on standard error.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A step shorter than this is not worth a second line.
const WORTH_A_TIME: Duration = Duration::from_secs(1);

/// Steps of a known number: `[3/7] building the UI …`.
pub struct Progress {
    n_steps: usize,
    n_begun: usize,
}

impl Progress {
    pub fn new(n_steps: usize) -> Self {
        Self { n_steps, n_begun: 0 }
    }

    pub fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.n_begun += 1;
        let label = format!("[{}/{}] {name}", self.n_begun, self.n_steps);
        say(&format!("{label} …"));
        let begun = Instant::now();
        let result = work().with_context(|| format!("{name} failed"));
        let took = begun.elapsed();
        if result.is_ok() && took >= WORTH_A_TIME {
            say(&format!("{label} … {}", seconds(took)));
        }
        result
    }
}

/// One line to the person at the terminal. Standard output is for answers alone.
pub fn say(line: &str) {
    // With the terminal gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// `12.3 s`, `4 min 05 s`.
pub fn seconds(took: Duration) -> String {
    if took < Duration::from_secs(100) {
        return format!("{:.1} s", took.as_secs_f64());
    }
    format!("{} min {:02} s", took.as_secs() / 60, took.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_at_a_glance() {
        assert_eq!(seconds(Duration::from_millis(12_340)), "12.3 s");
        assert_eq!(seconds(Duration::from_secs(245)), "4 min 05 s");
    }

    #[test]
    fn a_failed_step_says_which_it_was() {
        let error = Progress::new(1).step("knotting", || -> Result<()> { anyhow::bail!("no cord") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "knotting failed: no cord");
    }
}
