//! The file format of table models, which `builtin/table.py` writes: magic, shape, vocabulary, character map, scales,
//! int8 rows, SHA-256.

use sha2::{Digest, Sha256};

use crate::{characters::Characters, error::ModelError};

const MAGIC: &[u8] = b"ACCTABLE";
const VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 32;

/// The contents of a file.
pub(crate) struct Parts<'a> {
    pub(crate) dim: usize,
    pub(crate) offered_dimensions: Vec<u32>,
    pub(crate) pieces: Vec<&'a str>,
    pub(crate) characters: Characters,
    pub(crate) scales: Vec<f32>,
    pub(crate) values: Vec<i8>,
    pub(crate) sha256: String,
}

/// Reads a file. Allocations are bounded by its size.
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
    let rows = word(&mut rest, "rows")?;
    let dim = word(&mut rest, "columns")?;
    let offered_dimensions = dimensions(&mut rest, rows, dim)?;
    let pieces: Vec<_> = lines(&mut rest, "vocabulary")?.collect();
    if pieces.len() != rows as usize {
        return Err(ModelError::VocabularySize { expected: rows as usize, got: pieces.len() });
    }
    let characters = Characters::new(lines(&mut rest, "character map")?)?;
    let scales = scales(&mut rest, rows)?;
    let values =
        take(&mut rest, "values", u64::from(rows) * u64::from(dim))?.iter().map(|byte| byte.cast_signed()).collect();
    if rest.len() != CHECKSUM_BYTES {
        return Err(ModelError::Trailing(rest.len().saturating_sub(CHECKSUM_BYTES)));
    }
    Ok(Parts { dim: dim as usize, offered_dimensions, pieces, characters, scales, values, sha256 })
}

/// Verifies the SHA-256 at the end; returns that of the whole file, in hexadecimal.
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

/// Reads a length and that many bytes of lines.
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

/// Splits off the first bytes.
fn take<'a>(rest: &mut &'a [u8], part: &'static str, bytes: u64) -> Result<&'a [u8], ModelError> {
    let taken = usize::try_from(bytes).ok().and_then(|bytes| rest.split_at_checked(bytes));
    let (taken, after) = taken.ok_or(ModelError::Truncated { part, expected: bytes, got: rest.len() as u64 })?;
    *rest = after;
    Ok(taken)
}
