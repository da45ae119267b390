//! A weight matrix as it lies on disk.
//!
//! Candle's own `QMatMul` would unpack f16 and f32 into fresh memory, and repack some formats for speed: a second copy of
//! every weight. Here the file's pages are all there is. Candle's kernels for single dot products do the work.

use std::ops::Range;
use std::sync::Arc;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::k_quants::{
    BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1,
    BlockQ8K, GgmlType,
};
use candle_core::{Device, Result, Storage, Tensor, bail};
use memmap2::Mmap;

use super::mapped::{MappedBlocks, PlainBlock};
use super::product::product;
#[cfg(target_arch = "x86_64")]
use super::q4_1;

pub(crate) struct Matrix {
    weights: Box<dyn Weights>,
    n_out: usize,
    n_in: usize,
}

/// Weights of any format.
trait Weights: Send + Sync {
    /// `lhs` `[m, k]` times the transpose of the weights `[n, k]`: `[m, n]`.
    fn product(&self, mkn: (usize, usize, usize), lhs: &[f32]) -> Vec<f32>;

    /// Unpacks one row of `row.len()` values.
    fn row(&self, idx: usize, row: &mut [f32]);
}

impl<T: PlainBlock + GgmlType> Weights for MappedBlocks<T> {
    fn product(&self, mkn: (usize, usize, usize), lhs: &[f32]) -> Vec<f32> {
        product(mkn, lhs, self.blocks())
    }

    fn row(&self, idx: usize, row: &mut [f32]) {
        let n_blocks = row.len() / T::BLCK_SIZE;
        T::to_float(&self.blocks()[idx * n_blocks..(idx + 1) * n_blocks], row);
    }
}

/// Q4_1 where the processor has what [`q4_1::product`] needs.
#[cfg(target_arch = "x86_64")]
struct Q4_1 {
    /// The same bytes twice: as candle sees them, for single rows, and as the kernel does.
    by_candle: MappedBlocks<BlockQ4_1>,
    by_kernel: MappedBlocks<q4_1::Block>,
}

#[cfg(target_arch = "x86_64")]
impl Q4_1 {
    fn boxed(map: Arc<Mmap>, range: Range<usize>) -> std::result::Result<Box<dyn Weights>, String> {
        let by_candle = MappedBlocks::new(map.clone(), range.clone())?;
        Ok(Box::new(Self { by_candle, by_kernel: MappedBlocks::new(map, range)? }))
    }
}

#[cfg(target_arch = "x86_64")]
impl Weights for Q4_1 {
    fn product(&self, mkn: (usize, usize, usize), lhs: &[f32]) -> Vec<f32> {
        q4_1::product(mkn, lhs, self.by_kernel.blocks())
    }

    fn row(&self, idx: usize, row: &mut [f32]) {
        self.by_candle.row(idx, row);
    }
}

impl Matrix {
    pub fn mapped(
        map: Arc<Mmap>,
        range: Range<usize>,
        dtype: GgmlDType,
        dims: &[usize],
    ) -> std::result::Result<Self, String> {
        let &[n_out, n_in] = dims else { return Err(format!("it has {} dimensions, a matrix has 2", dims.len())) };
        fn boxed<T: PlainBlock + GgmlType + 'static>(
            map: Arc<Mmap>,
            range: Range<usize>,
        ) -> std::result::Result<Box<dyn Weights>, String> {
            Ok(Box::new(MappedBlocks::<T>::new(map, range)?))
        }
        let weights = match dtype {
            GgmlDType::F32 => boxed::<f32>(map, range),
            GgmlDType::F16 => boxed::<half::f16>(map, range),
            GgmlDType::BF16 => boxed::<half::bf16>(map, range),
            GgmlDType::Q4_0 => boxed::<BlockQ4_0>(map, range),
            #[cfg(target_arch = "x86_64")]
            GgmlDType::Q4_1 if q4_1::is_available() => Q4_1::boxed(map, range),
            GgmlDType::Q4_1 => boxed::<BlockQ4_1>(map, range),
            GgmlDType::Q5_0 => boxed::<BlockQ5_0>(map, range),
            GgmlDType::Q5_1 => boxed::<BlockQ5_1>(map, range),
            GgmlDType::Q8_0 => boxed::<BlockQ8_0>(map, range),
            GgmlDType::Q8_1 => boxed::<BlockQ8_1>(map, range),
            GgmlDType::Q2K => boxed::<BlockQ2K>(map, range),
            GgmlDType::Q3K => boxed::<BlockQ3K>(map, range),
            GgmlDType::Q4K => boxed::<BlockQ4K>(map, range),
            GgmlDType::Q5K => boxed::<BlockQ5K>(map, range),
            GgmlDType::Q6K => boxed::<BlockQ6K>(map, range),
            GgmlDType::Q8K => boxed::<BlockQ8K>(map, range),
        }?;
        Ok(Self { weights, n_out, n_in })
    }

    /// `[n_rows, n_in]` to `[n_rows, n_out]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (n_rows, n_in) = x.dims2()?;
        if n_in != self.n_in {
            bail!("rows of {n_in} values meet a matrix of [{}, {}]", self.n_out, self.n_in)
        }
        let out = rows_of(x, |rows| self.weights.product((n_rows, self.n_in, self.n_out), rows))?;
        Tensor::from_vec(out, (n_rows, self.n_out), &Device::Cpu)
    }

    /// Rows `idxs`, unpacked: `[idxs.len(), n_in]`. Only the pages that hold them are read.
    pub fn rows(&self, idxs: impl ExactSizeIterator<Item = u32>) -> Result<Tensor> {
        let n_rows = idxs.len();
        let mut out = vec![0.0; n_rows * self.n_in];
        for (idx, row) in idxs.zip(out.chunks_exact_mut(self.n_in)) {
            if idx as usize >= self.n_out {
                bail!("row {idx} of a matrix of {} rows", self.n_out)
            }
            self.weights.row(idx as usize, row);
        }
        Tensor::from_vec(out, (n_rows, self.n_in), &Device::Cpu)
    }
}

/// Looks at a contiguous f32 tensor's values where they are.
pub(crate) fn rows_of<R>(x: &Tensor, look: impl FnOnce(&[f32]) -> R) -> Result<R> {
    let (storage, layout) = x.storage_and_layout();
    let Some((start, end)) = layout.contiguous_offsets() else { bail!("a tensor that is not contiguous") };
    match &*storage {
        Storage::Cpu(cpu) => Ok(look(&cpu.as_slice::<f32>()?[start..end])),
        Storage::Cuda(_) | Storage::Metal(_) => bail!("a tensor that is not in main memory"),
    }
}
