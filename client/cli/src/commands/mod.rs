//! One file or folder a command: its arguments, its work, its report.

pub mod bench;
pub mod cluster;
pub mod collections;
pub mod embed;
pub mod generate;
pub mod health;
pub mod index;
pub mod models;
pub mod parse;
pub mod rerank;
pub mod search;
pub mod similar;
pub mod stats;

use accelerd_client::{Builder, Client, Timings};
use serde::Serializer;

use crate::{
    args::{Command, Global},
    error::Result,
    screen::Screen,
};

/// Most hits that one search may return.
const MAX_HITS: u32 = 16_384;

/// Runs a command.
pub async fn run(command: Command, global: &Global, screen: &Screen) -> Result {
    match command {
        Command::Index(args) => index::run(args, &connect(global, false).await?, screen).await,
        Command::Search(args) => {
            let client = connect(global, args.timing()).await?;
            search::run(args, &client, screen).await
        }
        Command::Rerank(args) => rerank::run(args, &connect(global, false).await?, screen).await,
        Command::Embed(args) => embed::run(args, &connect(global, false).await?, screen).await,
        Command::Similar(args) => similar::run(args, &connect(global, false).await?, screen).await,
        Command::Cluster(args) => cluster::run(args, &connect(global, false).await?, screen).await,
        Command::Parse(args) => parse::run(args, &connect(global, false).await?, screen).await,
        Command::Stats(args) => stats::run(&args, &connect(global, false).await?, screen).await,
        Command::Bench(args) => bench::run(args, &builder(global, false), screen).await,
        Command::Models(args) => models::run(args, &connect(global, false).await?, screen).await,
        Command::Collections(args) => collections::run(args, &connect(global, false).await?, screen).await,
        Command::Health(args) => health::run(&args, global, screen).await,
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::man(&args, screen),
    }
}

async fn connect(global: &Global, timings: bool) -> Result<Client> {
    Ok(builder(global, timings).connect().await?)
}

fn builder(global: &Global, timings: bool) -> Builder {
    Client::builder(&global.server).deadline(global.timeout).timings(timings)
}

/// Stages of a call as an object of milliseconds.
fn milliseconds<S: Serializer>(timings: &Timings, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(timings.0.iter().map(|stage| (&stage.name, stage.duration.as_secs_f64() * 1e3)))
}
