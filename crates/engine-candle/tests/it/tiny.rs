//! Tiny random models: the engine's contract in every format, and candle-transformers' own llama beside ours.

use std::fs::File;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use domain::{Bytes, LayerRange, TokenCount};
use engine::testing::compute_contract;
use engine::{Compute, Input, Logits, Output, SlotIdx, Step, StepPart};

use crate::tiny_model::{CONTEXT, TinyModel, VOCAB};

/// Every format that files come in, and how far our scores may be from the reference's, as a share of the largest. The
/// reference rounds activations in its own ways (scales in f16, rows repacked for some processors), and where a rounding
/// falls to the other side the next layer sees another number; f16 also rounds what it multiplies, as llama.cpp does.
const FORMATS: [(GgmlDType, f32); 13] = [
    (GgmlDType::F32, 1e-4),
    (GgmlDType::F16, 5e-3),
    (GgmlDType::BF16, 5e-2),
    (GgmlDType::Q4_0, 3e-2),
    (GgmlDType::Q4_1, 3e-2),
    (GgmlDType::Q5_0, 3e-2),
    (GgmlDType::Q5_1, 3e-2),
    (GgmlDType::Q8_0, 3e-2),
    (GgmlDType::Q2K, 3e-2),
    (GgmlDType::Q3K, 3e-2),
    (GgmlDType::Q4K, 3e-2),
    (GgmlDType::Q5K, 3e-2),
    (GgmlDType::Q6K, 3e-2),
];

const TOKENS: [u32; 9] = [3, 141, 59, 26, 53, 58, 97, 93, 238];

#[test]
fn every_format_keeps_the_contract_at_every_cut() {
    for (dtype, _) in FORMATS {
        let model = TinyModel::new(3, dtype).on_disk();
        compute_contract(3, &TOKENS, |layers| model.compute(layers));
    }
}

#[test]
fn more_layers_and_an_output_matrix_of_its_own_keep_the_contract() {
    let model = TinyModel::new(5, GgmlDType::Q8_0).untied(GgmlDType::Q6K).on_disk();
    compute_contract(5, &TOKENS, |layers| model.compute(layers));
}

#[test]
fn scores_are_those_of_candle_transformers() {
    for (dtype, tolerance) in FORMATS {
        let model = TinyModel::new(2, dtype).on_disk();
        assert_near(
            &scores(&model.path, 2, &TOKENS),
            &reference(&model.path, &TOKENS),
            tolerance,
            &format!("{dtype:?}"),
        );
    }
    let untied = TinyModel::new(2, GgmlDType::Q8_0).untied(GgmlDType::Q6K).on_disk();
    assert_near(&scores(&untied.path, 2, &TOKENS), &reference(&untied.path, &TOKENS), 3e-2, "untied");
}

#[test]
fn rotation_factors_count() {
    let factors = |by: f32| {
        let mut model = TinyModel::new(2, GgmlDType::F32);
        let factors = Tensor::full(by, 32, &Device::Cpu).expect("a tensor");
        let factors = candle_core::quantized::QTensor::quantize(&factors, GgmlDType::F32).expect("kept");
        model.tensors.insert("rope_freqs.weight".to_owned(), factors);
        scores(&model.on_disk().path, 2, &TOKENS)
    };
    let plain = scores(&TinyModel::new(2, GgmlDType::F32).on_disk().path, 2, &TOKENS);
    assert_eq!(factors(1.0), plain);
    assert_ne!(factors(8.0), plain);
    let linear = TinyModel::new(2, GgmlDType::F32)
        .with("llama.rope.scaling.type", Value::String("linear".to_owned()))
        .with("llama.rope.scaling.factor", Value::F32(8.0));
    assert_near(&scores(&linear.on_disk().path, 2, &TOKENS), &factors(8.0), 1e-5, "the same, said in another way");
}

#[test]
fn a_rank_maps_its_own_layers_and_no_more() {
    for untied in [false, true] {
        let model = TinyModel::new(4, GgmlDType::Q4_0);
        let model = if untied { model.untied(GgmlDType::Q8_0) } else { model }.on_disk();
        let spec = engine_candle::inspect(&model.path, "tiny".parse().expect("an id")).expect("a good file");
        assert_eq!((spec.n_layers().0, spec.vocab_size, spec.context_max), (4, 264, TokenCount(CONTEXT)));
        assert_eq!((spec.tied_embeddings, spec.quantisation.as_str()), (!untied, "Q4_0"));
        for range in [(0, 4), (0, 1), (1, 3), (3, 4)] {
            let layers = LayerRange::try_from(range).expect("a range");
            let footprint = model.compute(layers).footprint();
            let weights = footprint.mapped_bytes + footprint.copied_bytes;
            assert_eq!(weights, spec.weight_bytes(layers), "layers {layers}, untied: {untied}");
            assert_eq!(footprint.kv_bytes, spec.kv_bytes(layers, TokenCount(CONTEXT)) * 2);
            assert!(footprint.copied_bytes < Bytes::new(20_000), "norms only: {}", footprint.copied_bytes);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_kernel_counts_what_a_rank_maps() {
    let model = TinyModel::new(4, GgmlDType::Q4_0).on_disk();
    let path = model.path.to_str().expect("a path in UTF-8").to_owned();
    let mapped = || -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the kernel's own list");
        let lines = maps.lines().filter(|line| line.ends_with(&path));
        let len = |line: &str| {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            Some(u64::from_str_radix(to, 16).ok()? - u64::from_str_radix(from, 16).ok()?)
        };
        lines.filter_map(len).sum()
    };
    let rank = model.compute(LayerRange::try_from((1, 3)).expect("a range"));
    let own = rank.footprint().mapped_bytes.as_u64();
    let file = std::fs::metadata(&model.path).expect("a file").len();
    let pages = 4 * 4096;
    assert!((own..=own + pages).contains(&mapped()), "{own} bytes are mapped by {} of {file}", mapped());
    drop(rank);
    assert_eq!(mapped(), 0, "nothing stays mapped");
}

#[test]
fn a_shard_of_another_model_is_refused() {
    let model = TinyModel::new(2, GgmlDType::F32).on_disk();
    let refused = |shard, files: &[_]| match engine_candle::load(&shard, files, crate::tiny_model::options(1)) {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error.to_string(),
    };
    let files = [model.path.clone()];
    let other = crate::tiny_model::shard(0, 2, 3, CONTEXT);
    assert!(refused(other, &files).starts_with("the plan is for a model of 3 layers; "));
    let long = crate::tiny_model::shard(0, 2, 2, CONTEXT + 1);
    assert_eq!(refused(long, &files), "the plan is for a context of 65 tokens; the model was made for 64 tokens");
    assert!(refused(model.shard(0, 2), &[]).contains("0 files were given"));
}

/// The scores after `tokens`, by the whole model.
fn scores(path: &Path, n_layers: u32, tokens: &[u32]) -> Vec<f32> {
    let shard = crate::tiny_model::shard(0, n_layers, n_layers, CONTEXT);
    let mut compute =
        engine_candle::load(&shard, &[path.to_owned()], crate::tiny_model::options(1)).expect("a good shard").compute;
    last_scores(compute.as_mut(), tokens)
}

pub fn last_scores(whole: &mut dyn Compute, tokens: &[u32]) -> Vec<f32> {
    let part = StepPart { slot: SlotIdx(0), position: 0, tokens: tokens.to_vec(), logits: Logits::OfLastToken };
    match whole.forward(&Step { parts: vec![part] }, Input::Tokens).expect("a good step") {
        Output::Logits(logits) => logits,
        Output::Hidden(_) => panic!("the whole model gives scores"),
    }
}

/// The same by candle-transformers.
pub fn reference(path: &Path, tokens: &[u32]) -> Vec<f32> {
    let mut file = File::open(path).expect("a file");
    let content = Content::read(&mut file).expect("a header");
    let mut model = ModelWeights::from_gguf(content, &mut file, &Device::Cpu).expect("a model");
    let tokens = Tensor::new(tokens, &Device::Cpu).and_then(|tokens| tokens.unsqueeze(0)).expect("a tensor");
    let logits = model.forward(&tokens, 0).and_then(|logits| logits.flatten_all()?.to_vec1());
    logits.expect("scores")
}

pub fn assert_near(got: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0_f32, |largest, score| largest.max(score.abs()));
    let worst = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0_f32, f32::max);
    assert!(largest > 0.1 && got.len() >= VOCAB, "{what}: scores that say something");
    assert!(worst <= tolerance * largest, "{what}: {worst} off, of {largest}");
}
