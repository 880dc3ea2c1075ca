//! Verifications: the sides that they compare, and the inputs of their cases.

use std::{
    ops::{RangeFrom, RangeInclusive, RangeToInclusive},
    time::Duration,
};

use super::Policy;
use crate::{
    KernelProgram,
    proto::{
        self, KernelDevice, OutcomePolicy, VerifyHeader,
        input_domain::{Lower, Upper},
        verify_header::{Reference, Subject},
    },
    resident::duration,
};

/// A subject, its reference, and the rules of their comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification(pub(super) VerifyHeader);

/// Function or module that computes the outputs of one side of a verification. A [`KernelProgram`] and a [`WasmFunction`] convert to it.
#[derive(Clone, Debug, PartialEq)]
pub enum VerifySide {
    /// The client, which sends its outputs with the cases.
    Given,
    /// A function in Python.
    Kernel(KernelProgram),
    /// A function of a WebAssembly module.
    Wasm(WasmFunction),
}

/// A function of a WebAssembly module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WasmFunction(proto::WasmFunction);

/// The values of a generated input: by default all of its type, but NaN and infinities. Inclusive ranges of `f64` and `i64` convert to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Domain(proto::InputDomain);

/// A bound of a [`Domain`]: an `f64` for floating-point inputs, an `i64` for integers.
pub trait DomainBound: Copy + sealed::Bound {}

mod sealed {
    use crate::proto::input_domain::{Lower, Upper};

    pub trait Bound {
        fn lower(self) -> Lower;
        fn upper(self) -> Upper;
    }
}

impl From<KernelProgram> for VerifySide {
    fn from(program: KernelProgram) -> Self {
        Self::Kernel(program)
    }
}

impl From<WasmFunction> for VerifySide {
    fn from(function: WasmFunction) -> Self {
        Self::Wasm(function)
    }
}

impl WasmFunction {
    /// A function of this module, in the binary format.
    pub fn new(module: impl Into<bytes::Bytes>) -> Self {
        Self(proto::WasmFunction { module: module.into(), ..Default::default() })
    }

    /// The name of the exported function, of a module with several.
    #[must_use]
    pub fn name(mut self, function: impl Into<String>) -> Self {
        self.0.function = function.into();
        self
    }

    /// Adds a parameter. Without any, they are those of the other side.
    #[must_use]
    pub fn param(mut self, param: proto::WasmParam) -> Self {
        self.0.params.push(param);
        self
    }

    /// Adds a result. Without any, they are those of the other side.
    #[must_use]
    pub fn result(mut self, name: impl Into<String>, dtype: proto::Dtype) -> Self {
        self.0.results.push(proto::WasmResult { name: name.into(), dtype: dtype.into() });
        self
    }

    /// Runs the cases of a chunk in one instance, whose memory and globals keep what earlier cases wrote.
    #[must_use]
    pub fn share_instance(mut self) -> Self {
        self.0.share_instance = true;
        self
    }
}

impl Domain {
    /// NaN is a value too.
    #[must_use]
    pub fn allow_nan(mut self) -> Self {
        self.0.allow_nan = true;
        self
    }

    /// Infinities are values too.
    #[must_use]
    pub fn allow_infinity(mut self) -> Self {
        self.0.allow_infinity = true;
        self
    }

    /// Elements of a list of a function in Python, 8 by default.
    #[must_use]
    pub fn length(mut self, length: u32) -> Self {
        self.0.length = Some(length);
        self
    }
}

impl DomainBound for f64 {}

impl sealed::Bound for f64 {
    fn lower(self) -> Lower {
        Lower::Min(self)
    }

    fn upper(self) -> Upper {
        Upper::Max(self)
    }
}

impl DomainBound for i64 {}

impl sealed::Bound for i64 {
    fn lower(self) -> Lower {
        Lower::MinInteger(self)
    }

    fn upper(self) -> Upper {
        Upper::MaxInteger(self)
    }
}

impl<B: DomainBound> From<RangeInclusive<B>> for Domain {
    fn from(range: RangeInclusive<B>) -> Self {
        let lower = Some(range.start().lower());
        let upper = Some(range.end().upper());
        Self(proto::InputDomain { lower, upper, ..Default::default() })
    }
}

impl<B: DomainBound> From<RangeFrom<B>> for Domain {
    fn from(range: RangeFrom<B>) -> Self {
        Self(proto::InputDomain { lower: Some(range.start.lower()), ..Default::default() })
    }
}

impl<B: DomainBound> From<RangeToInclusive<B>> for Domain {
    fn from(range: RangeToInclusive<B>) -> Self {
        Self(proto::InputDomain { upper: Some(range.end.upper()), ..Default::default() })
    }
}

impl Verification {
    /// A verification of this subject against a reference that the client sends, until [`against`](Self::against) names another.
    pub fn of(subject: impl Into<VerifySide>) -> Self {
        let subject = match subject.into() {
            VerifySide::Given => Subject::GivenOutputs(proto::GivenOutputs {}),
            VerifySide::Kernel(program) => Subject::Kernel(program.0),
            VerifySide::Wasm(function) => Subject::Wasm(function.0),
        };
        Self(VerifyHeader { subject: Some(subject), ..Default::default() }).against(VerifySide::Given)
    }

    /// Sets the reference, which computes the expected results.
    #[must_use]
    pub fn against(mut self, reference: impl Into<VerifySide>) -> Self {
        self.0.reference = Some(match reference.into() {
            VerifySide::Given => Reference::ExpectedOutputs(proto::GivenOutputs {}),
            VerifySide::Kernel(program) => Reference::ReferenceKernel(program.0),
            VerifySide::Wasm(function) => Reference::ReferenceWasm(function.0),
        });
        self
    }

    /// The policy of all outputs without one of their own.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.0.policy = Some(policy.0);
        self
    }

    /// The policy of an output.
    #[must_use]
    pub fn output_policy(mut self, output: impl Into<String>, policy: Policy) -> Self {
        self.0.output_policies.insert(output.into(), policy.0);
        self
    }

    /// Sets the meaning of a case without a result of one side.
    #[must_use]
    pub fn outcomes(mut self, policy: OutcomePolicy) -> Self {
        self.0.outcome_policy = policy.into();
        self
    }

    /// Sets the expected outcome of the subject in all cases without one of their own, such as `integer_division_by_zero`. docs/verify.md
    /// lists the names.
    #[must_use]
    pub fn expect_outcome(mut self, name: impl Into<String>) -> Self {
        self.0.expected_outcome = name.into();
        self
    }

    /// The daemon makes the inputs of this number of cases. Equal seeds give equal cases. Both sides must be functions.
    #[must_use]
    pub fn generate(mut self, case_count: u64, seed: u64) -> Self {
        let generator = self.0.generator.get_or_insert_default();
        (generator.case_count, generator.seed) = (case_count, seed);
        self
    }

    /// The values of an input that the daemon makes.
    #[must_use]
    pub fn domain(mut self, input: impl Into<String>, domain: impl Into<Domain>) -> Self {
        self.0.generator.get_or_insert_default().domains.insert(input.into(), domain.into().0);
        self
    }

    /// Where functions in Python run generated cases first, the CPU by default. The result is the same on all devices. docs/verify.md says
    /// which functions can run on a GPU.
    #[must_use]
    pub fn device(mut self, device: KernelDevice) -> Self {
        self.0.device = device.into();
        self
    }

    /// The most mismatches of an output to list, 10 by default.
    #[must_use]
    pub fn max_mismatches(mut self, count: u32) -> Self {
        self.0.max_mismatches = Some(count);
        self
    }

    /// The most failing cases to return with their inputs, 5 by default.
    #[must_use]
    pub fn max_counterexamples(mut self, count: u32) -> Self {
        self.0.max_counterexamples = Some(count);
        self
    }

    /// Returns failing cases as they were found, without looking for simpler ones.
    #[must_use]
    pub fn skip_shrinking(mut self) -> Self {
        self.0.skip_shrinking = true;
        self
    }

    /// Runs the subject twice, and counts the cases whose results differ.
    #[must_use]
    pub fn check_determinism(mut self) -> Self {
        self.0.check_determinism = true;
        self
    }

    /// Asks which cases of each chunk fail.
    #[must_use]
    pub fn case_verdicts(mut self) -> Self {
        self.0.case_verdicts = true;
        self
    }

    /// Sets the maximum time of a case, 1 s by default.
    #[must_use]
    pub fn case_timeout(mut self, timeout: Duration) -> Self {
        self.0.limits.get_or_insert_default().timeout = Some(duration(timeout));
        self
    }

    /// Instructions of WebAssembly that a case may execute, about.
    #[must_use]
    pub fn fuel(mut self, instructions: u64) -> Self {
        self.0.limits.get_or_insert_default().fuel = Some(instructions);
        self
    }

    /// Bytes of memory of an instance, 64 MiB by default.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.0.limits.get_or_insert_default().memory_bytes = Some(bytes);
        self
    }

    /// The most iterations of all loops of a function in Python, 2^32 by default.
    #[must_use]
    pub fn loop_budget(mut self, iterations: u64) -> Self {
        self.0.limits.get_or_insert_default().loop_budget = Some(iterations);
        self
    }
}
