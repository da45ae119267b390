//! What turns one view of the cluster into the next. Pure.

use crate::wire::{ClusterChange, ClusterView};

/// The changes that make `after` out of `before`, for a client that applies them in order: a node or deployment takes
/// its old place or the end, and nodes are then ordered as [`ClusterView::nodes`] says.
pub fn diff(before: &ClusterView, after: &ClusterView) -> Vec<ClusterChange> {
    let mut changes = Vec::new();
    for gone in before.nodes.iter().filter(|old| !after.nodes.iter().any(|new| new.id == old.id)) {
        changes.push(ClusterChange::NodeGone { id: gone.id.clone() });
    }
    for node in after.nodes.iter().filter(|new| !before.nodes.contains(new)) {
        changes.push(ClusterChange::Node { node: node.clone() });
    }
    if before.links != after.links {
        changes.push(ClusterChange::Links { links: after.links.clone() });
    }
    deployments(before, after, &mut changes);
    if before.sightings != after.sightings {
        changes.push(ClusterChange::Sightings { sightings: after.sightings.clone() });
    }
    if before.pairing != after.pairing {
        changes.push(ClusterChange::Pairing { pairing: after.pairing.clone() });
    }
    if before.downloads != after.downloads {
        changes.push(ClusterChange::Downloads { downloads: after.downloads.clone() });
    }
    if before.warnings != after.warnings {
        changes.push(ClusterChange::Warnings { warnings: after.warnings.clone() });
    }
    changes
}

/// Deployments are ordered by id, so a new one may belong before an old one: then the old ones that come after it
/// are sent as gone and new again.
fn deployments(before: &ClusterView, after: &ClusterView, changes: &mut Vec<ClusterChange>) {
    let is_after = |id: &String| after.deployments.iter().any(|new| new.id == *id);
    let kept: Vec<_> = before.deployments.iter().map(|old| &old.id).filter(|id| is_after(id)).collect();
    let new_ones_are_last = kept.iter().copied().eq(after.deployments.iter().take(kept.len()).map(|new| &new.id));
    let in_place: Vec<_> = if new_ones_are_last {
        kept
    } else {
        let both = before.deployments.iter().zip(&after.deployments);
        both.take_while(|(old, new)| old.id == new.id).map(|(old, _)| &old.id).collect()
    };
    for old in before.deployments.iter().filter(|old| !in_place.contains(&&old.id)) {
        changes.push(ClusterChange::DeploymentGone { id: old.id.clone() });
    }
    for new in &after.deployments {
        if !(in_place.contains(&&new.id) && before.deployments.contains(new)) {
            changes.push(ClusterChange::Deployment { deployment: new.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{
        DeploymentStatus, DeploymentView, DownloadView, LinkView, NodeStatus, NodeView, PairingView, Severity,
        SightingView, WarningView,
    };

    proptest! {
        #[test]
        fn the_changes_make_the_next_view(before in view(), after in view()) {
            prop_assert_eq!(diff(&before, &after).iter().fold(before, apply), after);
        }

        #[test]
        fn the_same_view_is_no_change(view in view()) {
            prop_assert_eq!(diff(&view, &view), Vec::new());
        }
    }

    #[test]
    fn one_new_deployment_is_one_change() {
        let deployed = |ids: &[u8]| ClusterView {
            deployments: ids.iter().map(|&id| deployment(id, DeploymentStatus::Serving)).collect(),
            ..empty()
        };
        assert_eq!(diff(&deployed(&[1, 2]), &deployed(&[1, 2, 3])).len(), 1);
        assert_eq!(diff(&deployed(&[1, 2, 3]), &deployed(&[1, 3])).len(), 1);
        assert_eq!(diff(&deployed(&[2]), &deployed(&[1, 2])).len(), 3, "2 goes, 1 comes, 2 comes after it");
    }

    /// As the UI's `apply` in `ui/src/state/cluster.ts`.
    fn apply(mut view: ClusterView, change: &ClusterChange) -> ClusterView {
        match change.clone() {
            ClusterChange::Node { node } => {
                put(&mut view.nodes, node, |node| &node.id);
                view.nodes.sort_by(|a, b| (!a.is_self, &a.name).cmp(&(!b.is_self, &b.name)));
            }
            ClusterChange::NodeGone { id } => view.nodes.retain(|node| node.id != id),
            ClusterChange::Links { links } => view.links = links,
            ClusterChange::Deployment { deployment } => put(&mut view.deployments, deployment, |it| &it.id),
            ClusterChange::DeploymentGone { id } => view.deployments.retain(|deployment| deployment.id != id),
            ClusterChange::Sightings { sightings } => view.sightings = sightings,
            ClusterChange::Pairing { pairing } => view.pairing = pairing,
            ClusterChange::Downloads { downloads } => view.downloads = downloads,
            ClusterChange::Warnings { warnings } => view.warnings = warnings,
        }
        view
    }

    fn put<T>(items: &mut Vec<T>, item: T, id: impl Fn(&T) -> &String) {
        match items.iter().position(|old| id(old) == id(&item)) {
            Some(idx) => items[idx] = item,
            None => items.push(item),
        }
    }

    fn view() -> impl Strategy<Value = ClusterView> {
        let nodes = prop::collection::btree_map(1u8..6, node_status(), 0..5);
        let deployments = prop::collection::btree_map(0u8..6, deployment_status(), 0..5);
        let lists = (0u8..3, 0u8..3, prop::option::of(0u64..3), 0u8..3, 0u8..3);
        (node_status(), nodes, deployments, lists).prop_map(|(own, others, deployments, lists)| {
            let (n_links, n_sightings, pairing, n_downloads, n_warnings) = lists;
            let others = others.into_iter().map(|(id, status)| node(id, status));
            ClusterView {
                nodes: std::iter::once(node(0, own)).chain(others).collect(),
                deployments: deployments.into_iter().map(|(id, status)| deployment(id, status)).collect(),
                links: (0..n_links).map(link).collect(),
                sightings: (0..n_sightings).map(sighting).collect(),
                pairing: pairing.map(|expires_at_ms| PairingView { code: "123456".to_owned(), expires_at_ms }),
                downloads: (0..n_downloads).map(download).collect(),
                warnings: (0..n_warnings).map(warning).collect(),
                ..empty()
            }
        })
    }

    fn node_status() -> impl Strategy<Value = NodeStatus> {
        prop_oneof![Just(NodeStatus::Alive), Just(NodeStatus::Suspect), Just(NodeStatus::Gone)]
    }

    fn deployment_status() -> impl Strategy<Value = DeploymentStatus> {
        prop_oneof![Just(DeploymentStatus::Loading), Just(DeploymentStatus::Serving)]
    }

    fn empty() -> ClusterView {
        ClusterView {
            self_id: "0".to_owned(),
            nodes: Vec::new(),
            links: Vec::new(),
            deployments: Vec::new(),
            sightings: Vec::new(),
            pairing: None,
            downloads: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn node(id: u8, status: NodeStatus) -> NodeView {
        NodeView {
            id: id.to_string(),
            name: format!("node-{id}"),
            is_self: id == 0,
            status,
            status_text: String::new(),
            version: String::new(),
            chip: None,
            os: None,
            rdma: None,
            memory: None,
            disk_free_bytes: None,
        }
    }

    fn deployment(id: u8, status: DeploymentStatus) -> DeploymentView {
        DeploymentView {
            id: id.to_string(),
            model: "org/tiny".to_owned(),
            owner_id: "0".to_owned(),
            status,
            status_text: String::new(),
            context_tokens: 64,
            n_layers: 4,
            ranks: Vec::new(),
        }
    }

    fn link(to: u8) -> LinkView {
        LinkView {
            from: "0".to_owned(),
            to: to.to_string(),
            kind: None,
            interface: None,
            latency_us: None,
            bandwidth_bytes_per_sec: None,
            measured_at_ms: None,
        }
    }

    fn sighting(id: u8) -> SightingView {
        let text = || id.to_string();
        SightingView { id: text(), name: text(), version: text(), address: text(), obstacle: None }
    }

    fn download(id: u8) -> DownloadView {
        DownloadView { model: id.to_string(), done_bytes: 0, total_bytes: 1, bytes_per_sec: 0, error: None }
    }

    fn warning(id: u8) -> WarningView {
        let text = || id.to_string();
        WarningView { code: text(), severity: Severity::Note, text: text(), fix: text() }
    }
}
