//! Refuses vectors and scores with NaN or infinity, which would rank first for every query, by the item that they are of.

use accelerd_kernels::ops::encode::{Encoded, OutputType, PooledOutput};

use super::{registry::LoadedModel, requests::device_output};
use crate::error::ApiError;

/// Items that the rows of a call are of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Items {
    Texts,
    Tokens,
    Spans,
    Documents,
}

/// Names the item of a row that is not finite.
#[derive(Clone, Copy, Debug)]
pub(super) struct FiniteCheck<'a> {
    model: &'a LoadedModel,
    items: Items,
}

impl<'a> FiniteCheck<'a> {
    /// A check of what a model computes for these items.
    pub(super) fn new(model: &'a LoadedModel, items: Items) -> Self {
        Self { model, items }
    }

    /// Fails if there is a row, counted from `first`, that is not finite.
    pub(super) fn rows(&self, first: usize, row: Option<usize>) -> Result<(), ApiError> {
        self.refuse(first, row, "")
    }

    /// As [`Self::rows`], for rows that were finite before their conversion to the output type.
    pub(super) fn output(&self, first: usize, row: Option<usize>) -> Result<(), ApiError> {
        self.refuse(first, row, ": its values may exceed the range of the output type, request another or unit vectors")
    }

    /// Checks the rows from `first` as a device returned them, and converts them to the output type.
    pub(super) fn converted(
        &self,
        first: usize,
        encoded: Encoded,
        dimensions: usize,
        output: OutputType,
    ) -> Result<Encoded, ApiError> {
        let on_device = device_output(output);
        let bad = first_non_finite_row(&encoded.bytes, on_device, dimensions);
        if output == OutputType::F32 || on_device != output {
            self.rows(first, bad)?;
        } else {
            self.output(first, bad)?;
        }
        if on_device == output {
            return Ok(encoded);
        }
        let numbers: Vec<_> = f32s(&encoded.bytes).collect();
        let PooledOutput { bytes, scales } = PooledOutput::of(&numbers, dimensions, output);
        Ok(Encoded { bytes: bytes.into(), scales, rows: encoded.rows })
    }

    fn refuse(&self, first: usize, row: Option<usize>, hint: &'static str) -> Result<(), ApiError> {
        let Some(row) = row.map(|row| first + row) else { return Ok(()) };
        let item = match self.items {
            Items::Texts => format!("texts.values[{row}]"),
            Items::Tokens => format!("tokens.offsets[{row}]"),
            Items::Spans => format!("spans[{row}]"),
            Items::Documents => format!("documents.values[{row}]"),
        };
        Err(ApiError::NonFinite { model: self.model.name().to_owned(), item, hint })
    }
}

fn f32s(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number))
}

/// Index of the first row with NaN or infinity. Rows of integers have none.
pub(super) fn first_non_finite_row(bytes: &[u8], output: OutputType, dimensions: usize) -> Option<usize> {
    let all_set = |exponent: u16| {
        bytes.as_chunks::<2>().0.iter().position(|number| u16::from_le_bytes(*number) & exponent == exponent)
    };
    let position = match output {
        OutputType::F32 => f32s(bytes).position(|number| !number.is_finite()),
        OutputType::F16 => all_set(0x7c00),
        OutputType::Bf16 => all_set(0x7f80),
        OutputType::Int8 | OutputType::Binary => None,
    };
    position.map(|position| position / dimensions.max(1))
}

#[cfg(test)]
mod tests {
    use accelerd_models::Model;

    use super::*;

    fn encoded(numbers: &[f32], dimensions: usize, output: OutputType) -> Encoded {
        let PooledOutput { bytes, scales } = PooledOutput::of(numbers, dimensions, output);
        Encoded { bytes: bytes.into(), scales, rows: numbers.len() / dimensions }
    }

    #[test]
    fn rows_with_nan_or_infinity_are_refused_for_every_output_type_by_their_item() {
        let model = LoadedModel::new(Model::builtin());
        let check = FiniteCheck::new(&model, Items::Texts);
        let outputs = [OutputType::F32, OutputType::F16, OutputType::Bf16, OutputType::Int8, OutputType::Binary];
        for output in outputs {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let device = encoded(&[1.0, 2.0, 3.0, bad], 2, device_output(output));
                let refused = check.converted(10, device, 2, output).expect_err("row 1 is not finite");
                let text = refused.to_string();
                assert!(text.starts_with("texts.values[11]: model \"builtin\""), "{output:?}: {text}");
            }
        }
    }

    #[test]
    fn an_overflow_of_the_output_type_is_refused() {
        let model = LoadedModel::new(Model::builtin());
        let check = FiniteCheck::new(&model, Items::Documents);
        let large = [1.0, 1e5];
        assert!(check.converted(0, encoded(&large, 1, OutputType::F16), 1, OutputType::F16).is_err());
        assert!(check.converted(0, encoded(&large, 1, OutputType::Bf16), 1, OutputType::Bf16).is_ok());
    }

    #[test]
    fn finite_rows_are_converted_as_the_kernels_convert_them() {
        let model = LoadedModel::new(Model::builtin());
        let check = FiniteCheck::new(&model, Items::Documents);
        let numbers = [0.25, -3.0, 0.0, 7.5, 1.0, -1.0];
        for output in [OutputType::F32, OutputType::F16, OutputType::Bf16, OutputType::Int8, OutputType::Binary] {
            let device = encoded(&numbers, 3, device_output(output));
            let converted = check.converted(0, device, 3, output).expect("all are finite");
            assert_eq!(converted, encoded(&numbers, 3, output), "{output:?}");
        }
    }
}
