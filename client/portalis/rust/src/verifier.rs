//! Verification: a batch of cases with expected outputs, and a report of those that differ.

use std::{fmt, time::Instant};

use accelerd_client::{
    CompareOptions, Policy,
    proto::{Dtype, OutputComparison, OutputVerdict, Tensor},
};

use crate::{
    CudaResult,
    daemon::{Connection, block_on, gpu_utilization},
};

/// Options of a verifier.
#[derive(Clone, Debug, PartialEq)]
pub struct VerificationConfig {
    /// Largest difference from an expected number, where a case has no tolerance.
    pub default_tolerance: f64,
}

impl Default for VerificationConfig {
    fn default() -> Self {
        Self { default_tolerance: 1e-6 }
    }
}

/// An input of a function, and the output that is expected for it.
#[derive(Clone, Debug, PartialEq)]
pub struct TestCase<I> {
    /// Number of the case, for the report.
    pub test_id: u32,
    /// The input.
    pub input: I,
    /// The numbers that are expected.
    pub expected_output: Vec<f64>,
    /// Largest difference from an expected number; `None` means that of the verifier.
    pub tolerance: Option<f64>,
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct TestResult {
    /// Number of the case.
    pub test_id: u32,
    /// Whether all numbers are within the tolerance.
    pub passed: bool,
    /// What the function returned; `None` if it failed.
    pub actual_output: Option<Vec<f64>>,
    /// Percentage of the numbers that differ by more than the tolerance.
    pub diff_percentage: f64,
    /// What differs, or why the function failed; empty if the case passes.
    pub error_message: String,
}

/// What a batch took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerificationMetrics {
    /// Number of cases.
    pub tests_executed: usize,
    /// Cases that pass.
    pub tests_passed: usize,
    /// Cases that fail.
    pub tests_failed: usize,
    /// Time of all cases and of their comparison.
    pub total_execution_time_ms: f32,
    /// The same for one case.
    pub average_test_time_ms: f32,
    /// Share of the comparison in which a GPU of the daemon ran kernels, of all callers; 0.0 on the CPU.
    pub gpu_utilization: f32,
}

/// Results of cases, in their order. Its text says which differ.
#[derive(Clone, Debug, PartialEq)]
pub struct VerificationReport {
    /// A result for each case.
    pub results: Vec<TestResult>,
    /// What the batch took.
    pub metrics: VerificationMetrics,
}

impl VerificationReport {
    /// Whether all cases pass.
    pub fn success(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The cases that fail.
    pub fn failures(&self) -> impl Iterator<Item = &TestResult> {
        self.results.iter().filter(|result| !result.passed)
    }
}

impl fmt::Display for VerificationReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {} cases pass", self.metrics.tests_passed, self.metrics.tests_executed)?;
        self.failures().try_for_each(|result| write!(out, "\ncase {}: {}", result.test_id, result.error_message))
    }
}

/// Compares outputs of cases with expected ones, all in one call of the daemon.
#[derive(Clone, Debug)]
pub struct CudaVerifier {
    config: VerificationConfig,
    connection: Connection,
}

impl CudaVerifier {
    /// Connects to the daemon.
    pub fn new(config: VerificationConfig) -> CudaResult<Self> {
        Ok(Self::with_connection(config, Connection::from_environment()?))
    }

    /// A verifier over a connection.
    pub fn with_connection(config: VerificationConfig, connection: Connection) -> Self {
        Self { config, connection }
    }

    /// Calls a function for each case and compares what it returns. An error of the function fails its case.
    pub fn run_test_suite<I, E: fmt::Display>(
        &self,
        cases: &[TestCase<I>],
        function: impl Fn(&I) -> Result<Vec<f64>, E>,
    ) -> CudaResult<VerificationReport> {
        let start = Instant::now();
        let outputs: Vec<_> =
            cases.iter().map(|case| function(&case.input).map_err(|error| error.to_string())).collect();
        let (compared, gpu_utilization) = block_on(self.compared(cases, &outputs))?;
        let mut compared = compared.iter();
        let result = |(case, output): (&TestCase<I>, Result<Vec<f64>, String>)| match output {
            Ok(output) => result(case, output, compared.next().expect("a comparison for each output")),
            Err(error) => TestResult {
                test_id: case.test_id,
                passed: false,
                actual_output: None,
                diff_percentage: 100.0,
                error_message: error,
            },
        };
        let results: Vec<_> = cases.iter().zip(outputs).map(result).collect();
        let total_execution_time_ms = 1e3 * start.elapsed().as_secs_f32();
        let tests_passed = results.iter().filter(|result| result.passed).count();
        let metrics = VerificationMetrics {
            tests_executed: results.len(),
            tests_passed,
            tests_failed: results.len() - tests_passed,
            total_execution_time_ms,
            average_test_time_ms: total_execution_time_ms / results.len().max(1) as f32,
            gpu_utilization,
        };
        Ok(VerificationReport { results, metrics })
    }

    /// The comparisons of the outputs that there are, in order, and the utilization of the GPU.
    async fn compared<I>(
        &self,
        cases: &[TestCase<I>],
        outputs: &[Result<Vec<f64>, String>],
    ) -> CudaResult<(Vec<OutputComparison>, f32)> {
        let mut options = CompareOptions::default().max_mismatches(1);
        let (mut actual, mut expected) = (vec![], vec![]);
        for (at, (case, output)) in cases.iter().zip(outputs).enumerate() {
            let (Ok(output), name) = (output, at.to_string()) else { continue };
            let policy = Policy::default().close(case.tolerance.unwrap_or(self.config.default_tolerance), 0.0);
            options = options.output_policy(&name, policy);
            actual.push((name.clone(), tensor(output)));
            expected.push((name, tensor(&case.expected_output)));
        }
        if actual.is_empty() {
            return Ok((vec![], 0.0));
        }
        let before = self.connection.sample().await?;
        let compared = self.connection.client.compare(actual, expected, &options).await?;
        let after = self.connection.sample().await?;
        Ok((compared.outputs, gpu_utilization(before.as_ref(), after.as_ref())))
    }
}

fn tensor(numbers: &[f64]) -> Tensor {
    let data: Vec<_> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let shape = vec![i64::try_from(numbers.len()).unwrap_or(i64::MAX)];
    Tensor { dtype: Dtype::F64.into(), shape, data: data.into() }
}

fn result<I>(case: &TestCase<I>, output: Vec<f64>, compared: &OutputComparison) -> TestResult {
    let passed = compared.verdict() == OutputVerdict::Passed;
    let (count, failed) =
        compared.differences.as_ref().map_or((0, 0), |found| (found.element_count, found.failed_count));
    // Outputs whose lengths differ have no pairs of numbers.
    let whole = if passed { 0.0 } else { 100.0 };
    TestResult {
        test_id: case.test_id,
        passed,
        diff_percentage: if count == 0 { whole } else { 100.0 * failed as f64 / count as f64 },
        error_message: if passed { String::new() } else { difference(&output, compared) },
        actual_output: Some(output),
    }
}

fn difference(output: &[f64], compared: &OutputComparison) -> String {
    let Some(found) = &compared.differences else {
        let expected = compared.expected_shape.first().copied().unwrap_or_default();
        return format!("expected {expected} numbers, got {}", output.len());
    };
    let first = found.mismatches.first().map(|first| (first.actual, first.expected, first.index)).unwrap_or_default();
    let (actual, expected, index) = first;
    format!("{} of {} numbers differ, first {actual} != {expected} at {index}", found.failed_count, found.element_count)
}
