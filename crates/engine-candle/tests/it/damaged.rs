//! Files that are damaged, cut short or hostile: each gives an error that names the file, none a panic.

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use domain::Hint;
use engine_candle::{InspectError, inspect};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::tiny_model::TinyModel;

#[test]
fn a_file_cut_anywhere_is_refused() {
    let model = TinyModel::new(1, GgmlDType::Q4_0).on_disk();
    let whole = std::fs::read(&model.path).expect("a file");
    let ends = (0..4000).step_by(7).chain((4000..whole.len()).step_by(whole.len() / 50)).chain([whole.len() - 64]);
    for end in ends {
        std::fs::write(&model.path, &whole[..end]).expect("written");
        let error = refused(&model.path);
        assert!(error.contains("tiny.gguf"), "cut at {end}: {error}");
    }
}

#[test]
fn flipped_bits_are_read_or_refused_without_a_panic() {
    let model = TinyModel::new(1, GgmlDType::Q4_0).on_disk();
    let whole = std::fs::read(&model.path).expect("a file");
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    // All of the small header but the vocabulary's inside, and a sample of that.
    for _ in 0..1500 {
        let mut damaged = whole.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..8000);
            damaged[at] ^= 1 << rng.random_range(0..8);
        }
        std::fs::write(&model.path, &damaged).expect("written");
        if inspect(&model.path, "tiny".parse().expect("an id")).is_ok() {
            // What inspection lets pass may still be refused, but not by a panic.
            drop(engine_candle::load(
                &model.shard(0, 1),
                std::slice::from_ref(&model.path),
                crate::tiny_model::options(1),
            ));
        }
    }
}

#[test]
fn hostile_sizes_are_refused_by_name() {
    let huge = |offset_of: &str, value: u64| {
        let model = TinyModel::new(1, GgmlDType::Q4_0).on_disk();
        let mut bytes = std::fs::read(&model.path).expect("a file");
        let at = match offset_of {
            "tensors" => 8,
            "metadata" => 16,
            name => {
                bytes.windows(name.len()).position(|window| window == name.as_bytes()).expect("its name") + name.len()
            }
        };
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        std::fs::write(&model.path, &bytes).expect("written");
        refused(&model.path)
    };
    for (what, value) in [("tensors", u64::MAX), ("tensors", 1 << 29), ("metadata", u64::MAX), ("metadata", 1 << 29)] {
        assert!(huge(what, value).contains("is no whole GGUF file"), "{what} {value}");
    }
    let alignment = TinyModel::new(1, GgmlDType::Q4_0).with("general.alignment", Value::U32(0)).on_disk();
    assert!(refused(&alignment.path).ends_with("`general.alignment` is 0"), "{}", refused(&alignment.path));
    let not_gguf = TinyModel::new(1, GgmlDType::Q4_0).on_disk();
    std::fs::write(&not_gguf.path, "PK\u{3}\u{4} a zip file").expect("written");
    assert!(refused(&not_gguf.path).contains("is no whole GGUF file"));
    let missing = not_gguf.path.with_file_name("absent.gguf");
    assert!(matches!(inspect(&missing, "tiny".parse().expect("an id")), Err(InspectError::Io { .. })));
}

#[test]
fn what_the_engine_does_not_run_is_said() {
    let tiny = || TinyModel::new(2, GgmlDType::Q4_0);
    let text = |text: &str| Value::String(text.to_owned());
    let cases = [
        (tiny().with("general.architecture", text("mamba")), "the engine has no architecture `mamba`; it has `llama`"),
        (tiny().with("llama.expert_count", Value::U32(8)), "a mixture of experts, which this engine does not run"),
        (
            tiny().with("llama.rope.scaling.type", text("yarn")),
            "positions scaled by `yarn`, which this engine does not run",
        ),
        (
            tiny().with("llama.attention.head_count", Value::U32(3)),
            "should be a divisor of the number of heads; it is 2",
        ),
        (tiny().with("llama.attention.head_count", Value::U32(0)), "should be at least 1; it is 0"),
        (tiny().with("llama.feed_forward_length", Value::U32(128)), "its shape is [256, 256], expected [128, 256]"),
        (tiny().with("llama.block_count", Value::U32(3)), "`blk.2.attn_norm.weight` of"),
        (tiny().with("llama.block_count", Value::U32(1)), "it is no part of a llama model as this engine runs it"),
        (tiny().with("llama.block_count", text("two")), "should be a count; it is the text `two`"),
        (tiny().without("llama.context_length"), "does not say its `llama.context_length`"),
        (tiny().without("blk.1.ffn_up.weight"), "it is missing"),
    ];
    for (model, expected) in cases {
        let path = model.on_disk();
        let error = inspect(&path.path, "tiny".parse().expect("an id")).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}, expected {expected}");
        assert!(!error.hints().is_empty(), "{error} has a way out");
    }
}

fn refused(path: &std::path::Path) -> String {
    inspect(path, "tiny".parse().expect("an id")).expect_err("a bad file").to_string()
}
