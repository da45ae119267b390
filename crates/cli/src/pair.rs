//! `macrame pair`: two nodes learn each other's keys by six digits that a person carries.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use api::wire::{ClusterView, PairRequest, Paired, PairingView};
use serde::Serialize;
use tokio::time::sleep;

use crate::advice::Advised;
use crate::client::Client;
use crate::flags::PairFlags;
use crate::names;
use crate::terminal::{self, Format};

/// Between two looks whether someone has typed the code.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// What `--show --json` prints: other programs carry the code then.
#[derive(Serialize)]
struct Shown<'a> {
    code: &'a str,
    expires_at_ms: u64,
    node_id: &'a str,
}

pub async fn pair(client: &Client, flags: PairFlags) -> Result<()> {
    let format = Format::of(flags.json);
    match &flags.code {
        Some(code) => type_code(client, code, &flags, format).await,
        None => show_code(client, &flags, format).await,
    }
}

async fn show_code(client: &Client, flags: &PairFlags, format: Format) -> Result<()> {
    let before = client.view().await?;
    let pairing: PairingView = client.post("/v1/cluster/pairing", &()).await?;
    if format == Format::Json {
        let PairingView { code, expires_at_ms } = &pairing;
        return terminal::json(&Shown { code, expires_at_ms: *expires_at_ms, node_id: &before.self_id });
    }
    terminal::line(&pairing.code)?;
    terminal::note("Type it on the other machine: in its pairing dialog, or `macrame pair --code …`.");
    if flags.no_wait {
        return Ok(());
    }
    wait_for_guest(client, &ids(&before), &pairing).await
}

/// Until someone is paired, or the code is no longer shown.
async fn wait_for_guest(client: &Client, known: &BTreeSet<String>, pairing: &PairingView) -> Result<()> {
    loop {
        let view = client.view().await?;
        if let Some(guest) = view.nodes.iter().find(|node| !known.contains(&node.id)) {
            return terminal::line(&format!("paired with `{}`", guest.name));
        }
        if view.pairing.as_ref().is_none_or(|shown| shown.code != pairing.code) {
            let message = "nobody typed the code while it was good";
            return Err(Advised::new(message, "show a new one with `macrame pair --show`").into());
        }
        sleep(LOOK_PAUSE).await;
    }
}

async fn type_code(client: &Client, code: &str, flags: &PairFlags, format: Format) -> Result<()> {
    let node_id = match (&flags.address, &flags.node) {
        (Some(_), _) => None,
        // Ids are taken as they are: whoever has one need not wait until the node is in sight here.
        (None, Some(node)) if node.parse::<domain::NodeId>().is_ok() => Some(node.clone()),
        (None, Some(node)) => Some(names::sighting_id(&client.view().await?, node)?),
        (None, None) => Some(names::only_sighting(&client.view().await?)?),
    };
    let request = PairRequest { node_id, address: flags.address.clone(), code: code.to_owned() };
    let paired: Paired = client.post("/v1/cluster/pair", &request).await?;
    match format {
        Format::Json => terminal::json(&paired),
        Format::People => terminal::line(&format!("paired with `{}`", paired.name)),
    }
}

fn ids(view: &ClusterView) -> BTreeSet<String> {
    view.nodes.iter().map(|node| node.id.clone()).collect()
}
