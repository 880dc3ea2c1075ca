//! `accelctl`, the command line of accelerd.
#![allow(unreachable_pub, reason = "a program has no API: `pub` is what other modules may use")]

mod args;
mod chunk;
mod cli;
mod commands;
mod complete;
mod connection;
mod decode;
mod dtype;
mod error;
mod format;
mod global;
mod hint;
mod interrupt;
mod kind;
mod language;
mod npy;
mod operand;
mod output;
mod renderer;
mod returned;
mod safetensors_file;
mod visible;
mod walk;
mod watch;

use std::process::ExitCode;

use clap::FromArgMatches;
use clap_complete::CompleteEnv;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // If a shell requests completions, this prints them and exits.
    CompleteEnv::with_factory(cli::command).complete();
    let cli::Cli { global, command } =
        cli::Cli::from_arg_matches(&cli::command().get_matches()).unwrap_or_else(|error| error.exit());
    let output = output::Output::new(&global);
    match run(command, &global, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output.fail(&error),
    }
}

fn run(command: cli::Command, global: &global::Global, output: &output::Output) -> error::Result {
    let runtime = tokio::runtime::Runtime::new().map_err(error::CliError::Start)?;
    let result = runtime.block_on(Box::pin(cli::run(command, global, output)));
    // After Ctrl-C, threads may still read files: the program does not wait for them.
    runtime.shutdown_background();
    result
}
