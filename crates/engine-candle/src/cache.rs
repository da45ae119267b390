//! Keys and values of every sequence in one layer.

use domain::Bytes;

use crate::LoadError;

/// One slot's keys and values, `[n_held, n_kv_heads * head_dim]` each, rotated already.
///
/// Room for the whole context is taken at once, so that nothing is ever moved; the kernel gives it pages as it fills.
#[derive(Debug)]
pub(crate) struct SlotCache {
    keys: Vec<f32>,
    values: Vec<f32>,
    row_len: usize,
}

impl SlotCache {
    pub fn new(context: usize, row_len: usize) -> Result<Self, LoadError> {
        let room = || {
            let mut room = Vec::new();
            match room.try_reserve_exact(context.saturating_mul(row_len)) {
                Ok(()) => Ok(room),
                Err(_) => Err(LoadError::NoMemory { bytes: Bytes::new(4) * context as u64 * row_len as u64 }),
            }
        };
        Ok(Self { keys: room()?, values: room()?, row_len })
    }

    pub fn n_held(&self) -> usize {
        self.keys.len() / self.row_len
    }

    pub fn truncate(&mut self, n_held: usize) {
        self.keys.truncate(n_held * self.row_len);
        self.values.truncate(n_held * self.row_len);
    }

    pub fn extend(&mut self, keys: &[f32], values: &[f32]) {
        self.keys.extend_from_slice(keys);
        self.values.extend_from_slice(values);
    }

    pub fn keys(&self) -> &[f32] {
        &self.keys
    }

    pub fn values(&self) -> &[f32] {
        &self.values
    }
}
