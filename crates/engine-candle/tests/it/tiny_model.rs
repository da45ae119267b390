//! Writes small llama models with random weights and a byte-level vocabulary.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use domain::{LayerCount, LayerRange, Rank, Shard, TokenCount};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const CONTEXT: u32 = 64;
/// The smallest size that every format's blocks divide.
pub const HIDDEN: usize = 256;
const FFN: usize = 256;
pub const N_HEADS: usize = 4;
const N_KV_HEADS: usize = 2;
const HEAD_DIM: usize = HIDDEN / N_HEADS;
pub const VOCAB: usize = 264;
/// `<|im_start|>` and `<|im_end|>`; before them all bytes and two merged words, after them a whole word.
pub const IM_START: u32 = 258;
pub const IM_END: u32 = 259;
pub const WORD: u32 = 260;

/// What the file says, by key, and what it holds.
pub struct TinyModel {
    pub metadata: BTreeMap<String, Value>,
    pub tensors: BTreeMap<String, QTensor>,
    n_layers: u32,
}

impl TinyModel {
    /// A model of `n_layers` layers whose matrices are stored as `dtype`. The embedding serves as the output matrix too.
    pub fn new(n_layers: u32, dtype: GgmlDType) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut tensors = BTreeMap::new();
        tensors.insert("token_embd.weight".to_owned(), matrix(&mut rng, VOCAB, HIDDEN, dtype));
        tensors.insert("output_norm.weight".to_owned(), norm(&mut rng));
        for layer in 0..n_layers {
            let mut insert = |part: &str, tensor| tensors.insert(format!("blk.{layer}.{part}.weight"), tensor);
            insert("attn_norm", norm(&mut rng));
            insert("ffn_norm", norm(&mut rng));
            insert("attn_q", matrix(&mut rng, HIDDEN, HIDDEN, dtype));
            insert("attn_k", matrix(&mut rng, N_KV_HEADS * HEAD_DIM, HIDDEN, dtype));
            insert("attn_v", matrix(&mut rng, N_KV_HEADS * HEAD_DIM, HIDDEN, dtype));
            insert("attn_output", matrix(&mut rng, HIDDEN, HIDDEN, dtype));
            insert("ffn_gate", matrix(&mut rng, FFN, HIDDEN, dtype));
            insert("ffn_up", matrix(&mut rng, FFN, HIDDEN, dtype));
            insert("ffn_down", matrix(&mut rng, HIDDEN, FFN, dtype));
        }
        let count = |n: usize| Value::U32(u32::try_from(n).expect("a small number"));
        let text = |text: &str| Value::String(text.to_owned());
        let metadata = [
            ("general.architecture", text("llama")),
            ("llama.block_count", Value::U32(n_layers)),
            ("llama.context_length", Value::U32(CONTEXT)),
            ("llama.embedding_length", count(HIDDEN)),
            ("llama.feed_forward_length", count(FFN)),
            ("llama.attention.head_count", count(N_HEADS)),
            ("llama.attention.head_count_kv", count(N_KV_HEADS)),
            ("llama.rope.dimension_count", count(HEAD_DIM)),
            ("llama.rope.freq_base", Value::F32(10_000.0)),
            ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            ("tokenizer.ggml.model", text("gpt2")),
            ("tokenizer.ggml.pre", text("gpt-2")),
            ("tokenizer.ggml.tokens", Value::Array(vocabulary().into_iter().map(Value::String).collect())),
            ("tokenizer.ggml.token_type", Value::Array(kinds().into_iter().map(Value::I32).collect())),
            ("tokenizer.ggml.merges", Value::Array(vec![text("h e"), text("Ġ t")])),
            ("tokenizer.ggml.eos_token_id", Value::U32(IM_END)),
            ("tokenizer.chat_template", text(CHAT_TEMPLATE)),
        ];
        let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Self { metadata, tensors, n_layers }
    }

    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.metadata.insert(key.to_owned(), value);
        self
    }

    pub fn without(mut self, key: &str) -> Self {
        assert!(self.metadata.remove(key).is_some() || self.tensors.remove(key).is_some(), "{key} was there");
        self
    }

    /// An output matrix of its own.
    pub fn untied(mut self, dtype: GgmlDType) -> Self {
        let output = matrix(&mut ChaCha8Rng::seed_from_u64(2), VOCAB, HIDDEN, dtype);
        self.tensors.insert("output.weight".to_owned(), output);
        self
    }

    pub fn write(&self, path: &Path) {
        let metadata: Vec<_> = self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<_> = self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        gguf_file::write(&mut File::create(path).expect("a file"), &metadata, &tensors).expect("written");
    }

    /// The model in a folder of its own, which goes with the value.
    pub fn on_disk(&self) -> OnDisk {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tiny.gguf");
        self.write(&path);
        OnDisk { path, n_layers: self.n_layers, _folder: folder }
    }
}

pub struct OnDisk {
    pub path: PathBuf,
    n_layers: u32,
    _folder: tempfile::TempDir,
}

impl OnDisk {
    pub fn shard(&self, start: u32, end: u32) -> Shard {
        shard(start, end, self.n_layers, CONTEXT)
    }

    pub fn compute(&self, layers: LayerRange) -> Box<dyn engine::Compute> {
        let shard = self.shard(layers.start().0, layers.end().0);
        engine_candle::load(&shard, std::slice::from_ref(&self.path), options(2)).expect("a good shard").compute
    }
}

pub fn options(n_slots: u32) -> engine_candle::LoadOptions {
    engine_candle::LoadOptions { n_slots, n_threads: None }
}

pub fn shard(start: u32, end: u32, n_layers: u32, context: u32) -> Shard {
    Shard {
        model: "tiny".parse().expect("a model id"),
        rank: Rank(u16::from(start > 0)),
        n_ranks: 2,
        layers: LayerRange::try_from((start, end)).expect("a range"),
        n_layers: LayerCount(n_layers),
        context: TokenCount(context),
    }
}

const CHAT_TEMPLATE: &str = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

fn vocabulary() -> Vec<String> {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut others = '\u{100}'..;
    let letter = |byte: u8| if is_printable(byte) { char::from(byte) } else { others.next().expect("letters follow") };
    let mut tokens: Vec<String> = (0..=255).map(letter).map(String::from).collect();
    tokens.extend(["he", "Ġt", "<|im_start|>", "<|im_end|>", "<tool>"].map(str::to_owned));
    tokens.extend((tokens.len()..VOCAB).map(|idx| format!("<|unused_{idx}|>")));
    tokens
}

fn kinds() -> Vec<i32> {
    let kind = |token: usize| match token {
        0..=257 => 1,
        258 | 259 => 3,
        260 => 4,
        _ => 5,
    };
    (0..VOCAB).map(kind).collect()
}

fn matrix(rng: &mut ChaCha8Rng, n_out: usize, n_in: usize, dtype: GgmlDType) -> QTensor {
    // Variance that keeps a row's size through a layer.
    let scale = (3.0 / n_in as f32).sqrt();
    let values: Vec<f32> = (0..n_out * n_in).map(|_| rng.random_range(-scale..scale)).collect();
    let tensor = Tensor::from_vec(values, (n_out, n_in), &Device::Cpu).expect("a tensor");
    QTensor::quantize(&tensor, dtype).expect("quantised")
}

fn norm(rng: &mut ChaCha8Rng) -> QTensor {
    let values: Vec<f32> = (0..HIDDEN).map(|_| rng.random_range(0.5..1.5)).collect();
    let tensor = Tensor::from_vec(values, HIDDEN, &Device::Cpu).expect("a tensor");
    QTensor::quantize(&tensor, GgmlDType::F32).expect("kept")
}
