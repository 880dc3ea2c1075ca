//! `accelctl`, the command line of accelerd.
#![allow(unreachable_pub, reason = "a program has no API: `pub` is what other modules may use")]

mod args;
mod chunk;
mod cli;
mod commands;
mod error;
mod human;
mod language;
mod npy;
mod page;
mod screen;
mod walk;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let cli::Cli { global, command } = cli::Cli::parse();
    let screen = screen::Screen::new(&global);
    match cli::run(command, &global, &screen).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => screen.fail(&error),
    }
}
