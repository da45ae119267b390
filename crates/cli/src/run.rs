//! `macrame run`: one command from a model's name to its answer.

use anyhow::Result;
use api::wire::{ClusterView, Deployed, DeploymentStatus, DeploymentView, ModelView};

use crate::advice::Advised;
use crate::answer::{Message, Wishes, ask};
use crate::chat;
use crate::client::Client;
use crate::deploy::{rendered_plan, request, wait_until_serving};
use crate::flags::{GoalFlags, RunFlags};
use crate::status::rendered_deployment;
use crate::terminal;

pub async fn run(client: &Client, flags: RunFlags) -> Result<()> {
    let view = client.view().await?;
    let model = match flags.model.or(flags.model_flag) {
        Some(model) => model,
        None => obvious_model(client, &view).await?,
    };
    let goal = GoalFlags { model: model.clone(), context: None, spread: flags.spread };
    match best_deployment(&view, &model) {
        Some(deployment) => {
            terminal::note(rendered_deployment(&view, deployment).trim_end());
            if deployment.status != DeploymentStatus::Serving {
                wait_until_serving(client, &deployment.id).await?;
            }
        }
        None => {
            let request = request(client, &goal).await?;
            terminal::note(rendered_plan(&client.post("/v1/cluster/plan", &request).await?).trim_end());
            let deployed: Deployed = client.post("/v1/cluster/deployments", &request).await?;
            wait_until_serving(client, &deployed.id).await?;
        }
    }
    let wishes = Wishes { max_tokens: flags.max_tokens, temperature: flags.temperature, seed: flags.seed };
    match flags.prompt {
        Some(prompt) => {
            let speed = ask(client, &model, &[Message::user(&prompt)], wishes, terminal::write).await?;
            terminal::line("")?;
            // After the answer, when each rank has told what it really holds.
            let view = client.view().await?;
            if let Some(deployment) = best_deployment(&view, &model) {
                terminal::note(rendered_deployment(&view, deployment).trim_end());
            }
            terminal::note(&speed.rendered());
            Ok(())
        }
        None => chat::converse(client, &model, wishes).await,
    }
}

/// One that serves or is on its way there, in this order.
fn best_deployment<'a>(view: &'a ClusterView, model: &str) -> Option<&'a DeploymentView> {
    let of_model = || view.deployments.iter().filter(|deployment| deployment.model == model);
    of_model()
        .find(|deployment| deployment.status == DeploymentStatus::Serving)
        .or_else(|| of_model().find(|deployment| deployment.status != DeploymentStatus::Failed))
}

/// What is meant when no model is named: the one being served, else the only one on disk.
async fn obvious_model(client: &Client, view: &ClusterView) -> Result<String> {
    if let Ok(served) = crate::names::served_model(view, None) {
        return Ok(served);
    }
    let models: Vec<ModelView> = client.get("/v1/cluster/models").await?;
    let runnable: Vec<_> = models.iter().filter(|model| model.obstacle.is_none()).map(|model| &model.id).collect();
    match runnable.as_slice() {
        [only] => Ok((*only).clone()),
        [] => Err(Advised::new("there is no model on this machine", "download one with `macrame pull MODEL`").into()),
        several => {
            let names: Vec<_> = several.iter().map(|id| id.as_str()).collect();
            Err(Advised::new("which model is meant?", format!("name one of {}", names.join(", "))).into())
        }
    }
}
