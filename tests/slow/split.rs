//! The main job on real processes: one model, two nodes, an answer.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::served::{mapped_model_bytes, rank_pids, serve};

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_answer_each_mapping_only_its_own_layers() -> Result<()> {
    let served = serve(2, 0)?;
    let answer = served.answer(served.node(0), "Name three primary colours.", 60).await?;
    let lower = answer.to_lowercase();
    ensure!(["red", "blue", "yellow", "green"].iter().any(|colour| lower.contains(colour)), "not sensible: {answer}");

    // The second node's API runs the same generation through the first node's head.
    ensure!(served.answer(served.node(1), "Name three primary colours.", 60).await? == answer, "another answer there");

    let snapshot: Value = serde_json::from_str(&served.get(served.node(0), "/v1/cluster").await?)?;
    let deployment = &snapshot["view"]["deployments"][0];
    let ranks = deployment["ranks"].as_array().context("no ranks")?;
    ensure!(ranks.len() == 2, "{deployment}");
    let layer = |rank: &Value, key: &str| rank[key].as_u64().with_context(|| format!("no `{key}` in {rank}"));
    let n_layers = layer(deployment, "nLayers")?;
    ensure!(layer(&ranks[0], "firstLayer")? == 0 && layer(&ranks[1], "lastLayer")? == n_layers - 1);
    ensure!(layer(&ranks[0], "lastLayer")? + 1 == layer(&ranks[1], "firstLayer")?, "layers missed or doubled");

    let file_bytes = std::fs::metadata(xtask::starter::file()?)?.len();
    for (idx, rank) in ranks.iter().enumerate() {
        let pids = rank_pids(served.node(idx))?;
        ensure!(pids.len() == 1, "node {idx} has ranks {pids:?}");
        let (mapped, weights) = (mapped_model_bytes(pids[0])?, layer(rank, "weightBytes")?);
        // Each run of tensors begins and ends on a page.
        ensure!(mapped > 0 && mapped <= weights + weights / 50 + (1 << 20), "maps {mapped} of {weights} bytes");
        ensure!(mapped < file_bytes * 3 / 4, "maps {mapped} of a file of {file_bytes} bytes");
        let resident = layer(rank, "residentBytes")?;
        ensure!(resident > 0, "no measured memory in {rank}");
    }

    let metrics = served.get(served.node(0), "/metrics").await?;
    for rank in ["0", "1"] {
        let of_rank = |line: &&str| line.contains(&format!("rank=\"{rank}\"")) && line.contains("first_layer=");
        ensure!(metrics.lines().any(|line| of_rank(&line)), "no layers of rank {rank} in:\n{metrics}");
    }
    served.cluster.stop()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_leaves_takes_its_ranks_along() -> Result<()> {
    let mut served = serve(2, 0)?;
    let pids = rank_pids(served.node(1))?;
    ensure!(!pids.is_empty(), "no rank to end");
    served.cluster.node_mut(1).context("two nodes")?.kill();
    // A rank ends with its standard input, within its own limit of two seconds.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let is_left = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    while pids.iter().any(is_left) {
        ensure!(std::time::Instant::now() < deadline, "ranks {pids:?} outlive their node");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Ok(())
}
