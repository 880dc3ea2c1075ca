//! The file of a table model, whose layout `builtin/table.py` gives: magic, shape, vocabulary, character map, scales,
//! int8 rows, SHA-256.

use sha2::{Digest, Sha256};

use crate::characters::Characters;

const MAGIC: &[u8] = b"ACCTABLE";
const VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 32;

/// Why a file is no table model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// It starts with something else.
    #[error("file does not start with \"ACCTABLE\"")]
    Magic,
    /// It is of another version of the format.
    #[error("format version is {expected}, got {got}")]
    Version {
        /// The version this build reads.
        expected: u32,
        /// The version of the file.
        got: u32,
    },
    /// It ends too early.
    #[error("{part} needs {expected} bytes, {got} are left")]
    Truncated {
        /// What was being read.
        part: &'static str,
        /// Bytes it needs.
        expected: u64,
        /// Bytes there are.
        got: u64,
    },
    /// It goes on after its end.
    #[error("{0} bytes follow the values")]
    Trailing(usize),
    /// It was changed after it was written.
    #[error("checksum does not match the content")]
    Checksum,
    /// It has no rows or no columns.
    #[error("table of [{rows}, {dim}] is empty")]
    Empty {
        /// Rows.
        rows: u32,
        /// Columns.
        dim: u32,
    },
    /// The dimensions it offers are not the columns and then ever fewer.
    #[error("offered dimensions fall from {dim}, got {got:?}")]
    Dimensions {
        /// Columns of the table.
        dim: u32,
        /// Dimensions offered.
        got: Vec<u32>,
    },
    /// The vocabulary or the character map is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
    /// The vocabulary has another number of pieces than the table has rows.
    #[error("vocabulary has {got} pieces, the table {expected} rows")]
    VocabularySize {
        /// Rows of the table.
        expected: usize,
        /// Pieces of the vocabulary.
        got: usize,
    },
    /// A piece is empty or has a character other than a lower-case letter or a digit.
    #[error("piece {0:?} is not of lower-case letters and digits")]
    BadPiece(String),
    /// A piece is there twice.
    #[error("piece {0:?} is there twice")]
    DuplicatePiece(String),
    /// Some words could not be written in pieces.
    #[error("vocabulary has {got} of {expected} single letters and digits")]
    MissingLetters {
        /// Letters and digits there are.
        expected: usize,
        /// Those in the vocabulary.
        got: usize,
    },
    /// An entry of the character map is not a character outside ASCII and at most three letters or digits.
    #[error("character map entry {0:?} is not a character and what stands for it")]
    BadCharacter(String),
    /// The character map is spread over too many pages.
    #[error("character map has characters of more than 255 pages")]
    TooManyCharacters,
    /// A scale is not a finite number.
    #[error("scale of row {0} is not finite")]
    Scale(usize),
}

/// What a file holds.
pub(crate) struct Parts<'a> {
    pub(crate) dim: usize,
    pub(crate) offered_dimensions: Vec<u32>,
    pub(crate) pieces: Vec<&'a str>,
    pub(crate) characters: Characters,
    pub(crate) scales: Vec<f32>,
    pub(crate) values: Vec<i8>,
    pub(crate) sha256: String,
}

/// Reads a file. Allocates nothing larger than the file.
pub(crate) fn parse(file: &[u8]) -> Result<Parts<'_>, ModelError> {
    let mut rest = file;
    if take(&mut rest, "magic", MAGIC.len() as u64)? != MAGIC {
        return Err(ModelError::Magic);
    }
    let version = word(&mut rest, "version")?;
    if version != VERSION {
        return Err(ModelError::Version { expected: VERSION, got: version });
    }
    let sha256 = checksum(file)?;
    let (rows, dim) = (word(&mut rest, "rows")?, word(&mut rest, "columns")?);
    let offered_dimensions = dimensions(&mut rest, rows, dim)?;
    let pieces: Vec<_> = lines(&mut rest, "vocabulary")?.collect();
    if pieces.len() != rows as usize {
        return Err(ModelError::VocabularySize { expected: rows as usize, got: pieces.len() });
    }
    let characters = Characters::new(lines(&mut rest, "character map")?)?;
    let scales = scales(&mut rest, rows)?;
    let values = take(&mut rest, "values", u64::from(rows) * u64::from(dim))?;
    let values = values.iter().map(|byte| byte.cast_signed()).collect();
    if rest.len() != CHECKSUM_BYTES {
        return Err(ModelError::Trailing(rest.len().saturating_sub(CHECKSUM_BYTES)));
    }
    Ok(Parts { dim: dim as usize, offered_dimensions, pieces, characters, scales, values, sha256 })
}

/// Compares the SHA-256 at the end with the content before it; returns that of the whole file, in hexadecimal.
fn checksum(file: &[u8]) -> Result<String, ModelError> {
    let (content, expected) = file.split_last_chunk::<CHECKSUM_BYTES>().ok_or(ModelError::Truncated {
        part: "checksum",
        expected: CHECKSUM_BYTES as u64,
        got: file.len() as u64,
    })?;
    let content = Sha256::new_with_prefix(content);
    if content.clone().finalize().as_slice() != expected {
        return Err(ModelError::Checksum);
    }
    Ok(hex::encode(content.chain_update(expected).finalize()))
}

fn dimensions(rest: &mut &[u8], rows: u32, dim: u32) -> Result<Vec<u32>, ModelError> {
    if rows == 0 || dim == 0 {
        return Err(ModelError::Empty { rows, dim });
    }
    let count = word(rest, "count of dimensions")?;
    let got = words(take(rest, "dimensions", 4 * u64::from(count))?, u32::from_le_bytes);
    if got.first() != Some(&dim) || got.last() == Some(&0) || !got.is_sorted_by(|a, b| a > b) {
        return Err(ModelError::Dimensions { dim, got });
    }
    Ok(got)
}

fn scales(rest: &mut &[u8], rows: u32) -> Result<Vec<f32>, ModelError> {
    let scales = words(take(rest, "scales", 4 * u64::from(rows))?, f32::from_le_bytes);
    match scales.iter().position(|scale| !scale.is_finite()) {
        Some(row) => Err(ModelError::Scale(row)),
        None => Ok(scales),
    }
}

/// Reads a length and as many bytes of lines.
fn lines<'a>(rest: &mut &'a [u8], part: &'static str) -> Result<impl Iterator<Item = &'a str>, ModelError> {
    let length = word(rest, part)?;
    let text = std::str::from_utf8(take(rest, part, u64::from(length))?).map_err(|_| ModelError::NotUtf8(part))?;
    Ok(text.split_terminator('\n'))
}

fn word(rest: &mut &[u8], part: &'static str) -> Result<u32, ModelError> {
    let bytes = take(rest, part, 4)?;
    Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were taken")))
}

fn words<T>(bytes: &[u8], read: fn([u8; 4]) -> T) -> Vec<T> {
    bytes.chunks_exact(4).map(|bytes| read(bytes.try_into().expect("chunks of four"))).collect()
}

/// Takes bytes off the front.
fn take<'a>(rest: &mut &'a [u8], part: &'static str, bytes: u64) -> Result<&'a [u8], ModelError> {
    let taken = usize::try_from(bytes).ok().and_then(|bytes| rest.split_at_checked(bytes));
    let (taken, after) = taken.ok_or(ModelError::Truncated { part, expected: bytes, got: rest.len() as u64 })?;
    *rest = after;
    Ok(taken)
}
