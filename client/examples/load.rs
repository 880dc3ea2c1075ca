//! Puts load on a daemon: `cargo run --release -p accelerd-client --example load -- embed --concurrency 32`, or
//! `... -- search --collection code --rate 500` for an open loop that does not wait for answers.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::time::Duration;

use accelerd_client::{
    Client, DEFAULT_URL, Error, SearchOptions,
    load::{self, Shape, Until},
};
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(about = "Puts load on a daemon and prints throughput and latencies")]
struct Args {
    /// What to call.
    what: What,
    /// Where the daemon is.
    #[arg(long, env = "ACCELERD_SERVER", default_value = DEFAULT_URL)]
    server: String,
    /// Calls in flight (closed loop).
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// Calls a second (open loop).
    #[arg(long, conflicts_with = "concurrency")]
    rate: Option<f64>,
    /// Seconds to run.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Texts a call.
    #[arg(long, default_value_t = 1)]
    batch: u64,
    /// The collection to search.
    #[arg(long, required_if_eq("what", "search"))]
    collection: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    Embed,
    Search,
}

/// Texts that differ from call to call, so that no cache answers.
fn texts(call: u64, batch: u64) -> impl Iterator<Item = String> {
    let words = ["parse", "socket", "gzip", "thread", "json", "token", "matrix", "path"];
    let word = move |n: u64| words[usize::try_from(n % 8).unwrap_or_default()];
    (0..batch).map(move |n| format!("def {}_{}_{call}(value): return {}(value)", word(call), word(n), word(call / 8)))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let args = Args::parse();
    let client = Client::connect(&args.server).await?;
    let collection = client.collection(args.collection.unwrap_or_default());
    let options = SearchOptions::limit(10);
    let shape = args.rate.map_or(Shape::Closed { concurrency: args.concurrency }, |rate| Shape::Open { rate });
    let until = Until::Elapsed(Duration::try_from_secs_f64(args.seconds).unwrap_or(Duration::from_secs(5)));
    let report = load::run(shape, until, async |call| match args.what {
        What::Embed => client.embed(texts(call, args.batch)).await.map(|_| ()),
        What::Search => collection.search_text(texts(call, args.batch), &options).await.map(|_| ()),
    })
    .await;
    println!("{:.0} calls/s, {} answered, {} failed", report.rate(), report.succeeded, report.failed);
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        println!("{name} {:?}", report.latencies.quantile(share));
    }
    report.first_error.map_or(Ok(()), Err)
}
