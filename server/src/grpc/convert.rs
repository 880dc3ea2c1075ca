//! Conversions between protobuf messages and internal types, without copying bulk data.

use std::time::{Duration, SystemTime};

use accelerd_collections::PromptChoice;
use accelerd_kernels::Matrix;
use accelerd_proto::v1::{Dtype, PointIds, Tensor};
use accelerd_store::Ids;
use bytes::Bytes;
use prost_types::Timestamp;

use crate::{collections::finite_rows, error::ApiError};

/// The f32 matrix in a tensor, sharing its bytes. `field` names it in errors, which include NaN and infinite values.
pub fn matrix(field: &str, tensor: &Tensor) -> Result<Matrix, ApiError> {
    let dtype = Dtype::try_from(tensor.dtype);
    if dtype != Ok(Dtype::F32) {
        let got = dtype.map_or_else(|_| tensor.dtype.to_string(), |dtype| dtype.as_str_name().to_owned());
        return Err(ApiError::invalid(format!("{field}.dtype"), format!("expected DTYPE_F32, got {got}")));
    }
    finite_rows(field, &tensor.shape, tensor.data.clone())
}

/// The tensor of a matrix, sharing its bytes.
pub fn tensor(matrix: &Matrix) -> Tensor {
    tensor_of(Dtype::F32, &[matrix.rows(), matrix.cols()], matrix.bytes().clone())
}

/// A tensor of raw bytes; the shape is not checked against them.
pub fn tensor_of(dtype: Dtype, shape: &[usize], data: Bytes) -> Tensor {
    let extent = |n: &usize| i64::try_from(*n).expect("extents in memory fit i64");
    Tensor { dtype: dtype.into(), shape: shape.iter().map(extent).collect(), data }
}

/// Numbers as the bytes of a tensor, without a copy.
pub fn bytes_of<T: bytemuck::NoUninit + Send>(numbers: Vec<T>) -> Bytes {
    struct Owner<T>(Vec<T>);
    impl<T: bytemuck::NoUninit> AsRef<[u8]> for Owner<T> {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
        }
    }
    Bytes::from_owner(Owner(numbers))
}

/// The ids in a field: all are numbers or all are UUIDs.
pub fn ids(field: &str, ids: &PointIds) -> Result<Ids, ApiError> {
    Ok(accelerd_collections::parse_ids(field, ids)?)
}

/// Packed ids.
pub fn packed_ids(ids: Ids) -> PointIds {
    match ids {
        Ids::Numbers(mut numbers) => {
            for number in &mut numbers {
                *number = number.to_le();
            }
            PointIds { packed_numbers: bytes_of(numbers), ..PointIds::default() }
        }
        Ids::Uuids(ids) => PointIds { packed_uuids: bytes_of(ids), ..PointIds::default() },
    }
}

/// Ids in readable form.
pub fn point_ids(ids: Ids) -> PointIds {
    match ids {
        Ids::Numbers(numbers) => PointIds { numbers, ..PointIds::default() },
        Ids::Uuids(ids) => PointIds { uuids: ids.into_iter().map(uuid_text).collect(), ..PointIds::default() },
    }
}

/// A UUID in lower case with hyphens.
pub fn uuid_text(id: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(id).hyphenated().to_string()
}

/// The prompt that a request asks for, by its name or in its own words. `field` is that of the words.
pub fn prompt(field: &str, name: String, text: Option<String>) -> Result<PromptChoice, ApiError> {
    match (name.is_empty(), text) {
        (true, None) => Ok(PromptChoice::Default),
        (true, Some(text)) => Ok(PromptChoice::Text(text)),
        (false, None) => Ok(PromptChoice::Named(name)),
        (false, Some(_)) => Err(ApiError::invalid(field, format!("expected none with {field}_name, got both"))),
    }
}

/// The time that a request sets, or the negative one as text.
pub fn time(requested: prost_types::Duration) -> Result<Duration, String> {
    let prost_types::Duration { seconds, nanos } = requested.normalized();
    let time = Duration::new(seconds.unsigned_abs(), nanos.unsigned_abs());
    if seconds < 0 || nanos < 0 { Err(format!("-{time:?}")) } else { Ok(time) }
}

/// The timestamp of `ms` milliseconds since the Unix epoch.
pub fn timestamp(ms: u64) -> Timestamp {
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    moment.map(Timestamp::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(shape: &[i64], numbers: &[f32]) -> Tensor {
        let data = bytes_of(numbers.to_vec());
        Tensor { dtype: Dtype::F32.into(), shape: shape.to_vec(), data }
    }

    #[test]
    fn a_tensor_becomes_a_matrix_and_back_without_a_copy() {
        let tensor = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let matrix = matrix("queries", &tensor).expect("it is good");
        assert_eq!((matrix.rows(), matrix.cols()), (2, 3));
        assert_eq!(matrix.bytes().as_ptr(), tensor.data.as_ptr());
        assert_eq!(super::tensor(&matrix), tensor);
    }

    #[test]
    fn the_type_of_a_tensor_is_checked_before_its_shape() {
        let bad = f32s(&[2], &[1.0, 2.0]);
        let error = |dtype| {
            let tensor = Tensor { dtype, ..bad.clone() };
            matrix("queries", &tensor).expect_err("it is bad").to_string()
        };
        assert_eq!(error(Dtype::F16.into()), "queries.dtype: expected DTYPE_F32, got DTYPE_F16");
        assert_eq!(error(77), "queries.dtype: expected DTYPE_F32, got 77");
        assert_eq!(error(Dtype::F32.into()), "queries.shape: expected 2 extents, got 1");
    }

    #[test]
    fn a_negative_time_is_shown() {
        let time = |seconds, nanos| time(prost_types::Duration { seconds, nanos });
        assert_eq!(time(1, 500_000_000), Ok(Duration::from_millis(1500)));
        assert_eq!(time(1, -250_000_000), Ok(Duration::from_millis(750)));
        for (seconds, nanos, shown) in [(-1, 0, "-1s"), (0, -5, "-5ns"), (i64::MIN, 0, "-9223372036854775808s")] {
            assert_eq!(time(seconds, nanos), Err(shown.to_owned()));
        }
    }

    #[test]
    fn ids_are_of_one_kind_and_uuids_in_any_format() {
        let uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let forms = [uuid.to_owned(), uuid.to_uppercase(), uuid.replace('-', ""), format!("urn:uuid:{uuid}")];
        let parsed = ids("ids", &PointIds { uuids: forms.to_vec(), ..PointIds::default() }).expect("all are UUIDs");
        assert_eq!(point_ids(parsed).uuids, [uuid; 4]);
        let both = PointIds { numbers: vec![1], uuids: vec![uuid.into()], ..PointIds::default() };
        assert!(ids("ids", &both).is_err());
        let bad = PointIds { uuids: vec![uuid.into(), "x".into()], ..PointIds::default() };
        assert!(ids("ids", &bad).expect_err("x is none").to_string().starts_with("ids.uuids[1]: "));
    }
}
