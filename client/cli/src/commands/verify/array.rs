//! Reads .npy files of any element type and number of dimensions.

use std::{fs, path::Path};

use accelerd_client::proto::{Dtype, Tensor};

use crate::{
    error::{CliError, Result},
    npy::{MAGIC, fact, split_header},
};

/// Types by their names in a header. NumPy has no bfloat16.
const TYPES: [(&str, Dtype, usize); 12] = [
    ("|b1", Dtype::Bool, 1),
    ("|u1", Dtype::U8, 1),
    ("|i1", Dtype::I8, 1),
    ("<u2", Dtype::U16, 2),
    ("<i2", Dtype::I16, 2),
    ("<u4", Dtype::U32, 4),
    ("<i4", Dtype::I32, 4),
    ("<u8", Dtype::U64, 8),
    ("<i8", Dtype::I64, 8),
    ("<f2", Dtype::F16, 2),
    ("<f4", Dtype::F32, 4),
    ("<f8", Dtype::F64, 8),
];

/// Reads an array.
pub fn read(path: &Path) -> Result<Tensor> {
    let bytes = fs::read(path).map_err(CliError::file(path))?;
    parse(&bytes).map_err(|reason| CliError::Format { path: path.to_owned(), reason })
}

fn parse(bytes: &[u8]) -> Result<Tensor, String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("not a .npy file")?;
    let (facts, data) = split_header(rest).ok_or("the file ends in its header")?;
    let facts = std::str::from_utf8(facts).map_err(|_| "its header is not text")?;
    let name = fact(facts, "descr").ok_or("its header names no type")?.trim_matches(['\'', '"']);
    let known = TYPES.iter().find(|(known, ..)| *known == name);
    let (_, dtype, size) = known.ok_or_else(|| format!("expected little-endian numbers or bool, got type {name}"))?;
    if fact(facts, "fortran_order") != Some("False") {
        return Err("expected C order; in NumPy: numpy.ascontiguousarray(array)".into());
    }
    let text = fact(facts, "shape").ok_or("its header names no shape")?;
    let extents = text.trim_matches(['(', ')']).split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape: Vec<u32> =
        extents.map(str::parse).collect::<Result<_, _>>().map_err(|_| format!("invalid shape {text}"))?;
    let bytes = shape.iter().try_fold(*size, |bytes, extent| bytes.checked_mul(usize::try_from(*extent).ok()?));
    if bytes != Some(data.len()) {
        return Err(format!("shape {text} of {name} does not fit its {} bytes of elements", data.len()));
    }
    let shape = shape.into_iter().map(i64::from).collect();
    Ok(Tensor { dtype: (*dtype).into(), shape, data: data.to_vec().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let facts = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        let length = u16::try_from(facts.len()).unwrap().to_le_bytes();
        [MAGIC, &[1, 0][..], &length, facts.as_bytes(), data].concat()
    }

    #[test]
    fn arrays_of_any_type_and_rank_are_read() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        for (descr, shape, dtype, extents) in [
            ("<f8", "()", Dtype::F64, vec![]),
            ("|i1", "(2, 1, 4)", Dtype::I8, vec![2, 1, 4]),
            ("<f2", "(4,)", Dtype::F16, vec![4]),
        ] {
            let tensor = parse(&file(descr, "False", shape, &bytes)).unwrap();
            assert_eq!((tensor.dtype(), tensor.shape, &tensor.data[..]), (dtype, extents, &bytes[..]));
        }
        assert_eq!(parse(&file("<i4", "False", "(0, 7)", &[])).unwrap().shape, [0, 7]);
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        let wrong = |descr, order, shape| parse(&file(descr, order, shape, &[0; 8])).unwrap_err();
        assert!(wrong(">f4", "False", "(2,)").contains("little-endian"));
        assert!(wrong("<c8", "False", "(1,)").contains("<c8"));
        assert!(wrong("<f4", "True", "(2,)").contains("ascontiguousarray"));
        assert!(wrong("<f4", "False", "(3,)").contains("does not fit"));
        assert!(wrong("<f4", "False", "(-2,)").contains("invalid shape"));
        assert_eq!(parse(b"PK").unwrap_err(), "not a .npy file");
    }
}
