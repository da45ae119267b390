//! Ranks as child processes: [`RankProcess`] is a rank as its node sees it, [`rank_main`] the rank itself.
//!
//! A rank that crashes, is killed or runs out of memory ends alone; its memory is free at once, and the node lives
//! on to say so. The two speak `engine::rank_protocol` over the child's standard input and output.

mod child;
mod commands;
mod line;
mod load;
mod memory_watch;
mod neighbours;
mod process;
mod stderr;
mod supervise;

use std::fmt;

use domain::{DeploymentId, Epoch, Rank};
use engine::RankReport;

pub use child::rank_main;
pub use process::{RankGone, RankProcess, SpawnError};

/// One rank of one version of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankKey {
    pub deployment: DeploymentId,
    pub epoch: Epoch,
    pub rank: Rank,
}

impl fmt::Display for RankKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.deployment, self.epoch.0, self.rank)
    }
}

/// News of a rank.
#[derive(Clone, Debug, PartialEq)]
pub enum RankEvent {
    Report(RankReport),
    /// Its process has ended. The last event of a rank, and exactly one.
    Exited(RankExit),
}

/// How a rank's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankExit {
    /// `ended by signal 9 (killed)`, `exit status: 1`, `did not load within 600 s`.
    pub status: String,
    /// The last lines it wrote to standard error.
    pub stderr_tail: Vec<String>,
}

impl fmt::Display for RankExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)?;
        match self.stderr_tail.last() {
            Some(last) => write!(f, "; its last words: {last}"),
            None => Ok(()),
        }
    }
}
