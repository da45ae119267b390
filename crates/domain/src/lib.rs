//! The words of Macramé as values: ids, units, facts, models, plans, deployments.
//!
//! Nothing here acts: no clock, no file, no network, no thread. Every other crate speaks in these types, and
//! what can be wrong by construction (a plan that misses a layer, a negative cut) cannot be built.

mod deployment;
mod fact;
mod hint;
mod ids;
mod layers;
mod link;
mod machine;
mod model;
mod plan;
mod topology;
mod units;

pub use deployment::{Deployment, Fetching, RankPhase, RankStatus};
pub use fact::{Fact, Timestamp};
pub use hint::{Hint, Hints};
pub use ids::{BadId, DeploymentId, Epoch, GenerationId, ModelId, NodeId, Rank};
pub use layers::{BadLayers, LayerCount, LayerIdx, LayerRange};
pub use link::{LinkFacts, LinkKind};
pub use machine::{Chip, Memory, NodeFacts, OperatingSystem, RdmaFacts};
pub use model::{Architecture, ModelSpec, UnknownArchitecture};
pub use plan::{BadPlan, Plan, PlanShare, Shard};
pub use topology::{Topology, TopologyNode};
pub use units::{Bytes, BytesPerSec, TokenCount};
