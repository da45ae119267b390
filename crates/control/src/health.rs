//! What a person should know about the cluster, each with its fix. Only what is measured; pure.

use std::time::Duration;

use domain::{LinkFacts, LinkKind, NodeId};

use crate::{DeploymentView, Liveness, View};

/// A hop slower than this is worth a word: every token crosses every hop once, so ten tokens a second lose a
/// twentieth of their speed to it.
const HOP_LATENCY_MAX: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub code: WarningCode,
    pub severity: Severity,
    /// What is the matter, with numbers. No final stop.
    pub text: String,
    /// What to do about it. No final stop.
    pub fix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Note,
    Warning,
    Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WarningCode {
    /// A node that a deployment needs is silent.
    NodeSilent,
    /// A node has promised more memory than it can now give.
    MemoryShort,
    /// Nodes run different versions of Macramé.
    VersionSkew,
    /// Neighbouring ranks talk over a slow link.
    SlowHop,
}

impl WarningCode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeSilent => "node-silent",
            Self::MemoryShort => "memory-short",
            Self::VersionSkew => "version-skew",
            Self::SlowHop => "slow-hop",
        }
    }
}

/// All that is worth saying about `view`, worst first.
pub fn warnings(view: &View) -> Vec<Warning> {
    let mut found = Vec::new();
    for deployment in view.deployments.values() {
        found.extend(silent_nodes(view, deployment));
        found.extend(slow_hops(view, deployment));
    }
    found.extend(memory_short(view));
    found.extend(version_skew(view));
    found.sort_by(|a, b| (b.severity, a.code, &a.text).cmp(&(a.severity, b.code, &b.text)));
    found.dedup();
    found
}

fn silent_nodes(view: &View, deployment: &DeploymentView) -> Vec<Warning> {
    let model = deployment.deployment.plan.model();
    let silent = |node: NodeId| {
        let known = view.nodes.get(&node)?;
        let severity = match known.liveness {
            Liveness::Alive => return None,
            Liveness::Suspect => Severity::Warning,
            Liveness::Gone => Severity::Problem,
        };
        let name = &known.name;
        Some(Warning {
            code: WarningCode::NodeSilent,
            severity,
            text: format!("`{name}` holds layers of `{model}` and does not answer"),
            fix: format!("wake `{name}` or check its network; or stop `{model}` and deploy it without `{name}`"),
        })
    };
    deployment.deployment.plan.shares().iter().filter_map(|share| silent(share.node)).collect()
}

fn slow_hops(view: &View, deployment: &DeploymentView) -> Vec<Warning> {
    let shares = deployment.deployment.plan.shares();
    let hops = shares.windows(2).filter_map(|pair| slow_hop(view, pair[0].node, pair[1].node));
    hops.collect()
}

fn slow_hop(view: &View, from: NodeId, to: NodeId) -> Option<Warning> {
    let link = link(view, from, to).or_else(|| link(view, to, from))?;
    let latency = *link.latency.value()?;
    if latency <= HOP_LATENCY_MAX {
        return None;
    }
    let wireless = match link.kind.value() {
        Some(LinkKind::Wifi) => " over Wi-Fi",
        Some(LinkKind::Loopback | LinkKind::Ethernet | LinkKind::Thunderbolt | LinkKind::Rdma) | None => "",
    };
    let (from, to) = (view.name_of(from), view.name_of(to));
    Some(Warning {
        code: WarningCode::SlowHop,
        severity: Severity::Note,
        text: format!(
            "a round trip between `{from}` and `{to}`{wireless} takes {:.1} ms, and every token makes it",
            latency.as_secs_f64() * 1e3
        ),
        fix: format!("connect `{from}` and `{to}` by a cable"),
    })
}

fn link(view: &View, from: NodeId, to: NodeId) -> Option<&LinkFacts> {
    view.nodes.get(&from)?.facts.as_ref()?.links.iter().find(|link| link.to == to)
}

fn memory_short(view: &View) -> Vec<Warning> {
    let short = view.nodes.values().filter_map(|node| {
        let memory = node.facts.as_ref()?.memory.value()?;
        if node.liveness == Liveness::Gone || node.reserved <= memory.usable {
            return None;
        }
        let (name, missing) = (&node.name, node.reserved - memory.usable);
        Some(Warning {
            code: WarningCode::MemoryShort,
            severity: Severity::Warning,
            text: format!(
                "`{name}` promised {} to deployments and has {} for them; other programs hold {}",
                node.reserved, memory.usable, memory.used_by_others
            ),
            fix: format!("close programs that hold {missing} on `{name}`, or stop a deployment there"),
        })
    });
    short.collect()
}

fn version_skew(view: &View) -> Vec<Warning> {
    let version = |id: &NodeId| Some(view.nodes.get(id)?.facts.as_ref()?.version.as_str());
    let Some(own) = version(&view.me) else { return Vec::new() };
    let own_name = view.name_of(view.me);
    let others = view.nodes.iter().filter(|(_, node)| node.liveness == Liveness::Alive);
    let skewed = others.filter_map(|(id, node)| {
        let theirs = version(id).filter(|theirs| *theirs != own)?;
        let name = &node.name;
        Some(Warning {
            code: WarningCode::VersionSkew,
            severity: Severity::Warning,
            text: format!("`{name}` runs Macramé {theirs}, `{own_name}` runs {own}"),
            fix: format!("install the same version on `{name}` and `{own_name}`"),
        })
    });
    skewed.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use domain::{
        Architecture, Bytes, Deployment, DeploymentId, Epoch, Fact, LayerIdx, Memory, ModelSpec, NodeFacts, Plan,
        Timestamp, TokenCount,
    };

    use super::*;
    use crate::{DeploymentStatus, NodeView};

    const NOW: Timestamp = Timestamp(0);

    fn id(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    fn node(name: &str, version: &str) -> NodeView {
        let memory =
            Memory { total: Bytes::from_gib(16), used_by_others: Bytes::from_gib(4), usable: Bytes::from_gib(8) };
        let facts =
            NodeFacts { version: version.to_owned(), memory: Fact::known(memory, NOW), ..NodeFacts::named(name) };
        NodeView {
            name: name.to_owned(),
            liveness: Liveness::Alive,
            silent_for: None,
            boot: None,
            facts: Some(facts),
            reserved: Bytes::from_gib(6),
            ranks: Vec::new(),
        }
    }

    /// Two nodes with one deployment over both.
    fn home() -> View {
        let spec = ModelSpec {
            id: "org/tiny".parse().expect("a model id"),
            architecture: Architecture::Llama,
            quantisation: "F32".to_owned(),
            layer_bytes: vec![Bytes::new(10); 2],
            embedding_bytes: Bytes::ZERO,
            head_bytes: Bytes::ZERO,
            tied_embeddings: false,
            hidden_size: 8,
            n_kv_heads: 2,
            head_dim: 4,
            vocab_size: 16,
            context_max: TokenCount(64),
        };
        let plan = Plan::from_cuts(&spec, &[id(1), id(2)], &[LayerIdx(1)], TokenCount(64), 1).expect("one cut");
        let deployment = DeploymentView {
            deployment: Deployment { id: DeploymentId(1), epoch: Epoch(1), plan },
            owner: id(1),
            status: DeploymentStatus::Serving,
            ranks: vec![None, None],
        };
        View {
            rev: 1,
            me: id(1),
            nodes: BTreeMap::from([(id(1), node("studio", "0.1.0")), (id(2), node("mini", "0.1.0"))]),
            deployments: BTreeMap::from([(DeploymentId(1), deployment)]),
        }
    }

    fn texts(view: &View) -> Vec<String> {
        warnings(view)
            .into_iter()
            .map(|w| format!("{:?} {}: {} -> {}", w.severity, w.code.as_str(), w.text, w.fix))
            .collect()
    }

    #[test]
    fn a_healthy_home_is_not_talked_about() {
        assert_eq!(texts(&home()), Vec::<String>::new());
    }

    #[test]
    fn each_trouble_is_named_with_its_fix_worst_first() {
        let mut view = home();
        let mini = view.nodes.get_mut(&id(2)).expect("there are two");
        mini.liveness = Liveness::Suspect;
        mini.reserved = Bytes::from_gib(9);
        let studio = view.nodes.get_mut(&id(1)).and_then(|node| node.facts.as_mut()).expect("with facts");
        let latency = Fact::known(Duration::from_millis(12), NOW);
        studio.links =
            vec![LinkFacts { latency, kind: Fact::known(LinkKind::Wifi, NOW), ..LinkFacts::unmeasured(id(2)) }];
        view.nodes.insert(id(3), node("laptop", "0.2.0"));
        assert_eq!(
            texts(&view),
            [
                "Warning node-silent: `mini` holds layers of `org/tiny` and does not answer -> wake `mini` or check its \
                 network; or stop `org/tiny` and deploy it without `mini`",
                "Warning memory-short: `mini` promised 9.0 GiB to deployments and has 8.0 GiB for them; other programs \
                 hold 4.0 GiB -> close programs that hold 1.0 GiB on `mini`, or stop a deployment there",
                "Warning version-skew: `laptop` runs Macramé 0.2.0, `studio` runs 0.1.0 -> install the same version on \
                 `laptop` and `studio`",
                "Note slow-hop: a round trip between `studio` and `mini` over Wi-Fi takes 12.0 ms, and every token makes \
                 it -> connect `studio` and `mini` by a cable",
            ]
        );
    }

    #[test]
    fn a_node_that_is_gone_is_a_problem_only_where_it_is_needed() {
        let mut view = home();
        view.nodes.get_mut(&id(2)).expect("there are two").liveness = Liveness::Gone;
        assert_eq!(warnings(&view)[0].severity, Severity::Problem);
        view.deployments.clear();
        assert_eq!(warnings(&view), []);
    }
}
