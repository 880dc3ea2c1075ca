//! Rows of numbers in requests.

use accelerd_kernels::Matrix;
use bytes::Bytes;

use crate::error::ApiError;

/// The f32 matrix of `shape` with these bytes, which it shares. `field` names it in errors, which include NaN and infinite values.
pub(crate) fn finite_rows(field: &str, shape: &[i64], data: Bytes) -> Result<Matrix, ApiError> {
    let (rows, cols) = extents(field, shape)?;
    let matrix = Matrix::from_bytes(rows, cols, data)
        .map_err(|error| ApiError::invalid(format!("{field}.data"), error.to_string()))?;
    match matrix.first_non_finite() {
        None => Ok(matrix),
        Some((row, column)) => {
            let reason = format!("expected finite numbers, got NaN or infinity in row {row}, column {column}");
            Err(ApiError::invalid(format!("{field}.data"), reason))
        }
    }
}

fn extents(field: &str, shape: &[i64]) -> Result<(usize, usize), ApiError> {
    let shape_field = format!("{field}.shape");
    let &[rows, cols] = shape else {
        return Err(ApiError::invalid(shape_field, format!("expected 2 extents, got {}", shape.len())));
    };
    match (usize::try_from(rows), usize::try_from(cols)) {
        (Ok(_), Ok(0)) if rows > 0 => Err(ApiError::invalid(shape_field, format!("expected columns, got [{rows}, 0]"))),
        (Ok(rows), Ok(cols)) => Ok((rows, cols)),
        _ => Err(ApiError::invalid(shape_field, format!("expected extents of at least 0, got [{rows}, {cols}]"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f32]) -> Bytes {
        bytemuck::cast_slice(numbers).to_vec().into()
    }

    fn refused(shape: &[i64], numbers: &[f32]) -> String {
        finite_rows("queries", shape, bytes(numbers)).expect_err("it is bad").to_string()
    }

    #[test]
    fn a_matrix_shares_its_bytes() {
        let data = bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let matrix = finite_rows("queries", &[2, 3], data.clone()).expect("it is good");
        assert_eq!((matrix.rows(), matrix.cols()), (2, 3));
        assert_eq!(matrix.bytes().as_ptr(), data.as_ptr());
        assert!(finite_rows("queries", &[0, 7], Bytes::new()).is_ok());
    }

    #[test]
    fn bad_rows_name_the_field_and_what_is_wrong() {
        let pair = [1.0, 2.0];
        assert_eq!(refused(&[2], &pair), "queries.shape: expected 2 extents, got 1");
        assert_eq!(refused(&[-1, 2], &pair), "queries.shape: expected extents of at least 0, got [-1, 2]");
        assert!(refused(&[2, 2], &pair).starts_with("queries.data: shape [2, 2] needs 16 bytes, got 8"));
        assert!(refused(&[i64::MAX, i64::MAX], &pair).starts_with("queries.data: "));
        assert!(refused(&[i64::MAX, 0], &[]).starts_with("queries.shape: "));
        let nan = refused(&[2, 2], &[1.0, 2.0, 3.0, f32::NAN]);
        assert!(nan.starts_with("queries.data: ") && nan.ends_with("row 1, column 1"), "{nan}");
    }
}
