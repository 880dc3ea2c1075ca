//! The columns of a call, and those that a slice of it adds.

use crate::{
    abi::{ScalarType, Signature},
    outcome::Outcome,
    refusal::Refusal,
};

/// Input columns of all cases of a call.
pub(super) struct InputColumns {
    body: Vec<u8>,
    /// Start in the body, and bytes of a case.
    columns: Vec<(usize, usize)>,
}

impl InputColumns {
    pub(super) fn new(signature: &Signature, case_count: u64, body: Vec<u8>) -> Result<Self, Refusal> {
        let expected = signature.input_bytes().saturating_mul(case_count);
        let got = body.len() as u64;
        if expected != got {
            return Err(Refusal::ColumnMismatch { what: "all columns".into(), expected, got });
        }
        let mut start = 0;
        let columns = signature.input_columns().into_iter().map(|bytes| {
            let column = (start, to_usize(bytes));
            start += to_usize(bytes * case_count);
            column
        });
        Ok(Self { columns: columns.collect(), body })
    }

    /// Bytes of cases from `first` on in a column.
    pub(super) fn cases(&self, column: usize, first: usize, count: usize) -> &[u8] {
        let (start, bytes) = self.columns[column];
        &self.body[start + first * bytes..][..count * bytes]
    }
}

/// Outcomes and output columns of a slice. Cases count from the start of the slice.
pub(super) struct OutputColumns {
    outcomes: Vec<u8>,
    columns: Vec<Vec<u8>>,
    case_bytes: Vec<usize>,
}

impl OutputColumns {
    pub(super) fn new(signature: &Signature) -> Self {
        let case_bytes: Vec<_> = signature.output_columns().into_iter().map(to_usize).collect();
        Self { outcomes: vec![], columns: vec![vec![]; case_bytes.len()], case_bytes }
    }

    /// Makes room for `cases`: all are ok and zero.
    pub(super) fn reset(&mut self, cases: usize) {
        self.outcomes.clear();
        self.outcomes.resize(cases, Outcome::Ok.code());
        for (column, bytes) in self.columns.iter_mut().zip(&self.case_bytes) {
            column.clear();
            column.resize(cases * bytes, 0);
        }
    }

    /// Bytes of a case in a column.
    pub(super) fn case_mut(&mut self, column: usize, case: usize) -> &mut [u8] {
        self.cases_mut(column, case, 1)
    }

    /// Bytes of cases from `first` on in a column.
    pub(super) fn cases_mut(&mut self, column: usize, first: usize, count: usize) -> &mut [u8] {
        let bytes = self.case_bytes[column];
        &mut self.columns[column][first * bytes..][..count * bytes]
    }

    /// Ends a case. The results of one that failed are zero.
    pub(super) fn set_outcome(&mut self, case: usize, outcome: Outcome) {
        self.outcomes[case] = outcome.code();
        if outcome != Outcome::Ok {
            for column in 0..self.columns.len() {
                self.case_mut(column, case).fill(0);
            }
        }
    }

    /// The body of a response with the first `cases`.
    pub(super) fn body(&self, cases: usize) -> Vec<&[u8]> {
        let columns = self.columns.iter().zip(&self.case_bytes).map(|(column, bytes)| &column[..cases * bytes]);
        std::iter::once(&self.outcomes[..cases]).chain(columns).collect()
    }
}

/// Lengths are at most those of messages, which fit in memory.
fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The argument that a value of a column is.
pub(super) fn argument(ty: ScalarType, bytes: &[u8]) -> wasmtime::Val {
    use wasmtime::Val;
    let bits = little_endian(bytes);
    match ty {
        ScalarType::Bool => Val::I32((bits != 0).into()),
        ScalarType::I8 => Val::I32(low32(bits) << 24 >> 24),
        ScalarType::I16 => Val::I32(low32(bits) << 16 >> 16),
        ScalarType::U8 | ScalarType::U16 | ScalarType::I32 | ScalarType::U32 => Val::I32(low32(bits)),
        ScalarType::I64 | ScalarType::U64 => Val::I64(bits.cast_signed()),
        ScalarType::F32 => Val::F32(low32(bits).cast_unsigned()),
        ScalarType::F64 => Val::F64(bits),
    }
}

/// Writes a returned value to a column.
#[expect(clippy::wildcard_enum_match_arm, reason = "values of other types have no column")]
pub(super) fn write_result(ty: ScalarType, value: &wasmtime::Val, to: &mut [u8]) {
    use wasmtime::Val;
    let bits = match value {
        Val::I32(value) if ty == ScalarType::Bool => (*value != 0).into(),
        Val::I32(value) => value.cast_unsigned().into(),
        Val::I64(value) => value.cast_unsigned(),
        Val::F32(bits) => (*bits).into(),
        Val::F64(bits) => *bits,
        _ => unreachable!("the type of the function was compared with the signature"),
    };
    to.copy_from_slice(&bits.to_le_bytes()[..to.len()]);
}

fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn low32(bits: u64) -> i32 {
    (bits as u32).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_arguments_are_extended_by_their_type() {
        let i32_of = |ty, bytes: &[u8]| argument(ty, bytes).unwrap_i32();
        assert_eq!(i32_of(ScalarType::I8, &[0x80]), -128);
        assert_eq!(i32_of(ScalarType::U8, &[0x80]), 128);
        assert_eq!(i32_of(ScalarType::I16, &[0, 0x80]), -32768);
        assert_eq!(i32_of(ScalarType::U16, &[0, 0x80]), 32768);
        assert_eq!(i32_of(ScalarType::Bool, &[7]), 1);
        assert_eq!(i32_of(ScalarType::U32, &[0xff; 4]), -1);
    }

    #[test]
    fn columns_of_another_length_are_refused() {
        let signature = Signature::scalar(&[ScalarType::F64, ScalarType::I8], &[]);
        assert!(InputColumns::new(&signature, 2, vec![0; 18]).is_ok());
        for length in [0, 17, 19] {
            assert!(InputColumns::new(&signature, 2, vec![0; length]).is_err(), "{length} bytes");
        }
        assert!(InputColumns::new(&signature, u64::MAX, vec![]).is_err());
    }
}
