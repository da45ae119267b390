//! The cluster's mind: who is there, what they say, which deployments are wanted and what to do next for them.
//!
//! Sans-IO. [`Control`] is told what happened and what time it is ([`Control::handle`], [`Control::handle_timeout`]),
//! then drained ([`Control::poll_output`], [`Control::poll_timeout`]): one mutation, then drain. It reads no clock,
//! opens no socket, and given the same inputs does the same things.
//!
//! ```text
//! members      Alive -> Suspect -> Gone by the time passed awake
//! records      one writer each; newer (boot, version) wins; a digest in each heartbeat finds what was lost
//! reserve      the node that owns the memory says yes or no; all yes -> the owner writes the deployment
//! reconcile    Fetch -> Load -> Connect -> Serve, one step at a time, from what is wanted and what is
//! upkeep       a failed deployment starts again under a higher epoch; one without an owner finds a new one
//! health       what a person should know, with the fix
//! ```

mod clock;
mod control;
mod deploy;
mod deployments;
mod health;
mod io;
mod members;
mod message;
mod ranks;
mod reconcile;
mod records;
mod reserve;
mod rng;
mod steps;
mod upkeep;
mod view;

pub use control::Control;
pub use deployments::{DeploymentStatus, deployment_status};
pub use health::{Severity, Warning, WarningCode, warnings};
pub use io::{Input, Output, RankEvent, RankPeer, RankReport, RequestId};
pub use members::{GONE_AFTER, HEARTBEAT_EVERY, Liveness, SUSPECT_AFTER};
pub use message::{BadMessage, Digest, MESSAGE_BYTES_MAX, Message};
pub use reconcile::{Action, Actual, AllListen, Desired, Stage, next_action};
pub use records::{
    Boot, DATA_ADDRS_MAX, DEPLOYMENTS_MAX, NODES_MAX, OwnedDeployment, Record, RecordBody, Reservation, STOPS_MAX,
    Stamp, TEXT_CHARS_MAX,
};
pub use reserve::{DeployRefused, NodeRefusal, RESERVATION_HOLD, RESERVE_DEADLINE, Refusal};
pub use upkeep::RESTARTS_MAX;
pub use view::{DeploymentView, NodeView, View};
