//! What the API asks of the program behind it. A node implements it; so does the tests' double.

use domain::{DeploymentId, ModelId, NodeId, TokenCount};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use node::engine::{GenerationRequest, TokenEvent};

use crate::problem::Problem;
use crate::wire::{Chat, ChatSummary, ClusterView, ModelView, Paired, PairingView, PlanView, SettingsView};

/// `Started`, then any number of `Text`, then `Finished`; or a problem as the last item. Dropping it cancels.
pub type Generation = BoxStream<'static, Result<TokenEvent, Problem>>;

pub type Answer<T> = BoxFuture<'static, Result<T, Problem>>;

/// What is to be deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployGoal {
    pub model: ModelId,
    /// All of these and no others; as few as hold it if absent.
    pub nodes: Option<Vec<NodeId>>,
    /// The planner's choice if absent.
    pub context: Option<TokenCount>,
}

/// Where the node to pair with is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairTarget {
    /// One of the sightings.
    Node(NodeId),
    /// `host:port`, typed by a person.
    Address(String),
}

pub trait Backend: Send + Sync + 'static {
    /// The cluster now: this node first, then by name; deployments by id.
    fn view(&self) -> ClusterView;

    /// One item whenever [`view`](Self::view) may have changed; ends with the node.
    fn changes(&self) -> BoxStream<'static, ()>;

    fn plan(&self, goal: DeployGoal) -> Answer<PlanView>;
    fn deploy(&self, goal: DeployGoal) -> Answer<DeploymentId>;
    fn stop(&self, deployment: DeploymentId) -> Answer<()>;

    /// Runs a request through the deployment that serves `model`.
    fn generate(&self, model: ModelId, request: GenerationRequest) -> Answer<Generation>;

    fn open_pairing(&self) -> Result<PairingView, Problem>;
    fn close_pairing(&self);
    fn pair(&self, target: PairTarget, code: String) -> Answer<Paired>;
    fn unpair(&self, node: NodeId) -> Answer<()>;

    /// Models on this node's disk; `deployment_id` is filled in by the API.
    fn models(&self) -> Answer<Vec<ModelView>>;
    /// Starts a download, or joins one that runs; its progress is in the view.
    fn download(&self, model: ModelId) -> Result<(), Problem>;
    /// Whether there was one.
    fn cancel_download(&self, model: &ModelId) -> bool;

    fn chats(&self) -> Answer<Vec<ChatSummary>>;
    fn chat(&self, id: String) -> Answer<Option<Chat>>;
    fn put_chat(&self, chat: Chat) -> Answer<()>;
    /// Whether there was one. It can be restored for a while.
    fn delete_chat(&self, id: String) -> Answer<bool>;
    fn restore_chat(&self, id: String) -> Answer<bool>;

    /// `api_url` is filled in by the API.
    fn settings(&self) -> SettingsView;
    fn rename(&self, name: String) -> Answer<()>;
}
