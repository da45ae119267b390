//! Attention of new rows over a sequence's keys and values.
//!
//! Each row and head is computed by itself, in one order, so a row's result does not depend on how many rows share the
//! step. Keys and values are read where the cache holds them; heads that share them (grouped-query attention) do so
//! without copies.

use rayon::prelude::*;

/// Below this many multiplications a step is done sooner on one core than it is shared out.
const SHARED_FROM: usize = 1 << 18;

/// Shapes of attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
}

/// For each row of `queries`, `[n_rows, n_heads * head_dim]`: the softmax over the scores with all keys up to the row's own
/// position, times the values. Row `i` stands at `first_position + i`; `keys` and `values` are
/// `[first_position + n_rows, n_kv_heads * head_dim]`. Same shape as `queries`.
pub(crate) fn attend(queries: &[f32], keys: &[f32], values: &[f32], first_position: usize, heads: Heads) -> Vec<f32> {
    let Heads { n_heads, n_kv_heads, head_dim } = heads;
    let kv_len = n_kv_heads * head_dim;
    let n_rows = queries.len() / (n_heads * head_dim);
    let mut out = vec![0.0; queries.len()];
    let one = |(idx, (query, out)): (usize, (&[f32], &mut [f32]))| {
        let (row, head) = (idx / n_heads, idx % n_heads);
        let kv_head = head * n_kv_heads / n_heads;
        let n_seen = first_position + row + 1;
        let of_head = |all: &'_ [f32]| -> std::ops::Range<usize> { kv_head * head_dim..all.len().min(n_seen * kv_len) };
        attend_one(query, &keys[of_head(keys)], &values[of_head(values)], kv_len, n_seen, out);
    };
    let n_multiplications = n_rows * n_heads * head_dim * (first_position + n_rows);
    if n_multiplications < SHARED_FROM {
        queries.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)).enumerate().for_each(one);
    } else {
        queries.par_chunks_exact(head_dim).zip(out.par_chunks_exact_mut(head_dim)).enumerate().for_each(one);
    }
    out
}

/// One query over `n_seen` keys and values, which lie `stride` apart.
fn attend_one(query: &[f32], keys: &[f32], values: &[f32], stride: usize, n_seen: usize, out: &mut [f32]) {
    let head_dim = query.len();
    let scale = 1.0 / (head_dim as f32).sqrt();
    let mut weights: Vec<f32> =
        keys.chunks(stride).take(n_seen).map(|key| dot(query, &key[..head_dim]) * scale).collect();
    let max = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for weight in &mut weights {
        *weight = (*weight - max).exp();
        sum += *weight;
    }
    for (weight, value) in weights.iter().zip(values.chunks(stride)) {
        let weight = weight / sum;
        for (out, value) in out.iter_mut().zip(&value[..head_dim]) {
            *out += weight * value;
        }
    }
}

/// Eight partial sums, so that the compiler may use vector registers; always in the same order.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_eights, a_rest) = a.as_chunks::<8>();
    let (b_eights, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0_f32; 8];
    for (a, b) in a_eights.iter().zip(b_eights) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: Heads = Heads { n_heads: 4, n_kv_heads: 2, head_dim: 12 };

    #[test]
    fn a_row_alone_is_what_it_is_among_others() {
        let n = 300;
        let queries = noise(n * 48, 1);
        let (keys, values) = (noise(n * 24, 2), noise(n * 24, 3));
        let together = attend(&queries, &keys, &values, 0, HEADS);
        for row in [0, 1, 150, 299] {
            let seen = (row + 1) * 24;
            let alone = attend(&queries[row * 48..(row + 1) * 48], &keys[..seen], &values[..seen], row, HEADS);
            assert_eq!(alone, together[row * 48..(row + 1) * 48], "row {row}");
        }
    }

    #[test]
    fn weights_are_a_softmax_and_heads_share_their_groups_values() {
        // The first key meets every query with 0, the second with ln 3 after scaling: weights 1/4 and 3/4.
        let mut queries = vec![0.0; 96];
        queries[48..].fill(1.0);
        let second_key = 3.0_f32.ln() * (12.0_f32).sqrt() / 12.0;
        let keys: Vec<_> = [[0.0; 24], [second_key; 24]].concat();
        let mut values = vec![0.0; 48];
        values[24..36].fill(4.0);
        values[36..].fill(8.0);
        let out = attend(&queries, &keys, &values, 0, HEADS);
        assert!(out[..48].iter().all(|&value| value == 0.0), "the first row sees the first value only");
        for (head, expected) in [3.0, 3.0, 6.0, 6.0].into_iter().enumerate() {
            let got = out[48 + head * 12];
            assert!((got - expected).abs() < 1e-5, "head {head}: {got}");
        }
    }

    fn noise(n: usize, seed: u32) -> Vec<f32> {
        (0..n as u32)
            .map(|i| ((i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 8) % 1000) as f32 / 500.0 - 1.0)
            .collect()
    }
}
