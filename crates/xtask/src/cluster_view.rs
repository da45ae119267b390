//! Reads what `macrame status --json` prints: only what a local cluster must wait for.

use anyhow::{Context, Result};
use serde_json::Value;

/// One node's view of the cluster.
pub struct ClusterView(Value);

impl ClusterView {
    pub fn parse(json: &str) -> Result<Self> {
        let mut value: Value = serde_json::from_str(json).with_context(|| format!("not JSON: `{json}`"))?;
        // A snapshot holds the view beside its revision.
        Ok(Self(value.get_mut("view").map(Value::take).unwrap_or(value)))
    }

    pub fn self_id(&self) -> Result<&str> {
        self.0["selfId"].as_str().context("the status has no `selfId`")
    }

    /// Whether this node is paired with that one, alive or not.
    pub fn knows(&self, id: &str) -> bool {
        self.list("nodes").iter().any(|node| node["id"] == id)
    }

    /// Whether that node is alive and has said how much memory it has.
    pub fn can_plan_with(&self, id: &str) -> bool {
        self.list("nodes").iter().any(|node| node["id"] == id && node["status"] == "alive" && !node["memory"].is_null())
    }

    /// Whether that node is seen on the network without being paired.
    pub fn sights(&self, id: &str) -> bool {
        self.list("sightings").iter().any(|sighting| sighting["id"] == id)
    }

    /// Whether the model is served, by ranks on that many nodes.
    pub fn serves(&self, model: &str, n_ranks: usize) -> bool {
        self.list("deployments").iter().any(|deployment| {
            deployment["model"] == model
                && deployment["status"] == "serving"
                && deployment["ranks"].as_array().is_some_and(|ranks| ranks.len() == n_ranks)
        })
    }

    /// One line: who is seen, and how. For an error that says what a wait ended with.
    pub fn summary(&self) -> String {
        let name = |value: &Value, key: &str| value[key].as_str().unwrap_or("?").to_owned();
        let nodes = self.list("nodes").iter().map(|node| format!("{} {}", name(node, "name"), name(node, "status")));
        let sightings = self.list("sightings").iter().map(|node| format!("{} unpaired", name(node, "name")));
        let deployments =
            self.list("deployments").iter().map(|d| format!("{} {}", name(d, "model"), name(d, "statusText")));
        nodes.chain(sightings).chain(deployments).collect::<Vec<_>>().join(", ")
    }

    fn list(&self, key: &str) -> &[Value] {
        self.0[key].as_array().map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = r#"{ "rev": 3, "view": { "selfId": "aa",
        "nodes": [{ "id": "aa", "name": "studio", "status": "alive", "memory": { "totalBytes": 1 } },
                  { "id": "bb", "name": "mini", "status": "suspect", "memory": null }],
        "sightings": [{ "id": "cc", "name": "attic" }],
        "deployments": [{ "model": "m", "status": "serving", "statusText": "serving", "ranks": [{}, {}] }] } }"#;

    #[test]
    fn the_view_tells_known_from_sighted_and_alive_from_not() {
        let view = ClusterView::parse(STATUS).unwrap();
        assert_eq!(view.self_id().unwrap(), "aa");
        assert!(view.knows("bb") && !view.knows("cc"));
        assert!(view.sights("cc") && !view.sights("bb"));
        assert!(view.can_plan_with("aa") && !view.can_plan_with("bb"));
        assert!(view.serves("m", 2) && !view.serves("m", 1) && !view.serves("n", 2));
        assert_eq!(view.summary(), "studio alive, mini suspect, attic unpaired, m serving");
    }

    #[test]
    fn a_bare_view_is_read_too_and_nonsense_is_not() {
        assert_eq!(ClusterView::parse(r#"{ "selfId": "aa" }"#).unwrap().self_id().unwrap(), "aa");
        assert!(ClusterView::parse("oops").is_err());
    }
}
