//! What the API says and hears, as types of its own. The UI's TypeScript is generated from them (`ui/src/api/types.gen.ts`),
//! so a rename inside the program never reaches a client unseen.
//!
//! Names are camelCase in the control API. The OpenAI dialect has its own types in `openai/wire.rs`.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// `GET /v1/cluster`: everything the cluster view draws, at one revision.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSnapshot {
    /// Grows with every change. An event whose `rev` is not this one plus one means: fetch again.
    #[ts(type = "number")]
    pub rev: u64,
    pub view: ClusterView,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// The node that answers.
    pub self_id: String,
    /// This node first, then by name.
    pub nodes: Vec<NodeView>,
    pub links: Vec<LinkView>,
    pub deployments: Vec<DeploymentView>,
    /// Nodes seen on the network that are not paired.
    pub sightings: Vec<SightingView>,
    /// The pairing code this node shows now, if it shows one.
    pub pairing: Option<PairingView>,
    pub downloads: Vec<DownloadView>,
    pub warnings: Vec<WarningView>,
}

/// One server-sent event of `/v1/cluster/events`: the change that made `rev` out of `rev - 1`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEvent {
    #[ts(type = "number")]
    pub rev: u64,
    pub changes: Vec<ClusterChange>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum ClusterChange {
    Node { node: NodeView },
    NodeGone { id: String },
    Links { links: Vec<LinkView> },
    Deployment { deployment: DeploymentView },
    DeploymentGone { id: String },
    Sightings { sightings: Vec<SightingView> },
    Pairing { pairing: Option<PairingView> },
    Downloads { downloads: Vec<DownloadView> },
    Warnings { warnings: Vec<WarningView> },
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    pub id: String,
    pub name: String,
    pub is_self: bool,
    pub status: NodeStatus,
    /// The status in words: `alive`, `not heard of for 4 s`.
    pub status_text: String,
    pub version: String,
    pub chip: Option<String>,
    pub os: Option<String>,
    /// What is known of RDMA, in words.
    pub rdma: Option<String>,
    pub memory: Option<MemoryView>,
    #[ts(type = "number | null")]
    pub disk_free_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum NodeStatus {
    Alive,
    Suspect,
    Gone,
}

/// The bars of a node: weights + KV + workspace of our ranks, other programs, and what is left.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct MemoryView {
    #[ts(type = "number")]
    pub total_bytes: u64,
    #[ts(type = "number")]
    pub used_by_others_bytes: u64,
    /// What Macramé may hold on this node in all.
    #[ts(type = "number")]
    pub usable_bytes: u64,
    /// Set aside for deployments.
    #[ts(type = "number")]
    pub reserved_bytes: u64,
    #[ts(type = "number")]
    pub weight_bytes: u64,
    #[ts(type = "number")]
    pub kv_bytes: u64,
}

/// A link as the node `from` measured it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct LinkView {
    pub from: String,
    pub to: String,
    pub kind: Option<LinkKindView>,
    pub interface: Option<String>,
    pub latency_us: Option<f64>,
    #[ts(type = "number | null")]
    pub bandwidth_bytes_per_sec: Option<u64>,
    #[ts(type = "number | null")]
    pub measured_at_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum LinkKindView {
    Loopback,
    Wifi,
    Ethernet,
    Thunderbolt,
    Rdma,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentView {
    pub id: String,
    pub model: String,
    pub owner_id: String,
    pub status: DeploymentStatus,
    /// The status in words, with the node at fault: `rank 1 on mini stopped: …`.
    pub status_text: String,
    pub context_tokens: u32,
    pub n_layers: u32,
    /// In rank order; rank 0 is the head.
    pub ranks: Vec<RankView>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum DeploymentStatus {
    Fetching,
    Loading,
    Connecting,
    Serving,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RankView {
    pub rank: u16,
    pub node_id: String,
    pub status: DeploymentStatus,
    pub status_text: String,
    /// Both ends included.
    pub first_layer: u32,
    pub last_layer: u32,
    #[ts(type = "number")]
    pub weight_bytes: u64,
    #[ts(type = "number")]
    pub kv_bytes: u64,
    /// Physical memory of the rank's process, measured; zero before it runs.
    #[ts(type = "number")]
    pub resident_bytes: u64,
    #[ts(type = "number")]
    pub fetched_bytes: u64,
    #[ts(type = "number")]
    pub fetch_total_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SightingView {
    pub id: String,
    pub name: String,
    pub version: String,
    pub address: String,
    /// Why it cannot be paired now, if it cannot: another version, say.
    pub obstacle: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct PairingView {
    /// Six digits, to be typed on the other machine.
    pub code: String,
    #[ts(type = "number")]
    pub expires_at_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct DownloadView {
    pub model: String,
    #[ts(type = "number")]
    pub done_bytes: u64,
    #[ts(type = "number")]
    pub total_bytes: u64,
    #[ts(type = "number")]
    pub bytes_per_sec: u64,
    /// Set once it has ended badly: what happened and how to fix it.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct WarningView {
    pub code: String,
    pub severity: Severity,
    pub text: String,
    pub fix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    Note,
    Warning,
    Problem,
}

/// `GET /v1/cluster/models`: models on this node's disk.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ModelView {
    pub id: String,
    /// `None` for a file the engine cannot run; `obstacle` says why.
    pub architecture: Option<String>,
    pub quantisation: Option<String>,
    #[ts(type = "number")]
    pub size_bytes: u64,
    pub n_layers: Option<u32>,
    pub context_max: Option<u32>,
    /// Where it lies: `Hugging Face cache`, `Macramé`, …
    pub source: String,
    pub obstacle: Option<String>,
    /// The deployment that serves it, if one does.
    pub deployment_id: Option<String>,
}

/// `POST /v1/cluster/plan` and `POST /v1/cluster/deployments`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeployRequest {
    pub model: String,
    /// Only these nodes; any of the cluster if absent.
    #[serde(default)]
    #[ts(optional)]
    pub node_ids: Option<Vec<String>>,
    /// Context to reserve, in tokens; the planner's choice if absent.
    #[serde(default)]
    #[ts(optional)]
    pub context_tokens: Option<u32>,
}

/// The plan that a deployment would have.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    pub model: String,
    pub context_tokens: u32,
    pub n_layers: u32,
    pub shares: Vec<PlanShareView>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct PlanShareView {
    pub rank: u16,
    pub node_id: String,
    pub node_name: String,
    pub first_layer: u32,
    pub last_layer: u32,
    #[ts(type = "number")]
    pub weight_bytes: u64,
    #[ts(type = "number")]
    pub kv_bytes: u64,
    #[ts(type = "number")]
    pub reserved_bytes: u64,
    /// What the node could give before this plan.
    #[ts(type = "number")]
    pub plannable_bytes: u64,
}

/// Answer to `POST /v1/cluster/deployments`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Deployed {
    pub id: String,
}

/// `POST /v1/cluster/pair`: type a code that another node shows. One of `nodeId` (of a sighting) and `address` (`host:port`).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PairRequest {
    #[serde(default)]
    #[ts(optional)]
    pub node_id: Option<String>,
    #[serde(default)]
    #[ts(optional)]
    pub address: Option<String>,
    pub code: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Paired {
    pub node_id: String,
    pub name: String,
}

/// `POST /v1/cluster/downloads` and its `DELETE` with the same body's model in the query.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DownloadRequest {
    pub model: String,
}

/// `GET /v1/chats`, newest first.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ChatSummary {
    pub id: String,
    pub title: String,
    #[ts(type = "number")]
    pub updated_at_ms: u64,
    pub n_messages: u32,
}

/// `GET`/`PUT /v1/chats/{id}`; `id` is a UUID-like text chosen by the client, `[0-9a-z-]{8,64}`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Chat {
    pub id: String,
    pub title: String,
    pub model: Option<String>,
    pub messages: Vec<ChatMessageView>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatMessageView {
    pub role: ChatRole,
    pub text: String,
    /// Under an answer: how it was made.
    pub facts: Option<AnswerFacts>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ChatRole {
    System,
    User,
    Assistant,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerFacts {
    pub model: String,
    pub prompt_tokens: u32,
    pub completion_tokens: u32,
    pub first_token_ms: f64,
    pub tokens_per_sec: f64,
    /// How it ended: `stop`, `length`, `stopped by you`, or the error's text.
    pub ended: String,
}

/// `GET /v1/settings`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SettingsView {
    pub node_name: String,
    pub version: String,
    /// Base address of the API, `http://127.0.0.1:4747`.
    pub api_url: String,
    pub home_folder: String,
    pub models_folder: String,
    pub log_folder: String,
    /// Where nodes are looked for: `lan`, `loopback`, `off`.
    pub discovery: String,
    /// The address and port of the control plane, for typing on another machine.
    pub control_addresses: Vec<String>,
}

/// `PUT /v1/settings`; absent fields stay as they are.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettingsChange {
    #[serde(default)]
    #[ts(optional)]
    pub node_name: Option<String>,
}

/// Every error of the API, in OpenAI's shape with our hints beside it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
pub struct ErrorBody {
    pub error: ErrorView,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, TS)]
pub struct ErrorView {
    pub message: String,
    /// `invalid_request_error`, `not_found_error`, `server_error`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Stable: `context_too_long`, `no_plan`, `rank_lost`, …
    pub code: String,
    /// The field at fault, for a bad request.
    pub param: Option<String>,
    /// What to do about it, most helpful first.
    pub hints: Vec<String>,
}
