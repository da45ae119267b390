//! Installs what a build, and for tests what the tests, need; costs next to nothing when all is there.

pub mod packages;
pub mod tools;

use anyhow::Result;

use crate::progress::Progress;
use crate::ui;

/// What the machine is set up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Run,
    Test,
}

impl Purpose {
    /// How many steps [`steps`] takes.
    pub const fn n_steps(self) -> usize {
        match self {
            Self::Run => 2,
            Self::Test => 3,
        }
    }
}

pub fn run(purpose: Purpose) -> Result<()> {
    steps(purpose, &mut Progress::new(purpose.n_steps()))
}

pub fn steps(purpose: Purpose, progress: &mut Progress) -> Result<()> {
    progress.step("checking system packages", || packages::ensure(purpose))?;
    progress.step("checking the UI's packages", || {
        tools::check_node()?;
        ui::install_packages()
    })?;
    match purpose {
        Purpose::Run => Ok(()),
        Purpose::Test => progress.step("checking test tools", tools::ensure_test_tools),
    }
}
