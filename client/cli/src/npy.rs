//! Reads and writes NumPy's .npy files: f32, C order, one or two dimensions. The format is described in NumPy's
//! `numpy.lib.format`.

use std::{
    fs,
    io::{BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use accelerd_client::Matrix;

use crate::error::{CliError, Result};

/// Size of a header, with room for any shape.
const HEADER: usize = 128;

/// The first bytes of a file.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

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

/// A version 1 header, padded to a multiple of 64 bytes.
fn header(kind: &str, shape: &str) -> Vec<u8> {
    let facts = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = HEADER - MAGIC.len() - 4;
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend(u16::try_from(length).expect("two numbers fit a short header").to_le_bytes());
    header.extend(format!("{facts:<width$}\n", width = length - 1).as_bytes());
    header
}

fn parse(bytes: &[u8]) -> Result<Matrix, String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("not a .npy file")?;
    let (facts, data) = split_header(rest).ok_or("the file ends in its header")?;
    let facts = std::str::from_utf8(facts).map_err(|_| "its header is not text")?;
    match fact(facts, "descr") {
        Some("'<f4'" | "\"<f4\"") => {}
        Some(other) => {
            return Err(format!("expected float32 (<f4), got {other}; in NumPy: array.astype('float32')"));
        }
        None => return Err("its header names no type".into()),
    }
    if fact(facts, "fortran_order") != Some("False") {
        return Err("expected C order; in NumPy: numpy.ascontiguousarray(array)".into());
    }
    let (rows, dim) = shape(fact(facts, "shape").ok_or("its header names no shape")?)?;
    let expected = rows.checked_mul(dim).and_then(|count| count.checked_mul(4));
    if expected != Some(data.len()) {
        return Err(format!("shape ({rows}, {dim}) does not fit its {} bytes of numbers", data.len()));
    }
    let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Matrix::new(data.chunks_exact(4).map(number).collect(), dim).map_err(|error| error.to_string())
}

/// The header of a file, and its elements, given what follows [`MAGIC`].
pub fn split_header(rest: &[u8]) -> Option<(&[u8], &[u8])> {
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

fn shape(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.trim_matches(['(', ')']).split(',').map(str::trim).filter(|n| !n.is_empty());
    let extents: Result<Vec<usize>, _> = numbers.map(str::parse).collect();
    match extents.as_deref() {
        Ok([dim]) => Ok((1, *dim)),
        Ok([rows, dim]) => Ok((*rows, *dim)),
        _ => Err(format!("expected one or two dimensions, got {text}")),
    }
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
}
