//! A backend of the API that follows a script: what a model would answer is decided by the prompt's words.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::wire::{
    Chat, ChatSummary, ClusterView, DeploymentStatus, DeploymentView, MemoryView, ModelView, NodeStatus, NodeView,
    Paired, PairingView, PlanShareView, PlanView, RankView, SettingsView,
};
use api::{Answer, Backend, Bind, DeployGoal, Generation, PairTarget, Problem, Server, Token};
use domain::{DeploymentId, ModelId, NodeId, TokenCount};
use engine::{FinishReason, GenerationError, GenerationRequest, Timings, TokenEvent, TokenLogprob, TokenScore, Usage};
use futures::future::ready;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;

/// The model that is served.
pub const MODEL: &str = "org/scripted";
/// One whose deployment is still loading.
pub const LOADING_MODEL: &str = "org/loading";
pub const NODE: NodeId = NodeId::from_bytes([1; 32]);
pub const OTHER_NODE: NodeId = NodeId::from_bytes([2; 32]);
const DEPLOYMENT: DeploymentId = DeploymentId(0x10);

/// Clones are one backend.
#[derive(Clone)]
pub struct Scripted {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
    n_running: watch::Sender<usize>,
}

struct State {
    view: ClusterView,
    chats: BTreeMap<String, Kept>,
    requests: Vec<GenerationRequest>,
    node_name: String,
}

struct Kept {
    chat: Chat,
    deleted: bool,
}

impl Default for Scripted {
    fn default() -> Self {
        let state =
            State { view: view(), chats: BTreeMap::new(), requests: Vec::new(), node_name: "studio".to_owned() };
        Self { state: Arc::new(Mutex::new(state)), changed: watch::Sender::new(()), n_running: watch::Sender::new(0) }
    }
}

impl Scripted {
    /// On any free port, with a token of its own.
    pub async fn serve(&self, bind: Bind) -> Server {
        Server::start(Arc::new(self.clone()), bind, 0, Token::random()).await.expect("any port will do")
    }

    pub fn change(&self, change: impl FnOnce(&mut ClusterView)) {
        change(&mut self.state().view);
        self.changed.send_replace(());
    }

    /// What has been asked so far.
    pub fn requests(&self) -> Vec<GenerationRequest> {
        self.state().requests.clone()
    }

    /// Generations that have been started and not been dropped.
    pub fn n_running(&self) -> watch::Receiver<usize> {
        self.n_running.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a generation as long as it lives.
struct Running(watch::Sender<usize>);

impl Running {
    fn new(n_running: &watch::Sender<usize>) -> Self {
        n_running.send_modify(|n| *n += 1);
        Self(n_running.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

/// How a script ends.
enum End {
    Finished,
    Failed(Problem),
    /// The stream ends without a word.
    CutOff,
    Never,
}

fn script(request: &GenerationRequest) -> Result<(Vec<TokenEvent>, End), Problem> {
    let prompt = request.messages.last().map(|message| message.content.as_str()).unwrap_or_default();
    let started = TokenEvent::Started { prompt_tokens: TokenCount(9), cached_tokens: TokenCount(0) };
    let text = |text: &str| TokenEvent::Text { text: text.to_owned(), logprobs: logprobs(request, text) };
    let lost = || {
        let error = GenerationError::RankLost {
            rank: domain::Rank(1),
            node: OTHER_NODE,
            name: "mini".to_owned(),
            cause: "the connection was closed".to_owned(),
        };
        Problem::of(502.try_into().expect("a status"), error.code(), &error)
    };
    match prompt {
        "fail at once" => Err(lost()),
        "fail before the first token" => Ok((vec![started], End::Failed(lost()))),
        "fail midway" => Ok((vec![started, text("Red,")], End::Failed(lost()))),
        "be cut off" => Ok((vec![started, text("Red,")], End::CutOff)),
        "never begin" => Ok((vec![started], End::Never)),
        "never end" => Ok((vec![started, text("Red,")], End::Never)),
        _ => Ok((vec![started, text("Red,"), text(" yellow,"), text(" blue.")], End::Finished)),
    }
}

fn logprobs(request: &GenerationRequest, text: &str) -> Vec<TokenLogprob> {
    let Some(n_top) = request.top_logprobs else { return Vec::new() };
    let score = |text: &str, logprob| TokenScore { text: text.to_owned(), bytes: text.into(), logprob };
    let top = [score(text, -0.25), score(" no", -1.5)];
    vec![TokenLogprob { token: score(text, -0.25), top: top.into_iter().take(n_top.into()).collect() }]
}

fn finished() -> TokenEvent {
    TokenEvent::Finished {
        reason: FinishReason::Stop,
        usage: Usage { prompt_tokens: TokenCount(9), completion_tokens: TokenCount(4) },
        timings: Timings {
            queued: Duration::from_millis(10),
            first_token: Duration::from_millis(110),
            decode: Duration::from_millis(150),
        },
    }
}

impl Backend for Scripted {
    fn view(&self) -> ClusterView {
        self.state().view.clone()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let changed = self.changed.subscribe();
        let next = async |mut changed: watch::Receiver<()>| changed.changed().await.ok().map(|()| ((), changed));
        stream::unfold(changed, next).boxed()
    }

    fn plan(&self, goal: DeployGoal) -> Answer<PlanView> {
        let share = PlanShareView {
            rank: 0,
            node_id: NODE.to_string(),
            node_name: "studio".to_owned(),
            first_layer: 0,
            last_layer: 29,
            weight_bytes: 100,
            kv_bytes: 10,
            reserved_bytes: 120,
            plannable_bytes: 1000,
        };
        let context_tokens = goal.context.map_or(4096, |context| context.0);
        let plan = PlanView { model: goal.model.to_string(), context_tokens, n_layers: 30, shares: vec![share] };
        ready(Ok(plan)).boxed()
    }

    fn deploy(&self, goal: DeployGoal) -> Answer<DeploymentId> {
        let id = DeploymentId(0x20);
        self.change(|view| view.deployments.push(deployment(id, goal.model.as_str(), DeploymentStatus::Loading)));
        ready(Ok(id)).boxed()
    }

    fn stop(&self, id: DeploymentId) -> Answer<()> {
        self.change(|view| view.deployments.retain(|deployment| deployment.id != id.to_string()));
        ready(Ok(())).boxed()
    }

    fn generate(&self, _model: ModelId, request: GenerationRequest) -> Answer<Generation> {
        let script = script(&request);
        self.state().requests.push(request);
        let running = Running::new(&self.n_running);
        ready(script.map(|(events, end)| {
            let end = match end {
                End::Finished => stream::iter([Ok(finished())]).boxed(),
                End::Failed(problem) => stream::iter([Err(problem)]).boxed(),
                End::CutOff => stream::empty().boxed(),
                End::Never => stream::pending().boxed(),
            };
            let generation = stream::iter(events).map(Ok).chain(end);
            generation.inspect(move |_| _ = &running).boxed()
        }))
        .boxed()
    }

    fn open_pairing(&self) -> Result<PairingView, Problem> {
        let pairing = PairingView { code: "123456".to_owned(), expires_at_ms: 1_000 };
        self.change(|view| view.pairing = Some(pairing.clone()));
        Ok(pairing)
    }

    fn close_pairing(&self) {
        self.change(|view| view.pairing = None);
    }

    fn pair(&self, target: PairTarget, code: String) -> Answer<Paired> {
        let name = match target {
            PairTarget::Node(_) => "by id",
            PairTarget::Address(_) => "by address",
        };
        ready(match code.as_str() {
            "123456" => Ok(Paired { node_id: OTHER_NODE.to_string(), name: name.to_owned() }),
            _ => Err(Problem::new(403.try_into().expect("a status"), "wrong_code", "wrong code")),
        })
        .boxed()
    }

    fn unpair(&self, node: NodeId) -> Answer<()> {
        self.change(|view| view.nodes.retain(|known| known.id != node.to_string()));
        ready(Ok(())).boxed()
    }

    fn models(&self) -> Answer<Vec<ModelView>> {
        ready(Ok(vec![ModelView {
            id: MODEL.to_owned(),
            architecture: Some("llama".to_owned()),
            quantisation: Some("Q4_1".to_owned()),
            size_bytes: 100,
            n_layers: Some(30),
            context_max: Some(8192),
            source: "Hugging Face cache".to_owned(),
            obstacle: None,
            deployment_id: None,
        }]))
        .boxed()
    }

    fn download(&self, _model: ModelId) -> Result<(), Problem> {
        Ok(())
    }

    fn cancel_download(&self, model: &ModelId) -> bool {
        model.as_str() == MODEL
    }

    fn chats(&self) -> Answer<Vec<ChatSummary>> {
        let state = self.state();
        let kept = state.chats.values().filter(|kept| !kept.deleted);
        let summary = |kept: &Kept| ChatSummary {
            id: kept.chat.id.clone(),
            title: kept.chat.title.clone(),
            updated_at_ms: 1_000,
            n_messages: u32::try_from(kept.chat.messages.len()).expect("few"),
        };
        ready(Ok(kept.map(summary).collect())).boxed()
    }

    fn chat(&self, id: String) -> Answer<Option<Chat>> {
        let kept = self.state().chats.get(&id).filter(|kept| !kept.deleted).map(|kept| kept.chat.clone());
        ready(Ok(kept)).boxed()
    }

    fn put_chat(&self, chat: Chat) -> Answer<()> {
        self.state().chats.insert(chat.id.clone(), Kept { chat, deleted: false });
        ready(Ok(())).boxed()
    }

    fn delete_chat(&self, id: String) -> Answer<bool> {
        let known = self.state().chats.get_mut(&id).map(|kept| kept.deleted = true).is_some();
        ready(Ok(known)).boxed()
    }

    fn restore_chat(&self, id: String) -> Answer<bool> {
        let known = self.state().chats.get_mut(&id).map(|kept| kept.deleted = false).is_some();
        ready(Ok(known)).boxed()
    }

    fn settings(&self) -> SettingsView {
        SettingsView {
            node_name: self.state().node_name.clone(),
            version: "0.1.0".to_owned(),
            api_url: String::new(),
            home_folder: "/home".to_owned(),
            models_folder: "/models".to_owned(),
            log_folder: "/logs".to_owned(),
            discovery: "off".to_owned(),
            control_addresses: vec!["127.0.0.1:4000".to_owned()],
        }
    }

    fn rename(&self, name: String) -> Answer<()> {
        self.state().node_name = name;
        ready(Ok(())).boxed()
    }
}

fn view() -> ClusterView {
    ClusterView {
        self_id: NODE.to_string(),
        nodes: vec![node(NODE, "studio"), node(OTHER_NODE, "mini")],
        links: Vec::new(),
        deployments: vec![
            deployment(DeploymentId(0x08), LOADING_MODEL, DeploymentStatus::Loading),
            deployment(DEPLOYMENT, MODEL, DeploymentStatus::Serving),
        ],
        sightings: Vec::new(),
        pairing: None,
        downloads: Vec::new(),
        warnings: Vec::new(),
    }
}

fn node(id: NodeId, name: &str) -> NodeView {
    NodeView {
        id: id.to_string(),
        name: name.to_owned(),
        is_self: id == NODE,
        status: NodeStatus::Alive,
        status_text: "alive".to_owned(),
        version: "0.1.0".to_owned(),
        chip: None,
        os: None,
        rdma: None,
        memory: Some(MemoryView {
            total_bytes: 16 << 30,
            used_by_others_bytes: 4 << 30,
            usable_bytes: 12 << 30,
            reserved_bytes: 1 << 30,
            weight_bytes: 1 << 29,
            kv_bytes: 1 << 28,
        }),
        disk_free_bytes: None,
    }
}

fn deployment(id: DeploymentId, model: &str, status: DeploymentStatus) -> DeploymentView {
    let rank = |rank, node: NodeId, first_layer, last_layer| RankView {
        rank,
        node_id: node.to_string(),
        status,
        status_text: "as its deployment".to_owned(),
        first_layer,
        last_layer,
        weight_bytes: 50 << 20,
        kv_bytes: 10 << 20,
        resident_bytes: 70 << 20,
        fetched_bytes: 0,
        fetch_total_bytes: 0,
    };
    DeploymentView {
        id: id.to_string(),
        model: model.to_owned(),
        owner_id: NODE.to_string(),
        status,
        status_text: if status == DeploymentStatus::Serving { "serving" } else { "loading" }.to_owned(),
        context_tokens: 4096,
        n_layers: 30,
        ranks: vec![rank(0, NODE, 0, 14), rank(1, OTHER_NODE, 15, 29)],
    }
}
