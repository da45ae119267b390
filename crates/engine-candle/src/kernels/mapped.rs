//! Blocks of quantised weights, used where the file is mapped. The home of this crate's `unsafe`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use candle_core::quantized::k_quants::{
    BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1,
    BlockQ8K,
};
use memmap2::{Mmap, MmapOptions};

/// Maps a range of a file for reading.
pub(crate) fn map_range(file: &File, range: Range<u64>) -> io::Result<Mmap> {
    let len = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    // SAFETY: the map is private and read-only. That no other process changes the file while it is mapped is a
    // precondition of using any model file: the store replaces files, it never rewrites them, and a file that shrinks
    // ends this rank's process (SIGBUS), which is why weights are mapped in a process of their own.
    unsafe { MmapOptions::new().offset(range.start).len(len).map_copy_read_only(file) }
}

/// Blocks of one format in a mapping that they keep alive.
pub(super) struct MappedBlocks<T> {
    map: Arc<Mmap>,
    range: Range<usize>,
    format: PhantomData<T>,
}

/// Formats whose blocks have no padding and no invalid bit patterns.
///
/// # Safety
/// Implement only for types that are whole numbers, floats, or `repr(C)` structs of them without padding.
pub(super) unsafe trait PlainBlock: Send + Sync {}

macro_rules! plain_blocks {
    ($($block:ty)*) => {
        // SAFETY: integers, floats, or `repr(C)` structs of `f16`, `f32`, `u8`, `i8`, `i16`, whose sizes GGUF fixes; candle
        // asserts those sizes at compile time, so there is no padding.
        $( unsafe impl PlainBlock for $block {} )*
    };
}

plain_blocks! {
    BlockQ4_0 BlockQ4_1 BlockQ5_0 BlockQ5_1 BlockQ8_0 BlockQ8_1 BlockQ2K BlockQ3K BlockQ4K BlockQ5K BlockQ6K BlockQ8K
    half::f16 half::bf16 f32
}

impl<T: PlainBlock> MappedBlocks<T> {
    /// Takes `range` of `map` as blocks; says what is wrong if it cannot be.
    pub fn new(map: Arc<Mmap>, range: Range<usize>) -> Result<Self, String> {
        let Some(bytes) = map.get(range.clone()) else {
            return Err(format!("bytes {range:?} lie outside its mapping of {}", map.len()));
        };
        if !bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(format!("{} bytes are no whole number of blocks of {}", bytes.len(), size_of::<T>()));
        }
        if !bytes.as_ptr().cast::<T>().is_aligned() {
            return Err(format!("it does not lie at a multiple of {} bytes", align_of::<T>()));
        }
        Ok(Self { map, range, format: PhantomData })
    }

    pub fn blocks(&self) -> &[T] {
        let bytes = &self.map[self.range.clone()];
        // SAFETY: `new` checked that the bytes lie in the mapping, which `self` keeps alive and which never moves, that they
        // are aligned for `T`, and that their number is a multiple of `T`'s size. Every bit pattern is a `T`
        // (`PlainBlock`), and the mapping is never written.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
    }
}
