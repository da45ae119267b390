//! `macrame nodes`: who is paired with this node.

use anyhow::Result;

use crate::client::Client;
use crate::flags::NodesAction;
use crate::names;
use crate::status::rendered_nodes;
use crate::terminal::{self, Format};

pub async fn nodes(client: &Client, action: Option<NodesAction>, format: Format) -> Result<()> {
    let view = client.view().await?;
    match (action, format) {
        (None, Format::Json) => terminal::json(&view.nodes),
        (None, Format::People) => terminal::write(&rendered_nodes(&view)),
        (Some(NodesAction::Remove { node }), _) => {
            let id = names::node_id(&view, &node)?;
            client.delete(&format!("/v1/cluster/nodes/{id}")).await?;
            terminal::line(&format!("`{node}` is no longer paired with this node"))
        }
    }
}
