//! Calls and their results.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::{
    abi::Signature,
    limits::{CaseLimits, Isolation, Slice},
    outcome::Outcome,
    protocol::{CallRequest, MAX_SLICE_BYTES, ModuleCode, ModuleHash, SliceHeader},
    refusal::Refusal,
};

/// A module in the binary format.
#[derive(Clone, Debug)]
pub struct Module {
    binary: Bytes,
    hash: ModuleHash,
}

impl Module {
    /// Takes a binary. It is checked when it is loaded.
    pub fn new(binary: impl Into<Bytes>) -> Self {
        let binary = binary.into();
        Self { hash: ModuleHash(Sha256::digest(&binary).into()), binary }
    }

    /// Its binary.
    pub fn binary(&self) -> &Bytes {
        &self.binary
    }

    /// SHA-256 of its binary, by which child processes know it.
    pub fn hash(&self) -> ModuleHash {
        self.hash
    }
}

/// A function of a module, run for a number of cases.
#[derive(Clone, Debug)]
pub struct Call {
    /// The module.
    pub module: Module,
    /// Name of the exported function.
    pub function: String,
    /// Conversion of columns to arguments and of results to columns.
    pub signature: Signature,
    /// Number of cases.
    pub case_count: u64,
    /// A column for each parameter with input, in order: values of all cases, little-endian.
    pub columns: Vec<Bytes>,
    /// Limits of a case.
    pub limits: CaseLimits,
    /// State that cases share.
    pub isolation: Isolation,
    /// True if the module may import functions of `math`.
    pub math: bool,
}

impl Call {
    /// A call with default limits, fresh instances, and without imports.
    pub fn new(module: Module, function: impl Into<String>, signature: Signature, case_count: u64) -> Self {
        Self {
            module,
            function: function.into(),
            signature,
            case_count,
            columns: vec![],
            limits: CaseLimits::default(),
            isolation: Isolation::default(),
            math: false,
        }
    }

    /// The code that its cases run.
    pub fn code(&self) -> ModuleCode {
        ModuleCode::of_cases(&self.limits, self.isolation)
    }

    /// Compares the lengths of the columns with signature and number of cases.
    pub(super) fn check_columns(&self) -> Result<(), Refusal> {
        let case_bytes = self.signature.input_columns();
        if case_bytes.len() != self.columns.len() {
            return Err(Refusal::ColumnCount { expected: case_bytes.len() as u64, got: self.columns.len() as u64 });
        }
        for (nth, (column, bytes)) in self.columns.iter().zip(case_bytes).enumerate() {
            let expected = bytes.saturating_mul(self.case_count);
            let got = column.len() as u64;
            if expected != got {
                return Err(Refusal::ColumnMismatch { what: format!("column {nth}"), expected, got });
            }
        }
        Ok(())
    }

    /// The request for its first slice; a case may not run past the deadline of the call, which is `left` from now.
    pub(super) fn request(&self, slice: Slice, left: std::time::Duration) -> CallRequest {
        CallRequest {
            hash: self.module.hash,
            function: self.function.clone(),
            signature: self.signature.clone(),
            case_count: self.case_count,
            limits: CaseLimits { timeout: self.limits.timeout.min(left), ..self.limits },
            isolation: self.isolation,
            math: self.math,
            slice,
        }
    }

    /// Bytes of outcome and columns of a case.
    pub(super) fn response_bytes(&self) -> u64 {
        self.signature.output_bytes().saturating_add(1)
    }
}

/// Outcomes of cases, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes(Vec<u8>);

impl Outcomes {
    /// Takes the bytes of a response; `None` if one of them is not an outcome.
    fn new(codes: Vec<u8>) -> Option<Self> {
        let mut is_known = [false; 256];
        for outcome in Outcome::ALL {
            is_known[usize::from(outcome.code())] = true;
        }
        codes.iter().all(|code| is_known[usize::from(*code)]).then_some(Self(codes))
    }

    /// Number of cases.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no cases.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Outcome of a case.
    pub fn get(&self, case: usize) -> Option<Outcome> {
        self.0.get(case).and_then(|code| Outcome::from_code(*code))
    }

    /// Outcomes of all cases.
    pub fn iter(&self) -> impl Iterator<Item = Outcome> {
        self.0.iter().filter_map(|code| Outcome::from_code(*code))
    }

    /// Returns the number of cases with an outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.iter().filter(|found| *found == outcome).count()
    }

    /// The codes of the outcomes, one byte each.
    pub fn codes(&self) -> &[u8] {
        &self.0
    }
}

/// Cases of a call that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceResult {
    /// The first of them.
    pub first: u64,
    /// Their outcomes.
    pub outcomes: Outcomes,
    /// Output columns: values of these cases, little-endian. Zero for cases that failed.
    pub columns: Vec<Vec<u8>>,
    /// Fuel that they used, where it is limited.
    pub fuel_used: u64,
}

/// All cases of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallResult {
    /// Their outcomes.
    pub outcomes: Outcomes,
    /// Output columns: values of all cases, little-endian. Zero for cases that failed.
    pub columns: Vec<Vec<u8>>,
    /// Fuel that they used, where it is limited.
    pub fuel_used: u64,
}

impl SliceResult {
    /// Checks a response of the child: the slice that starts at case `next`.
    pub(super) fn new(call: &Call, next: u64, header: SliceHeader, body: &[u8]) -> Result<Self, String> {
        let left = call.case_count - next;
        if header.first != next || header.cases > left || (header.cases == 0 && left > 0) {
            return Err(format!(
                "cases {} to +{} were sent, expected up to {left} from {next}",
                header.first, header.cases
            ));
        }
        let case_bytes = call.signature.output_columns();
        let expected = header.cases.checked_mul(call.response_bytes()).filter(|bytes| *bytes <= MAX_SLICE_BYTES);
        if expected != Some(body.len() as u64) {
            return Err(format!("{} bytes were sent for {} cases", body.len(), header.cases));
        }
        let mut rest = body;
        let mut take = |case_bytes: u64| {
            let bytes = usize::try_from(case_bytes * header.cases).expect("the body has this many bytes");
            let (taken, left) = rest.split_at(bytes);
            rest = left;
            taken.to_vec()
        };
        let outcomes = Outcomes::new(take(1)).ok_or("a byte is not an outcome")?;
        let columns = case_bytes.into_iter().map(take).collect();
        Ok(Self { first: header.first, outcomes, columns, fuel_used: header.fuel })
    }
}

impl CallResult {
    /// Appends the next slice.
    pub fn append(&mut self, slice: SliceResult) {
        self.fuel_used = self.fuel_used.saturating_add(slice.fuel_used);
        if self.columns.is_empty() && self.outcomes.is_empty() {
            (self.outcomes, self.columns) = (slice.outcomes, slice.columns);
            return;
        }
        self.outcomes.0.extend(slice.outcomes.0);
        for (all, column) in self.columns.iter_mut().zip(slice.columns) {
            all.extend(column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ScalarType;

    fn call(case_count: u64) -> Call {
        let signature = Signature::scalar(&[ScalarType::I32], &[ScalarType::I16]);
        Call::new(Module::new(vec![]), "f", signature, case_count)
    }

    fn slice(first: u64, cases: u64, body: &[u8]) -> Result<SliceResult, String> {
        SliceResult::new(&call(10), 4, SliceHeader { first, cases, fuel: 0 }, body)
    }

    #[test]
    fn a_slice_is_split_to_columns() {
        let slice = slice(4, 2, &[0, 2, 1, 2, 0, 0]).expect("a valid slice");
        assert_eq!(slice.outcomes.iter().collect::<Vec<_>>(), [Outcome::Ok, Outcome::OutOfMemory]);
        assert_eq!(slice.columns, [[1, 2, 0, 0]]);
    }

    #[test]
    fn a_slice_that_does_not_fit_the_call_is_an_error() {
        assert!(slice(3, 1, &[0; 3]).is_err(), "another case");
        assert!(slice(4, 7, &[0; 21]).is_err(), "more cases than are left");
        assert!(slice(4, 0, &[]).is_err(), "no progress");
        assert!(slice(4, 2, &[0; 5]).is_err(), "too short");
        assert!(slice(4, 2, &[0; 7]).is_err(), "too long");
        assert!(slice(4, u64::MAX, &[]).is_err(), "a length that overflows");
        assert!(slice(4, 1, &[15, 0, 0]).is_err(), "an unknown outcome");
    }

    #[test]
    fn columns_of_another_number_or_length_are_refused() {
        let mut call = call(3);
        assert_eq!(call.check_columns(), Err(Refusal::ColumnCount { expected: 1, got: 0 }));
        call.columns = vec![Bytes::from_static(&[0; 11])];
        let mismatch = Refusal::ColumnMismatch { what: "column 0".into(), expected: 12, got: 11 };
        assert_eq!(call.check_columns(), Err(mismatch));
        call.columns = vec![Bytes::from_static(&[0; 12])];
        assert_eq!(call.check_columns(), Ok(()));
    }
}
