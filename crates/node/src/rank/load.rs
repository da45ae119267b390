//! Brings a rank's shard into its process.

use std::error::Error;

use domain::{Hint, Hints};
use engine::rank_protocol::Load;
use engine::{Compute, Text};
use engine_candle::LoadOptions;

/// How a rank gets its layers; tests put small ones in the place of files.
pub(super) trait Loader: Send + Sync {
    fn load(&self, load: &Load) -> Result<Loaded, LoadFailed>;
}

pub(super) struct Loaded {
    pub compute: Box<dyn Compute>,
    /// The head has words.
    pub text: Option<Box<dyn Text>>,
}

/// The shard is not here to be computed with.
#[derive(Debug, thiserror::Error)]
#[error("cannot load the model")]
pub(super) struct LoadFailed {
    pub source: Box<dyn Error + Send + Sync>,
    pub hints: Hints,
}

impl LoadFailed {
    fn of(error: impl Hint + Error + Send + Sync + 'static) -> Self {
        let hints = error.hints();
        Self { source: Box::new(error), hints }
    }
}

/// Loads with candle.
pub(super) struct CandleLoader;

impl Loader for CandleLoader {
    fn load(&self, load: &Load) -> Result<Loaded, LoadFailed> {
        let options = LoadOptions { n_slots: load.n_slots, n_threads: load.n_threads };
        let loaded = engine_candle::load(&load.shard, &load.files, options).map_err(LoadFailed::of)?;
        let engine_candle::Loaded { compute, text } = loaded;
        Ok(Loaded { compute, text })
    }
}
