//! Runs an operation or a graph on tensors of files and resident ones.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use accelerd_client::{
    Client, ResidentTensor, UploadOptions,
    proto::{self, Tensor, tensor_input},
};
use clap::{Args, ValueHint};

use super::{
    attribute::{self, Attribute},
    data_parallel::DataParallelArgs,
    graph_file::GraphFile,
    outputs::{Files, KeptResults, Results},
};
use crate::{
    args::duration,
    error::{CliError, Result},
    operand::{Operand, Source},
    output::Output,
};

/// Larger operands are uploaded in chunks, and their results downloaded, because a message is bounded.
const STREAMED_BYTES: usize = 16 << 20;

/// Run an operation, or a graph of operations, on tensors of files.
///
/// Operations, attributes and results are PyTorch's: `accelctl tensor run sum x.npy --attr dim=1 --output y.npy`. A graph is a .json
/// or .toml file with the names of its inputs and outputs, and nodes with name, op, inputs and attributes; its operands are given in
/// the order of its inputs, or as NAME=OPERAND.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The operation, as matmul, or a graph: FILE.json or FILE.toml.
    op: String,
    /// FILE.npy, FILE.safetensors:NAME, FILE.safetensors of one tensor, or handle:HANDLE of a resident tensor.
    #[arg(value_name = "OPERAND", value_hint = ValueHint::FilePath)]
    operands: Vec<String>,
    /// Attribute of the operation, as dim=1, keepdim=true, shape=2,3, `dim=[1]` or approximate=tanh; can be repeated. A quoted value is
    /// a text.
    #[arg(long = "attr", short = 'a', value_name = "NAME=VALUE", value_parser = attribute::parse)]
    attributes: Vec<(String, Attribute)>,
    /// File of a result: a .npy file for each, or one .safetensors file for all; can be repeated.
    #[arg(long = "output", short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    outputs: Vec<PathBuf>,
    /// Number of the operation's results [default: the number of .npy files, or 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    results: Option<u32>,
    /// Keep the results on the device, and print their handles.
    #[arg(long, conflicts_with = "outputs")]
    keep: bool,
    /// Free what --keep keeps when no call has used it for this time [default: the daemon's setting].
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "keep")]
    keep_ttl: Option<Duration>,
    /// Device to run on, as cpu or cuda:0 [default: the one with the most bytes of the resident operands, or any].
    #[arg(long, default_value = "", hide_default_value = true)]
    device: String,
    #[command(flatten)]
    data_parallel: DataParallelArgs,
    /// Upload operands and download results in chunks, as for operands of more than 16 MiB: results may have any size.
    #[arg(long, conflicts_with = "keep")]
    stream: bool,
}

pub(super) async fn run(args: RunArgs, client: &Client, output: &Output) -> Result {
    let graph = GraphFile::read(Path::new(&args.op))?;
    if graph.is_some() && !(args.attributes.is_empty() && args.results.is_none()) {
        return Err(CliError::Usage("--attr and --results are of a single operation, not of a graph".to_owned()));
    }
    let results = args.results.map_or(args.outputs.len().max(1), |results| results as usize);
    let files = Files::new(&args.outputs)?;
    let graph = graph.unwrap_or_else(|| GraphFile::single(&args.op, args.operands.len(), results, args.attributes));
    files.check(graph.outputs.len())?;
    let sources = graph
        .assign(&args.operands)?
        .into_iter()
        .map(|operand| Operand::parse(operand)?.read())
        .collect::<Result<Vec<_>>>()?;
    let names = graph.outputs.clone();
    let mut request = graph.request(&args.device);
    let keep_ttl = args.keep_ttl.map(prost_types::Duration::try_from).transpose();
    request.keep_ttl = keep_ttl.map_err(|error| CliError::Usage(format!("--keep-ttl: {error}")))?;
    request.data_parallel = args.data_parallel.message();
    let call = Call { client, request, sources };
    if args.keep {
        return output.show(&KeptResults::new(&names, call.keep().await?));
    }
    let tensors =
        if args.stream || call.value_bytes() > STREAMED_BYTES { call.streamed().await? } else { call.inline().await? };
    files.write(&names, &tensors)?;
    output.show(&Results::new(&names, &tensors, &files))
}

/// A request and the tensors of its inputs.
struct Call<'a> {
    client: &'a Client,
    request: proto::ExecuteRequest,
    sources: Vec<Source>,
}

impl Call<'_> {
    /// Bytes of the operands that are not resident.
    fn value_bytes(&self) -> usize {
        let bytes = |source: &Source| match source {
            Source::Value(tensor) => tensor.data.len(),
            Source::Handle(_) => 0,
        };
        self.sources.iter().map(bytes).sum()
    }

    /// Sends the operands with the request, and returns the results with the response.
    async fn inline(mut self) -> Result<Vec<Tensor>> {
        self.fill_inputs();
        Ok(self.client.execute_request(self.request).await?.outputs)
    }

    /// Keeps the results on the device; large operands are uploaded for the call.
    async fn keep(mut self) -> Result<Vec<ResidentTensor>> {
        self.request.outputs.iter_mut().for_each(|output| output.keep = true);
        let mut temporary = vec![];
        let uploaded = if self.value_bytes() > STREAMED_BYTES { self.upload(&mut temporary).await } else { Ok(()) };
        let kept = match uploaded {
            Ok(()) => {
                self.fill_inputs();
                self.client.execute_request(self.request).await.map(|executed| executed.kept).map_err(CliError::from)
            }
            Err(error) => Err(error),
        };
        free(self.client, &temporary).await;
        kept
    }

    /// Uploads the operands and downloads the results in chunks.
    async fn streamed(mut self) -> Result<Vec<Tensor>> {
        let mut temporary = vec![];
        let results = self.through_device(&mut temporary).await;
        free(self.client, &temporary).await;
        results
    }

    async fn through_device(&mut self, temporary: &mut Vec<ResidentTensor>) -> Result<Vec<Tensor>> {
        self.upload(temporary).await?;
        self.fill_inputs();
        self.request.outputs.iter_mut().for_each(|output| output.keep = true);
        let kept = self.client.execute_request(std::mem::take(&mut self.request)).await?.kept;
        temporary.extend(kept.iter().cloned());
        let mut results = vec![];
        for tensor in &kept {
            results.push(self.client.download(tensor).await?);
        }
        Ok(results)
    }

    /// Makes all operands resident, on the device of the first that is already, or else together on one of the daemon's choice.
    async fn upload(&mut self, temporary: &mut Vec<ResidentTensor>) -> Result {
        let mut device = self.device().await?;
        for source in &mut self.sources {
            if let Source::Value(tensor) = source {
                let options = UploadOptions::default().device(device.as_str());
                let uploaded = self.client.upload(std::mem::take(tensor), &options).await?;
                device.clone_from(&uploaded.device);
                *source = Source::Handle(uploaded.handle.clone());
                temporary.push(uploaded);
            }
        }
        Ok(())
    }

    /// The device of the request, or of its first resident operand; empty for the default.
    async fn device(&self) -> Result<String> {
        let handle = self.sources.iter().find_map(|source| match source {
            Source::Handle(handle) => Some(handle),
            Source::Value(_) => None,
        });
        let Some(handle) = handle.filter(|_| self.request.device.is_empty()) else {
            return Ok(self.request.device.clone());
        };
        let tensors = self.client.list_tensors().await?;
        let found = tensors.into_iter().find(|tensor| tensor.handle == *handle);
        Ok(found.map(|tensor| tensor.device).unwrap_or_default())
    }

    /// Moves the operands into the request.
    fn fill_inputs(&mut self) {
        for (input, source) in self.request.inputs.iter_mut().zip(self.sources.drain(..)) {
            input.source = Some(match source {
                Source::Value(tensor) => tensor_input::Source::Value(tensor),
                Source::Handle(handle) => tensor_input::Source::Handle(handle),
            });
        }
    }
}

/// Frees the tensors that a call left on the device. A tensor that cannot be freed expires.
async fn free(client: &Client, temporary: &[ResidentTensor]) {
    if !temporary.is_empty() {
        let _expires = client.free(temporary).await;
    }
}
