//! The files of a folder: JSON, and tensors in one or several safetensors files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    path::{Component, Path, PathBuf},
};

use accelerd_kernels::ops::encode::{DType, Tensor};
use bytes::Bytes;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::error::LoadError;

/// Maximum size of a JSON file; the largest tokenisers have some 30 MB.
const MAX_JSON_BYTES: u64 = 256 << 20;

/// The configuration of a model.
pub(super) const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Reads a file, if it exists.
pub(super) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, LoadError> {
    let failed = |error| LoadError::Read { path: path.to_owned(), error };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = vec![];
    file.take(MAX_JSON_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_JSON_BYTES {
        return Err(LoadError::format(path, format!("is larger than {MAX_JSON_BYTES} bytes")));
    }
    Ok(Some(bytes))
}

/// Reads a JSON file, if it exists.
pub(super) fn json_if_there(path: &Path) -> Result<Option<Value>, LoadError> {
    let bytes = read_optional(path)?;
    bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(|error| LoadError::format(path, error))).transpose()
}

/// Reads a JSON object, if the file exists.
pub(super) fn optional_object(path: &Path) -> Result<Option<Map<String, Value>>, LoadError> {
    match json_if_there(path)? {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(LoadError::format(path, "is not a JSON object")),
    }
}

/// The weight files of a folder.
pub(super) fn weight_files(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let single = folder.join(WEIGHTS);
    if single.is_file() {
        return Ok(vec![single]);
    }
    let path = folder.join(INDEX);
    let Some(index) = optional_object(&path)? else {
        let pickled = folder.join("pytorch_model.bin").is_file();
        let hint = if pickled { ", but pytorch_model.bin: convert it, a pickle is a program" } else { "" };
        return Err(LoadError::NoWeights { path: folder.to_owned(), hint });
    };
    let names = index
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or_else(|| LoadError::format(&path, "has no weight_map"))?;
    let files: BTreeSet<&str> = names.values().filter_map(Value::as_str).collect();
    let plain = |name: &str| {
        let mut parts = Path::new(name).components();
        matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
    };
    match files.iter().find(|name| !plain(name)) {
        Some(name) => Err(LoadError::format(&path, format!("names {name:?}, which is not a file of this folder"))),
        None => Ok(files.into_iter().map(|name| folder.join(name)).collect()),
    }
}

/// Total size of files.
pub(super) fn total_bytes(files: &[PathBuf]) -> Result<u64, LoadError> {
    let length = |path: &PathBuf| {
        let found = fs::metadata(path).map(|data| data.len());
        found.map_err(|error| LoadError::Read { path: path.clone(), error })
    };
    files.iter().map(length).sum()
}

/// The shapes of a file's tensors by their name, without reading these; `None` unless it starts as a safetensors file.
pub(super) fn shapes(path: &Path) -> Option<BTreeMap<String, Vec<u64>>> {
    let mut file = fs::File::open(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = Some(u64::from_le_bytes(length)).filter(|length| *length <= MAX_JSON_BYTES)?;
    let mut header = vec![];
    file.take(length).read_to_end(&mut header).ok()?;
    let header: Map<String, Value> = serde_json::from_slice(&header).ok()?;
    let shape = |tensor: &Value| tensor.get("shape")?.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>();
    Some(header.iter().filter_map(|(name, tensor)| Some((name.clone(), shape(tensor)?))).collect())
}

/// All tensors of a folder, by name.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    tensors: BTreeMap<String, Found>,
    /// The prefix of all names, as in `bert.`.
    prefix: String,
    digest: Sha256,
}

#[derive(Debug)]
struct Found {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Bytes,
}

impl Checkpoint {
    /// Reads all files into memory, since a mapped file could change.
    pub(super) fn read(files: &[PathBuf]) -> Result<Self, LoadError> {
        let mut checkpoint = Self::default();
        for path in files {
            let bytes = fs::read(path).map_err(|error| LoadError::Read { path: path.clone(), error })?;
            checkpoint.digest.update(&bytes);
            checkpoint.add(path, &Bytes::from(bytes))?;
        }
        Ok(checkpoint)
    }

    fn add(&mut self, path: &Path, file: &Bytes) -> Result<(), LoadError> {
        let tensors = SafeTensors::deserialize(file)
            .map_err(|error| LoadError::format(path, format!("is truncated or no safetensors file: {error}")))?;
        for (name, view) in tensors.iter() {
            let tensor =
                Found { dtype: view.dtype(), shape: view.shape().to_vec(), bytes: file.slice_ref(view.data()) };
            self.tensors.insert(name.to_owned(), tensor);
        }
        Ok(())
    }

    /// SHA-256 of the concatenated files.
    pub(super) fn sha256(&self) -> String {
        hex::encode(self.digest.clone().finalize())
    }

    /// Sets the prefix to what precedes `name` in the file.
    pub(super) fn set_prefix(&mut self, name: &str) -> Result<(), LoadError> {
        let before = |full: &String| {
            let prefix = full.strip_suffix(name)?;
            (prefix.is_empty() || prefix.ends_with('.')).then(|| prefix.to_owned())
        };
        let shortest = self.tensors.keys().filter_map(before).min_by_key(String::len);
        self.prefix = shortest.ok_or_else(|| LoadError::MissingTensor(name.to_owned()))?;
        Ok(())
    }

    /// Returns true if a tensor has this name after any prefix.
    pub(super) fn holds(&self, name: &str) -> bool {
        let ends =
            |full: &String| full.strip_suffix(name).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'));
        self.tensors.keys().any(ends)
    }

    /// Returns true if a tensor has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(&format!("{}{name}", self.prefix))
    }

    /// The tensor with this name and shape.
    pub(super) fn take(&self, name: &str, shape: &[usize]) -> Result<Tensor, LoadError> {
        self.take_full(&format!("{}{name}", self.prefix), shape)
    }

    fn take_full(&self, name: &str, shape: &[usize]) -> Result<Tensor, LoadError> {
        let tensor = self.tensors.get(name).ok_or_else(|| LoadError::MissingTensor(name.to_owned()))?;
        if tensor.shape != shape {
            let name = name.to_owned();
            let expected = shape.to_vec();
            return Err(LoadError::Shape { name, expected, got: tensor.shape.clone() });
        }
        tensor.tensor(name)
    }

    /// The full name of a tensor with the prefix, or without it, as heads have.
    fn around(&self, name: &str) -> Result<&str, LoadError> {
        let full = format!("{}{name}", self.prefix);
        let found = self.tensors.get_key_value(&full).or_else(|| self.tensors.get_key_value(name));
        found.map(|(name, _)| name.as_str()).ok_or_else(|| LoadError::MissingTensor(name.to_owned()))
    }

    /// Rows of the tensor with this name, with or without the prefix.
    pub(super) fn rows_around(&self, name: &str) -> Result<usize, LoadError> {
        Ok(self.tensors[self.around(name)?].shape.first().copied().unwrap_or(0))
    }

    /// The tensor with this name and shape, with or without the prefix.
    pub(super) fn take_around(&self, name: &str, shape: &[usize]) -> Result<Tensor, LoadError> {
        self.take_full(self.around(name)?, shape)
    }

    /// A table of word embeddings.
    pub(super) fn matrix(&self, name: &str) -> Result<Tensor, LoadError> {
        self.tensors.get(name).ok_or_else(|| LoadError::MissingTensor(name.to_owned()))?.table(name)
    }

    /// The numbers of a tensor, if it exists.
    pub(super) fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>, LoadError> {
        self.tensors.get(name).map(|tensor| tensor.numbers(name)).transpose()
    }

    /// The indices in a tensor, if it exists.
    pub(super) fn indices(&self, name: &str) -> Result<Option<Vec<usize>>, LoadError> {
        self.tensors.get(name).map(|tensor| tensor.indices(name)).transpose()
    }

    /// The only two-dimensional tensor.
    pub(super) fn only_matrix(&self) -> Result<Tensor, LoadError> {
        let mut matrices = self.tensors.iter().filter(|(_, matrix)| matrix.shape.len() == 2);
        match (matrices.next(), matrices.next()) {
            (Some((name, matrix)), None) => matrix.table(name),
            (first, _) => {
                let got = if first.is_some() { "several" } else { "none" };
                Err(LoadError::Unsupported(format!("a table among {got} tensors of two dimensions")))
            }
        }
    }
}

impl Found {
    fn tensor(&self, name: &str) -> Result<Tensor, LoadError> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the format has many kinds of numbers, and will have more")]
        let element = match self.dtype {
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::Bf16,
            other => return Err(LoadError::Unsupported(format!("tensor {name} of {other:?}"))),
        };
        if let Some(index) = first_non_finite(element, &self.bytes) {
            return Err(LoadError::NonFinite { name: name.to_owned(), element: index });
        }
        Ok(Tensor::new(element, &self.shape, self.bytes.clone())?)
    }
}

/// The numbers of `N` bytes each.
fn each<const N: usize, T>(bytes: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|bytes| number(*bytes)).collect()
}

impl Found {
    /// A table, whose numbers may be wider or narrower than those of encoders.
    fn table(&self, name: &str) -> Result<Tensor, LoadError> {
        if ![Dtype::F64, Dtype::I8].contains(&self.dtype) {
            return self.tensor(name);
        }
        #[expect(clippy::cast_possible_truncation, reason = "a table is used in f32")]
        let bytes: Vec<_> = self.numbers(name)?.into_iter().flat_map(|number| (number as f32).to_le_bytes()).collect();
        Ok(Tensor::new(DType::F32, &self.shape, bytes.into())?)
    }

    fn numbers(&self, name: &str) -> Result<Vec<f64>, LoadError> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "all other kinds are those of encoders, or not supported")]
        let numbers = match self.dtype {
            Dtype::F64 => each(&self.bytes, f64::from_le_bytes),
            Dtype::I8 => each(&self.bytes, |byte| f64::from(i8::from_le_bytes(byte))),
            _ => self.tensor(name)?.to_f32().into_iter().map(f64::from).collect(),
        };
        match numbers.iter().position(|number| !number.is_finite()) {
            Some(element) => Err(LoadError::NonFinite { name: name.to_owned(), element }),
            None => Ok(numbers),
        }
    }

    fn indices(&self, name: &str) -> Result<Vec<usize>, LoadError> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the format has many kinds of numbers, and will have more")]
        let numbers = match self.dtype {
            Dtype::I64 => each(&self.bytes, i64::from_le_bytes),
            Dtype::I32 => each(&self.bytes, |bytes| i64::from(i32::from_le_bytes(bytes))),
            Dtype::U32 => each(&self.bytes, |bytes| i64::from(u32::from_le_bytes(bytes))),
            other => return Err(LoadError::Unsupported(format!("tensor {name} of {other:?}"))),
        };
        let index = |number: i64| {
            let reason = || format!("has {number}, which is not an index");
            usize::try_from(number).map_err(|_| LoadError::Tensor { name: name.to_owned(), reason: reason() })
        };
        numbers.into_iter().map(index).collect()
    }
}

/// Index of the first element that is NaN or infinite: one whose exponent has all bits set.
pub(super) fn first_non_finite(element: DType, bytes: &[u8]) -> Option<usize> {
    let has_full = |number: [u8; 2], exponent: u16| u16::from_le_bytes(number) & exponent == exponent;
    match element {
        DType::F32 => first(bytes, |x: [u8; 4]| !f32::from_le_bytes(x).is_finite()),
        DType::F16 => first(bytes, |x| has_full(x, 0x7c00)),
        DType::Bf16 => first(bytes, |x| has_full(x, 0x7f80)),
    }
}

/// Index of the first number of `N` bytes for which a test holds.
fn first<const N: usize>(bytes: &[u8], is_bad: impl Fn([u8; N]) -> bool) -> Option<usize> {
    /// Numbers tested without a branch, so that the loop is vectorised.
    const STEP: usize = 1024;
    let numbers = bytes.as_chunks::<N>().0;
    let has_bad = |step: &[[u8; N]]| step.iter().fold(false, |found, number| found | is_bad(*number));
    let step = numbers.chunks(STEP).position(has_bad)?;
    numbers[step * STEP..].iter().position(|number| is_bad(*number)).map(|index| step * STEP + index)
}
