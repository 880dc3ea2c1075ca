//! `accelctl`, the command line of accelerd.
#![allow(unreachable_pub, reason = "a program has no API: `pub` is what other modules may use")]

mod args;
mod chunk;
mod cli;
mod commands;
mod complete;
mod error;
mod human;
mod kind;
mod language;
mod npy;
mod page;
mod screen;
mod walk;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Where a shell asks for completions, they are printed, and the program ends here.
    CompleteEnv::with_factory(cli::Cli::command).complete();
    let cli::Cli { global, command } = cli::Cli::parse();
    let screen = screen::Screen::new(&global);
    match run(command, &global, &screen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => screen.fail(&error),
    }
}

#[tokio::main]
async fn run(command: cli::Command, global: &args::Global, screen: &screen::Screen) -> error::Result {
    cli::run(command, global, screen).await
}
