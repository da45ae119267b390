//! A running node, as everything outside holds it. Clones are the same node.

use std::net::SocketAddr;
use std::sync::Arc;

use domain::{DeploymentId, Hint, ModelId, NodeId, Plan, TokenCount};
use engine::GenerationRequest;
use planner::{Goal, NodeChoice, Objective};
use tokio::sync::{mpsc, oneshot, watch};

use crate::chats::Chats;
use crate::config::Config;
use crate::driver::{Command, HeadRanks, SLOTS};
use crate::error::{BadNodeName, DeployError, GenerateError, NoDeployment, NotPaired, Stopping};
use crate::generations::{Generation, Generations, open_remote};
use crate::home::{ApiFile, Home, HomeError};
use crate::models::Models;
use crate::secure::{PairError, PairTarget, PairingCode, SecureNet, StreamKind, shown_name};
use crate::state::ClusterState;

/// What is to be deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployGoal {
    pub model: ModelId,
    /// Over all of these and no others. If absent, over as few nodes as hold it.
    pub nodes: Option<Vec<NodeId>>,
    /// The planner's choice if absent.
    pub context: Option<TokenCount>,
}

#[derive(Clone)]
pub struct NodeHandle {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub config: Config,
    pub home: Home,
    pub net: SecureNet,
    pub models: Models,
    pub chats: Chats,
    pub generations: Generations,
    pub heads: HeadRanks,
    pub state: watch::Receiver<Arc<ClusterState>>,
    pub commands: mpsc::Sender<Command>,
}

impl NodeHandle {
    pub fn id(&self) -> NodeId {
        self.inner.home.node()
    }

    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The token that control routes ask for.
    pub fn api_token(&self) -> &str {
        self.inner.home.api_token()
    }

    /// Lets other programs of this user find the API at `url` until the returned value is dropped.
    pub fn announce_api(&self, url: &str) -> Result<ApiFile, HomeError> {
        self.inner.home.announce_api(url)
    }

    /// Where other nodes reach this one, for typing on another machine.
    pub fn control_addresses(&self) -> Vec<SocketAddr> {
        crate::addresses::reachable(&self.inner.net.local_addrs())
    }

    pub fn state(&self) -> Arc<ClusterState> {
        self.inner.state.borrow().clone()
    }

    /// Wakes at every change; closes when the node has ended.
    pub fn watch(&self) -> watch::Receiver<Arc<ClusterState>> {
        self.inner.state.clone()
    }

    /// The plan that [`deploy`](Self::deploy) would make true now.
    pub async fn plan(&self, goal: &DeployGoal) -> Result<Plan, DeployError> {
        let spec = self.inner.models.spec(goal.model.clone()).await?;
        let me = self.id();
        let (objective, nodes) = match &goal.nodes {
            Some(nodes) => (Objective::Spread, NodeChoice::Only(nodes.clone())),
            None => (Objective::Fewest, NodeChoice::Any),
        };
        // The head where the person sits, if this node takes part at all: their tokens then cross one link less.
        let head = goal.nodes.as_ref().is_some_and(|nodes| nodes.contains(&me)).then_some(me);
        let goal = Goal { objective, context: goal.context, nodes, head, n_slots: SLOTS };
        Ok(planner::plan(&self.state().view.topology(), &spec, &goal)?)
    }

    /// Reserves memory on every node of the plan, then makes it true. Returns once all have agreed, which is before the
    /// model is loaded: [`watch`](Self::watch) tells how far it is.
    pub async fn deploy(&self, goal: &DeployGoal) -> Result<DeploymentId, DeployError> {
        let plan = self.plan(goal).await?;
        let (answer, answered) = oneshot::channel();
        self.command(Command::Deploy { plan, answer }).await?;
        Ok(answered.await.map_err(|_| Stopping)??)
    }

    pub async fn stop(&self, deployment: DeploymentId) -> Result<(), NoDeployment> {
        if !self.state().view.deployments.contains_key(&deployment) {
            return Err(NoDeployment { id: deployment });
        }
        // A node that is stopping stops its ranks anyway.
        let _ = self.command(Command::Stop { deployment }).await;
        Ok(())
    }

    /// Runs `request` through the deployment that serves `model`, whichever node its head is on.
    pub async fn generate(&self, model: &ModelId, request: GenerationRequest) -> Result<Generation, GenerateError> {
        request.check().map_err(engine::GenerationError::BadRequest)?;
        let state = self.state();
        let Some((id, deployment)) = state.serving(model) else {
            return Err(GenerateError::NotServed { model: model.clone(), served: state.served_models() });
        };
        let head = deployment.deployment.plan.head();
        if head == self.id() {
            return Ok(self.inner.start_local(id, request)?);
        }
        let lost = |cause: String| engine::GenerationError::RankLost {
            rank: domain::Rank::HEAD,
            node: head,
            name: state.name_of(head),
            cause,
        };
        let stream =
            self.inner.net.open(head, StreamKind::Generation).await.map_err(|error| lost(error.to_string()))?;
        Ok(open_remote(stream, head, state.name_of(head), id, request).await?)
    }

    /// Shows a new pairing code.
    pub fn open_pairing(&self) -> Result<PairingCode, PairError> {
        let code = self.inner.net.open_pairing()?;
        self.refresh();
        Ok(code)
    }

    pub fn close_pairing(&self) {
        self.inner.net.close_pairing();
        self.refresh();
    }

    /// Pairs with the machine that shows `code`.
    pub async fn pair(&self, target: &PairTarget, code: &str) -> Result<(NodeId, String), PairError> {
        self.inner.net.pair(target, code).await
    }

    /// Forgets a paired node. It is refused from now on, and deployments over it end.
    pub async fn unpair(&self, node: NodeId) -> Result<(), UnpairError> {
        if !self.inner.net.forget(node)? {
            return Err(NotPaired { node }.into());
        }
        let _ = self.command(Command::Forgot { node }).await;
        Ok(())
    }

    /// Where a sighted node is; empty if it is not seen.
    pub fn sighted(&self, node: NodeId) -> Vec<SocketAddr> {
        let state = self.state();
        let seen = state.sightings.iter().find(|sighting| sighting.node == node);
        seen.map(|sighting| sighting.addrs.clone()).unwrap_or_default()
    }

    pub fn models(&self) -> &Models {
        &self.inner.models
    }

    pub fn chats(&self) -> &Chats {
        &self.inner.chats
    }

    /// Gives this node another name, for people. Kept over restarts.
    pub async fn rename(&self, name: &str) -> Result<(), RenameError> {
        let max = crate::name::CHARS_MAX;
        let got = name.chars().count();
        if got == 0 || got > max || shown_name(name) != name {
            return Err(BadNodeName { max, got }.into());
        }
        crate::name::keep(&self.inner.home, name)?;
        let _ = self.command(Command::Renamed { name: name.to_owned() }).await;
        Ok(())
    }

    /// Ends the node: generations, ranks, the control plane. Returns when all of it is gone, within some seconds.
    pub async fn shutdown(&self) {
        let (done, ended) = oneshot::channel();
        if self.command(Command::Shutdown { done }).await.is_ok() {
            let _ = ended.await;
        }
    }

    async fn command(&self, command: Command) -> Result<(), Stopping> {
        self.inner.commands.send(command).await.map_err(|_| Stopping)
    }

    /// Lets the driver publish what changed outside of it. If its queue is full it is about to publish anyway.
    fn refresh(&self) {
        let _ = self.inner.commands.try_send(Command::Refresh);
    }
}

impl Inner {
    /// Begins a generation on this node's own head rank.
    pub fn start_local(
        &self,
        deployment: DeploymentId,
        request: GenerationRequest,
    ) -> Result<Generation, engine::GenerationError> {
        let Some(commands) = self.heads.get(deployment) else {
            return Err(engine::GenerationError::ShuttingDown);
        };
        self.generations.start(deployment, commands, request)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum UnpairError {
    #[error(transparent)]
    NotPaired(#[from] NotPaired),
    #[error(transparent)]
    Home(#[from] HomeError),
}

#[derive(Debug, thiserror::Error)]
pub enum RenameError {
    #[error(transparent)]
    Name(#[from] BadNodeName),
    #[error(transparent)]
    Home(#[from] HomeError),
}

impl Hint for UnpairError {
    fn hints(&self) -> domain::Hints {
        match self {
            Self::NotPaired(_) => vec!["list the paired nodes with `macrame nodes`".to_owned()],
            Self::Home(error) => error.hints(),
        }
    }
}

impl Hint for RenameError {
    fn hints(&self) -> domain::Hints {
        match self {
            Self::Name(_) => Vec::new(),
            Self::Home(error) => error.hints(),
        }
    }
}
