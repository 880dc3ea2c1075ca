//! Measures launches of a kernel.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use accelerd_client::{
    Benchmark, Client, KernelProgram, Launch, LaunchOutcome,
    proto::{BenchmarkResponse, BenchmarkVerdict, KernelDevice},
};
use clap::Args;
use serde::Serialize;

use super::{fault::FaultReport, launch::LaunchArgs, mismatch::Mismatch, source};
use crate::{
    commands::small_output::SmallOutput,
    error::{CliError, Result},
    format,
    output::{Output, Report, SPINNER},
    renderer::{Renderer, Style, Table},
};

/// Measure a kernel of a Python file: time of its execution, time of the whole call, and elements per second.
///
/// It is compiled once, and launched one time after the other. An element is a thread of --grid, or else an element of the largest result.
///
/// With --check or --reference the daemon launches it, each time with the elements of its arrays in another rotation, and compares what it
/// computes in the first and the last launch. The exit code is 1 if that is wrong, or if the times are too short to be true.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    launch: LaunchArgs,
    /// Launches that are measured.
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    launches: u32,
    /// Launches before those.
    #[arg(long, default_value_t = 5, value_name = "N")]
    warm_up: u32,
    /// Check the results by running the kernel again on the CPU.
    #[arg(long)]
    check: bool,
    /// Check the results by a kernel with the same arrays: the only one of a Python file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    reference: Option<PathBuf>,
    /// With a check: keep the elements of an array as they are, such as sorted offsets; can be repeated.
    #[arg(long, value_name = "NAME")]
    fixed: Vec<String>,
}

pub(super) async fn run(args: BenchArgs, client: &Client, output: &Output) -> Result {
    let start = Instant::now();
    let kernel = client.compile(args.launch.program()?).await?;
    let compile = start.elapsed();
    let launch = args.launch.launch(&kernel, &[])?;
    if args.check || args.reference.is_some() {
        return check(&args, launch, client, output).await;
    }
    let progress = output.bar(0, SPINNER, "kernel");
    let mut executions = vec![];
    let mut calls = vec![];
    let mut elements = 0;
    for nth in 0..u64::from(args.warm_up) + u64::from(args.launches) {
        progress.set_message(format!("launch {}", nth + 1));
        let start = Instant::now();
        let outcome = client.launch(launch.clone()).await?;
        let call = start.elapsed();
        elements = args.launch.elements(&outcome);
        if let Some(fault) = &outcome.fault {
            progress.finish_and_clear();
            output.show(&Faulted { fault: FaultReport::new(&args.launch.file, fault) })?;
            return Err(CliError::Fault);
        }
        if nth >= args.warm_up.into() {
            executions.push(outcome.execution_time);
            calls.push(call);
        }
    }
    progress.finish_and_clear();
    let execution = Times::new(executions);
    output.show(&Results {
        bench: "kernel",
        kernel: kernel.name,
        id: kernel.id,
        launches: args.launches,
        compile_ms: ms(compile),
        elements,
        elements_per_second: elements as f64 / (execution.median_ms / 1e3).max(f64::MIN_POSITIVE),
        execution,
        call: Times::new(calls),
    })
}

/// Measures launches in the daemon, and checks what they compute.
async fn check(args: &BenchArgs, launch: Launch, client: &Client, output: &Output) -> Result {
    let mut benchmark = Benchmark::of(launch).runs(args.launches).warm_up(args.warm_up);
    if let Some(file) = &args.reference {
        benchmark = benchmark.against(KernelProgram::new(source(file)?));
    }
    benchmark = args.fixed.iter().fold(benchmark, Benchmark::fixed);
    let measured = client.benchmark(benchmark).await?;
    let verdict = measured.verdict();
    output.show(&Checked::new(&args.launch.file, measured))?;
    match verdict {
        BenchmarkVerdict::Passed => Ok(()),
        BenchmarkVerdict::Fault => Err(CliError::Fault),
        BenchmarkVerdict::Mismatch | BenchmarkVerdict::ImplausibleTime | BenchmarkVerdict::Unspecified => {
            Err(CliError::Differs)
        }
    }
}

impl LaunchArgs {
    fn elements(&self, outcome: &LaunchOutcome) -> u64 {
        let count =
            |shape: &[i64]| shape.iter().fold(1_u64, |count, extent| count.saturating_mul(extent.unsigned_abs()));
        if self.grid.is_empty() {
            outcome.outputs.values().map(|tensor| count(&tensor.shape)).max().unwrap_or(0)
        } else {
            count(&self.grid)
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[derive(Serialize)]
struct Faulted {
    fault: FaultReport,
}

impl Report for Faulted {
    fn render(&self, renderer: &mut Renderer) {
        self.fault.render(renderer);
    }
}

#[derive(Serialize)]
struct Results {
    bench: &'static str,
    kernel: String,
    id: String,
    launches: u32,
    compile_ms: f64,
    elements: u64,
    elements_per_second: f64,
    execution: Times,
    call: Times,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "names have their unit")]
struct Times {
    min_ms: f64,
    p10_ms: f64,
    median_ms: f64,
    p90_ms: f64,
    max_ms: f64,
}

impl Times {
    /// By nearest rank. `times` must not be empty.
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let last = times.len() - 1;
        let at = |percent: usize| ms(times[last * percent / 100]);
        Self { min_ms: at(0), p10_ms: at(10), median_ms: at(50), p90_ms: at(90), max_ms: at(100) }
    }

    /// Half of the range from the 10th to the 90th percentile, in percent of the median.
    fn spread(&self) -> f64 {
        (self.p90_ms - self.p10_ms) / 2.0 / self.median_ms.max(f64::MIN_POSITIVE) * 100.0
    }

    fn row(&self, name: &str) -> [String; 5] {
        let time = |ms: f64| format::time(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default());
        [name.to_owned(), time(self.median_ms), format!("±{:.0}%", self.spread()), time(self.min_ms), time(self.max_ms)]
    }
}

impl Report for Results {
    fn render(&self, renderer: &mut Renderer) {
        renderer.title(format!("{}: {} launches", self.kernel, format::count(self.launches.into())));
        let mut table = Table::new(["<", "median", "spread", "min", "max"]);
        table.row(self.execution.row("execution"));
        table.row(self.call.row("call"));
        renderer.table(&table);
        let rate = renderer.style(Style::Figure, format::rate(self.elements_per_second));
        renderer.line(format!(
            "  {rate} elements/s of {}; compiled in {:.1} ms",
            format::count(self.elements),
            self.compile_ms
        ));
    }
}

#[derive(Serialize)]
struct Checked {
    bench: &'static str,
    verdict: &'static str,
    device: &'static str,
    threads: u64,
    array_bytes: u64,
    threads_per_second: f64,
    bytes_per_second: f64,
    min_plausible_ms: f64,
    execution: Option<Times>,
    mismatches: Vec<Mismatch>,
    small_outputs: Vec<SmallOutput>,
    fault: Option<FaultReport>,
}

impl Checked {
    fn new(file: &Path, measured: BenchmarkResponse) -> Self {
        let times: Vec<_> =
            measured.run_times.iter().copied().filter_map(|time| Duration::try_from(time).ok()).collect();
        let verdict = measured.verdict();
        let device = measured.device();
        Self {
            bench: "kernel",
            verdict: match verdict {
                BenchmarkVerdict::Passed => "passed",
                BenchmarkVerdict::Fault => "fault",
                BenchmarkVerdict::Mismatch => "mismatch",
                BenchmarkVerdict::ImplausibleTime => "implausible_time",
                BenchmarkVerdict::Unspecified => "unknown",
            },
            device: if device == KernelDevice::Cuda { "cuda" } else { "cpu" },
            threads: measured.thread_count,
            array_bytes: measured.array_bytes,
            threads_per_second: measured.threads_per_second,
            bytes_per_second: measured.bytes_per_second,
            min_plausible_ms: measured.min_time.and_then(|time| time.try_into().ok()).map_or(0.0, ms),
            execution: (!times.is_empty()).then(|| Times::new(times)),
            mismatches: measured.mismatches.into_iter().map(Mismatch::from).collect(),
            small_outputs: measured.small_outputs.into_iter().map(SmallOutput::from).collect(),
            fault: measured.fault.map(|fault| FaultReport::new(file, &fault)),
        }
    }
}

impl Report for Checked {
    fn render(&self, renderer: &mut Renderer) {
        if let Some(fault) = &self.fault {
            fault.render(renderer);
        }
        for Mismatch { output, run, failed, index, actual, expected } in &self.mismatches {
            let wrong = format::plural(*failed, "wrong element");
            renderer.line(format!("launch {}: {output} has {wrong}, first {index}: {actual} != {expected}", run + 1));
        }
        for small in &self.small_outputs {
            renderer.line(small.line());
        }
        if self.verdict == "implausible_time" {
            let least = self.min_plausible_ms;
            renderer.line(format!("the median is shorter than {least:.6} ms, in which memory cannot be written"));
        }
        let Some(execution) = &self.execution else { return };
        let mut table = Table::new(["<", "median", "spread", "min", "max"]);
        table.row(execution.row("execution"));
        renderer.table(&table);
        let [threads, bytes] = [self.threads_per_second, self.bytes_per_second].map(format::rate);
        renderer.line(format!("  {threads} threads/s, {bytes} bytes/s on {}: {}", self.device, self.verdict));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let times = Times::new((1..=11).rev().map(Duration::from_millis).collect());
        let ms = [times.min_ms, times.p10_ms, times.median_ms, times.p90_ms, times.max_ms].map(|ms| ms.to_string());
        assert_eq!(ms, ["1", "2", "6", "10", "11"]);
        let one = Times::new(vec![Duration::from_millis(3)]);
        assert_eq!(one.row("call"), ["call", "3.00 ms", "±0%", "3.00 ms", "3.00 ms"]);
    }
}
