//! A node: the process that finds other nodes, keeps their company, and runs its ranks of deployments.
//!
//! [`Node::start`] makes one, [`NodeHandle`] is how everything outside holds it. What is decided is decided in
//! `control` and `planner`; here it is done. See `driver/` for the loop that joins the two.

mod addresses;
pub mod chats;
pub mod config;
pub mod discovery;
mod driver;
mod error;
mod generations;
mod handle;
pub mod home;
pub mod logging;
pub mod models;
mod name;
mod node;
pub mod probe;
mod rank;
pub mod secure;
mod state;
mod survey;

pub use chats::{BadChatId, Chat, ChatId, ChatMessage, ChatRole, ChatSummary, Chats, ChatsError};
pub use config::{API_PORT_DEFAULT, Config, Discovery, Flags, default_home};
pub use discovery::Sighting;
pub use error::{BadNodeName, DeployError, GenerateError, NoDeployment, NodeError, NotPaired, Stopping};
pub use generations::Generation;
pub use handle::{DeployGoal, NodeHandle, RenameError, UnpairError};
pub use home::HomeError;
pub use models::{DownloadState, DownloadStatus, ModelEntry, ModelError, Models};
pub use node::{Node, VERSION};
pub use rank::{RankEvent, RankExit, RankGone, RankKey, RankProcess, SpawnError, rank_main};
pub use secure::{PairError, PairTarget, PairingCode, PairingStatus};
pub use state::ClusterState;
pub use store::{HubOptions, RepoId};
pub use survey::{Survey, SurveyOptions};

/// Their values are part of what a handle says and takes.
pub use {control, engine};
