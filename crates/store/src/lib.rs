//! Models on disk, and the way to get them.
//!
//! A model lies in the Hugging Face hub's cache, in its own layout, where every other program of this machine
//! finds it too ([`HubCache`]); it comes there by [`Hub::download`], or by [`HubCache::adopt`] from a local file.
//! This is the only crate that talks to the internet.

mod adopt;
mod delete;
mod digest;
mod disk;
mod download;
mod error;
mod gguf;
mod hub;
mod hub_cache;
mod layout;
mod names;
mod options;
mod partial;

#[cfg(test)]
mod fake_hub;

pub use disk::disk_free;
pub use download::Progress;
pub use error::StoreError;
pub use hub::Hub;
pub use hub_cache::{HubCache, Source, StoredModel};
pub use names::{BadName, RepoId};
pub use options::{Access, HubOptions, Token, default_cache_dir};
