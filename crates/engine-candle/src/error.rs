//! Why a file is no model for this engine, or a shard of it cannot be loaded.

use std::io;
use std::path::PathBuf;

use domain::{Bytes, Hint, Hints, TokenCount, UnknownArchitecture};

/// A file that the engine cannot run, and why.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error("cannot read {}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("{} is no whole GGUF file: {cause}", path.display())]
    BadHeader { path: PathBuf, cause: String },
    #[error("{} does not say its `{key}`", path.display())]
    Missing { path: PathBuf, key: String },
    #[error("`{key}` of {} should be {expected}; it is {got}", path.display())]
    BadValue { path: PathBuf, key: String, expected: &'static str, got: String },
    #[error("tensor `{tensor}` of {}: {problem}", path.display())]
    BadTensor { path: PathBuf, tensor: String, problem: String },
    #[error("{}: {cause}", path.display())]
    Architecture { path: PathBuf, cause: UnknownArchitecture },
    #[error("{} has {feature}, which this engine does not run", path.display())]
    Unsupported { path: PathBuf, feature: String },
}

impl Hint for InspectError {
    fn hints(&self) -> Hints {
        match self {
            Self::Io { .. } => Vec::new(),
            Self::BadHeader { .. } | Self::BadTensor { .. } => {
                vec!["the download may have stopped early: delete the file and fetch it again".to_owned()]
            }
            Self::Missing { .. } | Self::BadValue { .. } => {
                vec!["get the model from a source that converts it with a current llama.cpp".to_owned()]
            }
            Self::Architecture { .. } | Self::Unsupported { .. } => {
                vec!["choose another model: Llama 2 and 3, SmolLM2, TinyLlama and Mistral run".to_owned()]
            }
        }
    }
}

/// A shard that this process cannot compute with, and why.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Inspect(#[from] InspectError),
    #[error("a model in one GGUF file is expected; {got} files were given")]
    Files { got: usize },
    #[error("the plan is for a model of {planned} layers; {} has {found}", path.display())]
    OtherModel { path: PathBuf, planned: u32, found: u32 },
    #[error("the plan is for a context of {planned}; the model was made for {context_max}")]
    Context { planned: TokenCount, context_max: TokenCount },
    #[error("cannot map {bytes} of {}: {cause}", path.display())]
    Map { path: PathBuf, bytes: Bytes, cause: io::Error },
    #[error("no memory for {bytes} of keys and values")]
    NoMemory { bytes: Bytes },
    #[error("the tokenizer of {} cannot be used: {problem}", path.display())]
    Tokenizer { path: PathBuf, problem: String },
    #[error("the chat template of {} cannot be used: {problem}", path.display())]
    Template { path: PathBuf, problem: String },
    #[error("cannot start the threads that compute")]
    Threads(#[source] rayon::ThreadPoolBuildError),
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl Hint for LoadError {
    fn hints(&self) -> Hints {
        let hint = |text: &str| vec![text.to_owned()];
        match self {
            Self::Inspect(error) => error.hints(),
            Self::Files { .. } => {
                hint("choose a model that is one file, or merge the parts with llama.cpp's `gguf-split`")
            }
            Self::OtherModel { .. } => hint("the file has changed since it was planned for: deploy the model again"),
            Self::Context { .. } => hint("deploy the model with a shorter context"),
            Self::Map { .. } | Self::NoMemory { .. } => {
                hint("close programs, or deploy the model with a shorter context")
            }
            Self::Tokenizer { .. } => {
                hint("choose a model with a byte-level BPE tokenizer, as Llama 3 and SmolLM2 have")
            }
            Self::Template { .. } => hint("choose an instruct model: base models have no chat template"),
            Self::Threads(_) | Self::Candle(_) => Vec::new(),
        }
    }
}
