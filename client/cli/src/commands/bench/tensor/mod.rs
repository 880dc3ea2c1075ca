//! Benchmarks of tensor operations, which the daemon runs on operands that it generates.

mod cases;
mod results;
mod svg;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use accelerd_client::{Builder, Client, proto};
use clap::{Args, ValueEnum, ValueHint};

use self::{
    cases::{Case, Size},
    results::{Measured, Results},
};
use crate::{
    args::duration,
    error::{CliError, Result},
    output::{Output, SPINNER},
};

/// Measure tensor operations of fixed shapes: times, bandwidth, arithmetic rate, and the share of what the device can do.
///
/// The daemon generates the operands, and measures the bandwidth of copies and the rate of large products on the same device.
#[derive(Debug, Args)]
pub struct TensorBench {
    /// Device, as cpu or cuda:0 [default: the daemon's first GPU, or the CPU].
    #[arg(long, default_value = "", hide_default_value = true)]
    device: String,
    /// Shapes: small ones take megabytes, large ones up to 2 GiB and a GPU [default: large on a GPU, small on a CPU].
    #[arg(long, value_enum, value_name = "SIZE")]
    size: Option<Size>,
    /// Only the cases whose names contain this text; can be repeated.
    #[arg(long = "case", value_name = "TEXT")]
    cases: Vec<String>,
    /// Maximum repetitions of a case.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,
    /// Maximum time of the repetitions of a case.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    max_time: Duration,
    /// Also write the results to a .json, .md or .svg file, as its extension says; can be repeated.
    #[arg(long, short, value_name = "FILE", value_parser = document, value_hint = ValueHint::FilePath)]
    output: Vec<(PathBuf, Document)>,
}

/// The kind of a file of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Document {
    Json,
    Markdown,
    Svg,
}

fn document(path: &str) -> Result<(PathBuf, Document), String> {
    let path = PathBuf::from(path);
    let document = match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Document::Json,
        Some("md") => Document::Markdown,
        Some("svg") => Document::Svg,
        _ => return Err("expected a .json, .md or .svg file".to_owned()),
    };
    Ok((path, document))
}

impl TensorBench {
    pub(super) async fn run(&self, builder: &Builder, output: &Output) -> Result {
        let client = builder.clone().connect().await?;
        let size = match self.size {
            Some(size) => size,
            None => self.default_size(&client).await?,
        };
        let is_chosen = |case: &Case| self.cases.is_empty() || self.cases.iter().any(|text| case.name.contains(text));
        let cases: Vec<_> = cases::all(size).into_iter().filter(is_chosen).collect();
        if cases.is_empty() {
            let names = cases::all(size).into_iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
            return Err(CliError::Usage(format!("no case has such a name; the cases are {names}")));
        }
        let results = self.measure(&client, size, cases, output).await?;
        for (path, document) in &self.output {
            write(&results, path, *document)?;
        }
        output.show(&results)?;
        match results.failed() {
            0 => Ok(()),
            failed => Err(CliError::Partial(format!("{failed} of {} cases failed", results.cases.len()))),
        }
    }

    async fn default_size(&self, client: &Client) -> Result<Size> {
        let devices = client.devices().await?.devices;
        let is_gpu = |device: &proto::Device| {
            device.kind() == proto::DeviceKind::Cuda
                && device.state() == proto::DeviceState::Ready
                && (self.device.is_empty() || self.device == device.name)
        };
        Ok(if devices.iter().any(is_gpu) { Size::Large } else { Size::Small })
    }

    async fn measure(&self, client: &Client, size: Size, cases: Vec<Case>, output: &Output) -> Result<Results> {
        let max_time = prost_types::Duration::try_from(self.max_time)
            .map_err(|error| CliError::Usage(format!("--max-time: {error}")))?;
        let progress = output.bar(0, SPINNER, "tensor");
        let mut results = Results::new(size);
        for case in cases {
            progress.set_message(case.name);
            let request = proto::BenchmarkOpRequest {
                device: self.device.clone(),
                repetition_count: self.repetitions,
                max_time: Some(max_time),
                ..case.request.clone()
            };
            match client.benchmark_op(request).await {
                Ok(response) => results.add(&case, &response),
                // One case may need more memory than there is.
                Err(error) if error.failure().is_some() => results.cases.push(Measured::failed(&case, &error)),
                Err(error) => return Err(error.into()),
            }
        }
        progress.finish_and_clear();
        Ok(results)
    }
}

fn write(results: &Results, path: &Path, document: Document) -> Result {
    let text = match document {
        Document::Json => {
            let json = serde_json::to_string_pretty(results).map_err(|error| CliError::Output(error.into()))?;
            format!("{json}\n")
        }
        Document::Markdown => results.markdown(),
        Document::Svg => svg::plot(results),
    };
    fs::write(path, text).map_err(CliError::file(path))
}
