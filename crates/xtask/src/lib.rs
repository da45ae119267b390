//! What `cargo xtask` does, as a library, since the process and browser tests start their clusters the same way.
//!
//! Uses the standard library, `anyhow` and `serde_json` only: it must build before anything is installed.

pub mod cluster_view;
pub mod command;
pub mod flags;
pub mod local;
pub mod macos;
pub mod places;
pub mod progress;
pub mod record;
pub mod run;
pub mod setup;
pub mod stamp;
pub mod starter;
pub mod tally;
pub mod test;
pub mod ui;
