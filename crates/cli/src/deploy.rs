//! `plan`, `deploy` and `stop`.

use std::time::Duration;

use anyhow::{Result, bail};
use api::wire::{ClusterView, DeployRequest, Deployed, DeploymentStatus, DeploymentView, NodeStatus, PlanView};
use domain::Bytes;
use tokio::time::sleep;

use crate::advice::Advised;
use crate::client::Client;
use crate::flags::{GoalFlags, SpreadFlags};
use crate::names;
use crate::table::{Align, Table};
use crate::terminal::{self, Format};

/// Between two looks at a deployment: quick to a person, nothing to a node on the same machine.
const LOOK_PAUSE: Duration = Duration::from_millis(150);

/// When `deploy` is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All nodes have set the memory aside.
    Accepted,
    Serving,
}

pub async fn plan(client: &Client, goal: &GoalFlags, format: Format) -> Result<()> {
    let plan: PlanView = client.post("/v1/cluster/plan", &request(client, goal).await?).await?;
    match format {
        Format::Json => terminal::json(&plan),
        Format::People => terminal::write(&rendered_plan(&plan)),
    }
}

pub async fn deploy(client: &Client, goal: &GoalFlags, until: Until, format: Format) -> Result<()> {
    let request = request(client, goal).await?;
    terminal::note(&rendered_plan(&client.post("/v1/cluster/plan", &request).await?));
    let deployed: Deployed = client.post("/v1/cluster/deployments", &request).await?;
    match until {
        Until::Accepted => {}
        Until::Serving => wait_until_serving(client, &deployed.id).await?,
    }
    match format {
        Format::Json => terminal::json(&deployed),
        Format::People => terminal::line(&deployed.id),
    }
}

pub async fn stop(client: &Client, what: &str) -> Result<()> {
    let view = client.view().await?;
    let deployment = names::deployment(&view, what)?;
    client.delete(&format!("/v1/cluster/deployments/{}", deployment.id)).await?;
    terminal::line(&format!("stopped `{}` ({})", deployment.model, deployment.id))
}

/// Says each step of the deployment on standard error until it serves.
pub async fn wait_until_serving(client: &Client, id: &str) -> Result<()> {
    let mut said = String::new();
    loop {
        let view = client.view().await?;
        let Some(deployment) = view.deployments.iter().find(|deployment| deployment.id == id) else {
            bail!("the deployment {id} was stopped");
        };
        let now = rendered_progress(&view, deployment);
        if now != said {
            terminal::note(&now);
            said = now;
        }
        match deployment.status {
            DeploymentStatus::Serving => return Ok(()),
            DeploymentStatus::Failed => {
                let message = format!("`{}` could not be deployed: {}", deployment.model, deployment.status_text);
                return Err(
                    Advised::new(message, format!("free its memory with `macrame stop {id}`, then try again")).into()
                );
            }
            DeploymentStatus::Fetching | DeploymentStatus::Loading | DeploymentStatus::Connecting => {}
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// The request, with nodes by their ids.
pub async fn request(client: &Client, goal: &GoalFlags) -> Result<DeployRequest> {
    let SpreadFlags { nodes, spread } = &goal.spread;
    let node_ids = match (nodes.as_slice(), spread) {
        ([], false) => None,
        ([], true) => Some(alive(&client.view().await?)),
        (nodes, _) => {
            let view = client.view().await?;
            Some(nodes.iter().map(|node| names::node_id(&view, node)).collect::<Result<_>>()?)
        }
    };
    Ok(DeployRequest { model: goal.model.clone(), node_ids, context_tokens: goal.context })
}

fn alive(view: &ClusterView) -> Vec<String> {
    let alive = view.nodes.iter().filter(|node| node.status == NodeStatus::Alive);
    alive.map(|node| node.id.clone()).collect()
}

pub fn rendered_plan(plan: &PlanView) -> String {
    let mut table = Table::new(&[
        ("rank", Align::Right),
        ("node", Align::Left),
        ("layers", Align::Left),
        ("weights", Align::Right),
        ("keys and values", Align::Right),
        ("reserved", Align::Right),
        ("of", Align::Right),
    ]);
    for share in &plan.shares {
        table.row([
            share.rank.to_string(),
            share.node_name.clone(),
            format!("{}–{}", share.first_layer, share.last_layer),
            Bytes::new(share.weight_bytes).to_string(),
            Bytes::new(share.kv_bytes).to_string(),
            Bytes::new(share.reserved_bytes).to_string(),
            Bytes::new(share.plannable_bytes).to_string(),
        ]);
    }
    let heading = format!("{}: {} layers, context of {} tokens\n", plan.model, plan.n_layers, plan.context_tokens);
    heading + &table.rendered("  ")
}

fn rendered_progress(view: &ClusterView, deployment: &DeploymentView) -> String {
    let ranks = deployment.ranks.iter().map(|rank| {
        let name = view.nodes.iter().find(|node| node.id == rank.node_id).map_or("?", |node| node.name.as_str());
        format!("{name}: {}", rank.status_text)
    });
    format!("{} — {}", deployment.status_text, ranks.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use api::wire::PlanShareView;
    use expect_test::expect;

    use super::*;

    fn share(rank: u16, node_name: &str, first_layer: u32, last_layer: u32) -> PlanShareView {
        PlanShareView {
            rank,
            node_id: format!("{rank:064x}"),
            node_name: node_name.to_owned(),
            first_layer,
            last_layer,
            weight_bytes: 52 << 20,
            kv_bytes: 45 << 20,
            reserved_bytes: 225 << 20,
            plannable_bytes: 48 << 30,
        }
    }

    #[test]
    fn a_plan_is_a_table_of_shares() {
        let plan = PlanView {
            model: "HuggingFaceTB/SmolLM2-135M-Instruct".to_owned(),
            context_tokens: 4096,
            n_layers: 30,
            shares: vec![share(0, "studio", 0, 19), share(1, "mini", 20, 29)],
        };
        expect![[r"
            HuggingFaceTB/SmolLM2-135M-Instruct: 30 layers, context of 4096 tokens
              rank  node    layers   weights  keys and values   reserved        of
                 0  studio  0–19    52.0 MiB         45.0 MiB  225.0 MiB  48.0 GiB
                 1  mini    20–29   52.0 MiB         45.0 MiB  225.0 MiB  48.0 GiB
        "]]
        .assert_eq(&rendered_plan(&plan));
    }
}
