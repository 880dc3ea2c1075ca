//! Generated cases of functions in Python on a GPU: it runs them first, and decides those whose results are plainly equal.

use std::{sync::Arc, time::Duration};

use accelerd_engine::Context;
use accelerd_ir::{Dtype, kernel::FaultKind};
use accelerd_sandbox::{CudaTarget, Launch, OnFault, Outcome, SandboxError};
use accelerd_verify::{Screen, ScreenOutput, ScreenParam, ScreenSide, Screened};
use bytes::Bytes;

use super::{
    column::{Extent, Port},
    function::Function,
    header::Header,
    outcome::{CaseOutcome, OutcomePolicy},
    service::VerificationService,
    sides::{Computed, Side},
};
use crate::{
    error::ApiError,
    kernels::{CompiledKernel, CudaKernel},
    sandbox::{Turn, Turns},
};

/// Iterations of a case on a GPU at most. Cases with more are left to the CPU, so that few threads do not keep the others waiting.
const LOOP_BUDGET: u64 = 1 << 20;

/// A program that screens the cases of a call on a GPU.
pub(super) struct Screening {
    screen: Screen,
    code: Arc<CudaKernel>,
    turns: Turns,
    /// Names of the outputs in the comparison.
    outputs: Vec<String>,
    loop_budget: u64,
}

/// Cases that a GPU has screened.
#[derive(Debug)]
pub(super) struct ScreenedCases {
    pub(super) first: u64,
    pub(super) screened: Screened,
    /// Time that the GPU ran.
    pub(super) time: Duration,
    /// Names of the outputs in the comparison.
    pub(super) outputs: Vec<String>,
}

/// The decisions of a GPU.
#[derive(Debug, PartialEq)]
pub(super) struct Decided {
    /// Cases.
    pub(super) count: u64,
    /// Those of them in which neither side has a result, by how subject and reference ended.
    pub(super) faults: Vec<([CaseOutcome; 2], u64)>,
    /// Values of outputs; missing ones are 0.
    pub(super) outputs: Vec<DecidedOutput>,
}

/// An output of decided cases, of which each has one element.
#[derive(Debug, PartialEq)]
pub(super) struct DecidedOutput {
    pub(super) name: String,
    /// The largest absolute value of the finite results of the reference.
    pub(super) norm: f64,
    /// Cases in which both results are NaN.
    pub(super) nans: u64,
}

impl VerificationService {
    /// Compiles the code that screens the cases of a call.
    pub(super) async fn screening(&self, header: &Header, context: &Context) -> Result<Screening, ApiError> {
        let Program { screen, outputs } =
            Program::new(header).map_err(|reason| ApiError::invalid("header.device", reason))?;
        let kernels = &self.cuda_kernels;
        let gpu = kernels.gpu()?;
        let code = kernels.compile_text(screen.source().to_owned(), gpu.properties.arch, context).await?;
        let loop_budget = header.limits.loop_budget.min(LOOP_BUDGET);
        Ok(Screening { screen, code, turns: gpu.processes.turns(), outputs, loop_budget })
    }
}

impl Screening {
    /// The first case that a GPU can generate.
    pub(super) fn first_case(&self) -> u64 {
        self.screen.first_case()
    }

    /// Screens cases in one turn.
    pub(super) async fn run(
        self: Arc<Self>,
        context: Context,
        first: u64,
        cases: u64,
    ) -> Result<ScreenedCases, ApiError> {
        let this = Arc::clone(&self);
        let job = move |turn: Turn| {
            let launch = this.launch(first, cases, turn.time_left());
            let result = turn.launch(&launch)?;
            drop(turn);
            match (result.outcome, result.outputs.first()) {
                (Outcome::Ok, Some(left)) => {
                    let screened = this.screen.screened(left, cases);
                    let screened = screened.map_err(|error| SandboxError::Protocol(error.to_string()))?;
                    Ok(ScreenedCases { first, screened, time: result.execution_time, outputs: this.outputs.clone() })
                }
                (Outcome::Ok, None) => Err(SandboxError::Protocol("a screen has ended with a fault".to_owned()).into()),
                (Outcome::OutOfMemory, _) => {
                    Err(SandboxError::OutOfMemory("no memory for screened cases".to_owned()).into())
                }
                (outcome, _) => Err(SandboxError::Protocol(format!("a screen has ended with {outcome}")).into()),
            }
        };
        self.turns.run(&context, job).await
    }

    fn launch(&self, first: u64, cases: u64, timeout: Duration) -> Launch {
        let launch = self.screen.launch(first, cases);
        let extent = u32::try_from(cases).expect("a launch has few enough cases for the addresses of its memory");
        let target = CudaTarget {
            entry: Screen::ENTRY.to_owned(),
            params: launch.params,
            addresses: launch.addresses,
            grid: [extent, 1, 1, 1],
        };
        Launch {
            module: self.code.image.clone(),
            segments: launch.segments.into_iter().map(|(at, bytes)| (at, Bytes::from(bytes))).collect(),
            memory_bytes: launch.memory_bytes,
            arguments: 0,
            grid: 0,
            first_thread: 0,
            thread_count: cases,
            loop_budget: self.loop_budget,
            on_fault: OnFault::Stop,
            timeout,
            outputs: vec![launch.result],
            cuda: Some(target),
        }
    }
}

impl ScreenedCases {
    /// The case after the last one.
    pub(super) fn end(&self) -> u64 {
        self.first + self.screened.cases
    }

    pub(super) fn decided(&self) -> Decided {
        let fault = |kinds: [FaultKind; 2]| kinds.map(CaseOutcome::Fault);
        let outputs = self.outputs.iter().zip(&self.screened.norms).zip(&self.screened.nans);
        Decided {
            count: self.screened.cases - self.screened.open_count(),
            faults: self.screened.faults.iter().map(|(kinds, count)| (fault(*kinds), *count)).collect(),
            outputs: outputs
                .map(|((name, norm), nans)| DecidedOutput { name: name.clone(), norm: *norm, nans: *nans })
                .collect(),
        }
    }
}

/// A screen before it is compiled.
struct Program {
    screen: Screen,
    outputs: Vec<String>,
}

impl Program {
    /// The error says what was expected of the call.
    fn new(header: &Header) -> Result<Self, String> {
        let generated = header.generated.as_ref().ok_or("expected a generator, got cases of the client")?;
        if header.checks_determinism || header.expected_outcome.is_some() {
            return Err("expected neither an expected outcome nor a check of determinism with a GPU".to_owned());
        }
        let [subject, reference] = [&header.sides.subject, &header.sides.reference].map(GpuFunction::new);
        let (subject, reference) = (subject?, reference?);
        let inputs: Vec<_> = generated.inputs().iter().map(accelerd_verify::Input::dtype).collect();
        let outputs = reference.outputs();
        let sides = [&subject, &reference];
        let params: Vec<_> = sides.iter().map(|side| side.params(&inputs, &outputs)).collect::<Result<_, _>>()?;
        let rule = |(name, dtype): &(String, Dtype)| {
            let policy = header.policies.of(name);
            let infinities_pass = policy.infinities_pass();
            let nans_pass = policy.nans_pass();
            ScreenOutput { dtype: *dtype, infinities_pass, nans_pass }
        };
        let rules: Vec<_> = outputs.iter().map(rule).collect();
        let sides = [0, 1].map(|nth| ScreenSide { code: &sides[nth].kernel.device, params: &params[nth] });
        let faults_pass = header.outcome_policy != OutcomePolicy::ResultRequired;
        let screen = Screen::new(generated.generator(), &rules, sides, faults_pass);
        let unsupported = || {
            "expected an input, and inputs and outputs that are numbers, of at least 32 bits if they have fractions"
                .to_owned()
        };
        let outputs = outputs.into_iter().map(|(name, _)| name).collect();
        Ok(Self { screen: screen.ok_or_else(unsupported)?, outputs })
    }
}

/// A function that a GPU runs with the bits of the CPU.
struct GpuFunction<'a> {
    computed: &'a Computed,
    kernel: &'a CompiledKernel,
}

impl<'a> GpuFunction<'a> {
    fn new(side: &'a Side) -> Result<Self, String> {
        let Some(computed) = side.function() else {
            return Err("expected functions, got outputs of the client".to_owned());
        };
        let Function::Kernel(kernel) = &computed.function else {
            return Err("expected functions in Python, got a module of WebAssembly".to_owned());
        };
        if !kernel.bit_exact {
            return Err(format!("expected functions whose bits do not depend on the device, got {:?}", kernel.name));
        }
        Ok(Self { computed, kernel })
    }

    /// The outputs, by their names in the comparison.
    fn outputs(&self) -> Vec<(String, Dtype)> {
        let ports = self.computed.function.outputs();
        self.computed.outputs.iter().cloned().zip(ports.iter().map(|port| port.dtype)).collect()
    }

    /// Returns the kind of each parameter, from the inputs of the cases and the outputs of the reference.
    fn params(&self, inputs: &[Dtype], outputs: &[(String, Dtype)]) -> Result<Vec<ScreenParam>, String> {
        let function = &self.computed.function;
        let mut read = function.inputs().into_iter().zip(self.computed.input_positions());
        let mut written = function.outputs().into_iter().zip(&self.computed.outputs);
        let unfit =
            |port: &Port, of: &str| format!("expected numbers of the same type on both sides, got {port} as {of}");
        let mut params = vec![];
        for is_written in &self.kernel.written {
            let (port, param, dtype) = if *is_written {
                let (port, name) = written.next().ok_or("expected one output for each array that is written")?;
                let position = outputs.iter().position(|(other, _)| other == name);
                let position = position.ok_or_else(|| unfit(&port, "an output"))?;
                (port, ScreenParam::Output(position), outputs[position].1)
            } else {
                let (port, position) = read.next().ok_or("expected arrays as parameters")?;
                (port, ScreenParam::Input(*position), inputs[*position])
            };
            if port.extent != Extent::Scalar || port.dtype != dtype {
                let of = if *is_written { "an output" } else { "an input" };
                return Err(unfit(&port, of));
            }
            params.push(param);
        }
        Ok(params)
    }
}
