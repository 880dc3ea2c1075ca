//! NumPy's file format, versions 1 to 3: f32, f16 or f64 in C order.

use std::{fs, path::Path};

use accelerd_kernels::ops::encode::{DType, Tensor};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{error::LoadError, files::first_non_finite};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a file; returns its table and its SHA-256.
pub(super) fn read(path: &Path) -> Result<(Tensor, String), LoadError> {
    let file = fs::read(path).map_err(|error| LoadError::Read { path: path.to_owned(), error })?;
    let sha256 = hex::encode(Sha256::digest(&file));
    parse(&Bytes::from(file)).map(|table| (table, sha256)).map_err(|reason| LoadError::format(path, reason))
}

fn parse(file: &Bytes) -> Result<Tensor, String> {
    let rest = file.strip_prefix(MAGIC).ok_or("does not start as an .npy file")?;
    let (&version, rest) = rest.split_first().ok_or("is truncated")?;
    let length_bytes = if version == 1 { 2 } else { 4 };
    let length = rest
        .get(1..=length_bytes)
        .ok_or("is truncated")?
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let start = MAGIC.len() + 2 + length_bytes;
    let header = file.get(start..start.saturating_add(length)).ok_or("is truncated in its header")?;
    let header = std::str::from_utf8(header).map_err(|_| "has a header that is not text")?;
    if !header.contains("'fortran_order': False") {
        return Err("is not in C order".to_owned());
    }
    let shape: Result<Vec<usize>, _> = between(header, "'shape': (", ")")
        .ok_or("has no shape")?
        .split(',')
        .map(str::trim)
        .filter(|n| !n.is_empty())
        .map(str::parse)
        .collect();
    let shape = shape.map_err(|_| "has a shape that is not counts")?;
    let numbers = file.slice(start + length..);
    let kind = between(header, "'descr': '", "'").ok_or("has no type")?;
    let (element, numbers) = match kind {
        "<f4" => (DType::F32, numbers),
        "<f2" => (DType::F16, numbers),
        "<f8" if numbers.len().is_multiple_of(8) => (DType::F32, to_f32(&numbers)),
        "<f8" => return Err("is truncated or too long: it ends within a number".to_owned()),
        other => return Err(format!("holds {other}, not <f4, <f2 or <f8")),
    };
    if let Some(index) = first_non_finite(element, &numbers) {
        return Err(format!("has NaN or infinity at element {index}"));
    }
    Tensor::new(element, &shape, numbers).map_err(|error| format!("is truncated or too long: {error}"))
}

#[expect(clippy::cast_possible_truncation, reason = "a table is used in f32")]
fn to_f32(numbers: &[u8]) -> Bytes {
    let numbers = numbers.chunks_exact(8).filter_map(|x| x.try_into().ok()).map(f64::from_le_bytes);
    numbers.flat_map(|x| (x as f32).to_le_bytes()).collect()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, numbers: &[u8]) -> Bytes {
        let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), numbers].concat().into()
    }

    #[test]
    fn tables_are_read_and_anything_else_is_named() {
        let header = |kind: &str| format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': (2, 3), }}\n");
        let floats: Vec<u8> = (0_u8..6).flat_map(|x| f32::from(x).to_le_bytes()).collect();
        let doubles: Vec<u8> = (0_u8..6).flat_map(|x| f64::from(x).to_le_bytes()).collect();
        for (kind, numbers) in [("<f4", &floats), ("<f8", &doubles)] {
            let table = parse(&file(&header(kind), numbers)).expect("a table");
            assert_eq!((table.shape(), table.to_f32()), ([2, 3].as_slice(), vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
        }
        let wrong = [
            (file(&header("<f4"), &floats[..20]), "truncated or too long"),
            (file(&header("<f8"), &[&doubles[..], &[0; 3]].concat()), "ends within a number"),
            (file(&header("<i8"), &doubles), "holds <i8"),
            (file(&header("<f4").replace("False", "True"), &floats), "C order"),
            (file(&header("<f4").replace('2', "x"), &floats), "not counts"),
            (file(&header("<f4"), &floats).slice(..20), "truncated in its header"),
            (Bytes::from_static(b"PK"), "does not start"),
        ];
        for (file, expected) in wrong {
            let reason = parse(&file).expect_err(expected);
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
