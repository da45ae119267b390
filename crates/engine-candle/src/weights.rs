//! A shard's tensors, mapped from the file: its own ranges and nothing else, so the kernel's own count of what this
//! process maps is the shard.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use candle_core::Device;
use candle_core::quantized::{QStorage, QTensor};
use domain::Bytes;
use memmap2::Mmap;

use crate::gguf::{Header, TensorPlace};
use crate::kernels::{Matrix, map_range};
use crate::{InspectError, LoadError};

/// Tensors nearer than this share a mapping: less than a page lies between them, which would be mapped anyway.
const GAP_MAX: u64 = 4096;

pub(crate) struct Weights<'a> {
    header: &'a Header,
    runs: Vec<Run>,
    pub mapped_bytes: Bytes,
    pub copied_bytes: Bytes,
}

/// Neighbouring tensors in one mapping.
struct Run {
    range: Range<u64>,
    map: Arc<Mmap>,
}

impl<'a> Weights<'a> {
    /// Maps `tensors` of the file; those that it does not have are left out.
    pub fn map(header: &'a Header, tensors: impl IntoIterator<Item = String>) -> Result<Self, LoadError> {
        let mut ranges: Vec<_> = tensors
            .into_iter()
            .filter_map(|name| header.tensors.get(&name))
            .map(|tensor| tensor.range.clone())
            .collect();
        ranges.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end + GAP_MAX => last.end = last.end.max(range.end),
                Some(_) | None => merged.push(range),
            }
        }
        let io = |cause: io::Error| InspectError::Io { path: header.path.clone(), cause };
        let file = File::open(&header.path).map_err(io)?;
        let map = |range: Range<u64>| match map_range(&file, range.clone()) {
            Ok(map) => Ok(Run { range, map: Arc::new(map) }),
            Err(cause) => {
                let bytes = Bytes::new(range.end - range.start);
                Err(LoadError::Map { path: header.path.clone(), bytes, cause })
            }
        };
        let runs = merged.into_iter().map(map).collect::<Result<_, _>>()?;
        Ok(Self { header, runs, mapped_bytes: Bytes::ZERO, copied_bytes: Bytes::ZERO })
    }

    /// `[n_out, n_in]`, used where it lies.
    pub fn matrix(&mut self, name: &str) -> Result<Matrix, LoadError> {
        let place = self.place(name)?.clone();
        let (map, range) = self.run(name, &place)?;
        let matrix = Matrix::mapped(map, range, place.dtype, &place.dims).map_err(|problem| self.bad(name, problem))?;
        self.mapped_bytes += place.bytes();
        Ok(matrix)
    }

    /// A short vector, copied out.
    pub fn vector(&mut self, name: &str) -> Result<QTensor, LoadError> {
        let place = self.place(name)?.clone();
        let (map, range) = self.run(name, &place)?;
        let storage = QStorage::from_data(Cow::Borrowed(&map[range]), &Device::Cpu, place.dtype)?;
        self.copied_bytes += place.bytes();
        Ok(QTensor::new(storage, place.dims.as_slice())?)
    }

    fn place(&self, name: &str) -> Result<&'a TensorPlace, LoadError> {
        self.header.tensors.get(name).ok_or_else(|| self.bad(name, "it is missing".to_owned()))
    }

    /// The mapping a tensor lies in, and where in it.
    fn run(&self, name: &str, place: &TensorPlace) -> Result<(Arc<Mmap>, Range<usize>), LoadError> {
        let run = self.runs.iter().find(|run| run.range.start <= place.range.start && place.range.end <= run.range.end);
        let run = run.ok_or_else(|| self.bad(name, "it is no part of this shard".to_owned()))?;
        let within = |at: u64| usize::try_from(at - run.range.start).map_err(|error| self.bad(name, error.to_string()));
        Ok((run.map.clone(), within(place.range.start)?..within(place.range.end)?))
    }

    fn bad(&self, name: &str, problem: String) -> LoadError {
        InspectError::BadTensor { path: self.header.path.clone(), tensor: name.to_owned(), problem }.into()
    }
}
