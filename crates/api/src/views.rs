//! The node's values as the API shows them. Pure.

use domain::{
    Bytes, Fact, Fetching, LinkFacts, LinkKind, NodeFacts, NodeId, OperatingSystem, Plan, RankPhase, RankStatus,
    RdmaFacts,
};
use node::control::{self, DeploymentStatus as Status, Liveness, View};
use node::{ClusterState, DownloadState, DownloadStatus, PairingStatus};

use crate::wire::{
    ClusterView, DeploymentStatus, DeploymentView, DownloadView, LinkKindView, LinkView, MemoryView, ModelView,
    NodeStatus, NodeView, PairingView, PlanShareView, PlanView, RankView, Severity, SightingView, WarningView,
};

pub fn cluster(state: &ClusterState) -> ClusterView {
    let view = &state.view;
    let mut nodes: Vec<_> = view.nodes.iter().map(|(&id, node)| self::node(view, id, node)).collect();
    nodes.sort_by(|a, b| (!a.is_self, &a.name, &a.id).cmp(&(!b.is_self, &b.name, &b.id)));
    ClusterView {
        self_id: view.me.to_string(),
        nodes,
        links: links(view),
        deployments: view.deployments.values().map(deployment).collect(),
        sightings: state.sightings.iter().map(sighting).collect(),
        pairing: pairing(&state.pairing),
        downloads: state.downloads.iter().map(download).collect(),
        warnings: state.warnings.iter().map(warning).collect(),
    }
}

/// `plan` with what each node could give before it.
pub fn plan(plan: &Plan, view: &View) -> PlanView {
    let topology = view.topology();
    let shares = plan.shares().iter().zip(0..).map(|(share, rank)| {
        let plannable = topology.nodes.get(&share.node).and_then(|node| node.plannable());
        PlanShareView {
            rank,
            node_id: share.node.to_string(),
            node_name: view.name_of(share.node),
            first_layer: share.layers.start().0,
            last_layer: share.layers.end().0 - 1,
            weight_bytes: share.weight_bytes.as_u64(),
            kv_bytes: share.kv_bytes.as_u64(),
            reserved_bytes: share.reserved_bytes().as_u64(),
            plannable_bytes: plannable.unwrap_or_default().as_u64(),
        }
    });
    PlanView {
        model: plan.model().to_string(),
        context_tokens: plan.context().0,
        n_layers: plan.n_layers().0,
        shares: shares.collect(),
    }
}

fn node(view: &View, id: NodeId, node: &control::NodeView) -> NodeView {
    let facts = node.facts.as_ref();
    let known = |text: fn(&NodeFacts) -> Option<String>| facts.and_then(text);
    NodeView {
        id: id.to_string(),
        name: node.name.clone(),
        is_self: id == view.me,
        status: liveness(node.liveness),
        status_text: liveness_text(node),
        version: facts.map(|facts| facts.version.clone()).unwrap_or_default(),
        chip: known(|facts| facts.chip.value().map(|chip| chip.name.clone())),
        os: known(|facts| facts.os.value().map(os)),
        rdma: known(|facts| facts.rdma.value().map(rdma)),
        memory: facts.and_then(|facts| memory(view, id, node, facts)),
        disk_free_bytes: facts.and_then(|facts| facts.disk_free.value()).map(|free| free.as_u64()),
    }
}

const fn liveness(liveness: Liveness) -> NodeStatus {
    match liveness {
        Liveness::Alive => NodeStatus::Alive,
        Liveness::Suspect => NodeStatus::Suspect,
        Liveness::Gone => NodeStatus::Gone,
    }
}

fn liveness_text(node: &control::NodeView) -> String {
    match (node.liveness, node.silent_for) {
        (Liveness::Alive, _) => "alive".to_owned(),
        (Liveness::Suspect | Liveness::Gone, None) => "not seen yet".to_owned(),
        (Liveness::Suspect | Liveness::Gone, Some(silent)) => match silent.as_secs() {
            secs @ 0..120 => format!("not heard of for {secs} s"),
            secs @ 120..7200 => format!("not heard of for {} min", secs / 60),
            secs => format!("not heard of for {} h", secs / 3600),
        },
    }
}

fn memory(view: &View, id: NodeId, node: &control::NodeView, facts: &NodeFacts) -> Option<MemoryView> {
    let memory = facts.memory.value()?;
    let shares = || view.deployments.values().filter_map(|one| one.deployment.plan.share_of(id));
    Some(MemoryView {
        total_bytes: memory.total.as_u64(),
        used_by_others_bytes: memory.used_by_others.as_u64(),
        usable_bytes: memory.usable.as_u64(),
        reserved_bytes: node.reserved.as_u64(),
        weight_bytes: shares().map(|share| share.weight_bytes).sum::<Bytes>().as_u64(),
        kv_bytes: shares().map(|share| share.kv_bytes).sum::<Bytes>().as_u64(),
    })
}

fn os(os: &OperatingSystem) -> String {
    let text = format!("{} {}", os.name, os.version);
    if os.build.is_empty() { text } else { format!("{text} ({})", os.build) }
}

fn rdma(rdma: &RdmaFacts) -> String {
    match rdma {
        RdmaFacts::NoLibrary => "no verbs library".to_owned(),
        RdmaFacts::Devices(devices) if devices.is_empty() => "no device".to_owned(),
        RdmaFacts::Devices(devices) => devices.join(", "),
    }
}

fn links(view: &View) -> Vec<LinkView> {
    let of_node = |(&from, node): (&NodeId, &control::NodeView)| {
        let links = node.facts.iter().flat_map(|facts| &facts.links);
        links.filter(|link| view.nodes.contains_key(&link.to)).map(|facts| link(from, facts)).collect::<Vec<_>>()
    };
    view.nodes.iter().flat_map(of_node).collect()
}

fn link(from: NodeId, link: &LinkFacts) -> LinkView {
    let measured_at = match &link.latency {
        Fact::Known { at, .. } => Some(at.0),
        Fact::Unknown => None,
    };
    LinkView {
        from: from.to_string(),
        to: link.to.to_string(),
        kind: link.kind.value().copied().map(link_kind),
        interface: link.interface.value().cloned(),
        latency_us: link.latency.value().map(|latency| latency.as_secs_f64() * 1e6),
        bandwidth_bytes_per_sec: link.bandwidth.value().map(|rate| rate.as_u64()),
        measured_at_ms: measured_at,
    }
}

const fn link_kind(kind: LinkKind) -> LinkKindView {
    match kind {
        LinkKind::Loopback => LinkKindView::Loopback,
        LinkKind::Wifi => LinkKindView::Wifi,
        LinkKind::Ethernet => LinkKindView::Ethernet,
        LinkKind::Thunderbolt => LinkKindView::Thunderbolt,
        LinkKind::Rdma => LinkKindView::Rdma,
    }
}

fn deployment(view: &control::DeploymentView) -> DeploymentView {
    let plan = &view.deployment.plan;
    let (status, status_text) = deployment_status(&view.status);
    let ranks = plan.shares().iter().zip(0u16..).map(|(share, rank)| {
        let known = view.ranks.get(usize::from(rank)).and_then(Option::as_ref);
        let (status, status_text, fetching) = rank_status(known);
        RankView {
            rank,
            node_id: share.node.to_string(),
            status,
            status_text,
            first_layer: share.layers.start().0,
            last_layer: share.layers.end().0 - 1,
            weight_bytes: share.weight_bytes.as_u64(),
            kv_bytes: share.kv_bytes.as_u64(),
            resident_bytes: known.map_or(0, |known| known.resident_bytes.as_u64()),
            fetched_bytes: fetching.done.as_u64(),
            fetch_total_bytes: fetching.total.as_u64(),
        }
    });
    DeploymentView {
        id: view.deployment.id.to_string(),
        model: plan.model().to_string(),
        owner_id: view.owner.to_string(),
        status,
        status_text,
        context_tokens: plan.context().0,
        n_layers: plan.n_layers().0,
        ranks: ranks.collect(),
    }
}

fn deployment_status(status: &Status) -> (DeploymentStatus, String) {
    match status {
        Status::Reserving => (DeploymentStatus::Fetching, "asking its nodes for memory".to_owned()),
        Status::Fetching(fetching) => (DeploymentStatus::Fetching, fetching_text(*fetching)),
        Status::Loading => (DeploymentStatus::Loading, "loading".to_owned()),
        Status::Connecting => (DeploymentStatus::Connecting, "connecting".to_owned()),
        Status::Serving => (DeploymentStatus::Serving, "serving".to_owned()),
        Status::Failed(why) => (DeploymentStatus::Failed, why.clone()),
    }
}

/// With the bytes it fetches; none once all are there.
fn rank_status(rank: Option<&RankStatus>) -> (DeploymentStatus, String, Fetching) {
    let nothing = Fetching { done: Bytes::ZERO, total: Bytes::ZERO };
    let Some(rank) = rank else { return (DeploymentStatus::Fetching, "not begun".to_owned(), nothing) };
    match &rank.phase {
        RankPhase::Fetching(fetching) => (DeploymentStatus::Fetching, fetching_text(*fetching), *fetching),
        RankPhase::Loading => (DeploymentStatus::Loading, "loading".to_owned(), nothing),
        RankPhase::Connecting => (DeploymentStatus::Connecting, "connecting".to_owned(), nothing),
        RankPhase::Serving => (DeploymentStatus::Serving, "serving".to_owned(), nothing),
        RankPhase::Failed(why) => (DeploymentStatus::Failed, why.clone(), nothing),
    }
}

fn fetching_text(fetching: Fetching) -> String {
    if fetching.total == Bytes::ZERO {
        return "looking for its files".to_owned();
    }
    format!("fetching, {} of {}", fetching.done, fetching.total)
}

fn sighting(sighting: &node::Sighting) -> SightingView {
    SightingView {
        id: sighting.node.to_string(),
        name: sighting.name.clone(),
        version: sighting.version.clone(),
        address: sighting.addrs.first().map(ToString::to_string).unwrap_or_default(),
        obstacle: sighting.joinable.as_ref().err().map(ToString::to_string),
    }
}

pub fn pairing(pairing: &PairingStatus) -> Option<PairingView> {
    match pairing {
        PairingStatus::Showing(code) => Some(pairing_code(code)),
        PairingStatus::Closed | PairingStatus::Locked { .. } => None,
    }
}

pub fn pairing_code(code: &node::PairingCode) -> PairingView {
    PairingView { code: code.code.clone(), expires_at_ms: code.expires_at.0 }
}

fn download(download: &DownloadState) -> DownloadView {
    DownloadView {
        model: download.model.to_string(),
        done_bytes: download.done.as_u64(),
        total_bytes: download.total.as_u64(),
        bytes_per_sec: download.rate.as_u64(),
        error: match &download.status {
            DownloadStatus::Running => None,
            DownloadStatus::Failed { error, hints } => Some(match hints.first() {
                Some(hint) => format!("{error}; {hint}"),
                None => error.clone(),
            }),
        },
    }
}

fn warning(warning: &control::Warning) -> WarningView {
    WarningView {
        code: warning.code.as_str().to_owned(),
        severity: match warning.severity {
            control::Severity::Note => Severity::Note,
            control::Severity::Warning => Severity::Warning,
            control::Severity::Problem => Severity::Problem,
        },
        text: warning.text.clone(),
        fix: warning.fix.clone(),
    }
}

/// Which deployment serves it is not a model's own business.
impl From<node::ModelEntry> for ModelView {
    fn from(model: node::ModelEntry) -> Self {
        let (spec, obstacle) = match model.spec {
            Ok(spec) => (Some(spec), None),
            Err(obstacle) => (None, Some(obstacle)),
        };
        let spec = spec.as_ref();
        Self {
            id: model.id.to_string(),
            architecture: spec.map(|spec| spec.architecture.to_string()),
            quantisation: spec.map(|spec| spec.quantisation.clone()),
            size_bytes: model.size.as_u64(),
            n_layers: spec.map(|spec| spec.n_layers().0),
            context_max: spec.map(|spec| spec.context_max.0),
            source: model.source.to_string(),
            obstacle,
            deployment_id: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use domain::{
        Architecture, BytesPerSec, Deployment, DeploymentId, Epoch, LayerIdx, Memory, ModelSpec, Rank, Timestamp,
        TokenCount,
    };

    use super::*;

    const STUDIO: NodeId = NodeId::from_bytes([1; 32]);
    const MINI: NodeId = NodeId::from_bytes([2; 32]);

    #[test]
    fn this_node_comes_first_and_the_others_by_name() {
        let mut state = state();
        state.view.me = STUDIO;
        let names = |state: &ClusterState| cluster(state).nodes.into_iter().map(|node| node.name).collect::<Vec<_>>();
        assert_eq!(names(&state), ["studio", "mini"]);
        state.view.me = MINI;
        assert_eq!(names(&state), ["mini", "studio"]);
    }

    #[test]
    fn memory_is_what_the_plans_put_there() {
        let view = cluster(&state());
        let memory = view.nodes[0].memory.as_ref().expect("measured");
        assert_eq!((memory.total_bytes, memory.usable_bytes, memory.reserved_bytes), (16 << 30, 12 << 30, 1 << 30));
        // Two layers of 10 bytes and the embedding of 100.
        assert_eq!(memory.weight_bytes, 120);
        assert_eq!(view.nodes[1].memory, None, "nothing is known of it");
        assert_eq!(view.nodes[1].status_text, "not heard of for 4 s");
    }

    #[test]
    fn a_rank_that_was_not_heard_of_is_there_too() {
        let view = cluster(&state());
        let [deployment] = view.deployments.as_slice() else { panic!("one deployment") };
        assert_eq!(
            (deployment.status, deployment.status_text.as_str()),
            (DeploymentStatus::Fetching, "fetching, 1.0 KiB of 4.0 KiB")
        );
        let [head, last] = deployment.ranks.as_slice() else { panic!("two ranks") };
        assert_eq!((head.first_layer, head.last_layer, head.fetched_bytes, head.resident_bytes), (0, 1, 1024, 77));
        assert_eq!((last.first_layer, last.last_layer, last.status_text.as_str()), (2, 3, "not begun"));
    }

    #[test]
    fn links_to_nodes_that_are_not_paired_are_left_out() {
        let mut state = state();
        let facts = state.view.nodes.get_mut(&STUDIO).and_then(|node| node.facts.as_mut()).expect("known");
        facts.links.push(LinkFacts::unmeasured(NodeId::from_bytes([9; 32])));
        facts.links.push(LinkFacts {
            latency: Fact::known(Duration::from_micros(310), Timestamp(7)),
            bandwidth: Fact::known(BytesPerSec::from_gbit(20), Timestamp(8)),
            ..LinkFacts::unmeasured(MINI)
        });
        let view = cluster(&state);
        let [link] = view.links.as_slice() else { panic!("one link") };
        assert_eq!((link.latency_us, link.bandwidth_bytes_per_sec), (Some(310.0), Some(2_500_000_000)));
        assert_eq!((link.measured_at_ms, link.kind), (Some(7), None));
    }

    #[test]
    fn a_plan_shows_what_each_node_could_give() {
        let state = state();
        let shown = plan(&two_ranks(), &state.view);
        let plannable: Vec<_> = shown.shares.iter().map(|share| share.plannable_bytes).collect();
        assert_eq!(plannable, [11 << 30, 0], "usable less reserved; nothing of a node that is silent");
        assert_eq!(shown.shares.iter().map(|share| share.node_name.as_str()).collect::<Vec<_>>(), ["studio", "mini"]);
    }

    #[test]
    fn a_failed_download_says_what_to_do() {
        let failed = DownloadState {
            model: "org/tiny".parse().expect("a model id"),
            done: Bytes::new(1),
            total: Bytes::new(2),
            rate: BytesPerSec::new(3),
            status: DownloadStatus::Failed {
                error: "the disk is full".to_owned(),
                hints: vec!["free some".to_owned()],
            },
        };
        assert_eq!(download(&failed).error.as_deref(), Some("the disk is full; free some"));
    }

    fn state() -> ClusterState {
        let memory =
            Memory { total: Bytes::from_gib(16), used_by_others: Bytes::from_gib(4), usable: Bytes::from_gib(12) };
        let facts = NodeFacts { memory: Fact::known(memory, Timestamp(1)), ..NodeFacts::named("studio") };
        let studio = control::NodeView {
            name: "studio".to_owned(),
            liveness: Liveness::Alive,
            silent_for: Some(Duration::ZERO),
            boot: None,
            facts: Some(facts),
            reserved: Bytes::from_gib(1),
            ranks: Vec::new(),
        };
        let mini = control::NodeView {
            name: "mini".to_owned(),
            liveness: Liveness::Suspect,
            silent_for: Some(Duration::from_millis(4_200)),
            facts: None,
            reserved: Bytes::ZERO,
            ..studio.clone()
        };
        let id = DeploymentId(0x10);
        let fetching = Fetching { done: Bytes::new(1024), total: Bytes::new(4096) };
        let head = RankStatus {
            deployment: id,
            epoch: Epoch(1),
            rank: Rank::HEAD,
            phase: RankPhase::Fetching(fetching),
            data_addrs: Vec::new(),
            resident_bytes: Bytes::new(77),
        };
        let deployment = control::DeploymentView {
            deployment: Deployment { id, epoch: Epoch(1), plan: two_ranks() },
            owner: STUDIO,
            status: Status::Fetching(fetching),
            ranks: vec![Some(head), None],
        };
        let view = View {
            rev: 1,
            me: STUDIO,
            nodes: BTreeMap::from([(STUDIO, studio), (MINI, mini)]),
            deployments: BTreeMap::from([(id, deployment)]),
        };
        ClusterState {
            rev: 1,
            view,
            warnings: Vec::new(),
            sightings: Vec::new(),
            pairing: PairingStatus::Closed,
            downloads: Vec::new(),
        }
    }

    fn two_ranks() -> Plan {
        let spec = ModelSpec {
            id: "org/tiny".parse().expect("a model id"),
            architecture: Architecture::Llama,
            quantisation: "F32".to_owned(),
            layer_bytes: vec![Bytes::new(10); 4],
            embedding_bytes: Bytes::new(100),
            head_bytes: Bytes::new(100),
            tied_embeddings: false,
            hidden_size: 8,
            n_kv_heads: 2,
            head_dim: 4,
            vocab_size: 16,
            context_max: TokenCount(64),
        };
        Plan::from_cuts(&spec, &[STUDIO, MINI], &[LayerIdx(2)], TokenCount(64), 1).expect("two ranks of two layers")
    }
}
