//! Q4_1 times activations with AVX2: candle has no vector code for this format, and the starter model is stored in it.
//!
//! Activations are rounded to 8 bits in blocks of 32, as candle and llama.cpp do, so that a product of two blocks is
//! whole numbers but for its two scales:
//!
//! ```text
//! Σ (scale_w · w + min_w) · (scale_a · a)  =  scale_w · scale_a · Σ w · a  +  min_w · (scale_a · Σ a)
//! ```
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _mm_cvtph_ps, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_srli_epi16, _mm_storeu_ps,
    _mm256_and_si256, _mm256_cvtepi32_ps, _mm256_fmadd_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::mapped::PlainBlock;
use super::product::by_output;

/// Values in a block.
const BLOCK: usize = 32;

/// 32 weights `scale · w + min`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Block {
    /// `scale` and `min` as f16.
    scale_min: [u16; 2],
    /// `w` 0 to 15 in the low halves, 16 to 31 in the high ones.
    nibbles: [u8; 16],
}

const _: () = assert!(size_of::<Block>() == 20);

// SAFETY: `repr(C)` of integers; 4 + 16 bytes, so without padding.
unsafe impl PlainBlock for Block {}

/// 32 activations `scale · a`.
#[derive(Clone, Copy)]
struct Activations {
    scale: f32,
    /// `scale · Σ a`.
    sum: f32,
    a: [i8; BLOCK],
}

/// Whether this processor can run [`product`].
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

/// `lhs` `[m, k]` times the transpose of `weights` `[n, k]`: `[m, n]`. Only where [`is_available`].
pub(super) fn product((m, k, n): (usize, usize, usize), lhs: &[f32], weights: &[Block]) -> Vec<f32> {
    assert!(is_available(), "the caller asks first");
    let n_blocks = k / BLOCK;
    let lhs: Vec<Activations> = lhs.chunks_exact(BLOCK).map(Activations::round).collect();
    by_output((m, k, n), |outputs, values| {
        for (output, values) in outputs.zip(values.chunks_exact_mut(m)) {
            let weights = &weights[output * n_blocks..(output + 1) * n_blocks];
            for (lhs, value) in lhs.chunks_exact(n_blocks).zip(values) {
                // SAFETY: the features were detected above.
                *value = unsafe { dot(weights, lhs) };
            }
        }
    })
}

impl Activations {
    fn round(values: &[f32]) -> Self {
        let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = largest / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        let mut a = [0; BLOCK];
        for (a, value) in a.iter_mut().zip(values) {
            *a = (value * inverse).round() as i8;
        }
        let sum: i32 = a.iter().map(|&a| i32::from(a)).sum();
        Self { scale, sum: scale * sum as f32, a }
    }
}

/// # Safety
/// The processor has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dot(weights: &[Block], activations: &[Activations]) -> f32 {
    let mut lanes = _mm256_setzero_ps();
    let mut mins = 0.0;
    for (weight, activation) in weights.iter().zip(activations) {
        let [scale, min] = scale_and_min(weight.scale_min);
        // SAFETY: 16 and 32 bytes are read from arrays of 16 and 32 bytes.
        let (nibbles, a) = unsafe {
            (
                _mm_loadu_si128(weight.nibbles.as_ptr().cast::<__m128i>()),
                _mm256_loadu_si256(activation.a.as_ptr().cast::<__m256i>()),
            )
        };
        let both = _mm256_set_m128i(_mm_srli_epi16::<4>(nibbles), nibbles);
        let w = _mm256_and_si256(both, _mm256_set1_epi8(0x0f));
        // w ≤ 15 and |a| ≤ 127: a sum of two products is below 2¹².
        let pairs = _mm256_maddubs_epi16(w, a);
        let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        lanes = _mm256_fmadd_ps(_mm256_set1_ps(scale * activation.scale), _mm256_cvtepi32_ps(fours), lanes);
        mins += min * activation.sum;
    }
    sum_of_lanes(lanes) + mins
}

#[target_feature(enable = "avx2,fma,f16c")]
fn scale_and_min([scale, min]: [u16; 2]) -> [f32; 2] {
    let both = u32::from(scale) | u32::from(min) << 16;
    let mut values = [0.0; 4];
    // SAFETY: four values are written to an array of four.
    unsafe { _mm_storeu_ps(values.as_mut_ptr(), _mm_cvtph_ps(_mm_cvtsi32_si128(both.cast_signed()))) };
    [values[0], values[1]]
}

#[target_feature(enable = "avx2,fma,f16c")]
fn sum_of_lanes(lanes: __m256) -> f32 {
    let mut values = [0.0; 8];
    // SAFETY: eight values are written to an array of eight.
    unsafe { _mm256_storeu_ps(values.as_mut_ptr(), lanes) };
    let [a, b, c, d, e, f, g, h] = values;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_that_of_the_rounded_numbers() {
        if !is_available() {
            return;
        }
        let (m, k, n) = (2, 96, 5);
        let lhs: Vec<f32> = (0..m * k).map(|i| ((i * 37 % 101) as f32 - 50.0) / 9.0).collect();
        let block = |idx: usize| Block {
            // 0.5 and 0.25 in f16, then -1 and 2.
            scale_min: if idx.is_multiple_of(2) { [0x3800, 0x3400] } else { [0xbc00, 0x4000] },
            nibbles: std::array::from_fn(|byte| (idx * 29 + byte * 53) as u8),
        };
        let weights: Vec<Block> = (0..n * k / BLOCK).map(block).collect();
        let unpacked = |block: &Block| -> [f64; BLOCK] {
            let [scale, min] = if block.scale_min[0] == 0x3800 { [0.5, 0.25] } else { [-1.0, 2.0] };
            std::array::from_fn(|i| {
                let byte = block.nibbles[i % 16];
                scale * f64::from(if i < 16 { byte & 15 } else { byte >> 4 }) + min
            })
        };
        let weights_f64: Vec<f64> = weights.iter().flat_map(unpacked).collect();
        let rounded = lhs.chunks_exact(BLOCK).map(Activations::round);
        let lhs_f64: Vec<f64> =
            rounded.flat_map(|block| block.a.map(|a| f64::from(a) * f64::from(block.scale))).collect();
        let got = product((m, k, n), &lhs, &weights);
        for (at, got) in got.iter().enumerate() {
            let (row, output) = (at / n, at % n);
            let pairs = lhs_f64[row * k..(row + 1) * k].iter().zip(&weights_f64[output * k..(output + 1) * k]);
            let expected: f64 = pairs.map(|(a, b)| a * b).sum();
            assert!((f64::from(*got) - expected).abs() < 1e-3, "[{row}, {output}]: {got} is not {expected}");
        }
        let exact = lhs.iter().zip(&lhs_f64).map(|(exact, rounded)| (f64::from(*exact) - rounded).abs());
        assert!(exact.fold(0.0, f64::max) < 0.03, "rounding to 8 bits stays near");
    }
}
