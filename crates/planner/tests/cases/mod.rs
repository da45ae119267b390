//! Topologies and models in one line each.

use domain::{
    Architecture, Bytes, Fact, Memory, ModelSpec, NodeFacts, NodeId, Timestamp, TokenCount, Topology, TopologyNode,
};

pub fn node(n: u8) -> NodeId {
    NodeId::from_bytes([n; 32])
}

/// Nodes 1, 2, … by name with what they can give, in MiB; `None` where it is not measured.
pub fn topology(nodes: &[(&str, Option<u64>)]) -> Topology {
    let with_memory = |&(name, mib): &(&str, Option<u64>)| {
        let memory = mib.map_or(Fact::Unknown, |mib| {
            let bytes = Bytes::from_mib(mib);
            Fact::known(Memory { total: bytes * 2, used_by_others: Bytes::ZERO, usable: bytes }, Timestamp(0))
        });
        TopologyNode { facts: NodeFacts { memory, ..NodeFacts::named(name) }, reserved: Bytes::ZERO }
    };
    Topology { nodes: (1..).map(node).zip(nodes.iter().map(with_memory)).collect() }
}

/// Layers, embedding and head in MiB; keys and values take 1 MiB for each layer and 1024 tokens.
pub fn spec(layers_mib: &[u64], embedding_mib: u64, head_mib: u64) -> ModelSpec {
    ModelSpec {
        id: "org/case".parse().expect("a model id"),
        architecture: Architecture::Llama,
        quantisation: "Q8_0".to_owned(),
        layer_bytes: layers_mib.iter().map(|&mib| Bytes::from_mib(mib)).collect(),
        embedding_bytes: Bytes::from_mib(embedding_mib),
        head_bytes: Bytes::from_mib(head_mib),
        tied_embeddings: false,
        hidden_size: 64,
        n_kv_heads: 2,
        head_dim: 64,
        vocab_size: 1000,
        context_max: TokenCount(32_768),
    }
}
