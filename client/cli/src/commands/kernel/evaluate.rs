//! Judges kernels in CUDA C++.

use std::{path::PathBuf, time::Duration};

use accelerd_client::{
    Client, Evaluation, KernelProgram,
    proto::{CudaResources, Dtype, EvaluateResponse, EvaluationVerdict, Tensor},
};
use clap::{Args, ValueHint};
use serde::Serialize;

use super::{mismatch::Mismatch, source};
use crate::{
    commands::small_output::SmallOutput,
    dtype,
    error::{CliError, Result},
    format,
    operand::{Operand, Source},
    output::{Output, Report},
    renderer::{Renderer, Style},
};

/// Judge an untrusted kernel in CUDA C++, against a kernel in Python or against results.
///
/// The daemon compiles it, launches it many times in a process of its own on a GPU, and compares what it computes. The exit code is 0 if the
/// verdict is `passed`, and 1 otherwise. It needs the daemon's setting sandbox.cuda_source.
#[derive(Debug, Args)]
pub(super) struct EvaluateArgs {
    /// The source.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Name of the kernel, an `extern "C" __global__` function.
    #[arg(long, value_name = "NAME")]
    entry: String,
    /// A parameter, in order: a value such as n=i32:4096, an array that is read, x=in:x.npy, one that is written, y=out:f32:64,64, or both,
    /// z=inout:z.npy; can be repeated.
    #[arg(long = "param", short = 'p', value_name = "NAME=WHAT", value_parser = param, required = true)]
    params: Vec<(String, What)>,
    /// Blocks along each dimension of the grid.
    #[arg(long, value_name = "N,...", value_delimiter = ',', required = true)]
    grid: Vec<u32>,
    /// Threads along each dimension of a block.
    #[arg(long, value_name = "N,...", value_delimiter = ',', required = true)]
    block: Vec<u32>,
    /// Dynamic shared memory of a block, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared_memory: u32,
    /// Reference that computes the expected results: the only kernel of a Python file, with parameters of the same names.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "expected")]
    reference: Option<PathBuf>,
    /// Threads of the reference along each dimension [default: a thread for each row, of a function in Python].
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "reference")]
    reference_grid: Vec<i64>,
    /// Expected results, such as y=y.npy; can be repeated.
    #[arg(long = "expect", value_name = "NAME=FILE", value_parser = named, conflicts_with = "reference")]
    expected: Vec<(String, String)>,
    /// Keep the elements of an array as they are, such as sorted offsets; can be repeated.
    #[arg(long, value_name = "NAME")]
    fixed: Vec<String>,
    /// Timed runs.
    #[arg(long, default_value_t = 20, value_name = "N")]
    runs: u32,
    /// Runs before those.
    #[arg(long, default_value_t = 3, value_name = "N")]
    warm_up: u32,
    /// Absolute tolerance [default: that of torch.testing].
    #[arg(long, value_name = "NUMBER", requires = "rtol")]
    atol: Option<f64>,
    /// Relative tolerance [default: that of torch.testing].
    #[arg(long, value_name = "NUMBER", requires = "atol")]
    rtol: Option<f64>,
    /// Time limit of a launch, in seconds.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    launch_timeout: f64,
}

/// The role of a parameter.
#[derive(Clone, Debug)]
enum What {
    Value(Tensor),
    Input(String),
    Output(Dtype, Vec<i64>),
    InputOutput(String),
}

/// `NAME=FILE`.
fn named(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=FILE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `NAME=WHAT`.
fn param(text: &str) -> Result<(String, What), String> {
    const EXPECTED: &str = "expected NAME=in:FILE, NAME=out:TYPE:N,..., NAME=inout:FILE or NAME=TYPE:NUMBER";
    let (name, what) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or(EXPECTED)?;
    let (kind, rest) = what.split_once(':').ok_or(EXPECTED)?;
    let what = match kind {
        "in" => What::Input(rest.to_owned()),
        "inout" => What::InputOutput(rest.to_owned()),
        "out" => {
            let (name, extents) = rest.split_once(':').ok_or(EXPECTED)?;
            let extent = |text: &str| text.parse().ok().filter(|extent: &i64| *extent >= 0);
            let shape: Option<_> = extents.split(',').map(extent).collect();
            What::Output(
                type_of(name)?,
                shape.ok_or_else(|| format!("expected extents such as 10,3, got {extents:?}"))?,
            )
        }
        name => {
            let dtype = type_of(name)?;
            let data =
                dtype::parse(dtype, rest).ok_or_else(|| format!("expected a number of type {name}, got {rest:?}"))?;
            What::Value(Tensor { dtype: dtype.into(), shape: vec![], data: data.into() })
        }
    };
    Ok((name.to_owned(), what))
}

fn type_of(name: &str) -> Result<Dtype, String> {
    let found = dtype::ALL.iter().find(|info| info.name == name);
    found.map(|info| info.dtype).ok_or_else(|| format!("expected one of {}, got {name:?}", dtype::names()))
}

/// The tensor of a file.
fn tensor(option: &str, name: &str, file: &str) -> Result<Tensor> {
    let usage = |reason: String| CliError::Usage(format!("{option} {name}: {reason}"));
    match Operand::parse(file)?.read()? {
        Source::Value(tensor) => Ok(tensor),
        Source::Handle(_) => Err(usage("expected a file, got a resident tensor".to_owned())),
    }
}

impl EvaluateArgs {
    fn evaluation(&self) -> Result<Evaluation> {
        let mut evaluation = Evaluation::new(source(&self.file)?, &self.entry)
            .grid(self.grid.iter().copied(), self.block.iter().copied())
            .shared_memory(self.shared_memory)
            .runs(self.runs)
            .warm_up(self.warm_up)
            .launch_timeout(
                Duration::try_from_secs_f64(self.launch_timeout)
                    .map_err(|error| CliError::Usage(format!("--launch-timeout: {error}")))?,
            );
        for (name, what) in &self.params {
            evaluation = match what {
                What::Value(value) => evaluation.value(name, value.dtype(), value.clone()),
                What::Output(dtype, shape) => evaluation.output(name, *dtype, shape.iter().copied()),
                What::Input(file) => {
                    let tensor = tensor("--param", name, file)?;
                    evaluation.input(name, tensor.dtype(), tensor)
                }
                What::InputOutput(file) => {
                    let tensor = tensor("--param", name, file)?;
                    evaluation.input_output(name, tensor.dtype(), tensor)
                }
            };
        }
        if let Some(file) = &self.reference {
            evaluation = evaluation.against(KernelProgram::new(source(file)?), self.reference_grid.iter().copied());
        }
        for (name, file) in &self.expected {
            evaluation = evaluation.expect(name, tensor("--expect", name, file)?);
        }
        if let (Some(atol), Some(rtol)) = (self.atol, self.rtol) {
            evaluation = evaluation.close(atol, rtol);
        }
        Ok(self.fixed.iter().fold(evaluation, Evaluation::fixed))
    }
}

pub(super) async fn run(args: EvaluateArgs, client: &Client, output: &Output) -> Result {
    let response = client.evaluate(args.evaluation()?).await?;
    let verdict = response.verdict();
    output.show(&Judged::new(response))?;
    if verdict == EvaluationVerdict::Passed { Ok(()) } else { Err(CliError::Differs) }
}

fn verdict_name(verdict: EvaluationVerdict) -> &'static str {
    match verdict {
        EvaluationVerdict::Unspecified => "unknown",
        EvaluationVerdict::Passed => "passed",
        EvaluationVerdict::CompileError => "compile_error",
        EvaluationVerdict::NotLaunched => "not_launched",
        EvaluationVerdict::Fault => "fault",
        EvaluationVerdict::Timeout => "timeout",
        EvaluationVerdict::Mismatch => "mismatch",
        EvaluationVerdict::OutOfBoundsWrite => "out_of_bounds_write",
        EvaluationVerdict::InputChanged => "input_changed",
        EvaluationVerdict::Nondeterministic => "nondeterministic",
        EvaluationVerdict::ImplausibleTime => "implausible_time",
    }
}

#[derive(Serialize)]
struct Judged {
    verdict: &'static str,
    message: String,
    compiler_log: String,
    run: Option<u32>,
    param: String,
    arch: String,
    median_ms: Option<f64>,
    p10_ms: Option<f64>,
    p90_ms: Option<f64>,
    min_plausible_ms: Option<f64>,
    runs: usize,
    array_bytes: u64,
    bit_exact_repeat: bool,
    resources: Option<Resources>,
    mismatches: Vec<Mismatch>,
    small_outputs: Vec<SmallOutput>,
}

#[derive(Serialize)]
struct Resources {
    registers: u32,
    shared_memory_bytes: u32,
    stack_bytes: u32,
    spill_store_bytes: u32,
    spill_load_bytes: u32,
}

impl Judged {
    fn new(response: EvaluateResponse) -> Self {
        let verdict = verdict_name(response.verdict());
        let ms =
            |time: Option<prost_types::Duration>| Duration::try_from(time?).ok().map(|time| time.as_secs_f64() * 1e3);
        let resources = |needs: CudaResources| Resources {
            registers: needs.registers,
            shared_memory_bytes: needs.shared_memory_bytes,
            stack_bytes: needs.stack_bytes,
            spill_store_bytes: needs.spill_store_bytes,
            spill_load_bytes: needs.spill_load_bytes,
        };
        Self {
            verdict,
            median_ms: ms(response.median_time),
            p10_ms: ms(response.p10_time),
            p90_ms: ms(response.p90_time),
            min_plausible_ms: ms(response.min_time),
            runs: response.run_times.len(),
            resources: response.resources.map(resources),
            mismatches: response.mismatches.into_iter().map(Mismatch::from).collect(),
            small_outputs: response.small_outputs.into_iter().map(SmallOutput::from).collect(),
            message: response.message,
            compiler_log: response.compiler_log,
            run: response.run,
            param: response.param,
            arch: response.arch,
            array_bytes: response.array_bytes,
            bit_exact_repeat: response.bit_exact_repeat,
        }
    }
}

impl Report for Judged {
    fn render(&self, renderer: &mut Renderer) {
        for line in self.compiler_log.lines() {
            renderer.line(line);
        }
        let verdict = renderer.style(Style::Figure, self.verdict);
        let message = if self.message.is_empty() { String::new() } else { format!(": {}", self.message) };
        renderer.line(format!("{verdict}{message}"));
        for small in &self.small_outputs {
            renderer.line(small.line());
        }
        if let Some(median) = self.median_ms {
            let time = format::time(Duration::try_from_secs_f64(median / 1e3).unwrap_or_default());
            renderer.line(format!("  median of {} runs {time} on {}", self.runs, self.arch));
        }
        if let Some(Resources { registers, shared_memory_bytes, spill_store_bytes, .. }) = self.resources {
            renderer.line(format!(
                "  {registers} registers, {shared_memory_bytes} bytes of shared memory, {spill_store_bytes} bytes spilled"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_values_inputs_and_outputs() {
        let (name, what) = param("n=i32:3").expect("it is valid");
        assert!(matches!(&what, What::Value(tensor) if tensor.data == 3_i32.to_le_bytes()[..]) && name == "n");
        assert!(matches!(param("x=in:a:b.npy"), Ok((_, What::Input(file))) if file == "a:b.npy"));
        assert!(matches!(param("x=inout:x.npy"), Ok((_, What::InputOutput(_)))));
        assert!(matches!(param("y=out:f32:4,5"), Ok((_, What::Output(Dtype::F32, shape))) if shape == [4, 5]));
        for wrong in ["x", "=in:x.npy", "x=in", "y=out:f32", "y=out:f32:-1", "y=out:float:1", "n=i32:x", "n=i32"] {
            assert!(param(wrong).is_err(), "{wrong}");
        }
    }
}
