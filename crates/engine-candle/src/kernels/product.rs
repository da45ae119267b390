//! The product of a few rows of activations with a large matrix, shared out over threads by the matrix's rows.

use candle_core::quantized::k_quants::GgmlType;
use rayon::prelude::*;

/// Weights of a task: smaller ones cost more to hand out than to do. At some 2 · 10⁹ weights a second this is 16 µs, a few
/// times what waking a thread takes.
const TASK_WEIGHTS: usize = 1 << 15;

/// Outputs computed together, so that activations are loaded once for all: what candle's kernels are made for.
const TOGETHER: usize = 4;

/// `lhs` `[m, k]` times the transpose of `weights` `[n, k]`: `[m, n]`.
///
/// Each output is one dot product of one row with one row, whoever computes it: results do not depend on `m` or on the
/// number of threads.
pub(super) fn product<T: GgmlType>((m, k, n): (usize, usize, usize), lhs: &[f32], weights: &[T]) -> Vec<f32> {
    let n_blocks = k / T::BLCK_SIZE;
    let lhs = rounded::<T::VecDotType>(lhs, m, k);
    let row = |row: usize| &weights[row * n_blocks..(row + 1) * n_blocks];
    by_output((m, k, n), |outputs, values| {
        let first = outputs.start;
        if outputs.len() == TOGETHER {
            for (at, lhs) in lhs.chunks_exact(lhs.len() / m).enumerate() {
                let (a, b, c, d) = T::vec_dot_4(k, row(first), row(first + 1), row(first + 2), row(first + 3), lhs);
                (values[at], values[m + at], values[2 * m + at], values[3 * m + at]) = (a, b, c, d);
            }
        } else {
            for (output, values) in outputs.zip(values.chunks_exact_mut(m)) {
                for (lhs, value) in lhs.chunks_exact(lhs.len() / m).zip(values) {
                    *value = T::vec_dot(k, row(output), lhs);
                }
            }
        }
    })
}

/// Activations in the format that the weights' kernels multiply with.
fn rounded<T: GgmlType>(values: &[f32], m: usize, k: usize) -> Vec<T> {
    let mut rounded = vec![T::zeros(); m * k / T::BLCK_SIZE];
    T::from_float(values, &mut rounded);
    rounded
}

/// Has `compute` fill `[TOGETHER, m]` values (fewer rows at the end) for each group of outputs, and gives `[m, n]`.
pub(super) fn by_output(
    (m, k, n): (usize, usize, usize),
    compute: impl Fn(std::ops::Range<usize>, &mut [f32]) + Sync,
) -> Vec<f32> {
    let mut by_output = vec![0.0; n * m]; // [n, m]
    let group = TOGETHER * m;
    let n_groups_together = TASK_WEIGHTS.div_ceil(TOGETHER * k * m).max(1);
    by_output.par_chunks_mut(group).with_min_len(n_groups_together).enumerate().for_each(|(idx, values)| {
        let first = idx * TOGETHER;
        compute(first..first + values.len() / m, values);
    });
    if m == 1 {
        return by_output;
    }
    let mut by_row = vec![0.0; m * n];
    for (row, values) in by_row.chunks_exact_mut(n).enumerate() {
        for (value, output) in values.iter_mut().zip(by_output.chunks_exact(m)) {
            *value = output[row];
        }
    }
    by_row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_sums_of_products_in_their_places() {
        for (m, n) in [(1, 1), (1, 6), (3, 5), (2, 4), (5, 300)] {
            let k = 64;
            let lhs: Vec<f32> = (0..m * k).map(|i| (i % 7) as f32 - 3.0).collect();
            let weights: Vec<f32> = (0..n * k).map(|i| (i % 11) as f32 - 5.0).collect();
            let got = product((m, k, n), &lhs, &weights);
            for (row, got) in got.chunks_exact(n).enumerate() {
                for (output, got) in got.iter().enumerate() {
                    let pairs = lhs[row * k..(row + 1) * k].iter().zip(&weights[output * k..(output + 1) * k]);
                    assert_eq!(*got, pairs.map(|(a, b)| a * b).sum::<f32>(), "[{row}, {output}] of [{m}, {n}]");
                }
            }
        }
    }
}
