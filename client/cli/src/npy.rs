//! Reads and writes NumPy's .npy files: matrices of f32, and tensors of all types that NumPy has. The format is described in
//! NumPy's `numpy.lib.format`.

use std::{
    fs,
    io::{BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use accelerd_client::{Matrix, proto::Tensor};
use bytes::Bytes;

use crate::{
    dtype::{self, DtypeInfo},
    error::{CliError, Result},
};

/// Size of a header, with room for any shape of up to two dimensions.
const HEADER: usize = 128;
/// The start of the elements is a multiple of this.
const ALIGNMENT: usize = 64;

/// The first bytes of a file.
const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Reads a matrix; a vector counts as one row.
pub fn read(path: &Path) -> Result<Matrix> {
    let bytes = fs::read(path).map_err(CliError::file(path))?;
    parse(&bytes).map_err(|reason| CliError::Format { path: path.to_owned(), reason })
}

/// Writes a matrix.
pub fn write(path: &Path, matrix: &Matrix) -> Result {
    let mut file = Writer::create(path)?;
    file.add(matrix.as_slice())?;
    file.finish(matrix.rows(), matrix.dim())
}

/// Reads a tensor. Its elements become little-endian and row-major.
pub fn read_tensor(path: &Path) -> Result<Tensor> {
    let bytes = fs::read(path).map_err(CliError::file(path))?;
    parse_tensor(&bytes.into()).map_err(|reason| CliError::Format { path: path.to_owned(), reason })
}

/// Writes a tensor.
pub fn write_tensor(path: &Path, tensor: &Tensor) -> Result {
    let info = dtype::of(tensor.dtype());
    let Some(code) = info.npy else {
        let reason = format!("NumPy has no {}; write a .safetensors file, or convert the result with to", info.name);
        return Err(CliError::Usage(format!("{}: {reason}", path.display())));
    };
    let extents: Vec<_> = tensor.shape.iter().map(i64::to_string).collect();
    // A tuple of one element ends in a comma.
    let comma = if extents.len() == 1 { "," } else { "" };
    let order = if info.bytes == 1 { '|' } else { '<' };
    let header = header(&format!("{order}{code}"), &format!("({}{comma})", extents.join(", ")));
    let write = || {
        let mut file = fs::File::create(path)?;
        file.write_all(&header)?;
        file.write_all(&tensor.data)
    };
    write().map_err(CliError::file(path))
}

/// Writes a vector of integers.
pub fn write_ints(path: &Path, numbers: &[i32]) -> Result {
    let mut bytes = header("<i4", &format!("({},)", numbers.len()));
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    fs::write(path, bytes).map_err(CliError::file(path))
}

/// Writes a matrix row by row. The header is written last, so an incomplete file is invalid.
pub struct Writer {
    path: PathBuf,
    file: BufWriter<fs::File>,
}

impl Writer {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<Self> {
        let create = || {
            let mut file = BufWriter::new(fs::File::create(path)?);
            file.write_all(&[0; HEADER])?;
            Ok(file)
        };
        let file = create().map_err(CliError::file(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends rows.
    pub fn add(&mut self, numbers: &[f32]) -> Result {
        let written = numbers.iter().try_for_each(|number| self.file.write_all(&number.to_le_bytes()));
        written.map_err(CliError::file(&self.path))
    }

    /// Writes the header.
    pub fn finish(mut self, rows: usize, dim: usize) -> Result {
        let mut finish = || {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(&header("<f4", &format!("({rows}, {dim})")))?;
            self.file.flush()
        };
        finish().map_err(CliError::file(&self.path))
    }
}

/// A version 1 header of at least [`HEADER`] bytes, padded to a multiple of [`ALIGNMENT`].
fn header(kind: &str, shape: &str) -> Vec<u8> {
    let facts = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let prefix = MAGIC.len() + 4;
    let length = (prefix + facts.len() + 1).next_multiple_of(ALIGNMENT).max(HEADER) - prefix;
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend(u16::try_from(length).expect("a shape fits a short header").to_le_bytes());
    header.extend(format!("{facts:<width$}\n", width = length - 1).as_bytes());
    header
}

fn parse(bytes: &[u8]) -> Result<Matrix, String> {
    let (header, data) = parse_header(bytes)?;
    if header.descr != "<f4" {
        return Err(format!("expected float32 (<f4), got {:?}; in NumPy: array.astype('float32')", header.descr));
    }
    if header.is_fortran {
        return Err("expected C order; in NumPy: numpy.ascontiguousarray(array)".into());
    }
    let (rows, dim) = match header.shape[..] {
        [dim] => (1, dim),
        [rows, dim] => (rows, dim),
        _ => return Err(format!("expected one or two dimensions, got {:?}", header.shape)),
    };
    let expected = rows.checked_mul(dim).and_then(|count| count.checked_mul(4));
    if expected != Some(data.len()) {
        return Err(format!("shape ({rows}, {dim}) does not fit its {} bytes of numbers", data.len()));
    }
    let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Matrix::new(data.chunks_exact(4).map(number).collect(), dim).map_err(|error| error.to_string())
}

fn parse_tensor(file: &Bytes) -> Result<Tensor, String> {
    let (header, data) = parse_header(file)?;
    let info = header.dtype()?;
    let count = header.shape.iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent));
    if count.and_then(|count| count.checked_mul(info.bytes)) != Some(data.len()) {
        return Err(format!("shape {:?} of {} does not fit its {} bytes", header.shape, info.name, data.len()));
    }
    let mut data = file.slice_ref(data);
    if header.descr.starts_with('>') {
        data = data.chunks_exact(info.bytes).flat_map(|element| element.iter().rev().copied()).collect();
    }
    // The other extents of a tensor without elements may be too large for strides.
    if header.is_fortran && !data.is_empty() {
        data = row_major(&data, &header.shape, info.bytes).into();
    }
    let shape = header.shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
    Ok(Tensor { dtype: info.dtype.into(), shape, data })
}

/// Elements in row-major order, of a tensor whose first dimension varies fastest.
fn row_major(data: &[u8], shape: &[usize], element: usize) -> Vec<u8> {
    let mut strides = vec![];
    shape.iter().fold(element, |stride, extent| {
        strides.push(stride);
        stride * extent
    });
    let mut ordered = Vec::with_capacity(data.len());
    let mut index = vec![0; shape.len()];
    let mut position = 0;
    while ordered.len() < data.len() {
        ordered.extend_from_slice(&data[position..position + element]);
        for dim in (0..shape.len()).rev() {
            index[dim] += 1;
            position += strides[dim];
            if index[dim] < shape[dim] {
                break;
            }
            position -= strides[dim] * shape[dim];
            index[dim] = 0;
        }
    }
    ordered
}

/// The fields of a header.
struct Header<'a> {
    descr: &'a str,
    is_fortran: bool,
    shape: Vec<usize>,
}

impl Header<'_> {
    fn dtype(&self) -> Result<&'static DtypeInfo, String> {
        let code = self.descr.strip_prefix(['<', '>', '|', '=']).unwrap_or(self.descr);
        let found = dtype::ALL.iter().find(|info| info.npy == Some(code));
        found.ok_or_else(|| format!("expected a type of {}, got {:?}", dtype::names(), self.descr))
    }
}

fn parse_header(bytes: &[u8]) -> Result<(Header<'_>, &[u8]), String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("not a .npy file")?;
    let (facts, data) = split_header(rest).ok_or("the file ends in its header")?;
    let facts = std::str::from_utf8(facts).map_err(|_| "its header is not text")?;
    let descr = fact(facts, "descr").ok_or("its header names no type")?.trim_matches(['\'', '"']);
    let is_fortran = match fact(facts, "fortran_order") {
        Some("False") => false,
        Some("True") => true,
        other => return Err(format!("expected fortran_order True or False in its header, got {other:?}")),
    };
    let shape = shape(fact(facts, "shape").ok_or("its header names no shape")?)?;
    Ok((Header { descr, is_fortran, shape }, data))
}

fn split_header(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (version, rest) = rest.split_at_checked(2)?;
    let (length, rest) = rest.split_at_checked(if version[0] == 1 { 2 } else { 4 })?;
    let length = length.iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
    rest.split_at_checked(length)
}

/// Returns the value of a key in the header, which is a Python dict literal.
pub fn fact<'a>(facts: &'a str, key: &str) -> Option<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let after = quoted.iter().find_map(|quoted| facts.split_once(quoted.as_str()))?.1;
    let value = after.trim_start().strip_prefix(':')?.trim_start();
    let end = if value.starts_with('(') || value.starts_with('[') {
        value.find([')', ']'])? + 1
    } else {
        value.find([',', '}'])?
    };
    Some(value[..end].trim())
}

fn shape(text: &str) -> Result<Vec<usize>, String> {
    let extents = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .ok_or_else(|| format!("expected a shape as (2, 3), got {text}"))?;
    let numbers = extents.split(',').map(str::trim).filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().map_err(|_| format!("expected dimensions of at least 0, got {text}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(facts: &str, numbers: &[f32]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend(u16::try_from(facts.len()).unwrap().to_le_bytes());
        bytes.extend(facts.as_bytes());
        bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        bytes
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.npy");
        let unfinished = Writer::create(&path).unwrap();
        drop(unfinished);
        assert!(read(&path).is_err(), "a file without its header is not whole");
        assert_eq!(header("<f4", &format!("({0}, {0})", usize::MAX)).len(), HEADER);
        let matrix = Matrix::new(vec![1.0, -2.5, f32::MIN_POSITIVE, 4.0, 5.0, 6.0], 3).unwrap();
        write(&path, &matrix).unwrap();
        assert_eq!(read(&path).unwrap(), matrix);
        assert_eq!(fs::read(&path).unwrap().len() % 64, 24, "the numbers start at a multiple of 64");
    }

    #[test]
    fn headers_of_other_writers_are_understood() {
        let long = "{\"shape\":[2,1],\"fortran_order\": False ,\"descr\":\"<f4\"}";
        let short = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
        assert!(parse(&file(long, &[1.0, 2.0])).is_err(), "a list is no shape");
        let vector = parse(&file(short, &[1.0, 2.0])).unwrap();
        assert_eq!((vector.rows(), vector.dim()), (1, 2));
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        let with = |descr: &str, order: &str, shape: &str| {
            let facts = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
            parse(&file(&facts, &[1.0, 2.0])).unwrap_err()
        };
        assert!(with("<f8", "False", "(1, 1)").contains("astype('float32')"));
        assert!(with("<f4", "True", "(1, 2)").contains("ascontiguousarray"));
        assert!(with("<f4", "False", "(1, 3)").contains("does not fit"));
        assert!(with("<f4", "False", "(1, 1, 2)").contains("dimensions"));
        assert!(with("<f4", "False", "(9999999999, 9999999999)").contains("does not fit"));
        assert!(with("<f4", "False", "(-1, 2)").contains("dimensions"));
        assert_eq!(parse(b"PK\x03\x04").unwrap_err(), "not a .npy file");
        assert_eq!(parse(b"\x93NUMPY\x01\x00\xff").unwrap_err(), "the file ends in its header");
    }

    fn tensor(descr: &str, order: &str, shape: &str, data: &[u8]) -> Result<Tensor, String> {
        let facts = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        let mut bytes = file(&facts, &[]);
        bytes.extend_from_slice(data);
        parse_tensor(&bytes.into())
    }

    #[test]
    fn tensors_of_all_types_and_ranks_are_written_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.npy");
        for info in dtype::ALL.iter().filter(|info| info.npy.is_some()) {
            for shape in [vec![], vec![0], vec![3, 2], vec![1; 32]] {
                let count: i64 = shape.iter().product();
                let data = (0..=250).cycle().take(info.bytes * usize::try_from(count).unwrap());
                let tensor = Tensor { dtype: info.dtype.into(), shape, data: data.collect() };
                write_tensor(&path, &tensor).unwrap();
                assert_eq!(read_tensor(&path).unwrap(), tensor, "{}", info.name);
                assert_eq!((fs::read(&path).unwrap().len() - tensor.data.len()) % ALIGNMENT, 0);
            }
        }
        let bf16 = Tensor { dtype: accelerd_client::proto::Dtype::Bf16.into(), shape: vec![0], data: Bytes::new() };
        assert!(write_tensor(&path, &bf16).unwrap_err().to_string().contains("safetensors"));
    }

    #[test]
    fn big_endian_and_column_major_tensors_are_converted() {
        let swapped = tensor(">u2", "False", "(2,)", &[0, 1, 2, 3]).unwrap();
        assert_eq!((&swapped.data[..], &swapped.shape[..]), (&[1, 0, 3, 2][..], &[2][..]));
        // Element (i, j, k) of shape (2, 3, 2) has the value 100 i + 10 j + k.
        let fortran =
            tensor("|u1", "True", "(2, 3, 2)", &[0, 100, 10, 110, 20, 120, 1, 101, 11, 111, 21, 121]).unwrap();
        assert_eq!(&fortran.data[..], [0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121]);
        assert!(tensor("<f4", "True", "(0, 3)", &[]).unwrap().data.is_empty());
    }

    #[test]
    fn files_with_any_byte_changed_are_read_or_refused() {
        let facts = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }";
        let valid = [file(facts, &[]), vec![7; 48]].concat();
        let mut read = 0;
        for index in 0..valid.len() {
            for byte in [0, 0xff, b' ', b'0', b'9', b'(', b')', b',', b'\'', b'<', b'>', b'|'] {
                let mut changed = valid.clone();
                changed[index] = byte;
                read += usize::from(parse_tensor(&changed.clone().into()).is_ok());
                assert!(parse(&changed).is_err(), "it is no matrix of float32");
            }
            assert!(parse_tensor(&valid[..index].to_vec().into()).is_err(), "it is truncated at {index}");
        }
        assert!(read > 48, "the elements may have any bytes: {read}");
    }

    #[test]
    fn tensors_without_elements_may_have_extents_beyond_any_memory() {
        for order in ["False", "True"] {
            let tensor = tensor("<f8", order, "(4611686018427387904, 4611686018427387904, 0)", &[]);
            assert!(tensor.unwrap_err().contains("does not fit"), "{order}");
            let tensor = self::tensor("<f8", order, "(4611686018427387904, 0)", &[]).unwrap();
            assert_eq!((&tensor.shape[..], tensor.data.len()), (&[1 << 62, 0][..], 0));
        }
    }

    #[test]
    fn tensors_that_cannot_be_read_say_why() {
        assert!(tensor("<c8", "False", "(1,)", &[0; 8]).unwrap_err().contains("f32, f64"));
        assert!(tensor("<f4", "False", "(2,)", &[0; 4]).unwrap_err().contains("does not fit"));
        assert!(tensor("<f4", "Maybe", "(1,)", &[0; 4]).unwrap_err().contains("fortran_order"));
        assert!(tensor("<f4", "False", "(9999999999, 9999999999)", &[]).unwrap_err().contains("does not fit"));
    }
}
