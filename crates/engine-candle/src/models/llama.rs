//! Llama, from "LLaMA: Open and Efficient Foundation Language Models" (Touvron et al., 2023), with the grouped-query
//! attention of Llama 2: also SmolLM2, TinyLlama, Mistral, Llama 3.
//!
//! A row of the hidden state, `[hidden_size]`, is one token. Layer by layer
//!
//! ```text
//! x = x + attention(norm(x))
//! x = x + mlp(norm(x))
//! ```
//!
//! A rank holds a range of layers; the first also the token embedding, the last also the final norm and the output matrix.

use candle_core::{Device, Module, Result, Tensor};
use candle_transformers::quantized_nn::RmsNorm;
use domain::{Bytes, LayerIdx, LayerRange, TokenCount};
use engine::{Compute, ComputeError, Footprint, Input, Logits, Output, Shape, SlotIdx, Step, StepPart};
use rayon::ThreadPool;

use crate::cache::SlotCache;
use crate::gguf::Header;
use crate::kernels::{Heads, Matrix, Rope, Rotations, attend, rows_of};
use crate::weights::Weights;
use crate::{InspectError, LoadError};

pub(crate) const TOKEN_EMBEDDING: &str = "token_embd.weight";
pub(crate) const OUTPUT_NORM: &str = "output_norm.weight";
/// Missing where the embedding serves as the output matrix too.
pub(crate) const OUTPUT: &str = "output.weight";
/// Slows rotation down, pair by pair; Llama 3.1 and later.
const ROPE_FACTORS: &str = "rope_freqs.weight";

/// Shapes and constants of the whole model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    pub n_layers: u32,
    pub hidden_size: usize,
    pub ffn_size: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    pub vocab_size: usize,
    pub context_max: usize,
    rms_eps: f32,
    rope_base: f32,
    /// How much of a head is rotated.
    n_rotated: usize,
    /// What positions are multiplied by: below 1 for contexts longer than trained.
    position_scale: f32,
}

/// One weight's shape, in terms of the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorShape {
    Vector(Dim),
    /// `[n_out, n_in]`.
    Matrix(Dim, Dim),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dim {
    Hidden,
    Ffn,
    /// All heads side by side.
    Queries,
    /// All key (or value) heads side by side.
    Keys,
    Vocab,
}

/// What a layer consists of.
pub(crate) fn layer_tensors(layer: LayerIdx) -> [(String, TensorShape); 9] {
    use Dim::{Ffn, Hidden, Keys, Queries};
    use TensorShape::{Matrix, Vector};
    [
        ("attn_norm", Vector(Hidden)),
        ("attn_q", Matrix(Queries, Hidden)),
        ("attn_k", Matrix(Keys, Hidden)),
        ("attn_v", Matrix(Keys, Hidden)),
        ("attn_output", Matrix(Hidden, Queries)),
        ("ffn_norm", Vector(Hidden)),
        ("ffn_gate", Matrix(Ffn, Hidden)),
        ("ffn_up", Matrix(Ffn, Hidden)),
        ("ffn_down", Matrix(Hidden, Ffn)),
    ]
    .map(|(part, shape)| (layer_tensor(layer, part), shape))
}

fn layer_tensor(layer: LayerIdx, part: &str) -> String {
    format!("blk.{}.{part}.weight", layer.0)
}

impl Config {
    /// Reads the config and holds every tensor of the file to it.
    pub fn read(header: &Header) -> std::result::Result<Self, InspectError> {
        let bad = |key: &str, expected, got: usize| InspectError::BadValue {
            path: header.path.clone(),
            key: format!("llama.{key}"),
            expected,
            got: got.to_string(),
        };
        let unsupported = |feature: String| InspectError::Unsupported { path: header.path.clone(), feature };
        let count = |key: &str| match header.count(&format!("llama.{key}"))? {
            0 => Err(bad(key, "at least 1", 0)),
            count => Ok(count),
        };
        let optional = |key: &str| header.optional_count(&format!("llama.{key}"));

        if optional("expert_count")?.unwrap_or(0) > 0 {
            return Err(unsupported("a mixture of experts".to_owned()));
        }
        if header.optional_count("split.count")?.unwrap_or(1) > 1 {
            return Err(unsupported("its weights in several files".to_owned()));
        }
        let (hidden_size, n_heads) = (count("embedding_length")?, count("attention.head_count")?);
        let n_kv_heads = optional("attention.head_count_kv")?.unwrap_or(n_heads);
        if n_kv_heads == 0 || !n_heads.is_multiple_of(n_kv_heads) {
            return Err(bad("attention.head_count_kv", "a divisor of the number of heads", n_kv_heads));
        }
        let head_dim = optional("attention.key_length")?.unwrap_or(hidden_size / n_heads);
        if head_dim == 0 || optional("attention.value_length")?.is_some_and(|value_dim| value_dim != head_dim) {
            return Err(unsupported("keys and values of different lengths".to_owned()));
        }
        let n_rotated = optional("rope.dimension_count")?.unwrap_or(head_dim);
        if n_rotated == 0 || n_rotated > head_dim || !n_rotated.is_multiple_of(2) {
            return Err(bad("rope.dimension_count", "even and no more than a head has", n_rotated));
        }
        let n_layers = count("block_count")?;
        let float = |key: &str| header.optional_float(&format!("llama.{key}"));
        let config = Self {
            n_layers: u32::try_from(n_layers).map_err(|_| bad("block_count", "below 4 billion", n_layers))?,
            hidden_size,
            ffn_size: count("feed_forward_length")?,
            n_heads,
            n_kv_heads,
            head_dim,
            vocab_size: header.tensors.get(TOKEN_EMBEDDING).map_or(0, |tensor| tensor.dims[0]),
            context_max: count("context_length")?,
            rms_eps: float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5),
            rope_base: float("rope.freq_base")?.unwrap_or(10_000.0),
            n_rotated,
            position_scale: match header.optional_text("llama.rope.scaling.type")? {
                None | Some("none") => 1.0,
                Some("linear") => 1.0 / float("rope.scaling.factor")?.unwrap_or(1.0),
                Some(other) => return Err(unsupported(format!("positions scaled by `{other}`"))),
            },
        };
        config.check_tensors(header)?;
        Ok(config)
    }

    /// Every tensor is there, in its shape, and none is left over: a left-over one would be a part of the model that this
    /// file does not compute.
    fn check_tensors(&self, header: &Header) -> std::result::Result<(), InspectError> {
        use Dim::{Hidden, Vocab};
        use TensorShape::{Matrix, Vector};
        let bad = |tensor: &str, problem: String| InspectError::BadTensor {
            path: header.path.clone(),
            tensor: tensor.to_owned(),
            problem,
        };
        let check = |name: &str, dims: &[usize]| match header.tensors.get(name) {
            None => Err(bad(name, "it is missing".to_owned())),
            Some(tensor) if tensor.dims == dims => Ok(()),
            Some(tensor) => Err(bad(name, format!("its shape is {:?}, expected {dims:?}", tensor.dims))),
        };
        check(TOKEN_EMBEDDING, &self.dims(Matrix(Vocab, Hidden)))?;
        check(OUTPUT_NORM, &self.dims(Vector(Hidden)))?;
        let mut n_known = 2;
        for (optional, dims) in [(OUTPUT, self.dims(Matrix(Vocab, Hidden))), (ROPE_FACTORS, vec![self.n_rotated / 2])] {
            if header.tensors.contains_key(optional) {
                check(optional, &dims)?;
                n_known += 1;
            }
        }
        for layer in (0..self.n_layers).map(LayerIdx) {
            for (name, shape) in layer_tensors(layer) {
                check(&name, &self.dims(shape))?;
                n_known += 1;
            }
        }
        if n_known == header.tensors.len() {
            return Ok(());
        }
        let known = |name: &str| {
            [TOKEN_EMBEDDING, OUTPUT_NORM, OUTPUT, ROPE_FACTORS].contains(&name)
                || (0..self.n_layers).any(|layer| layer_tensors(LayerIdx(layer)).iter().any(|(known, _)| known == name))
        };
        let stranger = header.tensors.keys().find(|name| !known(name)).map_or("", String::as_str);
        Err(bad(stranger, "it is no part of a llama model as this engine runs it".to_owned()))
    }

    fn dims(&self, shape: TensorShape) -> Vec<usize> {
        let size = |dim| match dim {
            Dim::Hidden => self.hidden_size,
            Dim::Ffn => self.ffn_size,
            Dim::Queries => self.n_heads * self.head_dim,
            Dim::Keys => self.n_kv_heads * self.head_dim,
            Dim::Vocab => self.vocab_size,
        };
        match shape {
            TensorShape::Vector(len) => vec![size(len)],
            TensorShape::Matrix(n_out, n_in) => vec![size(n_out), size(n_in)],
        }
    }

    fn heads(&self) -> Heads {
        Heads { n_heads: self.n_heads, n_kv_heads: self.n_kv_heads, head_dim: self.head_dim }
    }
}

/// What the step's rows are to every layer: whose they are and how far they are turned.
struct Rows<'a> {
    parts: &'a [StepPart],
    rotations: Rotations,
}

struct Attention {
    q: Matrix,
    k: Matrix,
    v: Matrix,
    output: Matrix,
    heads: Heads,
    /// By slot.
    cache: Vec<SlotCache>,
}

impl Attention {
    /// `[n_rows, hidden_size]` to the same.
    fn forward(&mut self, x: &Tensor, rows: &Rows<'_>) -> Result<Tensor> {
        let Heads { n_heads, n_kv_heads, head_dim } = self.heads;
        let (q_len, kv_len) = (n_heads * head_dim, n_kv_heads * head_dim);
        let mut q = self.q.forward(x)?.flatten_all()?.to_vec1::<f32>()?; // [n_rows, n_heads * head_dim]
        let mut k = self.k.forward(x)?.flatten_all()?.to_vec1::<f32>()?; // [n_rows, n_kv_heads * head_dim]
        let v = self.v.forward(x)?; // [n_rows, n_kv_heads * head_dim]
        rows.rotations.turn(&mut q, q_len, head_dim);
        rows.rotations.turn(&mut k, kv_len, head_dim);
        let n_rows = x.dim(0)?;
        let mut attended = Vec::with_capacity(n_rows * q_len);
        rows_of(&v, |v| {
            let mut first = 0;
            for part in rows.parts {
                let end = first + part.tokens.len();
                let cache = &mut self.cache[part.slot.idx()];
                let position = part.position as usize;
                cache.truncate(position);
                cache.extend(&k[first * kv_len..end * kv_len], &v[first * kv_len..end * kv_len]);
                let q = &q[first * q_len..end * q_len];
                attended.extend(attend(q, cache.keys(), cache.values(), position, self.heads));
                first = end;
            }
        })?;
        self.output.forward(&Tensor::from_vec(attended, (n_rows, q_len), &Device::Cpu)?)
    }
}

struct Mlp {
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Mlp {
    /// SwiGLU: `[n_rows, hidden_size]` to the same.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let gate = candle_nn::ops::silu(&self.gate.forward(x)?)?; // [n_rows, ffn_size]
        self.down.forward(&(gate * self.up.forward(x)?)?)
    }
}

struct Block {
    attention_norm: RmsNorm,
    attention: Attention,
    mlp_norm: RmsNorm,
    mlp: Mlp,
}

impl Block {
    fn forward(&mut self, x: &Tensor, rows: &Rows<'_>) -> Result<Tensor> {
        let x = (x + self.attention.forward(&self.attention_norm.forward(x)?, rows)?)?;
        &x + self.mlp.forward(&self.mlp_norm.forward(&x)?)?
    }
}

/// The final norm and the output matrix.
struct Head {
    norm: RmsNorm,
    output: Matrix,
}

/// Layers of the model in their order, and the ends that are here.
struct Layers {
    embedding: Option<Matrix>,
    blocks: Vec<Block>,
    head: Option<Head>,
    rope: Rope,
    hidden_size: usize,
}

impl Layers {
    fn run(&mut self, step: &Step, input: Input<'_>) -> Result<Output> {
        let (n_rows, hidden_size) = (step.n_rows(), self.hidden_size);
        let tokens: Vec<u32> = step.parts.iter().flat_map(|part| part.tokens.iter().copied()).collect();
        let mut x = match (input, &self.embedding) {
            (Input::Tokens, Some(embedding)) => embedding.rows(tokens.into_iter())?,
            (Input::Hidden(hidden), None) => Tensor::from_slice(hidden, (n_rows, hidden_size), &Device::Cpu)?,
            (Input::Tokens, None) => candle_core::bail!("a rank without the embedding was given tokens"),
            (Input::Hidden(_), Some(_)) => candle_core::bail!("the first rank was given a hidden state"),
        };
        let positions = step.parts.iter().flat_map(|part| (part.position..).take(part.tokens.len()));
        let rows = Rows { parts: &step.parts, rotations: self.rope.at(positions) };
        for block in &mut self.blocks {
            x = block.forward(&x, &rows)?;
        }
        match &self.head {
            None => Ok(Output::Hidden(x.flatten_all()?.to_vec1()?)),
            Some(_) if step.n_logits() == 0 => Ok(Output::Logits(Vec::new())),
            Some(head) => {
                let x = x.index_select(&Tensor::new(rows_with_logits(step), &Device::Cpu)?, 0)?; // [n_logits, hidden_size]
                let logits = head.output.forward(&head.norm.forward(&x)?)?; // [n_logits, vocab_size]
                Ok(Output::Logits(logits.flatten_all()?.to_vec1()?))
            }
        }
    }

    fn n_held(&self, slot: SlotIdx) -> usize {
        self.blocks[0].attention.cache[slot.idx()].n_held()
    }
}

/// A rank's part of the model, and the threads that compute it.
pub(crate) struct Model {
    layers: Layers,
    shape: Shape,
    footprint: Footprint,
    threads: ThreadPool,
}

impl Model {
    pub fn load(
        header: &Header,
        config: Config,
        layers: LayerRange,
        context: TokenCount,
        n_slots: usize,
        threads: ThreadPool,
    ) -> std::result::Result<Self, LoadError> {
        let (is_first, is_last) = (layers.start().0 == 0, layers.end().0 == config.n_layers);
        let output = if header.tensors.contains_key(OUTPUT) { OUTPUT } else { TOKEN_EMBEDDING };
        let mut names = vec![ROPE_FACTORS.to_owned()];
        names.extend(is_first.then(|| TOKEN_EMBEDDING.to_owned()));
        names.extend(layers.iter().flat_map(layer_tensors).map(|(name, _)| name));
        names.extend(is_last.then_some([OUTPUT_NORM, output]).into_iter().flatten().map(str::to_owned));
        let mut weights = Weights::map(header, names)?;

        let rope_factors = match header.tensors.contains_key(ROPE_FACTORS) {
            true => Some(weights.vector(ROPE_FACTORS)?.dequantize(&Device::Cpu)?.to_vec1::<f32>()?),
            false => None,
        };
        let rope = Rope::new(config.rope_base, config.n_rotated, config.position_scale, rope_factors.as_deref());
        let embedding = is_first.then(|| weights.matrix(TOKEN_EMBEDDING)).transpose()?;
        let blocks = layers.iter().map(|layer| block(&mut weights, &config, layer, context, n_slots));
        let blocks = blocks.collect::<std::result::Result<_, _>>()?;
        let head = match is_last {
            true => Some(Head { norm: norm(&mut weights, OUTPUT_NORM, &config)?, output: weights.matrix(output)? }),
            false => None,
        };
        let mut mapped_bytes = weights.mapped_bytes;
        if let (true, true, Some(shared)) = (is_first, is_last && output == TOKEN_EMBEDDING, header.tensors.get(output))
        {
            // Used twice, mapped once.
            mapped_bytes = mapped_bytes - shared.bytes();
        }
        let kv_row_bytes = Bytes::new(8 * (config.n_kv_heads * config.head_dim) as u64);
        let footprint = Footprint {
            mapped_bytes,
            copied_bytes: weights.copied_bytes,
            kv_bytes: kv_row_bytes * u64::from(context.0) * u64::from(layers.count()) * n_slots as u64,
        };
        let shape = Shape { hidden_size: config.hidden_size, vocab_size: config.vocab_size, n_slots, context };
        let layers = Layers { embedding, blocks, head, rope, hidden_size: config.hidden_size };
        Ok(Self { layers, shape, footprint, threads })
    }
}

impl Compute for Model {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn footprint(&self) -> Footprint {
        self.footprint
    }

    fn forward(&mut self, step: &Step, input: Input<'_>) -> std::result::Result<Output, ComputeError> {
        step.check(self.shape, input, |slot| self.layers.n_held(slot))?;
        // Inside the pool every product finds its threads awake.
        let (threads, layers) = (&self.threads, &mut self.layers);
        threads.install(|| layers.run(step, input)).map_err(|error| ComputeError::Backend(Box::new(error)))
    }
}

/// The row of the last token of each part that wants scores.
fn rows_with_logits(step: &Step) -> Vec<u32> {
    let mut n_rows = 0;
    let mut rows = Vec::with_capacity(step.n_logits());
    for part in &step.parts {
        n_rows += part.tokens.len();
        match part.logits {
            Logits::OfLastToken => rows.push(u32::try_from(n_rows - 1).unwrap_or(u32::MAX)),
            Logits::None => {}
        }
    }
    rows
}

fn block(
    weights: &mut Weights<'_>,
    config: &Config,
    layer: LayerIdx,
    context: TokenCount,
    n_slots: usize,
) -> std::result::Result<Block, LoadError> {
    let kv_len = config.n_kv_heads * config.head_dim;
    let mut matrix = |part: &str| weights.matrix(&layer_tensor(layer, part));
    let attention = Attention {
        q: matrix("attn_q")?,
        k: matrix("attn_k")?,
        v: matrix("attn_v")?,
        output: matrix("attn_output")?,
        heads: config.heads(),
        cache: (0..n_slots)
            .map(|_| SlotCache::new(context.0 as usize, kv_len))
            .collect::<std::result::Result<_, _>>()?,
    };
    let mlp = Mlp { gate: matrix("ffn_gate")?, up: matrix("ffn_up")?, down: matrix("ffn_down")? };
    Ok(Block {
        attention_norm: norm(weights, &layer_tensor(layer, "attn_norm"), config)?,
        attention,
        mlp_norm: norm(weights, &layer_tensor(layer, "ffn_norm"), config)?,
        mlp,
    })
}

fn norm(weights: &mut Weights<'_>, name: &str, config: &Config) -> std::result::Result<RmsNorm, LoadError> {
    Ok(RmsNorm::from_qtensor(weights.vector(name)?, f64::from(config.rms_eps))?)
}
