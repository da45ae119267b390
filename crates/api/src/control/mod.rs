//! The control API: what the UI and the command line ask. Every route wants the token.

pub mod chats;
pub mod cluster;
pub mod models;
pub mod pairing;
pub mod settings;
