//! A GGUF file's header, read with distrust: every size is checked against the file before anything believes it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{Content, Value};
use domain::Bytes;

use crate::InspectError;

/// The largest header that is read. A vocabulary of 262k words with its merges takes 15 MB; in memory a hostile header
/// can take some 30 times its size, which at this limit a machine that runs models survives.
const HEADER_BYTES_MAX: u64 = 32 << 20;

/// The header of one file.
#[derive(Debug)]
pub(crate) struct Header {
    pub path: PathBuf,
    metadata: HashMap<String, Value>,
    pub tensors: BTreeMap<String, TensorPlace>,
}

/// Where a tensor lies in its file; inside it, whatever the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorPlace {
    pub dtype: GgmlDType,
    /// Rows first: `[n_out, n_in]` of a matrix.
    pub dims: Vec<usize>,
    pub range: Range<u64>,
}

impl TensorPlace {
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.range.end - self.range.start)
    }
}

impl Header {
    pub fn read(path: &Path) -> Result<Self, InspectError> {
        let io = |cause: io::Error| InspectError::Io { path: path.to_owned(), cause };
        let file = File::open(path).map_err(io)?;
        let file_len = file.metadata().map_err(io)?.len();
        let mut reader = HeaderReader::new(file, file_len);
        let content = Content::read(&mut reader)
            .map_err(|error| InspectError::BadHeader { path: path.to_owned(), cause: error.to_string() })?;
        let mut tensors = BTreeMap::new();
        for (name, tensor) in content.tensor_infos {
            let place =
                place(tensor.ggml_dtype, tensor.shape.dims(), content.tensor_data_offset, tensor.offset, file_len)
                    .map_err(|problem| InspectError::BadTensor {
                        path: path.to_owned(),
                        tensor: name.clone(),
                        problem,
                    })?;
            tensors.insert(name, place);
        }
        Ok(Self { path: path.to_owned(), metadata: content.metadata, tensors })
    }

    /// A number that must be there, whatever integer type the file gives it.
    pub fn count(&self, key: &str) -> Result<usize, InspectError> {
        self.optional_count(key)?.ok_or_else(|| self.missing(key))
    }

    pub fn optional_count(&self, key: &str) -> Result<Option<usize>, InspectError> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match integer(value).and_then(|n| usize::try_from(n).ok()) {
            Some(count) => Ok(Some(count)),
            None => Err(self.bad_value(key, "a count", value)),
        }
    }

    pub fn optional_float(&self, key: &str) -> Result<Option<f32>, InspectError> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        let float = value.to_f32().or_else(|_| value.to_f64().map(|x| x as f32));
        match float {
            Ok(float) if float.is_finite() => Ok(Some(float)),
            Ok(_) | Err(_) => Err(self.bad_value(key, "a finite number", value)),
        }
    }

    pub fn text(&self, key: &str) -> Result<&str, InspectError> {
        self.optional_text(key)?.ok_or_else(|| self.missing(key))
    }

    pub fn optional_text(&self, key: &str) -> Result<Option<&str>, InspectError> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match value.to_string() {
            Ok(text) => Ok(Some(text.as_str())),
            Err(_) => Err(self.bad_value(key, "a text", value)),
        }
    }

    pub fn optional_flag(&self, key: &str) -> Result<Option<bool>, InspectError> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        value.to_bool().map(Some).map_err(|_| self.bad_value(key, "true or false", value))
    }

    pub fn texts(&self, key: &str) -> Result<Vec<&str>, InspectError> {
        self.list(key, "a list of texts", |value| value.to_string().ok().map(String::as_str))
    }

    pub fn counts(&self, key: &str) -> Result<Vec<u32>, InspectError> {
        let count = |value: &Value| integer(value).and_then(|n| u32::try_from(n).ok());
        self.list(key, "a list of counts", count)
    }

    fn list<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, InspectError> {
        let value = self.metadata.get(key).ok_or_else(|| self.missing(key))?;
        let list = value.to_vec().ok().and_then(|values| values.iter().map(read).collect());
        list.ok_or_else(|| self.bad_value(key, expected, value))
    }

    pub fn has(&self, key: &str) -> bool {
        self.metadata.contains_key(key)
    }

    fn missing(&self, key: &str) -> InspectError {
        InspectError::Missing { path: self.path.clone(), key: key.to_owned() }
    }

    fn bad_value(&self, key: &str, expected: &'static str, got: &Value) -> InspectError {
        let got = match (got.to_vec(), got.to_string()) {
            (Ok(values), _) => format!("a list of {}", values.len()),
            (_, Ok(text)) => format!("the text `{}`", text.chars().take(40).collect::<String>()),
            (Err(_), Err(_)) => format!("{got:?}"),
        };
        InspectError::BadValue { path: self.path.clone(), key: key.to_owned(), expected, got }
    }
}

/// A whole number, whatever its type in the file.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::U8(n) => Some(i64::from(*n)),
        Value::I8(n) => Some(i64::from(*n)),
        Value::U16(n) => Some(i64::from(*n)),
        Value::I16(n) => Some(i64::from(*n)),
        Value::U32(n) => Some(i64::from(*n)),
        Value::I32(n) => Some(i64::from(*n)),
        Value::U64(n) => i64::try_from(*n).ok(),
        Value::I64(n) => Some(*n),
        Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::String(_) | Value::Array(_) => None,
    }
}

fn place(
    dtype: GgmlDType,
    dims: &[usize],
    data_offset: u64,
    offset: u64,
    file_len: u64,
) -> Result<TensorPlace, String> {
    let row_len = dims.last().copied().unwrap_or(1);
    if !row_len.is_multiple_of(dtype.block_size()) {
        return Err(format!("its rows of {row_len} values do not divide into blocks of {}", dtype.block_size()));
    }
    let n_values = dims.iter().try_fold(1_u64, |n, &dim| n.checked_mul(dim as u64));
    let n_bytes = n_values.and_then(|n| (n / dtype.block_size() as u64).checked_mul(dtype.type_size() as u64));
    let start = data_offset.checked_add(offset);
    let end = start.zip(n_bytes).and_then(|(start, n_bytes)| start.checked_add(n_bytes));
    match start.zip(end) {
        Some((_, end)) if n_bytes == Some(0) || end == data_offset => Err("it holds no values".to_owned()),
        Some((start, end)) if end <= file_len => Ok(TensorPlace { dtype, dims: dims.to_vec(), range: start..end }),
        Some((_, end)) => Err(format!("it ends at byte {end} of a file of {file_len}")),
        None => Err("its size is out of all bounds".to_owned()),
    }
}

/// Reads no further than a header may reach, and stops at the one value that would make candle divide by zero.
struct HeaderReader {
    file: BufReader<File>,
    file_len: u64,
    position: u64,
    /// What is expected next of `general.alignment`: its key was read, or its key and type.
    alignment: AlignmentSeen,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AlignmentSeen {
    No,
    Key,
    KeyAndType,
}

impl HeaderReader {
    fn new(file: File, file_len: u64) -> Self {
        Self { file: BufReader::new(file), file_len, position: 0, alignment: AlignmentSeen::No }
    }

    fn watch_alignment(&mut self, read: &[u8]) -> io::Result<()> {
        self.alignment = match self.alignment {
            AlignmentSeen::No if read == b"general.alignment" => AlignmentSeen::Key,
            AlignmentSeen::No => AlignmentSeen::No,
            AlignmentSeen::Key => AlignmentSeen::KeyAndType,
            AlignmentSeen::KeyAndType if read.iter().all(|&byte| byte == 0) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "`general.alignment` is 0"));
            }
            AlignmentSeen::KeyAndType => AlignmentSeen::No,
        };
        Ok(())
    }
}

impl Read for HeaderReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_exact(buffer)?;
        Ok(buffer.len())
    }

    /// The header's reader asks for each value with one call of this.
    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.position = self.position.saturating_add(buffer.len() as u64);
        if self.position > HEADER_BYTES_MAX {
            let cause = format!("the header is longer than {}", Bytes::new(HEADER_BYTES_MAX));
            return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
        }
        self.file.read_exact(buffer)?;
        self.watch_alignment(buffer)
    }
}

impl Seek for HeaderReader {
    /// Candle looks at the file's end to learn its length, and comes back; nothing is read in between.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::End(0) => Ok(self.file_len),
            SeekFrom::Start(position) if position == self.position => Ok(position),
            SeekFrom::Current(0) => Ok(self.position),
            SeekFrom::Start(_) | SeekFrom::Current(_) | SeekFrom::End(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, format!("a header is read in order, not {to:?}")))
            }
        }
    }
}
