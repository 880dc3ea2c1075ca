//! Makes the pairs of a data set, or those that are missing.

use std::{collections::HashSet, path::PathBuf, time::Instant};

use accelerd_client::{Client, DatasetCategory, DatasetOptions, DatasetPair, KernelDevice};
use clap::{Args, ValueEnum, ValueHint};
use futures::StreamExt;
use serde::Serialize;

use super::{
    folder::{Folder, Layout, Parameters},
    record::{Record, Run},
};
use crate::{
    commands::kernel::{Dialect, Target},
    error::{CliError, Result},
    output::{CASES_BAR, Output, Report},
    renderer::Renderer,
};

/// The most pairs of a call.
pub(super) const CALL_PAIRS: u64 = 10_000;

/// Generate pairs of Python kernels and their translations.
///
/// Each kernel is translated to CUDA C++ and WebAssembly, and run by the interpreter, as WebAssembly, and on a GPU if the daemon has one; how far
/// the results agree is part of the pair. Run the command again to go on after an interruption, or with a larger --pairs for more. The exit code
/// is 1 if results differ.
#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    /// Folder of the data set.
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    output: PathBuf,
    /// Pairs that the data set has in the end.
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pairs: u64,
    /// Other seeds have other kernels.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Make kernels of this category only; can be repeated.
    #[arg(long = "category", value_enum, value_name = "CATEGORY")]
    categories: Vec<Category>,
    /// Make kernels of this dialect only.
    #[arg(long = "dialect", value_enum, value_name = "DIALECT")]
    dialects: Vec<Dialect>,
    /// Translate to this target only; can be repeated [default: cuda and wasm].
    #[arg(long = "target", value_enum, value_name = "TARGET")]
    targets: Vec<Target>,
    /// Percentage of kernels for validation.
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    validation: u32,
    /// Percentage of kernels for the test.
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    test: u32,
    /// File layout of the pairs.
    #[arg(long, value_enum, default_value_t = Layout::Jsonl)]
    layout: Layout,
    /// Run pairs on the CPU only, or on a GPU as well [default: on a GPU if there is one].
    #[arg(long, value_enum)]
    device: Option<Device>,
}

/// Where pairs run.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Device {
    /// On the CPU only.
    Cpu,
    /// On a GPU as well.
    Cuda,
}

impl From<Device> for KernelDevice {
    fn from(device: Device) -> Self {
        match device {
            Device::Cpu => Self::Cpu,
            Device::Cuda => Self::Cuda,
        }
    }
}

/// The category of a kernel.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Category {
    /// Arithmetic on elements.
    Arithmetic,
    /// Small vectors.
    Vector,
    /// Small matrices, and products of arrays.
    Matrix,
    /// Loops that end early, and branches.
    ControlFlow,
    /// Elementary functions.
    Math,
    /// Atomic operations.
    Atomic,
    /// Loops within loops.
    NestedLoop,
    /// Chains of branches.
    MultiConditional,
    /// Helpers, loops, branches and functions together.
    Combined,
    /// Values for all threads.
    ScalarParam,
    /// Neighbours in arrays.
    Stencil,
    /// Bits of integers.
    Bitwise,
}

impl From<Category> for DatasetCategory {
    fn from(category: Category) -> Self {
        match category {
            Category::Arithmetic => Self::Arithmetic,
            Category::Vector => Self::Vector,
            Category::Matrix => Self::Matrix,
            Category::ControlFlow => Self::ControlFlow,
            Category::Math => Self::Math,
            Category::Atomic => Self::Atomic,
            Category::NestedLoop => Self::NestedLoop,
            Category::MultiConditional => Self::MultiConditional,
            Category::Combined => Self::Combined,
            Category::ScalarParam => Self::ScalarParam,
            Category::Stencil => Self::Stencil,
            Category::Bitwise => Self::Bitwise,
        }
    }
}

/// The result of the command.
#[derive(Serialize)]
struct Generated {
    pairs: u64,
    new: u64,
    duplicates: u64,
    disagreeing: u64,
    elapsed_seconds: f64,
    pairs_per_second: f64,
}

impl Report for Generated {
    fn render(&self, renderer: &mut Renderer) {
        renderer.facts([
            ("pairs", format!("{} ({} new)", self.pairs, self.new)),
            ("duplicates", format!("{} left out", self.duplicates)),
            ("disagreeing", self.disagreeing.to_string()),
            ("time", format!("{:.1} s, {:.0} pairs/s", self.elapsed_seconds, self.pairs_per_second)),
        ]);
    }
}

pub(super) async fn run(args: GenerateArgs, client: &Client, output: &Output) -> Result {
    let folder = Folder::create(&args.output, args.parameters())?;
    folder.repair()?;
    let mut known = HashSet::new();
    let mut next = 0;
    folder.for_each(|record| {
        next = next.max(record.index + 1);
        known.insert(record.id);
        Ok(())
    })?;
    let before = known.len() as u64;
    let mut duplicates = 0;
    let mut disagreeing = 0;
    let started = Instant::now();
    let bar = output.bar(args.pairs, CASES_BAR, "pairs");
    bar.set_position(before);
    while (known.len() as u64) < args.pairs {
        let missing = args.pairs - known.len() as u64;
        let options = options(&folder.parameters, missing.min(CALL_PAIRS), args.device)?.first_index(next);
        let mut pairs = client.generate_dataset(&options).await?;
        while let Some(pair) = pairs.next().await {
            let pair: DatasetPair = pair?;
            next = pair.index + 1;
            // Equal kernels come once in a call; a new call does not know those of earlier ones.
            if !known.insert(pair.id.clone()) {
                duplicates += 1;
                continue;
            }
            let record = Record::from(pair);
            disagreeing += u64::from(!record.runs.iter().all(Run::agrees));
            folder.append(&record)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let new = known.len() as u64 - before;
    let elapsed_seconds = started.elapsed().as_secs_f64();
    let pairs_per_second = new as f64 / elapsed_seconds.max(1e-9);
    let pairs = known.len() as u64;
    output.show(&Generated { pairs, new, duplicates, disagreeing, elapsed_seconds, pairs_per_second })?;
    if disagreeing > 0 { Err(CliError::Differs) } else { Ok(()) }
}

impl GenerateArgs {
    fn parameters(&self) -> Parameters {
        Parameters {
            layout: self.layout,
            seed: self.seed,
            categories: names(&self.categories),
            dialects: names(&self.dialects),
            targets: names(&self.targets),
            validation_percent: self.validation,
            test_percent: self.test,
        }
    }
}

/// The call that makes pairs of a data set.
pub(super) fn options(parameters: &Parameters, count: u64, device: Option<Device>) -> Result<DatasetOptions> {
    let mut options = DatasetOptions::new(count, parameters.seed);
    options = options.split(parameters.validation_percent, parameters.test_percent);
    for name in &parameters.categories {
        options = options.category(named::<Category>("category", name)?.into());
    }
    for name in &parameters.dialects {
        options = options.dialect(named::<Dialect>("dialect", name)?.into());
    }
    for name in &parameters.targets {
        options = options.target(named::<Target>("target", name)?.into());
    }
    Ok(device.map_or(options.clone(), |device| options.device(device.into())))
}

/// The names of values on the command line and in a file of parameters.
fn names(values: &[impl ValueEnum]) -> Vec<String> {
    values.iter().filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned())).collect()
}

fn named<T: ValueEnum>(what: &str, name: &str) -> Result<T> {
    T::from_str(name, false).map_err(|_| CliError::Usage(format!("the data set has an unknown {what}, {name:?}")))
}
