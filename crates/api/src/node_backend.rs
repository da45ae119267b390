//! Puts a node behind the API: its values become views, its errors problems.

use std::net::SocketAddr;

use axum::http::StatusCode;
use domain::{DeploymentId, ModelId, NodeId};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use node::engine::{GenerationError, GenerationRequest};
use node::{ChatsError, DeployError, GenerateError, ModelError, NodeHandle, PairError, RenameError, UnpairError};
use tokio::net::lookup_host;
use tokio_stream::wrappers::WatchStream;

use crate::backend::{Answer, Backend, DeployGoal, Generation, PairTarget};
use crate::problem::Problem;
use crate::views;
use crate::wire::{
    AnswerFacts, Chat, ChatMessageView, ChatRole, ChatSummary, ClusterView, ModelView, Paired, PairingView, PlanView,
    SettingsView,
};

impl Backend for NodeHandle {
    fn view(&self) -> ClusterView {
        views::cluster(&self.state())
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        WatchStream::new(self.watch()).map(|_| ()).boxed()
    }

    fn plan(&self, goal: DeployGoal) -> Answer<PlanView> {
        let node = self.clone();
        async move {
            let plan = NodeHandle::plan(&node, &node_goal(goal)).await.map_err(|error| deploy_problem(&error))?;
            Ok(views::plan(&plan, &node.state().view))
        }
        .boxed()
    }

    fn deploy(&self, goal: DeployGoal) -> Answer<DeploymentId> {
        let node = self.clone();
        async move { NodeHandle::deploy(&node, &node_goal(goal)).await.map_err(|error| deploy_problem(&error)) }.boxed()
    }

    fn stop(&self, deployment: DeploymentId) -> Answer<()> {
        let node = self.clone();
        let stopped = async move { NodeHandle::stop(&node, deployment).await };
        stopped
            .map(|stopped| stopped.map_err(|error| Problem::not_found("deployment_not_found", error.to_string())))
            .boxed()
    }

    fn generate(&self, model: ModelId, request: GenerationRequest) -> Answer<Generation> {
        let node = self.clone();
        async move {
            let generation = NodeHandle::generate(&node, &model, request).await.map_err(|error| match &error {
                GenerateError::NotServed { .. } => Problem::of(StatusCode::NOT_FOUND, error.code(), &error),
                GenerateError::Generation(error) => generation_problem(error),
            })?;
            Ok(generation.map(|event| event.map_err(|error| generation_problem(&error))).boxed())
        }
        .boxed()
    }

    fn open_pairing(&self) -> Result<PairingView, Problem> {
        let code = NodeHandle::open_pairing(self).map_err(|error| pair_problem(&error))?;
        Ok(views::pairing_code(&code))
    }

    fn close_pairing(&self) {
        NodeHandle::close_pairing(self);
    }

    fn pair(&self, target: PairTarget, code: String) -> Answer<Paired> {
        let node = self.clone();
        async move {
            let target = pair_target(&node, target).await?;
            let (id, name) = NodeHandle::pair(&node, &target, &code).await.map_err(|error| pair_problem(&error))?;
            Ok(Paired { node_id: id.to_string(), name })
        }
        .boxed()
    }

    fn unpair(&self, node: NodeId) -> Answer<()> {
        let handle = self.clone();
        async move {
            NodeHandle::unpair(&handle, node).await.map_err(|error| match &error {
                UnpairError::NotPaired(_) => Problem::of(StatusCode::NOT_FOUND, "node_not_found", &error),
                UnpairError::Home(_) => home_problem(&error),
            })
        }
        .boxed()
    }

    fn models(&self) -> Answer<Vec<ModelView>> {
        let models = NodeHandle::models(self).clone();
        async move {
            let models = models.list().await.map_err(|error| model_problem(&error))?;
            Ok(models.into_iter().map(ModelView::from).collect())
        }
        .boxed()
    }

    fn download(&self, model: ModelId) -> Result<(), Problem> {
        let started = NodeHandle::models(self).download(model);
        started.map_err(|error| model_problem(&ModelError::from(error)))
    }

    fn cancel_download(&self, model: &ModelId) -> bool {
        NodeHandle::models(self).cancel_download(model)
    }

    fn chats(&self) -> Answer<Vec<ChatSummary>> {
        let chats = NodeHandle::chats(self).clone();
        async move {
            let list = chats.list().await.map_err(|error| chats_problem(&error))?;
            Ok(list.into_iter().map(chat_summary).collect())
        }
        .boxed()
    }

    fn chat(&self, id: String) -> Answer<Option<Chat>> {
        let chats = NodeHandle::chats(self).clone();
        async move {
            let chat = chats.get(chat_id(&id)?).await.map_err(|error| chats_problem(&error))?;
            Ok(chat.map(chat_view))
        }
        .boxed()
    }

    fn put_chat(&self, chat: Chat) -> Answer<()> {
        let chats = NodeHandle::chats(self).clone();
        async move { chats.put(kept_chat(chat)?).await.map(drop).map_err(|error| chats_problem(&error)) }.boxed()
    }

    fn delete_chat(&self, id: String) -> Answer<bool> {
        let chats = NodeHandle::chats(self).clone();
        async move { chats.delete(chat_id(&id)?).await.map_err(|error| chats_problem(&error)) }.boxed()
    }

    fn restore_chat(&self, id: String) -> Answer<bool> {
        let chats = NodeHandle::chats(self).clone();
        async move { chats.restore(chat_id(&id)?).await.map_err(|error| chats_problem(&error)) }.boxed()
    }

    fn settings(&self) -> SettingsView {
        let config = self.config();
        let state = self.state();
        SettingsView {
            node_name: state.name_of(self.id()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            api_url: String::new(),
            home_folder: config.home.display().to_string(),
            models_folder: config.models_dir.display().to_string(),
            log_folder: config.log_dir().display().to_string(),
            discovery: config.discovery.as_str().to_owned(),
            control_addresses: self.control_addresses().iter().map(SocketAddr::to_string).collect(),
        }
    }

    fn rename(&self, name: String) -> Answer<()> {
        let node = self.clone();
        async move {
            NodeHandle::rename(&node, &name).await.map_err(|error| match &error {
                RenameError::Name(bad) => Problem::bad_request("bad_name", "nodeName", bad.to_string()),
                RenameError::Home(_) => home_problem(&error),
            })
        }
        .boxed()
    }
}

fn node_goal(goal: DeployGoal) -> node::DeployGoal {
    let DeployGoal { model, nodes, context } = goal;
    node::DeployGoal { model, nodes, context }
}

async fn pair_target(node: &NodeHandle, target: PairTarget) -> Result<node::PairTarget, Problem> {
    match target {
        PairTarget::Node(id) => {
            let addrs = node.sighted(id);
            if addrs.is_empty() {
                return Err(Problem::not_found("node_not_in_sight", format!("node `{}` is not in sight", id.short()))
                    .hint("see that Macramé runs on the other machine and both are on one network")
                    .hint("type its address instead; its Settings show it"));
            }
            Ok(node::PairTarget { addrs, node: Some(id) })
        }
        PairTarget::Address(address) => {
            let resolved: BoxFuture<_> = lookup_host(address.clone()).boxed();
            let addrs: Vec<_> = resolved.await.map(Iterator::collect).unwrap_or_default();
            if addrs.is_empty() {
                let message = format!("`{address}` is no address: expected `HOST:PORT`");
                return Err(Problem::bad_request("bad_address", "address", message)
                    .hint("the other machine's Settings show its addresses"));
            }
            Ok(node::PairTarget { addrs, node: None })
        }
    }
}

fn deploy_problem(error: &DeployError) -> Problem {
    let status = match error {
        DeployError::Model(_) => StatusCode::UNPROCESSABLE_ENTITY,
        DeployError::NoPlan(_) | DeployError::Refused(_) => StatusCode::CONFLICT,
        DeployError::Stopping(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Problem::of(status, error.code(), error)
}

fn model_problem(error: &ModelError) -> Problem {
    let status = match error {
        ModelError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        ModelError::Unusable { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        ModelError::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
        ModelError::Cancelled { .. } => StatusCode::CONFLICT,
        ModelError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    };
    Problem::of(status, error.code(), error)
}

/// A lost or broken rank is a bad gateway: this server is well, what is behind it is not.
fn generation_problem(error: &GenerationError) -> Problem {
    let (status, param) = match error {
        GenerationError::BadRequest(bad) => (StatusCode::BAD_REQUEST, Some(bad.field.clone())),
        GenerationError::ContextTooLong { .. } => (StatusCode::BAD_REQUEST, Some("messages".to_owned())),
        GenerationError::QueueFull { .. } => (StatusCode::TOO_MANY_REQUESTS, None),
        GenerationError::RankLost { .. } | GenerationError::Compute { .. } => (StatusCode::BAD_GATEWAY, None),
        GenerationError::Cancelled | GenerationError::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, None),
    };
    Problem { param, ..Problem::of(status, error.code(), error) }
}

fn pair_problem(error: &PairError) -> Problem {
    let (status, code) = match error {
        PairError::BadCode => (StatusCode::BAD_REQUEST, "bad_code"),
        PairError::WrongCode { .. } => (StatusCode::FORBIDDEN, "wrong_code"),
        PairError::Locked { .. } => (StatusCode::TOO_MANY_REQUESTS, "pairing_locked"),
        PairError::NotShowing => (StatusCode::CONFLICT, "no_code_shown"),
        PairError::Busy => (StatusCode::SERVICE_UNAVAILABLE, "pairing_busy"),
        PairError::Unreachable { .. } => (StatusCode::BAD_GATEWAY, "node_unreachable"),
        PairError::Version { .. } => (StatusCode::CONFLICT, "version_mismatch"),
        PairError::OtherNode { .. } => (StatusCode::CONFLICT, "other_node"),
        PairError::Itself { .. } => (StatusCode::CONFLICT, "same_node"),
        PairError::NotProven => (StatusCode::BAD_GATEWAY, "not_proven"),
        PairError::BrokenOff { .. } => (StatusCode::BAD_GATEWAY, "pairing_broke_off"),
        PairError::TooSlow { .. } => (StatusCode::GATEWAY_TIMEOUT, "pairing_too_slow"),
        PairError::NotStored(_) => (StatusCode::INTERNAL_SERVER_ERROR, "home_error"),
    };
    Problem::of(status, code, error)
}

fn chats_problem(error: &ChatsError) -> Problem {
    match error {
        ChatsError::Bad(_) => Problem::of(StatusCode::UNPROCESSABLE_ENTITY, "bad_chat", error),
        ChatsError::Stopping => Problem::of(StatusCode::SERVICE_UNAVAILABLE, "stopping", error),
        ChatsError::DiskFull { .. } => Problem::of(StatusCode::INSUFFICIENT_STORAGE, "disk_full", error),
        ChatsError::Damaged { .. }
        | ChatsError::Newer { .. }
        | ChatsError::Sqlite { .. }
        | ChatsError::Create { .. } => Problem::of(StatusCode::INTERNAL_SERVER_ERROR, "chats_error", error),
    }
}

fn home_problem<E: std::error::Error + domain::Hint>(error: &E) -> Problem {
    Problem::of(StatusCode::INTERNAL_SERVER_ERROR, "home_error", error)
}

fn chat_id(text: &str) -> Result<node::ChatId, Problem> {
    text.parse().map_err(|error: node::BadChatId| Problem::bad_request("bad_id", "id", error.to_string()))
}

fn chat_summary(summary: node::ChatSummary) -> ChatSummary {
    let node::ChatSummary { id, title, updated_at, n_messages } = summary;
    ChatSummary { id: id.to_string(), title, updated_at_ms: updated_at.0, n_messages }
}

fn chat_view(chat: node::Chat) -> Chat {
    let node::Chat { id, title, model, messages, updated_at: _ } = chat;
    let messages = messages.into_iter().map(|message| ChatMessageView {
        role: match message.role {
            node::ChatRole::System => ChatRole::System,
            node::ChatRole::User => ChatRole::User,
            node::ChatRole::Assistant => ChatRole::Assistant,
        },
        text: message.text,
        // Written by another version in another form: the answer is worth showing without it.
        facts: message.facts.and_then(|facts| serde_json::from_value::<AnswerFacts>(facts).ok()),
    });
    Chat { id: id.to_string(), title, model, messages: messages.collect() }
}

/// As the node keeps it, which dates it itself.
fn kept_chat(chat: Chat) -> Result<node::Chat, Problem> {
    let message = |message: ChatMessageView| {
        let facts = message.facts.map(serde_json::to_value).transpose();
        Ok(node::ChatMessage {
            role: match message.role {
                ChatRole::System => node::ChatRole::System,
                ChatRole::User => node::ChatRole::User,
                ChatRole::Assistant => node::ChatRole::Assistant,
            },
            text: message.text,
            facts: facts.map_err(|error| Problem::bad_request("bad_chat", "messages", error.to_string()))?,
        })
    };
    let messages = chat.messages.into_iter().map(message).collect::<Result<_, Problem>>()?;
    let Chat { id, title, model, .. } = chat;
    Ok(node::Chat { id: chat_id(&id)?, title, model, messages, updated_at: domain::Timestamp::default() })
}
