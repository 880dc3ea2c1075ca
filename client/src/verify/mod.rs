//! Comparisons of outputs with expected ones, and verifications of cases.

mod cases;
mod verification;

use std::collections::BTreeMap;

use accelerd_proto::methods::verify_service;

use crate::{
    Client, Error, Result,
    proto::{
        self, ComparisonPolicy, ElementOrder, InfinityPolicy, NanPolicy, OutputComparison, ShapePolicy,
        ToleranceCombination, tolerance::Rule,
    },
    tensor_source::TensorSource,
    timing::Timings,
};

pub use self::{
    cases::{Cases, Verdicts},
    verification::{Domain, DomainBound, Verification, VerifySide, WasmFunction},
};

/// Which elements of two tensors count as equal. The default is that of torch.testing for the element type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy(ComparisonPolicy);

/// Options of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompareOptions {
    policy: Policy,
    output_policies: BTreeMap<String, ComparisonPolicy>,
    max_mismatches: Option<u32>,
    row_verdicts: bool,
}

/// Comparisons of outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// True if all outputs pass.
    pub passed: bool,
    /// One for each actual output, in order.
    pub outputs: Vec<OutputComparison>,
    /// Server-side timings.
    pub timings: Timings,
}

impl Policy {
    /// Accepts equal numbers only.
    #[must_use]
    pub fn exact(self) -> Self {
        self.tolerance(Rule::Exact(proto::ExactTolerance {}))
    }

    /// Accepts `|actual - expected| <= atol + rtol * |expected|`.
    #[must_use]
    pub fn close(self, atol: f64, rtol: f64) -> Self {
        self.tolerance(Rule::Close(proto::CloseTolerance { atol: Some(atol), rtol: Some(rtol) }))
    }

    /// Accepts numbers with at most this distance in units in the last place.
    #[must_use]
    pub fn max_ulps(self, max_distance: u64) -> Self {
        self.tolerance(Rule::Ulp(proto::UlpTolerance { max_distance }))
    }

    /// Accepts absolute errors up to this multiple of the largest expected number.
    #[must_use]
    pub fn max_norm(self, rtol: f64) -> Self {
        self.tolerance(Rule::MaxNorm(proto::MaxNormTolerance { rtol }))
    }

    fn tolerance(mut self, rule: Rule) -> Self {
        self.0.tolerances.push(proto::Tolerance { rule: Some(rule) });
        self
    }

    /// All tolerances must accept a pair, instead of one.
    #[must_use]
    pub fn require_all(mut self) -> Self {
        self.0.combination = ToleranceCombination::All.into();
        self
    }

    /// Which pairs with a NaN pass.
    #[must_use]
    pub fn nan(mut self, nan: NanPolicy) -> Self {
        self.0.nan = nan.into();
        self
    }

    /// Infinities fail, also equal ones.
    #[must_use]
    pub fn forbid_infinity(mut self) -> Self {
        self.0.infinity = InfinityPolicy::Forbidden.into();
        self
    }

    /// -0 and +0 are a mismatch.
    #[must_use]
    pub fn distinguish_zero_sign(mut self) -> Self {
        self.0.distinguish_zero_sign = true;
        self
    }

    /// Compares tensors of different shapes with equally many elements.
    #[must_use]
    pub fn ignore_shape(mut self) -> Self {
        self.0.shape = ShapePolicy::SameElementCount.into();
        self
    }

    /// The order of elements does not matter, or, in a verification, that of the elements of a case.
    #[must_use]
    pub fn any_order(mut self) -> Self {
        self.0.order = ElementOrder::Any.into();
        self
    }
}

impl CompareOptions {
    /// The policy of all outputs without one of their own.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// The policy of an output.
    #[must_use]
    pub fn output_policy(mut self, output: impl Into<String>, policy: Policy) -> Self {
        self.output_policies.insert(output.into(), policy.0);
        self
    }

    /// The most mismatches of an output to list, 10 by default.
    #[must_use]
    pub fn max_mismatches(self, count: u32) -> Self {
        Self { max_mismatches: Some(count), ..self }
    }

    /// Asks for the rows, along the first dimension, that have a mismatch.
    #[must_use]
    pub fn row_verdicts(self) -> Self {
        Self { row_verdicts: true, ..self }
    }
}

impl Client {
    /// Compares named outputs with the expected outputs of the same names.
    ///
    /// ```no_run
    /// # async fn run(client: accelerd_client::Client) -> Result<(), accelerd_client::Error> {
    /// use accelerd_client::{CompareOptions, Matrix, Policy};
    ///
    /// let (actual, expected) = (Matrix::new(vec![1.0_f32, 2.0], 2)?, Matrix::new(vec![1.0_f32, 2.5], 2)?);
    /// let options = CompareOptions::default().policy(Policy::default().close(1e-3, 0.0).max_ulps(4));
    /// let compared = client.compare([("y", actual)], [("y", expected)], &options).await?;
    /// assert!(!compared.passed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn compare<N: Into<String>, I: Into<TensorSource>, M: Into<String>, J: Into<TensorSource>>(
        &self,
        actual: impl IntoIterator<Item = (N, I)>,
        expected: impl IntoIterator<Item = (M, J)>,
        options: &CompareOptions,
    ) -> Result<Compared> {
        let actual: Vec<_> = actual.into_iter().map(|(name, input)| input.into().named(name)).collect();
        let outputs = actual.len();
        let request = proto::CompareOutputsRequest {
            actual,
            expected: expected.into_iter().map(|(name, input)| input.into().named(name)).collect(),
            policy: Some(options.policy.0.clone()),
            output_policies: options.output_policies.clone(),
            max_mismatches: options.max_mismatches,
            row_verdicts: options.row_verdicts,
        };
        let reply = self.unary(verify_service::COMPARE_OUTPUTS, request).await?;
        let proto::CompareOutputsResponse { passed, outputs: compared } = reply.message;
        if compared.len() != outputs {
            return Err(Error::Malformed(format!("{} comparisons, expected {outputs}", compared.len())));
        }
        Ok(Compared { passed, outputs: compared, timings: reply.timings })
    }
}
