//! What people call nodes, models and deployments, found in the cluster's view.

use anyhow::Result;
use api::wire::{ClusterView, DeploymentStatus, DeploymentView};

use crate::advice::Advised;

/// Fewer digits of an id are too easily another one's.
const ID_START_MIN: usize = 6;

/// The id of the node with this name, this id, or an id that begins so.
pub fn node_id(view: &ClusterView, wanted: &str) -> Result<String> {
    let nodes = view.nodes.iter().map(|node| (node.id.as_str(), node.name.as_str()));
    one_of("node", nodes.collect(), wanted)
}

/// The same among the nodes in sight that are not paired.
pub fn sighting_id(view: &ClusterView, wanted: &str) -> Result<String> {
    let sightings = view.sightings.iter().map(|sighting| (sighting.id.as_str(), sighting.name.as_str()));
    one_of("unpaired node", sightings.collect(), wanted)
}

/// The only unpaired node in sight.
pub fn only_sighting(view: &ClusterView) -> Result<String> {
    match view.sightings.as_slice() {
        [only] => Ok(only.id.clone()),
        [] => Err(Advised::new(
            "no unpaired node is in sight",
            "see that Macramé runs on the other machine, or give its address with `--address HOST:PORT`",
        )
        .into()),
        several => {
            let names: Vec<_> = several.iter().map(|sighting| sighting.name.as_str()).collect();
            Err(Advised::new(
                format!("{} nodes are in sight: {}", names.len(), names.join(", ")),
                "choose one with `--node`",
            )
            .into())
        }
    }
}

/// The model to ask: the one that is wanted, or the only one that is served.
pub fn served_model(view: &ClusterView, wanted: Option<&str>) -> Result<String> {
    if let Some(wanted) = wanted {
        return Ok(wanted.to_owned());
    }
    let mut served: Vec<_> = view
        .deployments
        .iter()
        .filter(|deployment| deployment.status == DeploymentStatus::Serving)
        .map(|deployment| deployment.model.as_str())
        .collect();
    served.dedup();
    match served.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err(Advised::new("no model is being served", "deploy one with `macrame deploy MODEL`").into()),
        several => Err(Advised::new(format!("{} models are being served", several.len()), {
            format!("name one of {}", several.join(", "))
        })
        .into()),
    }
}

/// The deployment of this model, or with this id.
pub fn deployment<'a>(view: &'a ClusterView, wanted: &str) -> Result<&'a DeploymentView> {
    let matches: Vec<_> =
        view.deployments.iter().filter(|deployment| deployment.id == wanted || deployment.model == wanted).collect();
    match matches.as_slice() {
        [only] => Ok(only),
        [] => {
            let message = format!("there is no deployment of `{wanted}`");
            Err(Advised::new(message, "`macrame status` lists the deployments").into())
        }
        several => {
            let ids: Vec<_> = several.iter().map(|deployment| deployment.id.as_str()).collect();
            let message = format!("`{wanted}` has {} deployments", ids.len());
            Err(Advised::new(message, format!("name one by its id: {}", ids.join(", "))).into())
        }
    }
}

fn one_of(kind: &str, known: Vec<(&str, &str)>, wanted: &str) -> Result<String> {
    let is_meant = |&(id, name): &(&str, &str)| {
        name == wanted || id == wanted || (wanted.len() >= ID_START_MIN && id.starts_with(wanted))
    };
    let matches: Vec<_> = known.iter().copied().filter(is_meant).collect();
    let named = |nodes: &[(&str, &str)]| {
        let names: Vec<_> = nodes.iter().map(|(id, name)| format!("{name} ({})", id.get(..8).unwrap_or(id))).collect();
        names.join(", ")
    };
    match matches.as_slice() {
        [(id, _)] => Ok((*id).to_owned()),
        [] if known.is_empty() => {
            Err(Advised::new(format!("there is no {kind} `{wanted}`"), "there is none at all").into())
        }
        [] => {
            Err(Advised::new(format!("there is no {kind} `{wanted}`"), format!("there are {}", named(&known))).into())
        }
        several => Err(Advised::new(format!("`{wanted}` may be any of {}", named(several)), "use an id").into()),
    }
}
