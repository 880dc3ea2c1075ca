//! Resident tensors: uploads, downloads, copies and handles.

use std::{path::PathBuf, time::Duration};

use accelerd_client::{Client, ResidentTensor, UploadOptions};
use clap::{Args, ValueHint};
use serde::Serialize;

use super::{
    kept::Kept,
    outputs::{Files, Results},
};
use crate::{
    args::duration,
    error::{CliError, Result},
    format,
    format::shape,
    operand::{Operand, Source, resident},
    output::{Output, Report},
    renderer::{Renderer, Style, Table},
};

/// Where tensors are kept, and for how long.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// Device, as cpu or cuda:0 [default: the GPU with the most free memory for tensors, or the CPU].
    #[arg(long, default_value = "", hide_default_value = true)]
    device: String,
    /// Free the tensor when no call has used it for this time [default: the daemon's setting].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,
}

impl Place {
    fn options(&self) -> UploadOptions {
        let options = UploadOptions::default().device(&self.device);
        match self.ttl {
            Some(ttl) => options.ttl(ttl),
            None => options,
        }
    }
}

/// Upload tensors to a device, and print their handles.
#[derive(Debug, Args)]
pub(super) struct UploadArgs {
    /// FILE.npy, FILE.safetensors:NAME, or FILE.safetensors of one tensor.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// Download a resident tensor to a file.
#[derive(Debug, Args)]
pub(super) struct DownloadArgs {
    /// Its handle.
    handle: String,
    /// A .npy or .safetensors file.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Its name in a .safetensors file.
    #[arg(long, default_value = "tensor")]
    name: String,
}

/// Copy a resident tensor, as to another device.
#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// Its handle.
    handle: String,
    #[command(flatten)]
    place: Place,
}

/// Free resident tensors: all of them, or none if one does not exist.
#[derive(Debug, Args)]
pub(super) struct FreeArgs {
    /// Their handles.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "HANDLE")]
    handles: Vec<String>,
    /// Free all of the caller's.
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct KeptTensors {
    tensors: Vec<Kept>,
}

impl KeptTensors {
    fn new(tensors: Vec<ResidentTensor>) -> Self {
        Self { tensors: tensors.into_iter().map(Into::into).collect() }
    }
}

impl Report for KeptTensors {
    fn render(&self, renderer: &mut Renderer) {
        let mut table = Table::new(["<handle", "<type", "<shape", "size", "<device", "expires in"]);
        for tensor in &self.tensors {
            table.row([
                renderer.style(Style::Name, &tensor.handle),
                tensor.dtype.to_owned(),
                shape(&tensor.shape),
                format::bytes(tensor.size_bytes),
                tensor.device.clone(),
                format::time(Duration::try_from_secs_f64(tensor.expires_in_seconds).unwrap_or_default()),
            ]);
        }
        renderer.table(&table);
    }
}

#[derive(Serialize)]
struct Freed {
    freed: Vec<String>,
}

impl Report for Freed {
    fn render(&self, renderer: &mut Renderer) {
        for handle in &self.freed {
            renderer.line(format!("freed {}", renderer.style(Style::Name, handle)));
        }
    }
}

pub(super) async fn list(client: &Client, output: &Output) -> Result {
    output.show(&KeptTensors::new(client.list_tensors().await?))
}

pub(super) async fn upload(args: UploadArgs, client: &Client, output: &Output) -> Result {
    let operands = args.files.iter().map(|file| Operand::parse(file)).collect::<Result<Vec<_>>>()?;
    let mut uploaded = vec![];
    let options = args.place.options();
    for operand in operands {
        let sent = match operand.read() {
            Ok(Source::Value(tensor)) => client.upload(tensor, &options).await.map_err(CliError::from),
            Ok(Source::Handle(handle)) => Err(CliError::Usage(format!("expected a file, got the handle {handle}"))),
            Err(error) => Err(error),
        };
        match sent {
            Ok(tensor) => uploaded.push(tensor),
            Err(error) => {
                // All or none; what cannot be freed expires.
                let _expires = client.free(&uploaded).await;
                return Err(error);
            }
        }
    }
    output.show(&KeptTensors::new(uploaded))
}

pub(super) async fn download(args: DownloadArgs, client: &Client, output: &Output) -> Result {
    let files = Files::new(&[args.output])?;
    let names = [args.name];
    let tensors = [client.download(&resident(&args.handle)).await?];
    files.write(&names, &tensors)?;
    output.show(&Results::new(&names, &tensors, &files))
}

pub(super) async fn copy(args: CopyArgs, client: &Client, output: &Output) -> Result {
    let copied = client.copy_tensor(&resident(&args.handle), &args.place.options()).await?;
    output.show(&KeptTensors::new(vec![copied]))
}

pub(super) async fn free(args: FreeArgs, client: &Client, output: &Output) -> Result {
    let tensors = if args.all {
        client.list_tensors().await?
    } else {
        args.handles.iter().map(|handle| resident(handle)).collect()
    };
    client.free(&tensors).await?;
    output.show(&Freed { freed: tensors.into_iter().map(|tensor| tensor.handle).collect() })
}
