//! Runs tensor operations on files, and manages resident tensors.

mod attribute;
mod data_parallel;
mod graph_file;
mod kept;
mod outputs;
mod resident;
mod run;

use accelerd_client::Client;
use clap::{Args, Subcommand};

pub(super) use self::{
    attribute::{Attribute, parse as parse_attribute},
    graph_file::GraphFile,
};
use crate::{error::Result, output::Output};

/// Run tensor operations on .npy and .safetensors files, and manage tensors that stay on a device.
#[derive(Debug, Args)]
pub struct TensorArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(run::RunArgs),
    /// List the resident tensors, oldest first.
    List,
    Upload(resident::UploadArgs),
    Download(resident::DownloadArgs),
    Copy(resident::CopyArgs),
    Free(resident::FreeArgs),
}

pub async fn run(args: TensorArgs, client: &Client, output: &Output) -> Result {
    match args.action {
        Action::Run(args) => run::run(args, client, output).await,
        Action::List => resident::list(client, output).await,
        Action::Upload(args) => resident::upload(args, client, output).await,
        Action::Download(args) => resident::download(args, client, output).await,
        Action::Copy(args) => resident::copy(args, client, output).await,
        Action::Free(args) => resident::free(args, client, output).await,
    }
}
