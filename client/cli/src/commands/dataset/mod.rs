//! Data sets of kernels and their translations: generation, verification that they are reproduced, and statistics.

mod folder;
mod generate;
mod record;
mod stats;
mod verify;

use accelerd_client::Client;
use clap::{Args, Subcommand};

use crate::{error::Result, global::Global, output::Output};

/// Make data sets of Python kernels and their translations.
#[derive(Debug, Args)]
pub struct DatasetArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(generate::GenerateArgs),
    Verify(verify::VerifyArgs),
    Stats(stats::StatsArgs),
}

pub async fn run(args: DatasetArgs, global: &Global, output: &Output) -> Result {
    match args.command {
        Command::Generate(args) => generate::run(args, &connect(global).await?, output).await,
        Command::Verify(args) => verify::run(args, &connect(global).await?, output).await,
        Command::Stats(args) => stats::run(&args, output),
    }
}

async fn connect(global: &Global) -> Result<Client> {
    Ok(global.builder()?.connect().await?)
}
