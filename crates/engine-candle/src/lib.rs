//! Computes with candle: GGUF models of the llama architecture, by layer range, on weights mapped as they are on disk.
//!
//! [`inspect`] tells the planner what a file holds; [`load`] gives a rank its [`Compute`] and the head its [`Text`].
//! The only crate that knows candle.

mod cache;
mod error;
mod gguf;
mod inspect;
mod kernels;
mod models;
mod text;
mod weights;

use std::path::PathBuf;

use domain::{Architecture, Shard, TokenCount};
use engine::{Compute, Text};
use rayon::{ThreadPool, ThreadPoolBuilder};

pub use error::{InspectError, LoadError};
pub use inspect::inspect;

/// What a rank takes of its machine, beside its weights.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Sequences kept at once; at least one.
    pub n_slots: u32,
    /// Threads that compute; one for each core if absent.
    pub n_threads: Option<u32>,
}

/// A rank's part of a model, ready to compute.
pub struct Loaded {
    pub compute: Box<dyn Compute>,
    /// The head's: tokenizer and chat template.
    pub text: Option<Box<dyn Text>>,
}

/// Maps `shard` of the model in `files` and sets up its sequences, each of the shard's context.
///
/// Reads the header; weights are paged in as they are first used.
pub fn load(shard: &Shard, files: &[PathBuf], options: LoadOptions) -> Result<Loaded, LoadError> {
    let [path] = files else { return Err(LoadError::Files { got: files.len() }) };
    let header = gguf::Header::read(path)?;
    let compute: Box<dyn Compute> = match inspect::architecture(&header)? {
        Architecture::Llama => {
            let config = models::llama::Config::read(&header)?;
            if config.n_layers != shard.n_layers.0 || shard.layers.end().0 > config.n_layers {
                let (planned, found) = (shard.n_layers.0, config.n_layers);
                return Err(LoadError::OtherModel { path: path.clone(), planned, found });
            }
            let context_max = TokenCount(u32::try_from(config.context_max).unwrap_or(u32::MAX));
            if shard.context > context_max {
                return Err(LoadError::Context { planned: shard.context, context_max });
            }
            let n_slots = options.n_slots.max(1) as usize;
            let threads = threads(options.n_threads)?;
            Box::new(models::llama::Model::load(&header, config, shard.layers, shard.context, n_slots, threads)?)
        }
    };
    let text = match shard.is_first() {
        true => Some(Box::new(text::ModelText::load(&header)?) as Box<dyn Text>),
        false => None,
    };
    Ok(Loaded { compute, text })
}

fn threads(n_threads: Option<u32>) -> Result<ThreadPool, LoadError> {
    // Rayon reads 0 as one for each core.
    let n_threads = n_threads.unwrap_or(0) as usize;
    let named = |idx| format!("compute-{idx}");
    ThreadPoolBuilder::new().num_threads(n_threads).thread_name(named).build().map_err(LoadError::Threads)
}
