//! The outputs of a comparison: tensors that are sent or resident, matched by name.

use std::collections::HashMap;

use accelerd_kernels::ops::{
    compare::{Pair, Policy},
    tensor::TensorInput,
};
use accelerd_tensor::TensorType;
use bytes::Bytes;

use super::{policy::Policies, service::VerificationService};
use crate::{
    auth::caller::Caller,
    error::ApiError,
    small_outputs::SmallOutput,
    tensors::{resident_tensors::ResidentTensors, source::TensorSource, table::Listed},
};

/// A tensor that a caller passes, and its name.
pub(crate) type NamedSource = (String, TensorSource);

/// Returns true if an output passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputVerdict {
    Passed,
    Mismatch,
    ShapeMismatch,
    DtypeMismatch,
}

/// An output with its expectation.
pub(super) struct Output {
    pub(super) name: String,
    pub(super) actual: TensorType,
    pub(super) expected: TensorType,
    pub(super) policy: Policy,
    /// Why the elements are not compared.
    pub(super) incomparable: Option<OutputVerdict>,
    /// True if elements are compared by rank.
    pub(super) any_order: bool,
    /// True if the request does not set the absolute tolerance.
    pub(super) has_default_atol: bool,
    /// Set if the absolute tolerance accepts errors that are large relative to the expected numbers.
    pub(super) small: Option<SmallOutput>,
    inputs: [TensorInput; 2],
}

/// The outputs of a message, with the resident tensors among them, which count towards their owner's quota until they are dropped.
pub(super) struct Outputs {
    pub(super) outputs: Vec<Output>,
    _resident: Vec<Listed>,
}

/// Reads outputs of one caller.
pub(super) struct Decoder<'a> {
    pub(super) resident: &'a ResidentTensors,
    pub(super) caller: &'a Caller,
    pub(super) policies: &'a Policies,
    pub(super) max_outputs: usize,
    /// Of the names of fields.
    pub(super) prefix: &'static str,
}

/// A decoded tensor.
pub(super) type Decoded = (String, TensorType, TensorInput);

impl VerificationService {
    /// Reads outputs of a caller, whose fields have a prefix.
    pub(super) fn decoder<'a>(
        &'a self,
        caller: &'a Caller,
        policies: &'a Policies,
        prefix: &'static str,
    ) -> Decoder<'a> {
        Decoder { resident: &self.resident, caller, policies, max_outputs: self.max_outputs, prefix }
    }
}

impl Decoder<'_> {
    /// The outputs of two lists.
    pub(super) fn outputs(&self, actual: Vec<NamedSource>, expected: Vec<NamedSource>) -> Result<Outputs, ApiError> {
        let mut resident = vec![];
        let actual = self.tensors("actual", actual, &mut resident)?;
        let expected = self.tensors("expected", expected, &mut resident)?;
        let outputs = self.matched(actual, expected)?;
        Ok(Outputs { outputs, _resident: resident })
    }

    /// Matches tensors by name.
    pub(super) fn matched(&self, actual: Vec<Decoded>, expected: Vec<Decoded>) -> Result<Vec<Output>, ApiError> {
        let position = |name: &String| actual.iter().position(|(other, ..)| other == name);
        let places: HashMap<String, usize> =
            expected.iter().enumerate().map(|(nth, (name, ..))| (name.clone(), nth)).collect();
        if let Some(nth) = expected.iter().position(|(name, ..)| position(name).is_none()) {
            return Err(self.unmatched("expected", nth, &expected[nth].0, "actual"));
        }
        let mut expected: Vec<_> = expected.into_iter().map(Some).collect();
        let outputs = actual.into_iter().enumerate().map(|(nth, (name, of, input))| {
            let found = places.get(&name).and_then(|place| expected[*place].take());
            let (_, expected, reference) = found.ok_or_else(|| self.unmatched("actual", nth, &name, "expected"))?;
            Ok(self.output(name, of, expected, [input, reference]))
        });
        outputs.collect()
    }

    /// Tensors that are part of the message, for what runs on the host.
    pub(super) fn inline_tensors(
        &self,
        list: &str,
        tensors: Vec<NamedSource>,
    ) -> Result<Vec<(String, TensorType, Bytes)>, ApiError> {
        let mut resident = vec![];
        let tensors = self.tensors(list, tensors, &mut resident)?;
        let inline = |(nth, (name, of, input)): (usize, Decoded)| match input {
            TensorInput::Inline(data) => Ok((name, of, data)),
            TensorInput::Resident(_) => {
                let reason = "expected a tensor in the message, for functions run on the host, got a handle";
                Err(ApiError::invalid(format!("{}.handle", self.field(list, nth)), reason))
            }
        };
        tensors.into_iter().enumerate().map(inline).collect()
    }

    fn output(&self, name: String, actual: TensorType, expected: TensorType, inputs: [TensorInput; 2]) -> Output {
        let policy = self.policies.of(&name);
        let is_shape_fit = if policy.ignores_shape {
            actual.elements() == expected.elements()
        } else {
            actual.shape == expected.shape
        };
        let incomparable = if actual.dtype == expected.dtype {
            (!is_shape_fit).then_some(OutputVerdict::ShapeMismatch)
        } else {
            Some(OutputVerdict::DtypeMismatch)
        };
        let any_order = policy.any_order;
        let has_default_atol = policy.has_default_atol();
        let policy = policy.policy(expected.dtype);
        Output { name, actual, expected, policy, incomparable, any_order, has_default_atol, small: None, inputs }
    }

    /// The tensors of a list, whose names are unique. Resident ones are added to `resident`.
    fn tensors(
        &self,
        list: &str,
        tensors: Vec<NamedSource>,
        resident: &mut Vec<Listed>,
    ) -> Result<Vec<Decoded>, ApiError> {
        let count = tensors.len();
        let max = self.max_outputs;
        if !(1..=max).contains(&count) {
            let reason = format!("expected 1 to {max} tensors, got {count}");
            return Err(ApiError::invalid(format!("{}{list}", self.prefix), reason));
        }
        let mut names = HashMap::new();
        let tensors = tensors.into_iter().enumerate().map(|(nth, (name, source))| {
            let field = self.field(list, nth);
            if names.insert(name.clone(), nth).is_some() {
                return Err(ApiError::invalid(
                    format!("{field}.name"),
                    format!("expected unique names, got {name:?} twice"),
                ));
            }
            let (of, input, listed) = self.resident.input(self.caller, source)?;
            resident.extend(listed);
            Ok((name, of, input))
        });
        tensors.collect()
    }

    fn unmatched(&self, list: &str, nth: usize, name: &str, other: &str) -> ApiError {
        let shown: String = name.chars().take(64).collect();
        let reason = format!("expected the name of a tensor in {}{other}, got {shown:?}", self.prefix);
        ApiError::invalid(format!("{}.name", self.field(list, nth)), reason)
    }

    fn field(&self, list: &str, nth: usize) -> String {
        format!("{}{list}[{nth}]", self.prefix)
    }
}

impl Output {
    /// The tensors to compare, if they can be, with verdicts of `rows` rows.
    pub(super) fn pair(&self, max_mismatches: usize, rows: usize) -> Option<Pair> {
        let [actual, expected] = self.inputs.clone();
        self.incomparable.is_none().then(|| Pair {
            dtype: self.expected.dtype,
            elements: self.expected.elements(),
            actual,
            expected,
            policy: self.policy,
            max_mismatches,
            rows,
        })
    }

    /// The expected tensor.
    pub(super) fn expected_input(&self) -> &TensorInput {
        let [_, expected] = &self.inputs;
        expected
    }

    /// Only the description.
    pub(super) fn without_elements(self) -> Self {
        let none = || TensorInput::Inline(Bytes::new());
        Self { inputs: [none(), none()], ..self }
    }

    /// Rows along the first dimension.
    pub(super) fn rows(&self) -> usize {
        self.actual.shape.first().copied().unwrap_or(1)
    }
}
