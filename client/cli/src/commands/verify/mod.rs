//! Verifies outputs: compares tensors, and runs suites of checks.

mod compare;
mod comparison;
mod html;
mod junit;
mod markdown;
mod report;
mod run;
mod suite;

use clap::{Args, Subcommand};

use crate::{
    error::{CliError, Result},
    global::Global,
    output::Output,
};

/// Compare tensors, and verify functions against references.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(compare::CompareArgs),
    Run(run::RunArgs),
}

pub async fn run(args: VerifyArgs, global: &Global, output: &Output) -> Result {
    match args.command {
        Command::Compare(args) => compare::run(&args, &global.builder()?.connect().await?, output).await,
        Command::Run(args) => {
            let suite = args.suite()?;
            let client = global.builder()?.connect().await.map_err(CliError::SuiteConnection)?;
            run::run(&args, suite, &client, output).await
        }
    }
}
