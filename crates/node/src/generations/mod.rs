//! Generations that run through the head ranks of this node, and those that run through another node's.
//!
//! One registry joins the two ends: a rank's reports come in by [`Generations::event`] and [`Generations::failed`],
//! the caller reads a [`Generation`]. A generation that ends, in whatever way, ends exactly once.

mod remote;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use domain::{DeploymentId, GenerationId};
use engine::{GenerationError, StageCommand, StageReport, TokenEvent};
use futures::Stream;
use tokio::sync::mpsc;

pub(crate) use remote::{open_remote, serve_remote};

/// Events that may wait for a caller. At 200 tokens a second it is 20 s of a client that reads nothing: then the
/// generation is ended for it, rather than the rank for everyone.
const EVENTS_WAITING_MAX: usize = 4096;

/// Where commands for one rank go. It refuses when the rank is gone or does not read.
pub type CommandSink = Arc<dyn Fn(StageCommand) -> bool + Send + Sync>;

#[derive(Clone, Default)]
pub struct Generations {
    inner: Arc<Mutex<Registry>>,
}

#[derive(Default)]
struct Registry {
    last_id: u64,
    running: BTreeMap<GenerationId, Running>,
}

struct Running {
    deployment: DeploymentId,
    events: mpsc::Sender<Result<TokenEvent, GenerationError>>,
    commands: CommandSink,
}

/// The events of one generation. Its last item is `Finished` or an error, always: a stream that is cut otherwise
/// never looks whole. Dropped before that, the generation is cancelled.
pub struct Generation {
    events: mpsc::Receiver<Result<TokenEvent, GenerationError>>,
    /// Runs when the reader goes away before the last item; taken once that has been read.
    on_drop: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Generations {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands `request` to the head rank behind `commands`.
    pub fn start(
        &self,
        deployment: DeploymentId,
        commands: CommandSink,
        request: engine::GenerationRequest,
    ) -> Result<Generation, GenerationError> {
        request.check().map_err(GenerationError::BadRequest)?;
        let (events, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
        let id = {
            let mut registry = self.registry();
            registry.last_id += 1;
            let id = GenerationId(registry.last_id);
            registry.running.insert(id, Running { deployment, events, commands: commands.clone() });
            id
        };
        if !commands(StageCommand::Generate { id, request: Box::new(request) }) {
            self.failed(id, GenerationError::ShuttingDown);
        }
        let generations = self.clone();
        Ok(Generation { events: receiver, on_drop: Some(Box::new(move || generations.cancel(id))) })
    }

    /// What a head rank told.
    pub fn report(&self, report: StageReport) {
        match report {
            StageReport::Event { id, event } => self.event(id, event),
            StageReport::GenerationFailed { id, error } => self.failed(id, error),
            StageReport::Activity { .. } => {}
        }
    }

    fn event(&self, id: GenerationId, event: TokenEvent) {
        let mut registry = self.registry();
        let Some(running) = registry.running.get(&id) else { return };
        let finished = matches!(event, TokenEvent::Finished { .. });
        match running.events.try_send(Ok(event)) {
            Ok(()) if !finished => {}
            Ok(()) => {
                registry.running.remove(&id);
            }
            // The reader is gone (its drop has cancelled already) or does not read.
            Err(_) => {
                if let Some(running) = registry.running.remove(&id) {
                    drop(registry);
                    (running.commands)(StageCommand::Cancel { id });
                }
            }
        }
    }

    fn failed(&self, id: GenerationId, error: GenerationError) {
        let Some(running) = self.registry().running.remove(&id) else { return };
        // A reader that went away needs no error; one that is too far behind for it sees its stream cut, which is one.
        let _ = running.events.try_send(Err(error));
    }

    /// The rank of `deployment` is no more: everything that ran through it ends with `error`.
    pub fn fail_all(&self, deployment: DeploymentId, error: &GenerationError) {
        let ids: Vec<_> = {
            let registry = self.registry();
            let of_it = registry.running.iter().filter(|(_, running)| running.deployment == deployment);
            of_it.map(|(&id, _)| id).collect()
        };
        for id in ids {
            self.failed(id, error.clone());
        }
    }

    fn cancel(&self, id: GenerationId) {
        let running = self.registry().running.remove(&id);
        if let Some(running) = running {
            (running.commands)(StageCommand::Cancel { id });
        }
    }

    #[cfg(test)]
    fn n_running(&self) -> usize {
        self.registry().running.len()
    }
}

impl Stream for Generation {
    type Item = Result<TokenEvent, GenerationError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = self.events.poll_recv(cx);
        if let Poll::Ready(None | Some(Err(_) | Ok(TokenEvent::Finished { .. }))) = item {
            let cut = self.on_drop.take().is_some() && matches!(item, Poll::Ready(None));
            if cut {
                return Poll::Ready(Some(Err(GenerationError::Cancelled)));
            }
        }
        item
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if let Some(cancel) = self.on_drop.take() {
            cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{FinishReason, GenerationRequest, Timings, Usage};
    use futures::StreamExt;

    fn sink() -> (CommandSink, Arc<Mutex<Vec<StageCommand>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let sink = move |command| {
            kept.lock().expect("not poisoned").push(command);
            true
        };
        (Arc::new(sink), seen)
    }

    fn started(generations: &Generations) -> (Generation, Arc<Mutex<Vec<StageCommand>>>) {
        let (commands, seen) = sink();
        let request = GenerationRequest::greedy("hi");
        let generation = generations.start(DeploymentId(1), commands, request).expect("a good request");
        (generation, seen)
    }

    fn finished() -> TokenEvent {
        let (usage, timings) = (Usage::default(), Timings::default());
        TokenEvent::Finished { reason: FinishReason::Stop, usage, timings }
    }

    #[tokio::test]
    async fn a_generation_is_read_to_its_end_and_not_cancelled() {
        let generations = Generations::default();
        let (mut generation, seen) = started(&generations);
        let id = GenerationId(1);
        generations.report(StageReport::Event { id, event: finished() });
        assert_eq!(generation.next().await, Some(Ok(finished())));
        assert_eq!(generation.next().await, None);
        drop(generation);
        assert_eq!(seen.lock().expect("not poisoned").len(), 1, "the request and no cancel");
        assert_eq!(generations.n_running(), 0);
    }

    #[tokio::test]
    async fn dropping_the_reader_cancels_once() {
        let generations = Generations::default();
        let (generation, seen) = started(&generations);
        drop(generation);
        let commands = seen.lock().expect("not poisoned").clone();
        assert_eq!(commands.last(), Some(&StageCommand::Cancel { id: GenerationId(1) }));
        generations.report(StageReport::Event { id: GenerationId(1), event: finished() });
        assert_eq!(seen.lock().expect("not poisoned").len(), 2);
    }

    #[tokio::test]
    async fn a_lost_rank_ends_each_of_its_generations_with_the_error() {
        let generations = Generations::default();
        let (mut generation, _) = started(&generations);
        generations.fail_all(DeploymentId(2), &GenerationError::ShuttingDown);
        assert_eq!(generations.n_running(), 1, "another deployment's rank");
        generations.fail_all(DeploymentId(1), &GenerationError::ShuttingDown);
        assert_eq!(generation.next().await, Some(Err(GenerationError::ShuttingDown)));
        assert_eq!(generation.next().await, None);
    }

    #[tokio::test]
    async fn a_reader_that_does_not_read_loses_its_generation_not_the_rank() {
        let generations = Generations::default();
        let (mut generation, seen) = started(&generations);
        let text = || TokenEvent::Text { text: "x".to_owned(), logprobs: Vec::new() };
        for _ in 0..=EVENTS_WAITING_MAX {
            generations.report(StageReport::Event { id: GenerationId(1), event: text() });
        }
        assert_eq!(generations.n_running(), 0);
        assert!(matches!(seen.lock().expect("not poisoned").last(), Some(StageCommand::Cancel { .. })));
        for _ in 0..EVENTS_WAITING_MAX {
            assert_eq!(generation.next().await, Some(Ok(text())));
        }
        assert_eq!(generation.next().await, Some(Err(GenerationError::Cancelled)), "cut, and said so");
        assert_eq!(generation.next().await, None);
    }
}
