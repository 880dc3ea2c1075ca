//! Judges kernels in CUDA C++ that nobody trusts, against a reference or results.

mod layout;
mod request;
mod runs;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_engine::Context;
use accelerd_sandbox::{
    CudaCode, CudaResources, Module, Refusal, SandboxError, SubjectConfig, SubjectLaunch, SubjectParam,
};
use bytes::Bytes;

pub(crate) use self::{
    request::{CudaParam, CudaSubject, EvaluationRequest, Expected},
    runs::ParamKind,
};
use self::{
    request::{Evaluation, Expectation},
    runs::{Checked, Failure, Runs},
};
use super::{
    CompiledKernel, Gpu,
    arguments::{BoundLaunch, KernelOutput, NamedArgument, bind},
    benchmark::{OutputMismatch, percentiles, time_at},
    launch::{Launcher, kernel_fault},
};
use crate::{auth::caller::Caller, error::ApiError, sandbox::Turn, small_outputs::SmallOutput};

/// The verdict of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    CompileError,
    NotLaunched,
    Fault,
    Timeout,
    Mismatch,
    OutOfBoundsWrite,
    InputChanged,
    Nondeterministic,
    ImplausibleTime,
}

/// The results of an evaluation.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// Why it did not pass.
    pub(crate) message: String,
    pub(crate) compiler_log: String,
    /// The run that failed.
    pub(crate) run: Option<u32>,
    /// The parameter that the failure is about.
    pub(crate) param: String,
    pub(crate) resources: Option<CudaResources>,
    pub(crate) run_times: Vec<Duration>,
    /// A shorter time is not plausible.
    pub(crate) min_time: Duration,
    pub(crate) mismatches: Vec<OutputMismatch>,
    /// Of the first run that is compared.
    pub(crate) small_outputs: Vec<SmallOutput>,
    pub(crate) bit_exact_repeat: bool,
    pub(crate) array_bytes: u64,
    pub(crate) arch: String,
}

impl Judgement {
    /// That of an evaluation without a failure.
    fn passed(arch: String, array_bytes: u64) -> Self {
        Self {
            verdict: Verdict::Passed,
            message: String::new(),
            compiler_log: String::new(),
            run: None,
            param: String::new(),
            resources: None,
            run_times: vec![],
            min_time: Duration::ZERO,
            mismatches: vec![],
            small_outputs: vec![],
            bit_exact_repeat: false,
            array_bytes,
            arch,
        }
    }
}

/// Results that differ from what was expected, and those of which a tolerance says little.
#[derive(Default)]
struct Differences {
    mismatches: Vec<OutputMismatch>,
    small_outputs: Vec<SmallOutput>,
}

impl Differences {
    /// Adds those of a run.
    fn add(&mut self, evaluation: &Evaluation, checked: &Checked, expected: &[(usize, Bytes)]) {
        self.mismatches.extend(evaluation.mismatches(checked, expected));
        if self.small_outputs.is_empty() {
            self.small_outputs = evaluation.small_outputs(expected);
        }
    }
}

/// Computes the expected results.
enum Reference {
    Kernel(Arc<CompiledKernel>, Vec<u64>),
    /// By the position of the parameter.
    Outputs(Vec<(usize, Bytes)>),
}

impl Launcher {
    /// Evaluates a kernel. Its source is compiled first: that needs no GPU.
    pub(crate) async fn evaluate(
        &self,
        caller: &Caller,
        context: &Context,
        mut request: EvaluationRequest,
    ) -> Result<Judgement, ApiError> {
        self.sandboxes.check_enabled()?;
        if !self.runs_cuda_source {
            return Err(ApiError::CudaSourceDisabled);
        }
        // That of all runs together.
        let deadline = context.deadline.unwrap_or_else(|| Instant::now() + self.default_deadline());
        let context = &Context { deadline: Some(deadline), ..context.clone() };
        let limit = self.cuda_kernels.memory();
        let mut copies = self.copies();
        let arguments = (std::mem::take(&mut request.arguments), limit);
        let arguments = self.arguments(caller, context, "", arguments, &mut copies).await?;
        let evaluation = Evaluation::new(request, arguments, self.max_source)?;
        let total = evaluation.plan.layout.total();
        if total > limit.bytes {
            return Err(ApiError::CaseMemory { asked: total, limit });
        }
        // The memory of a launch and what is read of it; contents and results of the runs that are compared.
        copies.try_resize(copies.bytes().saturating_add(total.saturating_mul(8)))?;
        let reference = self.reference(&evaluation, context).await?;
        self.judge(evaluation, &reference, context).await
    }

    async fn judge(
        &self,
        evaluation: Evaluation,
        reference: &Reference,
        context: &Context,
    ) -> Result<Judgement, ApiError> {
        let kernels = &self.cuda_kernels;
        let arch = kernels.arch("", "")?;
        let source = evaluation.source.clone();
        let entry = evaluation.config.entry.clone();
        let mut judgement = Judgement::passed(arch.to_string(), evaluation.array_bytes());
        let code = match kernels.compile_source(source, entry, arch, context).await {
            Ok(code) => code,
            Err(error) => {
                judgement.compiler_log = compiler_log(error)?;
                judgement.verdict = Verdict::CompileError;
                "the source does not compile".clone_into(&mut judgement.message);
                return Ok(judgement);
            }
        };
        judgement.resources = code.resources;
        let gpu = kernels.gpu()?;
        let evaluation = Arc::new(evaluation);
        let runs = run(gpu, &evaluation, code, context).await?;
        let differences = if runs.failure.is_none() {
            self.differences(&evaluation, reference, &runs, context).await?
        } else {
            Differences::default()
        };
        Ok(with_verdict(judgement, &evaluation, runs, differences, gpu.properties.memory_bandwidth))
    }

    /// Compiles the reference, and checks that it fits the parameters.
    async fn reference(&self, evaluation: &Evaluation, context: &Context) -> Result<Reference, ApiError> {
        match &evaluation.expectation {
            Expectation::Outputs(outputs) => Ok(Reference::Outputs(outputs.clone())),
            Expectation::Program(program, grid) => {
                let kernel = self.kernels.compile(program.clone(), "reference.program", context).await?;
                self.bind_reference(evaluation, &kernel, grid, 0)?;
                Ok(Reference::Kernel(kernel, grid.clone()))
            }
        }
    }

    /// A launch of the reference with the contents of a run.
    fn bind_reference(
        &self,
        evaluation: &Evaluation,
        kernel: &CompiledKernel,
        grid: &[u64],
        run: u32,
    ) -> Result<BoundLaunch, ApiError> {
        let params = &evaluation.plan.params;
        let written = params.iter().filter(|param| param.kind.is_written());
        let position = |name: &str| kernel.kernel.params.iter().position(|param| param.name == name);
        for param in written.clone() {
            if position(&param.name).is_none_or(|nth| !kernel.written[nth]) {
                let reason = format!("expected a kernel that writes {:?}, as the subject does", param.name);
                return Err(ApiError::invalid("reference.program", reason));
            }
        }
        let contents = evaluation.plan.contents(run);
        let known = params.iter().zip(contents).filter(|(param, _)| position(&param.name).is_some());
        let arguments = known.map(|(param, data)| NamedArgument {
            name: param.name.clone(),
            field: format!("subject.params[{:?}]", param.name),
            of: param.of.clone(),
            data,
        });
        let outputs = written.map(|param| KernelOutput { name: param.name.clone(), shape: vec![] });
        let mut copies = self.copies();
        let bound = bind(kernel, grid, (arguments.collect(), vec![]), outputs.collect(), self.cpu().limit, &mut copies);
        bound.map_err(|error| {
            let ApiError::Invalid { field, reason } = error else { return error };
            let field = if field == "grid" { "reference.grid" } else { "reference.program" };
            ApiError::invalid(field, reason)
        })
    }

    /// Returns the differences of all runs that are checked.
    async fn differences(
        &self,
        evaluation: &Evaluation,
        reference: &Reference,
        runs: &Runs,
        context: &Context,
    ) -> Result<Differences, ApiError> {
        let mut found = Differences::default();
        for checked in &runs.checked {
            let expected = match reference {
                Reference::Outputs(outputs) => outputs.clone(),
                Reference::Kernel(kernel, grid) => {
                    self.expected(evaluation, kernel, grid, checked.run, context).await?
                }
            };
            found.add(evaluation, checked, &expected);
        }
        Ok(found)
    }

    /// Computes the reference of a run, by the positions of the parameters.
    async fn expected(
        &self,
        evaluation: &Evaluation,
        kernel: &Arc<CompiledKernel>,
        grid: &[u64],
        run: u32,
        context: &Context,
    ) -> Result<Vec<(usize, Bytes)>, ApiError> {
        let bound = self.bind_reference(evaluation, kernel, grid, run)?;
        let result = self.launch_bound(&self.cpu(), kernel, &bound, None, true, context).await?;
        if let Some(fault) = result.faults.first() {
            let line = kernel_fault(kernel, &bound.grid, fault)?.line();
            let reason = format!("expected a result for each run, got a fault in line {line}");
            return Err(ApiError::invalid("reference.program", reason));
        }
        let outputs = evaluation.written().zip(result.outputs);
        Ok(outputs.map(|(param, bytes)| (param, bytes.into())).collect())
    }
}

/// Has the runs launched in one process, which serves nothing else: a kernel may have changed whatever it maps.
async fn run(gpu: &Gpu, evaluation: &Arc<Evaluation>, code: CudaCode, context: &Context) -> Result<Runs, ApiError> {
    let evaluation = Arc::clone(evaluation);
    let job = move |turn: Turn| {
        let module = Module::new(code.image);
        let config = evaluation.config();
        // An evaluation that panicked may have left its process.
        turn.end_process();
        let runs = evaluation.plan.execute(|memory, outputs| {
            let (module, config) = (module.clone(), config.clone());
            let launch = SubjectLaunch { module, config, memory, timeout: evaluation.timeout, outputs };
            Ok(turn.run_subject(&launch)?)
        });
        turn.end_process();
        runs
    };
    gpu.evaluators.turns().run(context, job).await
}

/// The compiler's log of a source that does not compile; other errors are not the source's.
fn compiler_log(error: ApiError) -> Result<String, ApiError> {
    let ApiError::Sandbox(failure) = error else { return Err(error) };
    if let SandboxError::Refused(Refusal::NotCompiled(log)) = failure {
        Ok(log)
    } else if let SandboxError::Refused(refusal @ Refusal::LimitTooHigh { .. }) = failure {
        Ok(refusal.to_string())
    } else if let SandboxError::Crashed { .. } = failure {
        Ok("the compiler crashed".to_owned())
    } else {
        Err(failure.into())
    }
}

impl Evaluation {
    /// Positions of the parameters that are written.
    fn written(&self) -> impl Iterator<Item = usize> {
        let params = self.plan.params.iter().enumerate();
        params.filter(|(_, param)| param.kind.is_written()).map(|(nth, _)| nth)
    }

    fn array_bytes(&self) -> u64 {
        let arrays = self.plan.params.iter().filter(|param| param.kind != ParamKind::Value);
        arrays.map(|param| param.of.bytes() as u64).sum()
    }

    /// The shape of each launch.
    fn config(&self) -> SubjectConfig {
        let param = |(nth, param): (usize, &runs::Param)| match self.plan.layout.array(nth) {
            Some(range) => SubjectParam::Address(range.start),
            None => SubjectParam::Value(param.data.to_vec()),
        };
        let params = self.plan.params.iter().enumerate().map(param).collect();
        SubjectConfig { params, ..self.config.clone() }
    }

    fn mismatches(&self, checked: &Checked, expected: &[(usize, Bytes)]) -> Vec<OutputMismatch> {
        let written = self.written().zip(&checked.outputs);
        let compared = written.filter_map(|(nth, actual)| {
            let (_, expected) = expected.iter().find(|(param, _)| *param == nth)?;
            let param = &self.plan.params[nth];
            self.tolerance.mismatch(checked.run, (&param.name, param.of.dtype), actual, expected)
        });
        compared.collect()
    }

    /// The outputs whose expected numbers are mostly smaller than the absolute tolerance.
    fn small_outputs(&self, expected: &[(usize, Bytes)]) -> Vec<SmallOutput> {
        let small = |(nth, expected): &(usize, Bytes)| {
            let param = &self.plan.params[*nth];
            self.tolerance.small_output((&param.name, param.of.dtype), expected)
        };
        expected.iter().filter_map(small).collect()
    }

    /// Bytes that a run changed.
    fn changed_bytes(&self, checked: &Checked) -> usize {
        let contents = self.plan.contents(checked.run);
        let outputs = self.written().zip(&checked.outputs);
        let changed = |(nth, after): (usize, &Vec<u8>)| {
            contents[nth].iter().zip(after).filter(|(before, after)| before != after).count()
        };
        outputs.map(changed).sum()
    }
}

/// The judgement of an evaluation whose source compiles.
fn with_verdict(
    mut judgement: Judgement,
    evaluation: &Evaluation,
    runs: Runs,
    differences: Differences,
    bandwidth: f64,
) -> Judgement {
    let Differences { mismatches, small_outputs } = differences;
    let changed = runs.checked.last().map_or(0, |last| evaluation.changed_bytes(last));
    let min_time = time_at(bandwidth, changed) / 2;
    let [_, median, _] = percentiles(&runs.times).unwrap_or_default();
    (judgement.run_times, judgement.min_time) = (runs.times, min_time);
    let middle = evaluation.plan.middle();
    let first = runs.checked.iter().find(|checked| checked.run == middle);
    let repeat = runs.repeat.as_ref();
    judgement.bit_exact_repeat = repeat.is_some() && repeat == first;
    let differs = first.zip(repeat).and_then(|(first, repeat)| {
        let expected: Vec<_> = evaluation.written().zip(first.outputs.iter().cloned().map(Bytes::from)).collect();
        let mismatch = evaluation.mismatches(repeat, &expected).into_iter().next();
        // Of two wrong results it does not matter that they differ.
        mismatch.filter(|_| mismatches.iter().all(|mismatch| mismatch.run != middle))
    });
    let failed = |verdict, message, mismatch: &OutputMismatch| Failure {
        verdict,
        message,
        run: mismatch.run,
        param: evaluation.plan.params.iter().position(|param| param.name == mismatch.output),
    };
    let failure = runs.failure.or_else(|| {
        let mismatch = mismatches.first()?;
        let OutputMismatch { output, index, actual, expected, failed_count, .. } = mismatch;
        let mut message = format!(
            "{failed_count} elements of {output:?} differ, the first is element {index}: expected {expected}, got {actual}"
        );
        if let Some(small) = small_outputs.iter().find(|small| small.output == *output) {
            message = format!("{message}; {}", small.explanation());
        }
        Some(failed(Verdict::Mismatch, message, mismatch))
    });
    let failure = failure.or_else(|| {
        let mismatch = differs.as_ref()?;
        let message = format!("when a run was repeated, element {} of {:?} differed", mismatch.index, mismatch.output);
        Some(failed(Verdict::Nondeterministic, message, mismatch))
    });
    judgement.mismatches = mismatches;
    judgement.small_outputs = small_outputs;
    if let Some(Failure { verdict, message, run, param }) = failure {
        (judgement.verdict, judgement.message, judgement.run) = (verdict, message, Some(run));
        judgement.param = param.map_or_else(String::new, |nth| evaluation.plan.params[nth].name.clone());
    } else if median < min_time {
        judgement.verdict = Verdict::ImplausibleTime;
        judgement.message = format!("{median:?} is shorter than {min_time:?}, the time to write {changed} bytes");
    }
    judgement
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::{Dtype, TensorType};

    use super::{layout::Layout, runs::Plan, *};
    use crate::kernels::benchmark::Tolerance;

    const RUNS: u32 = 5;

    /// An evaluation of a kernel that writes 1,000 bytes.
    fn evaluation() -> Evaluation {
        let of = TensorType { dtype: Dtype::U8, shape: vec![1000] };
        let y = runs::Param { name: "y".to_owned(), kind: ParamKind::Output, of, data: Bytes::new(), is_fixed: false };
        Evaluation {
            source: Bytes::new(),
            config: SubjectConfig {
                entry: "k".to_owned(),
                params: vec![],
                grid: [1; 3],
                block: [1; 3],
                shared_bytes: 0,
            },
            plan: Plan { layout: Layout::new(&[Some(1000)]), params: vec![y], warm_up: 0, runs: RUNS, seed: 1 },
            expectation: Expectation::Outputs(vec![]),
            tolerance: Tolerance::new(None, None).expect("the defaults"),
            timeout: Duration::from_secs(1),
        }
    }

    /// Runs of a millisecond whose results are zeros; that of the repeated one starts with `repeated`.
    fn runs(evaluation: &Evaluation, repeated: u8) -> Runs {
        let checked = |run, first| {
            let mut output = vec![0; 1000];
            output[0] = first;
            Checked { run, outputs: vec![output] }
        };
        let middle = evaluation.plan.middle();
        Runs {
            times: vec![Duration::from_millis(1); RUNS as usize],
            checked: [0, middle, RUNS - 1].map(|run| checked(run, 0)).into(),
            repeat: Some(checked(middle, repeated)),
            failure: None,
        }
    }

    /// The judgement of these runs, where the results should have been `expected`, on a GPU of this bandwidth.
    fn judged(runs: Runs, expected: u8, bandwidth: f64) -> Judgement {
        let evaluation = evaluation();
        let expected = [(0, Bytes::from(vec![expected; 1000]))];
        let mut differences = Differences::default();
        runs.checked.iter().for_each(|checked| differences.add(&evaluation, checked, &expected));
        with_verdict(Judgement::passed(String::new(), 0), &evaluation, runs, differences, bandwidth)
    }

    #[test]
    fn right_results_in_a_plausible_time_pass() {
        let passed = judged(runs(&evaluation(), 0), 0, 1e9);
        assert_eq!((passed.verdict, passed.run, passed.bit_exact_repeat), (Verdict::Passed, None, true));
        assert_eq!(passed.run_times, [Duration::from_millis(1); 5]);
    }

    #[test]
    fn a_time_in_which_the_results_cannot_be_written_is_not_believed() {
        // 1,000 bytes at twice 400,000 bytes per second take 1.25 ms.
        let implausible = judged(runs(&evaluation(), 0), 0, 4e5);
        assert_eq!(implausible.verdict, Verdict::ImplausibleTime);
        assert_eq!(implausible.min_time, Duration::from_micros(1250));
    }

    #[test]
    fn results_that_differ_when_a_run_is_repeated_are_nondeterministic_unless_both_are_wrong() {
        let found = judged(runs(&evaluation(), 9), 0, 1e9);
        assert_eq!((found.verdict, found.bit_exact_repeat), (Verdict::Nondeterministic, false));
        assert_eq!((found.run, found.param.as_str()), (Some(evaluation().plan.middle()), "y"));
        let wrong = judged(runs(&evaluation(), 9), 7, 1e9);
        assert_eq!((wrong.verdict, wrong.run, wrong.mismatches.len()), (Verdict::Mismatch, Some(0), 3));
    }

    #[test]
    fn the_first_failure_of_a_run_is_the_verdict() {
        let failure = Failure { verdict: Verdict::Fault, message: "a trap".to_owned(), run: 2, param: None };
        let failed = Runs { failure: Some(failure), ..Runs::default() };
        let failed = judged(failed, 0, 1e9);
        assert_eq!((failed.verdict, failed.run, failed.message.as_str()), (Verdict::Fault, Some(2), "a trap"));
        assert!(failed.run_times.is_empty() && !failed.bit_exact_repeat);
    }

    #[test]
    fn only_what_the_source_causes_is_a_compile_error() {
        let log = compiler_log(SandboxError::Refused(Refusal::NotCompiled("line 1".to_owned())).into());
        assert_eq!(log.ok().as_deref(), Some("line 1"));
        let crashed = SandboxError::Crashed { signal: Some(11), code: None, stderr: String::new() };
        assert!(compiler_log(crashed.into()).is_ok());
        let missing = compiler_log(SandboxError::Refused(Refusal::NoCompiler("none".to_owned())).into());
        assert!(matches!(missing, Err(ApiError::Sandbox(SandboxError::Refused(Refusal::NoCompiler(_))))));
        assert!(compiler_log(SandboxError::Timeout { killed: true }.into()).is_err());
    }
}
