//! Rotary positions, as GGUF's llama files want them: neighbouring values `2i` and `2i + 1` of a head turn together.

/// How fast each pair of a head turns.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    /// Radians for each position, `[n_rotated / 2]`.
    frequencies: Vec<f32>,
}

/// Sines and cosines of a step's rows, `[n_rows, n_rotated / 2]`: computed once, used by every layer.
#[derive(Debug)]
pub(crate) struct Rotations {
    cos: Vec<f32>,
    sin: Vec<f32>,
    n_pairs: usize,
}

impl Rope {
    /// `factors`, one for each pair, slow frequencies down further: Llama 3's way to longer contexts.
    pub fn new(base: f32, n_rotated: usize, position_scale: f32, factors: Option<&[f32]>) -> Self {
        let frequency = |pair: usize| {
            let factor = factors.map_or(1.0, |factors| factors[pair]);
            position_scale / (base.powf(2.0 * pair as f32 / n_rotated as f32) * factor)
        };
        Self { frequencies: (0..n_rotated / 2).map(frequency).collect() }
    }

    pub fn at(&self, positions: impl Iterator<Item = u32>) -> Rotations {
        let n_pairs = self.frequencies.len();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for position in positions {
            for frequency in &self.frequencies {
                let (s, c) = (position as f32 * frequency).sin_cos();
                cos.push(c);
                sin.push(s);
            }
        }
        Rotations { cos, sin, n_pairs }
    }
}

impl Rotations {
    /// Turns the heads of each row: `rows` is `[n_rows, n_heads * head_dim]`. Values of a head past its pairs stay.
    pub fn turn(&self, rows: &mut [f32], row_len: usize, head_dim: usize) {
        let angles = self.cos.chunks_exact(self.n_pairs).zip(self.sin.chunks_exact(self.n_pairs));
        for (row, (cos, sin)) in rows.chunks_exact_mut(row_len).zip(angles) {
            for head in row.chunks_exact_mut(head_dim) {
                for ((pair, &cos), &sin) in head.chunks_exact_mut(2).zip(cos).zip(sin) {
                    let (a, b) = (pair[0], pair[1]);
                    pair[0] = a * cos - b * sin;
                    pair[1] = a * sin + b * cos;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_turn_by_position_and_frequency() {
        let rope = Rope::new(100.0, 4, 1.0, None);
        // Pairs turn by 1 and 0.1 radians a position; the fifth and sixth values stay.
        let mut rows = [1.0, 0.0, 0.0, 1.0, 5.0, 6.0, 1.0, 0.0, 0.0, 1.0, 5.0, 6.0];
        rope.at([0, 3].into_iter()).turn(&mut rows, 6, 6);
        assert_eq!(rows[..6], [1.0, 0.0, 0.0, 1.0, 5.0, 6.0], "position 0 turns nothing");
        let expected = [3.0_f32.cos(), 3.0_f32.sin(), -0.3_f32.sin(), 0.3_f32.cos(), 5.0, 6.0];
        for (got, expected) in rows[6..].iter().zip(expected) {
            assert!((got - expected).abs() < 1e-6, "{rows:?}");
        }
    }

    #[test]
    fn factors_and_scale_slow_the_turning() {
        let plain = Rope::new(100.0, 4, 1.0, None).frequencies;
        let slowed = Rope::new(100.0, 4, 0.5, Some(&[1.0, 8.0])).frequencies;
        assert_eq!(slowed, [plain[0] / 2.0, plain[1] / 16.0]);
    }
}
