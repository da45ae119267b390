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
