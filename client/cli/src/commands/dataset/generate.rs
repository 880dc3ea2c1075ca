//! Makes the pairs of a data set, or those that are missing.

use std::{collections::HashSet, path::PathBuf};

use accelerd_client::{
    Client, DatasetCategory, DatasetOptions, DatasetPair, KernelDevice,
    proto::{KernelDialect, KernelTarget},
};
use clap::{Args, ValueHint};
use futures::StreamExt;
use serde::Serialize;

use super::{
    folder::{Folder, Layout, Parameters},
    record::Record,
};
use crate::{
    error::{CliError, Result},
    output::{CASES_BAR, Output, Report},
    renderer::Renderer,
};

/// The most pairs of a call.
const CALL_PAIRS: u64 = 10_000;

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
    /// Percentage of structures for validation.
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    validation: u32,
    /// Percentage of structures for the test.
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    test: u32,
    /// How pairs are stored.
    #[arg(long, value_enum, default_value_t = Layout::Jsonl)]
    layout: Layout,
    /// Run pairs on the CPU only, or on a GPU as well [default: on a GPU if there is one].
    #[arg(long, value_enum)]
    device: Option<Device>,
}

/// Where pairs run.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
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

macro_rules! named {
    ($(#[$doc:meta])* $name:ident of $message:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, clap::ValueEnum)]
        #[value(rename_all = "snake_case")]
        pub(super) enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            const ALL: &[(Self, &str)] = &[$((Self::$variant, $text),)*];

            fn name(self) -> String {
                Self::ALL[self as usize].1.to_owned()
            }

            /// What a file of parameters names.
            fn message(name: &str) -> Option<$message> {
                match name { $($text => Some($message::$variant),)* _ => None }
            }
        }
    };
}

named! {
    /// What a kernel is an example of.
    Category of DatasetCategory {
        /// Arithmetic on elements.
        Arithmetic = "arithmetic",
        /// Small vectors.
        Vector = "vector",
        /// Small matrices, and products of arrays.
        Matrix = "matrix",
        /// Loops that end early, and branches.
        ControlFlow = "control_flow",
        /// Elementary functions.
        Math = "math",
        /// Atomic operations.
        Atomic = "atomic",
        /// Loops within loops.
        NestedLoop = "nested_loop",
        /// Chains of branches.
        MultiConditional = "multi_conditional",
        /// Helpers, loops, branches and functions together.
        Combined = "combined",
        /// Values for all threads.
        ScalarParam = "scalar_param",
        /// Neighbours in arrays.
        Stencil = "stencil",
        /// Bits of integers.
        Bitwise = "bitwise",
    }
}

named! {
    /// What operators and functions mean.
    Dialect of KernelDialect {
        /// NVIDIA Warp.
        Warp = "warp",
        /// CPython.
        Python = "python",
    }
}

named! {
    /// What kernels are translated to.
    Target of KernelTarget {
        /// CUDA C++.
        Cuda = "cuda",
        /// WebAssembly.
        Wasm = "wasm",
        /// PTX, with a report of the resources that it needs. This takes many times as long.
        Ptx = "ptx",
    }
}

/// What the command did.
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
    let (mut known, mut next) = (HashSet::new(), 0);
    folder.for_each(|record| {
        next = next.max(record.index + 1);
        known.insert(record.id);
        Ok(())
    })?;
    let before = known.len() as u64;
    let (mut duplicates, mut disagreeing) = (0, 0);
    let started = std::time::Instant::now();
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
            disagreeing += u64::from(!record.runs.iter().all(super::record::Run::agrees));
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
            categories: self.categories.iter().map(|of| of.name()).collect(),
            dialects: self.dialects.iter().map(|of| of.name()).collect(),
            targets: self.targets.iter().map(|of| of.name()).collect(),
            validation_percent: self.validation,
            test_percent: self.test,
        }
    }
}

/// The call that makes pairs of a data set.
pub(super) fn options(parameters: &Parameters, count: u64, device: Option<Device>) -> Result<DatasetOptions> {
    let unknown = |what: &str, name: &str| CliError::Usage(format!("the data set has an unknown {what}, {name:?}"));
    let mut options = DatasetOptions::new(count, parameters.seed);
    options = options.split(parameters.validation_percent, parameters.test_percent);
    for name in &parameters.categories {
        options = options.category(Category::message(name).ok_or_else(|| unknown("category", name))?);
    }
    for name in &parameters.dialects {
        options = options.dialect(Dialect::message(name).ok_or_else(|| unknown("dialect", name))?);
    }
    for name in &parameters.targets {
        options = options.target(Target::message(name).ok_or_else(|| unknown("target", name))?);
    }
    Ok(device.map_or(options.clone(), |device| options.device(device.into())))
}
