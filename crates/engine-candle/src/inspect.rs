//! A model as the planner sees it, from its file's header.

use std::path::Path;

use domain::{Architecture, Bytes, LayerIdx, ModelId, ModelSpec, TokenCount};

use crate::InspectError;
use crate::gguf::{Header, TensorPlace};
use crate::models::llama;

/// Reads what the planner must know of the model in the GGUF file at `path`. Reads the header only.
///
/// A file that passes has every tensor that the engine will ask for, in the right shape and inside the file.
pub fn inspect(path: &Path, id: ModelId) -> Result<ModelSpec, InspectError> {
    let header = Header::read(path)?;
    let architecture = architecture(&header)?;
    let config = match architecture {
        Architecture::Llama => llama::Config::read(&header)?,
    };
    let layer_bytes = (0..config.n_layers).map(|layer| {
        let names = llama::layer_tensors(LayerIdx(layer));
        names.into_iter().map(|(name, _)| bytes_of(&header, &name)).sum()
    });
    let tied_embeddings = !header.tensors.contains_key(llama::OUTPUT);
    let output = if tied_embeddings { llama::TOKEN_EMBEDDING } else { llama::OUTPUT };
    Ok(ModelSpec {
        id,
        architecture,
        quantisation: quantisation(&header),
        layer_bytes: layer_bytes.collect(),
        embedding_bytes: bytes_of(&header, llama::TOKEN_EMBEDDING),
        head_bytes: bytes_of(&header, llama::OUTPUT_NORM) + bytes_of(&header, output),
        tied_embeddings,
        hidden_size: whole(config.hidden_size),
        n_kv_heads: whole(config.n_kv_heads),
        head_dim: whole(config.head_dim),
        vocab_size: whole(config.vocab_size),
        context_max: TokenCount(whole(config.context_max)),
    })
}

pub(crate) fn architecture(header: &Header) -> Result<Architecture, InspectError> {
    let name = header.text("general.architecture")?;
    name.parse().map_err(|cause| InspectError::Architecture { path: header.path.clone(), cause })
}

fn bytes_of(header: &Header, tensor: &str) -> Bytes {
    header.tensors.get(tensor).map_or(Bytes::ZERO, TensorPlace::bytes)
}

/// The format that most of the weights' bytes are in: what people call the file's quantisation.
fn quantisation(header: &Header) -> String {
    let mut by_format: Vec<(String, Bytes)> = Vec::new();
    for tensor in header.tensors.values().filter(|tensor| tensor.dims.len() > 1) {
        // Candle names the K formats without the underscore that everyone else writes.
        let name = match format!("{:?}", tensor.dtype) {
            name if name.ends_with('K') => name.replace('K', "_K"),
            name => name,
        };
        match by_format.iter_mut().find(|(format, _)| *format == name) {
            Some((_, bytes)) => *bytes += tensor.bytes(),
            None => by_format.push((name, tensor.bytes())),
        }
    }
    by_format.into_iter().max_by_key(|(_, bytes)| *bytes).map_or_else(String::new, |(format, _)| format)
}

/// Shapes were checked against tensors that lie inside the file: they are far below 4 billion.
fn whole(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
