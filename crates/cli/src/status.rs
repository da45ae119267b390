//! `macrame status`: the cluster on one screen.

use anyhow::Result;
use api::wire::{ClusterView, DeploymentView, LinkKindView, LinkView, NodeView, Severity};
use domain::{Bytes, BytesPerSec};

use crate::client::Client;
use crate::table::{Align, Table};
use crate::terminal::{self, Format};

/// Characters of a memory bar.
const BAR_CHARS: u64 = 20;

pub async fn status(client: &Client, format: Format) -> Result<()> {
    let snapshot = client.snapshot().await?;
    match format {
        Format::Json => terminal::json(&snapshot),
        Format::People => terminal::write(&rendered(&snapshot.view)),
    }
}

pub fn rendered(view: &ClusterView) -> String {
    let mut screen = rendered_nodes(view);
    if !view.links.is_empty() {
        screen += &format!("\nlinks\n{}", links(view));
    }
    if view.deployments.is_empty() {
        screen += "\nno deployments; `macrame deploy MODEL` makes one\n";
    }
    for deployment in &view.deployments {
        screen += &format!("\n{}", rendered_deployment(view, deployment));
    }
    if !view.sightings.is_empty() {
        screen += "\nin sight, not paired\n";
        for sighting in &view.sightings {
            let obstacle = sighting.obstacle.as_deref().map_or_else(String::new, |why| format!(", {why}"));
            screen += &format!("  {} at {}, version {}{obstacle}\n", sighting.name, sighting.address, sighting.version);
        }
    }
    for download in &view.downloads {
        let state = download
            .error
            .clone()
            .unwrap_or_else(|| format!("{} of {}", Bytes::new(download.done_bytes), Bytes::new(download.total_bytes)));
        screen += &format!("\ndownload of {}: {state}\n", download.model);
    }
    for warning in &view.warnings {
        screen += &format!("\n{}: {}\n  try: {}\n", severity(warning.severity), warning.text, warning.fix);
    }
    screen
}

pub fn rendered_nodes(view: &ClusterView) -> String {
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("state", Align::Left),
        ("memory", Align::Left),
        ("ours", Align::Right),
        ("usable", Align::Right),
        ("total", Align::Right),
        ("chip", Align::Left),
    ]);
    for node in &view.nodes {
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), |bytes| Bytes::new(bytes).to_string());
        let memory = node.memory.as_ref();
        table.row([
            if node.is_self { format!("{} (here)", node.name) } else { node.name.clone() },
            node.status_text.clone(),
            bar(node),
            bytes(memory.map(|memory| memory.reserved_bytes)),
            bytes(memory.map(|memory| memory.usable_bytes)),
            bytes(memory.map(|memory| memory.total_bytes)),
            node.chip.clone().unwrap_or_default(),
        ]);
    }
    table.rendered("")
}

pub fn rendered_deployment(view: &ClusterView, deployment: &DeploymentView) -> String {
    let mut table = Table::new(&[
        ("rank", Align::Right),
        ("node", Align::Left),
        ("layers", Align::Left),
        ("weights", Align::Right),
        ("keys and values", Align::Right),
        ("resident", Align::Right),
        ("state", Align::Left),
    ]);
    for rank in &deployment.ranks {
        table.row([
            rank.rank.to_string(),
            node_name(view, &rank.node_id),
            format!("{}–{}", rank.first_layer, rank.last_layer),
            Bytes::new(rank.weight_bytes).to_string(),
            Bytes::new(rank.kv_bytes).to_string(),
            Bytes::new(rank.resident_bytes).to_string(),
            rank.status_text.clone(),
        ]);
    }
    format!(
        "{}: {}\n  deployment {}, {} layers, context of {} tokens\n{}",
        deployment.model,
        deployment.status_text,
        deployment.id,
        deployment.n_layers,
        deployment.context_tokens,
        table.rendered("  ")
    )
}

fn links(view: &ClusterView) -> String {
    let mut table = Table::new(&[
        ("from", Align::Left),
        ("to", Align::Left),
        ("kind", Align::Left),
        ("round trip", Align::Right),
        ("speed", Align::Right),
    ]);
    for link in &view.links {
        let LinkView { kind, interface, latency_us, bandwidth_bytes_per_sec, .. } = link;
        let by = interface.as_deref().map_or_else(String::new, |interface| format!(" ({interface})"));
        table.row([
            node_name(view, &link.from),
            node_name(view, &link.to),
            kind.map_or_else(|| "unknown".to_owned(), |kind| format!("{}{by}", link_kind(kind))),
            latency_us.map_or_else(|| "?".to_owned(), |us| format!("{:.2} ms", us / 1e3)),
            bandwidth_bytes_per_sec.map_or_else(|| "?".to_owned(), |rate| BytesPerSec::new(rate).to_string()),
        ]);
    }
    table.rendered("  ")
}

/// `█` is ours, `▒` other programs', `·` free.
fn bar(node: &NodeView) -> String {
    let Some(memory) = &node.memory else { return String::new() };
    let chars = |bytes: u64| Bytes::new(bytes).scaled(BAR_CHARS, memory.total_bytes).as_u64().min(BAR_CHARS);
    let ours = chars(memory.reserved_bytes);
    let others = chars(memory.used_by_others_bytes).min(BAR_CHARS - ours);
    let repeat = |text: &str, n: u64| text.repeat(usize::try_from(n).unwrap_or(0));
    repeat("█", ours) + &repeat("▒", others) + &repeat("·", BAR_CHARS - ours - others)
}

fn node_name(view: &ClusterView, id: &str) -> String {
    let known = view.nodes.iter().find(|node| node.id == id);
    known.map_or_else(|| id.chars().take(8).collect(), |node| node.name.clone())
}

const fn link_kind(kind: LinkKindView) -> &'static str {
    match kind {
        LinkKindView::Loopback => "loopback",
        LinkKindView::Wifi => "Wi-Fi",
        LinkKindView::Ethernet => "Ethernet",
        LinkKindView::Thunderbolt => "Thunderbolt",
        LinkKindView::Rdma => "RDMA",
    }
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    }
}

#[cfg(test)]
mod tests {
    use api::wire::{DeploymentStatus, DownloadView, MemoryView, NodeStatus, RankView, SightingView, WarningView};
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_cluster_fits_on_one_screen() {
        let view = ClusterView {
            self_id: "a".repeat(64),
            nodes: vec![
                node('a', "studio", NodeStatus::Alive, "alive"),
                node('b', "mini", NodeStatus::Gone, "not heard of for 2 min"),
            ],
            links: vec![LinkView {
                from: "a".repeat(64),
                to: "b".repeat(64),
                kind: Some(LinkKindView::Thunderbolt),
                interface: Some("en5".to_owned()),
                latency_us: Some(310.0),
                bandwidth_bytes_per_sec: Some(2_500_000_000),
                measured_at_ms: None,
            }],
            deployments: vec![DeploymentView {
                id: "00000000000000ff".to_owned(),
                model: "org/tiny".to_owned(),
                owner_id: "a".repeat(64),
                status: DeploymentStatus::Failed,
                status_text: "rank 1 on mini is gone".to_owned(),
                context_tokens: 4096,
                n_layers: 30,
                ranks: vec![rank(0, 'a', 0, 14, "serving"), rank(1, 'b', 15, 29, "not heard of")],
            }],
            sightings: vec![SightingView {
                id: "c".repeat(64),
                name: "attic".to_owned(),
                version: "0.2.0".to_owned(),
                address: "192.168.1.7:4000".to_owned(),
                obstacle: Some("another version".to_owned()),
            }],
            pairing: None,
            downloads: vec![DownloadView {
                model: "org/big".to_owned(),
                done_bytes: 1 << 30,
                total_bytes: 4 << 30,
                bytes_per_sec: 1,
                error: None,
            }],
            warnings: vec![WarningView {
                code: "node_silent".to_owned(),
                severity: Severity::Problem,
                text: "mini is silent".to_owned(),
                fix: "switch it on".to_owned(),
            }],
        };
        expect![[r#"
            node           state                   memory                   ours    usable     total  chip
            studio (here)  alive                   ██▒▒▒▒▒·············  8.0 GiB  48.0 GiB  64.0 GiB  Apple M3 Ultra
            mini           not heard of for 2 min                              ?         ?         ?  Apple M3 Ultra

            links
              from    to    kind               round trip        speed
              studio  mini  Thunderbolt (en5)     0.31 ms  20.0 Gbit/s

            org/tiny: rank 1 on mini is gone
              deployment 00000000000000ff, 30 layers, context of 4096 tokens
              rank  node    layers   weights  keys and values  resident  state
                 0  studio  0–14    50.0 MiB         10.0 MiB  70.0 MiB  serving
                 1  mini    15–29   50.0 MiB         10.0 MiB  70.0 MiB  not heard of

            in sight, not paired
              attic at 192.168.1.7:4000, version 0.2.0, another version

            download of org/big: 1.0 GiB of 4.0 GiB

            problem: mini is silent
              try: switch it on
        "#]]
        .assert_eq(&rendered(&view));
    }

    fn node(id: char, name: &str, status: NodeStatus, status_text: &str) -> NodeView {
        NodeView {
            id: id.to_string().repeat(64),
            name: name.to_owned(),
            is_self: id == 'a',
            status,
            status_text: status_text.to_owned(),
            version: "0.1.0".to_owned(),
            chip: Some("Apple M3 Ultra".to_owned()),
            os: None,
            rdma: None,
            memory: (status == NodeStatus::Alive).then_some(MemoryView {
                total_bytes: 64 << 30,
                used_by_others_bytes: 16 << 30,
                usable_bytes: 48 << 30,
                reserved_bytes: 8 << 30,
                weight_bytes: 6 << 30,
                kv_bytes: 1 << 30,
            }),
            disk_free_bytes: None,
        }
    }

    fn rank(rank: u16, node: char, first_layer: u32, last_layer: u32, status_text: &str) -> RankView {
        RankView {
            rank,
            node_id: node.to_string().repeat(64),
            status: DeploymentStatus::Serving,
            status_text: status_text.to_owned(),
            first_layer,
            last_layer,
            weight_bytes: 50 << 20,
            kv_bytes: 10 << 20,
            resident_bytes: 70 << 20,
            fetched_bytes: 0,
            fetch_total_bytes: 0,
        }
    }
}
