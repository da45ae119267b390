//! `GET /metrics`: the cluster and its generations in Prometheus' text format.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use node::engine::{Timings, TokenEvent, Usage};

use crate::backend::Generation;
use crate::problem::Problem;
use crate::wire::{ClusterView, DeploymentStatus, NodeStatus};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper ends of the histogram of times to the first token, in seconds: from a short prompt on a fast chip to a long
/// one over Wi-Fi.
const FIRST_TOKEN_SECS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// Counts the generations that pass through this API. Cheap to clone; all clones are one meter.
#[derive(Clone, Default)]
pub struct Meter(Arc<Mutex<Counts>>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Counts {
    finished: u64,
    failed: u64,
    cancelled: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    /// Not cumulative; the last one is for all longer times.
    first_token: [u64; FIRST_TOKEN_SECS.len() + 1],
    first_token_secs: f64,
    decode_secs: f64,
    /// Tokens after each answer's first, which `decode_secs` were spent on.
    decode_tokens: u64,
}

impl Meter {
    /// The same generation, counted when it ends or is dropped.
    pub fn watch(&self, generation: Generation) -> Metered {
        Metered { generation, meter: self.clone(), state: State::Running }
    }

    /// One that failed before it began.
    pub fn count_failed(&self) {
        self.with(|counts| counts.failed += 1);
    }

    fn count_finished(&self, usage: Usage, timings: Timings) {
        self.with(|counts| {
            let secs = timings.first_token.as_secs_f64();
            let bucket = FIRST_TOKEN_SECS.iter().position(|&end| secs <= end).unwrap_or(FIRST_TOKEN_SECS.len());
            counts.finished += 1;
            counts.prompt_tokens += u64::from(usage.prompt_tokens.0);
            counts.completion_tokens += u64::from(usage.completion_tokens.0);
            counts.first_token[bucket] += 1;
            counts.first_token_secs += secs;
            counts.decode_secs += timings.decode.as_secs_f64();
            counts.decode_tokens += u64::from(usage.completion_tokens.0.saturating_sub(1));
        });
    }

    fn with(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The whole page.
    pub fn page(&self, view: &ClusterView) -> String {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut page = Page::default();
        cluster(&mut page, view);
        ranks(&mut page, view);
        generations(&mut page, &counts);
        page.0
    }
}

/// A generation under a [`Meter`].
pub struct Metered {
    generation: Generation,
    meter: Meter,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Counted,
}

impl Stream for Metered {
    type Item = Result<TokenEvent, Problem>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.generation.as_mut().poll_next(context);
        if self.state == State::Running {
            match &polled {
                Poll::Ready(Some(Ok(TokenEvent::Finished { usage, timings, .. }))) => {
                    self.state = State::Counted;
                    self.meter.count_finished(*usage, *timings);
                }
                Poll::Ready(Some(Err(_)) | None) => {
                    self.state = State::Counted;
                    self.meter.count_failed();
                }
                Poll::Pending | Poll::Ready(Some(Ok(TokenEvent::Started { .. } | TokenEvent::Text { .. }))) => {}
            }
        }
        polled
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        if self.state == State::Running {
            self.meter.with(|counts| counts.cancelled += 1);
        }
    }
}

fn cluster(page: &mut Page, view: &ClusterView) {
    page.family("macrame_nodes", "gauge", "Paired nodes, this one included, by whether they are heard of.");
    for (status, word) in [(NodeStatus::Alive, "alive"), (NodeStatus::Suspect, "suspect"), (NodeStatus::Gone, "gone")] {
        let n_nodes = view.nodes.iter().filter(|node| node.status == status).count();
        page.sample("macrame_nodes", &[("status", word)], n_nodes as f64);
    }
    page.family("macrame_node_memory_bytes", "gauge", "Memory of a node by what it is for.");
    for node in &view.nodes {
        let Some(memory) = &node.memory else { continue };
        let kinds = [
            ("total", memory.total_bytes),
            ("used_by_others", memory.used_by_others_bytes),
            ("usable", memory.usable_bytes),
            ("reserved", memory.reserved_bytes),
        ];
        for (kind, bytes) in kinds {
            let labels = [("node", node.id.as_str()), ("name", node.name.as_str()), ("kind", kind)];
            page.sample("macrame_node_memory_bytes", &labels, bytes as f64);
        }
    }
}

/// One gauge for each measure of a rank, all with the same labels.
fn ranks(page: &mut Page, view: &ClusterView) {
    type Measure = fn(&crate::wire::RankView) -> f64;
    let measures: [(&str, &str, Measure); 5] = [
        ("macrame_rank_serving", "1 once the rank serves.", |rank| {
            f64::from(u8::from(rank.status == DeploymentStatus::Serving))
        }),
        ("macrame_rank_layers", "Layers that the rank holds.", |rank| {
            f64::from(rank.last_layer - rank.first_layer + 1)
        }),
        ("macrame_rank_weight_bytes", "Weights that the rank maps.", |rank| rank.weight_bytes as f64),
        ("macrame_rank_kv_bytes", "Keys and values reserved for the rank.", |rank| rank.kv_bytes as f64),
        ("macrame_rank_resident_bytes", "Physical memory of the rank's process, measured.", |rank| {
            rank.resident_bytes as f64
        }),
    ];
    for (name, help, measure) in measures {
        page.family(name, "gauge", help);
        for deployment in &view.deployments {
            for rank in &deployment.ranks {
                let node_name = view.nodes.iter().find(|node| node.id == rank.node_id).map_or("", |node| &node.name);
                let labels = [
                    ("deployment", deployment.id.as_str()),
                    ("model", deployment.model.as_str()),
                    ("rank", &rank.rank.to_string()),
                    ("node", rank.node_id.as_str()),
                    ("name", node_name),
                    ("first_layer", &rank.first_layer.to_string()),
                    ("last_layer", &rank.last_layer.to_string()),
                ];
                page.sample(name, &labels, measure(rank));
            }
        }
    }
}

fn generations(page: &mut Page, counts: &Counts) {
    page.family("macrame_generations_total", "counter", "Generations through this node's API, by how they ended.");
    for (ended, n) in [("finished", counts.finished), ("failed", counts.failed), ("cancelled", counts.cancelled)] {
        page.sample("macrame_generations_total", &[("ended", ended)], n as f64);
    }
    page.family("macrame_tokens_total", "counter", "Tokens of finished generations.");
    page.sample("macrame_tokens_total", &[("kind", "prompt")], counts.prompt_tokens as f64);
    page.sample("macrame_tokens_total", &[("kind", "completion")], counts.completion_tokens as f64);

    let name = "macrame_first_token_seconds";
    page.family(name, "histogram", "Time from a request to its first token.");
    let mut cumulative = 0;
    let ends = FIRST_TOKEN_SECS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
    for (end, n) in ends.zip(counts.first_token) {
        cumulative += n;
        page.sample(&format!("{name}_bucket"), &[("le", &end)], cumulative as f64);
    }
    page.sample(&format!("{name}_sum"), &[], counts.first_token_secs);
    page.sample(&format!("{name}_count"), &[], cumulative as f64);

    page.family("macrame_decode_seconds_total", "counter", "Time from the first to the last token, all answers.");
    page.sample("macrame_decode_seconds_total", &[], counts.decode_secs);
    page.family("macrame_decode_tokens_total", "counter", "Tokens drawn in that time.");
    page.sample("macrame_decode_tokens_total", &[], counts.decode_tokens as f64);
}

/// The exposition text as it grows. Writing to a `String` cannot fail.
#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::TokenCount;
    use futures::{StreamExt as _, stream};
    use node::engine::FinishReason;

    use super::*;

    fn finished() -> TokenEvent {
        TokenEvent::Finished {
            reason: FinishReason::Stop,
            usage: Usage { prompt_tokens: TokenCount(10), completion_tokens: TokenCount(5) },
            timings: Timings {
                first_token: Duration::from_millis(300),
                decode: Duration::from_secs(2),
                ..Timings::default()
            },
        }
    }

    #[tokio::test]
    async fn each_end_is_counted_once() {
        let meter = Meter::default();
        let started = || Ok(TokenEvent::Started { prompt_tokens: TokenCount(10), cached_tokens: TokenCount(0) });
        meter.watch(stream::iter([started(), Ok(finished())]).boxed()).collect::<Vec<_>>().await;
        meter.watch(stream::iter([started(), Err(Problem::internal("x"))]).boxed()).collect::<Vec<_>>().await;
        meter.watch(stream::iter([started()]).boxed()).collect::<Vec<_>>().await;
        drop(meter.watch(stream::iter([started(), started()]).boxed()));
        let counts = meter.0.lock().expect("not poisoned").clone();
        assert_eq!((counts.finished, counts.failed, counts.cancelled), (1, 2, 1));
        assert_eq!((counts.prompt_tokens, counts.completion_tokens, counts.decode_tokens), (10, 5, 4));
    }

    #[test]
    fn the_histogram_is_cumulative_and_labels_are_escaped() {
        let meter = Meter::default();
        let TokenEvent::Finished { usage, timings, .. } = finished() else { unreachable!("built above") };
        meter.count_finished(usage, timings);
        let mut page = Page::default();
        generations(&mut page, &meter.0.lock().expect("not poisoned"));
        page.sample("x", &[("name", "a \"b\"\\\n")], 1.5);
        let line = |start: &str| page.0.lines().find(|line| line.starts_with(start)).map(str::to_owned);
        let bucket = |end: &str| line(&format!("macrame_first_token_seconds_bucket{{le=\"{end}\"}}"));
        assert_eq!(bucket("0.25").as_deref(), Some("macrame_first_token_seconds_bucket{le=\"0.25\"} 0"));
        assert_eq!(bucket("0.5").as_deref(), Some("macrame_first_token_seconds_bucket{le=\"0.5\"} 1"));
        assert_eq!(bucket("+Inf").as_deref(), Some("macrame_first_token_seconds_bucket{le=\"+Inf\"} 1"));
        assert_eq!(line("macrame_first_token_seconds_sum").as_deref(), Some("macrame_first_token_seconds_sum 0.3"));
        assert_eq!(line("x{").as_deref(), Some("x{name=\"a \\\"b\\\"\\\\\\n\"} 1.5"));
    }
}
