//! Measures kernels: runs that their child process times, each on other elements, and what they compute.

use std::{
    hint::black_box,
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_engine::Context;
use accelerd_ir::kernel::ParamType;
use accelerd_kernels::ops::compare::Close;
use accelerd_sandbox::LaunchResult;
use accelerd_tensor::{Dtype, scalar::Literal};
use bytes::Bytes;

use super::{
    CompiledKernel, Program,
    arguments::{BoundOutput, KernelOutput, KernelView, NamedArgument, bind},
    launch::{KernelDevice, KernelFault, LaunchRequest, Launcher, Target, kernel_fault},
};
use crate::{
    auth::caller::Caller,
    error::ApiError,
    small_outputs::{Magnitudes, SmallOutput},
};

const DEFAULT_RUNS: u32 = 20;
const DEFAULT_WARM_UP: u32 = 3;
const MAX_RUNS: u32 = 10_000;

/// The most bytes that are copied to measure the bandwidth.
const MAX_COPY: usize = 16 << 20;

/// Copies of which the fastest counts.
const COPIES: usize = 5;

/// A kernel to measure.
#[derive(Debug)]
pub(crate) struct BenchmarkRequest {
    pub(crate) launch: LaunchRequest,
    /// Computes the expected results. Without it, the kernel itself computes them on the CPU.
    pub(crate) reference: Option<Program>,
    pub(crate) options: BenchmarkOptions,
}

/// The settings of a measurement.
#[derive(Debug, Default)]
pub(crate) struct BenchmarkOptions {
    /// Arrays whose elements are the same in all runs.
    pub(crate) fixed_arguments: Vec<String>,
    pub(crate) run_count: Option<u32>,
    pub(crate) warm_up_count: Option<u32>,
    pub(crate) atol: Option<f64>,
    pub(crate) rtol: Option<f64>,
}

/// The times and results of a kernel's runs.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) device: KernelDevice,
    pub(crate) thread_count: u64,
    pub(crate) array_bytes: u64,
    pub(crate) fault: Option<KernelFault>,
    pub(crate) mismatches: Vec<OutputMismatch>,
    /// Of the first run that is compared.
    pub(crate) small_outputs: Vec<SmallOutput>,
    pub(crate) run_times: Vec<Duration>,
    /// A shorter time is not plausible.
    pub(crate) min_time: Duration,
}

/// The verdict of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchmarkVerdict {
    Passed,
    Fault,
    Mismatch,
    ImplausibleTime,
}

/// The difference between an array of a run and the expected array.
#[derive(Clone, Debug)]
pub(crate) struct OutputMismatch {
    pub(crate) output: String,
    pub(crate) run: u32,
    /// Elements that differ.
    pub(crate) failed_count: u64,
    /// The first of them.
    pub(crate) index: u64,
    pub(crate) actual: f64,
    pub(crate) expected: f64,
}

impl Measured {
    /// Something per second of the median; `None` if no run ended.
    pub(crate) fn per_second(&self, amount: u64) -> Option<f64> {
        let [_, median, _] = percentiles(&self.run_times)?;
        Some(amount as f64 / median.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    pub(crate) fn verdict(&self) -> BenchmarkVerdict {
        let [_, median, _] = percentiles(&self.run_times).unwrap_or_default();
        if self.fault.is_some() {
            BenchmarkVerdict::Fault
        } else if !self.mismatches.is_empty() {
            BenchmarkVerdict::Mismatch
        } else if median < self.min_time {
            BenchmarkVerdict::ImplausibleTime
        } else {
            BenchmarkVerdict::Passed
        }
    }
}

/// A kernel, its launch and the rules of its measurement.
struct Benchmark {
    kernel: Arc<CompiledKernel>,
    /// The kernel itself if there is no other.
    reference: Arc<CompiledKernel>,
    grid: Vec<u64>,
    arguments: Vec<BenchmarkArgument>,
    views: Vec<KernelView>,
    outputs: Vec<KernelOutput>,
    loop_budget: Option<u64>,
    warm_up: u32,
    runs: u32,
    tolerance: Tolerance,
}

/// Allowed differences of results. Unset values are those of `torch.testing` for the element type.
pub(super) struct Tolerance {
    atol: Option<f64>,
    rtol: Option<f64>,
}

/// An argument in all runs.
struct BenchmarkArgument {
    argument: NamedArgument,
    elements: Elements,
}

/// Elements of an argument from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elements {
    /// The same.
    Fixed,
    /// Rotated by another number, of elements of this many bytes.
    Rotated(usize),
    /// Bytes that no result is expected to have.
    Filled,
}

/// A run that is compared.
struct Checked {
    run: u32,
    arguments: Vec<NamedArgument>,
    outputs: Vec<BoundOutput>,
    values: Vec<Vec<u8>>,
}

impl Benchmark {
    /// Checks numbers and names. `outputs` are those of the kernel with these arguments.
    fn new(
        [kernel, reference]: [Arc<CompiledKernel>; 2],
        (grid, loop_budget): (Vec<u64>, Option<u64>),
        options: &BenchmarkOptions,
        (arguments, views): (&[NamedArgument], Vec<KernelView>),
        outputs: &[BoundOutput],
    ) -> Result<Self, ApiError> {
        let is_array = |name: &String| {
            arguments.iter().any(|argument| argument.name == *name) && array_element(&kernel, name).is_some()
        };
        if let Some(nth) = options.fixed_arguments.iter().position(|name| !is_array(name)) {
            let reason =
                format!("expected the name of an array that is passed, got {:?}", options.fixed_arguments[nth]);
            return Err(ApiError::invalid(format!("fixed_arguments[{nth}]"), reason));
        }
        let is_written = |output: &&BoundOutput| {
            kernel.written[output.param] || views.iter().any(|view| view.argument == output.name)
        };
        if let Some(output) = outputs.iter().find(|output| !is_written(output)) {
            let reason = format!("expected arrays that the kernel writes, got {:?}", output.name);
            return Err(ApiError::invalid("launch.outputs", reason));
        }
        let filled = outputs.iter().filter(|output| arguments.iter().all(|argument| argument.name != output.name));
        let filled = filled.map(|output| BenchmarkArgument {
            argument: NamedArgument {
                name: output.name.clone(),
                field: "launch.outputs".to_owned(),
                of: output.of.clone(),
                data: Bytes::new(),
            },
            elements: Elements::Filled,
        });
        let passed = arguments.iter().map(|argument| {
            let is_fixed = options.fixed_arguments.contains(&argument.name);
            let element = array_element(&kernel, &argument.name).filter(|_| !is_fixed);
            let elements = element.map_or(Elements::Fixed, Elements::Rotated);
            BenchmarkArgument { argument: argument.clone(), elements }
        });
        Ok(Self {
            arguments: passed.chain(filled).collect(),
            grid,
            views,
            outputs: outputs.iter().map(|of| KernelOutput { name: of.name.clone(), shape: vec![] }).collect(),
            loop_budget,
            warm_up: count("warm_up_count", options.warm_up_count, DEFAULT_WARM_UP, 0..=MAX_RUNS)?,
            runs: count("run_count", options.run_count, DEFAULT_RUNS, 1..=MAX_RUNS)?,
            tolerance: Tolerance::new(options.atol, options.rtol)?,
            kernel,
            reference,
        })
    }

    /// The arguments of a run.
    fn arguments_of(&self, run: u32) -> Vec<NamedArgument> {
        let of_run = |BenchmarkArgument { argument, elements }: &BenchmarkArgument| {
            let data = match *elements {
                Elements::Fixed => argument.data.clone(),
                Elements::Rotated(bytes) => rotated(&argument.data, bytes, run),
                Elements::Filled => vec![fill(run); argument.of.bytes()].into(),
            };
            NamedArgument { data, ..argument.clone() }
        };
        self.arguments.iter().map(of_run).collect()
    }

    fn mismatches(&self, checked: &Checked, expected: &[Vec<u8>]) -> Vec<OutputMismatch> {
        let outputs = checked.outputs.iter().zip(&checked.values).zip(expected);
        let mismatch = |((output, actual), expected): ((&BoundOutput, &Vec<u8>), &Vec<u8>)| {
            self.tolerance.mismatch(checked.run, (&output.name, output.of.dtype), actual, expected)
        };
        outputs.filter_map(mismatch).collect()
    }

    fn small_outputs(&self, checked: &Checked, expected: &[Vec<u8>]) -> Vec<SmallOutput> {
        let outputs = checked.outputs.iter().zip(expected);
        let small = |(output, expected): (&BoundOutput, &Vec<u8>)| {
            self.tolerance.small_output((&output.name, output.of.dtype), expected)
        };
        outputs.filter_map(small).collect()
    }
}

impl Tolerance {
    pub(super) fn new(atol: Option<f64>, rtol: Option<f64>) -> Result<Self, ApiError> {
        Ok(Self { atol: tolerance("atol", atol)?, rtol: tolerance("rtol", rtol)? })
    }

    /// The tolerances of an element type.
    fn close(&self, dtype: Dtype) -> Close {
        let defaults = Close::of(dtype);
        Close { atol: self.atol.unwrap_or(defaults.atol), rtol: self.rtol.unwrap_or(defaults.rtol) }
    }

    /// An expected array whose numbers are mostly smaller than the absolute tolerance.
    pub(super) fn small_output(&self, (output, dtype): (&str, Dtype), expected: &[u8]) -> Option<SmallOutput> {
        let close = self.close(dtype);
        let magnitudes = Magnitudes::of_elements(dtype, expected, close.atol);
        magnitudes.small_output(output, dtype, close, self.atol.is_none())
    }

    /// Returns the differences of an array from the expected one, if there are any.
    pub(super) fn mismatch(
        &self,
        run: u32,
        (output, dtype): (&str, Dtype),
        actual: &[u8],
        expected: &[u8],
    ) -> Option<OutputMismatch> {
        let Close { atol, rtol } = self.close(dtype);
        let small = self.small_output((output, dtype), expected);
        let number = |value: &[u8]| Literal::from_bytes(dtype, value).as_f64();
        let pairs = actual.chunks_exact(dtype.size()).zip(expected.chunks_exact(dtype.size())).enumerate();
        let mut failing = pairs.filter(|(_, (actual, expected))| {
            if actual == expected {
                return false;
            }
            let (actual, expected) = (number(actual), number(expected));
            let is_integer = !dtype.is_float() && atol == 0.0 && rtol == 0.0;
            let error = (actual - expected).abs();
            let is_too_large = small.as_ref().is_some_and(|small| small.rejects(error));
            let is_close = error <= atol + rtol * expected.abs() && expected.is_finite() && !is_too_large;
            is_integer || !(is_close || actual.is_nan() && expected.is_nan())
        });
        let (index, (actual, expected)) = failing.next()?;
        Some(OutputMismatch {
            output: output.to_owned(),
            run,
            failed_count: 1 + failing.count() as u64,
            index: index as u64,
            actual: number(actual),
            expected: number(expected),
        })
    }
}

impl Checked {
    /// Number of bytes of the outputs that the run changed.
    fn changed_bytes(&self) -> usize {
        let outputs = self.outputs.iter().zip(&self.values);
        let changed = outputs.map(|(output, after)| {
            let before = self.arguments.iter().find(|argument| argument.name == output.name);
            before.map_or(0, |before| before.data.iter().zip(after).filter(|(before, after)| before != after).count())
        });
        changed.sum()
    }
}

impl Launcher {
    /// Measures a kernel against a reference.
    pub(crate) async fn benchmark(
        &self,
        caller: &Caller,
        context: &Context,
        request: BenchmarkRequest,
    ) -> Result<Measured, ApiError> {
        let BenchmarkRequest { launch, reference, options } = request;
        let LaunchRequest { kernel, grid, arguments, views, outputs, loop_budget, device } = launch;
        let kernel = self.kernel(kernel, "launch.", context).await?;
        let reference = match reference {
            Some(program) => self.kernels.compile(program, "reference", context).await?,
            None => Arc::clone(&kernel),
        };
        // That of all runs together.
        let deadline = context.deadline.unwrap_or_else(|| Instant::now() + self.default_deadline());
        let context = &Context { deadline: Some(deadline), ..context.clone() };
        let target = self.target(device)?;
        let mut copies = self.copies();
        let arguments = self.arguments(caller, context, "launch.", (arguments, target.limit), &mut copies).await?;
        let mut of_bind = self.copies();
        let bound = bind(&kernel, &grid, (arguments.clone(), views.clone()), outputs, target.limit, &mut of_bind)?;
        // Two of the runs are compared: their arguments, their results, and those of the reference.
        let array_bytes = bound.image.arrays.iter().flatten().map(|range| range.end - range.start).sum::<u64>();
        copies.try_resize(copies.bytes().saturating_add(array_bytes.saturating_mul(6)))?;
        let kernels = [kernel, reference];
        let benchmark = Benchmark::new(kernels, (grid, loop_budget), &options, (&arguments, views), &bound.outputs)?;
        let measured = Measured {
            device: target.device(),
            thread_count: bound.image.thread_count,
            array_bytes,
            fault: None,
            mismatches: vec![],
            small_outputs: vec![],
            run_times: vec![],
            min_time: Duration::ZERO,
        };
        drop((bound, of_bind));
        self.measure(&target, &benchmark, context, measured).await
    }

    async fn measure(
        &self,
        target: &Target<'_>,
        benchmark: &Benchmark,
        context: &Context,
        mut measured: Measured,
    ) -> Result<Measured, ApiError> {
        let mut checked = vec![];
        let last = benchmark.warm_up + benchmark.runs - 1;
        for nth in 0..=last {
            let arguments = benchmark.arguments_of(nth);
            let is_checked = nth == benchmark.warm_up || nth == last;
            let kernel = &benchmark.kernel;
            let ran = self.run_once(target, benchmark, kernel, arguments.clone(), is_checked, context).await?;
            if let Some(fault) = ran.result.faults.first() {
                measured.fault = Some(kernel_fault(kernel, &ran.grid, fault)?);
                break;
            }
            if let Some(run) = nth.checked_sub(benchmark.warm_up) {
                measured.run_times.push(ran.result.execution_time);
                if is_checked {
                    checked.push(Checked { run, arguments, outputs: ran.outputs, values: ran.result.outputs });
                }
            }
        }
        let on_cpu = self.cpu();
        for of_run in &checked {
            let arguments = of_run.arguments.clone();
            let reference = &benchmark.reference;
            let expected = self.run_once(&on_cpu, benchmark, reference, arguments, true, context).await?;
            if let Some(fault) = expected.result.faults.first() {
                let line = kernel_fault(reference, &expected.grid, fault)?.line();
                let reason = format!("expected a result for each run, got a fault in line {line}");
                return Err(ApiError::invalid("reference", reason));
            }
            let expected = &expected.result.outputs;
            measured.mismatches.extend(benchmark.mismatches(of_run, expected));
            if measured.small_outputs.is_empty() {
                measured.small_outputs = benchmark.small_outputs(of_run, expected);
            }
        }
        let changed = checked.last().map_or(0, Checked::changed_bytes);
        let bandwidth = target.memory_bandwidth();
        let least = move || bandwidth.map_or_else(|| copy_time(changed), |bandwidth| time_at(bandwidth, changed));
        measured.min_time = tokio::task::spawn_blocking(least).await.unwrap_or_default() / 2;
        Ok(measured)
    }

    async fn run_once(
        &self,
        target: &Target<'_>,
        benchmark: &Benchmark,
        kernel: &Arc<CompiledKernel>,
        arguments: Vec<NamedArgument>,
        reads: bool,
        context: &Context,
    ) -> Result<Ran, ApiError> {
        let mut copies = self.copies();
        let field = if Arc::ptr_eq(kernel, &benchmark.kernel) { "launch" } else { "reference" };
        let outputs = benchmark.outputs.clone();
        let arguments = (arguments, benchmark.views.clone());
        let bound = bind(kernel, &benchmark.grid, arguments, outputs, target.limit, &mut copies);
        let bound = bound.map_err(|error| if field == "launch" { error } else { unfit(&error) })?;
        let result = self.launch_bound(target, kernel, &bound, benchmark.loop_budget, reads, context).await?;
        Ok(Ran { grid: bound.grid, outputs: bound.outputs, result })
    }
}

/// A run of a kernel.
struct Ran {
    grid: Vec<u64>,
    outputs: Vec<BoundOutput>,
    result: LaunchResult,
}

fn unfit(error: &ApiError) -> ApiError {
    ApiError::invalid("reference", format!("expected a kernel with the same arrays: {error}"))
}

/// Bytes of an element of an array.
fn array_element(kernel: &CompiledKernel, name: &str) -> Option<usize> {
    let param = kernel.kernel.params.iter().find(|param| param.name == name)?;
    match &param.ty {
        ParamType::Array(array) => Some(array.element.size as usize),
        ParamType::Value(_) => None,
    }
}

pub(super) fn count(
    field: &str,
    requested: Option<u32>,
    default: u32,
    allowed: RangeInclusive<u32>,
) -> Result<u32, ApiError> {
    let count = requested.unwrap_or(default);
    if allowed.contains(&count) {
        return Ok(count);
    }
    let (least, most) = allowed.into_inner();
    Err(ApiError::invalid(field, format!("expected a number from {least} to {most}, got {count}")))
}

fn tolerance(field: &str, requested: Option<f64>) -> Result<Option<f64>, ApiError> {
    match requested {
        Some(bound) if !(bound.is_finite() && bound >= 0.0) => {
            Err(ApiError::invalid(field, format!("expected a finite number of at least 0, got {bound}")))
        }
        requested => Ok(requested),
    }
}

/// The elements in another rotation for each run.
pub(super) fn rotated(data: &Bytes, element_bytes: usize, run: u32) -> Bytes {
    let elements = data.len() / element_bytes.max(1);
    if elements < 2 {
        return data.clone();
    }
    // Multiples of a prime near 2^32 over the golden ratio are spread evenly, and reach all rotations before one comes again.
    let by = (u64::from(run) + 1).wrapping_mul(2_654_435_761) % (elements as u64 - 1) + 1;
    let split = usize::try_from(by).expect("it is less than the elements") * element_bytes;
    [&data[split..], &data[..split]].concat().into()
}

/// Returns the byte that fills arrays without an argument: as numbers of any type they are finite, and far from 0.
fn fill(run: u32) -> u8 {
    0xc0 | run.to_le_bytes()[0] & 0x0f
}

/// The time in which a copy writes a number of bytes.
fn copy_time(bytes: usize) -> Duration {
    let measured = bytes.min(MAX_COPY);
    let from = vec![1_u8; measured];
    let mut to = vec![0_u8; measured];
    let copies = (0..COPIES).map(|_| {
        let start = Instant::now();
        black_box(&mut to).copy_from_slice(black_box(&from));
        start.elapsed()
    });
    let fastest = copies.min().unwrap_or_default();
    if bytes > measured { fastest.mul_f64(bytes as f64 / measured as f64) } else { fastest }
}

/// The time in which a memory of this many bytes per second takes a number of bytes.
pub(super) fn time_at(bandwidth: f64, bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / bandwidth)
}

/// Times by nearest rank. They are sorted.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

/// The 10th, 50th and 90th percentile; `None` if there are no times.
pub(crate) fn percentiles(times: &[Duration]) -> Option<[Duration; 3]> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    (!times.is_empty()).then(|| [10, 50, 90].map(|percent| percentile(&sorted, percent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_rotate_the_elements_and_none_leaves_them_in_place() {
        let data: Bytes = (0..10_u16).flat_map(u16::to_le_bytes).collect();
        let all: Vec<_> = (0..9).map(|run| rotated(&data, 2, run)).collect();
        for (nth, one) in all.iter().enumerate() {
            assert!(*one != data && !all[..nth].contains(one), "run {nth}");
            let mut elements: Vec<_> = one.as_chunks().0.iter().copied().map(u16::from_le_bytes).collect();
            elements.sort_unstable();
            assert_eq!(elements, (0..10).collect::<Vec<_>>());
        }
        assert_eq!(rotated(&data, 20, 0), data, "there is no other rotation of one element");
    }

    #[test]
    fn zeros_in_place_of_small_results_differ_unless_a_tolerance_of_the_caller_accepts_them() {
        let bytes = |numbers: [f32; 4]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
        let results = [1e-7_f32, 2.7e-7, 7.4e-7, 2e-6];
        let expected = bytes(results);
        let default = Tolerance::new(None, None).expect("the defaults");
        let found = |tolerance: &Tolerance, actual: &[u8]| {
            tolerance.mismatch(0, ("y", Dtype::F32), actual, &expected).map(|mismatch| mismatch.failed_count)
        };
        assert_eq!(found(&default, &bytes([0.0; 4])), Some(4));
        assert_eq!(found(&default, &bytes(results.map(|x| x * (1.0 + 2.0 * f32::EPSILON)))), None);
        assert_eq!(default.small_output(("y", Dtype::F32), &expected).map(|small| small.atol), Some(1e-5));
        let chosen = Tolerance::new(Some(1e-5), None).expect("a tolerance");
        assert_eq!(found(&chosen, &bytes([0.0; 4])), None);
        let small = chosen.small_output(("y", Dtype::F32), &expected).expect("zeros pass");
        assert_eq!(small.max_norm_rtol, None);
        assert_eq!(default.small_output(("y", Dtype::F32), &bytes([1.0, 2.0, 0.0, 1e-7])), None);
    }

    #[test]
    fn times_are_ranked_and_one_that_is_too_short_is_not_believed() {
        let measured = |min_time| Measured {
            device: KernelDevice::Cpu,
            thread_count: 60,
            array_bytes: 12,
            fault: None,
            mismatches: vec![],
            small_outputs: vec![],
            run_times: (1..=11).rev().map(Duration::from_millis).collect(),
            min_time,
        };
        let found = measured(Duration::from_millis(6));
        assert_eq!(percentiles(&found.run_times), Some([2, 6, 10].map(Duration::from_millis)));
        assert_eq!([found.per_second(60), found.per_second(12)], [Some(10_000.0), Some(2000.0)]);
        assert_eq!(found.verdict(), BenchmarkVerdict::Passed);
        assert_eq!(measured(Duration::from_millis(7)).verdict(), BenchmarkVerdict::ImplausibleTime);
        assert_eq!(percentiles(&[]), None);
    }
}
