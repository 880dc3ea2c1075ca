//! Puts load on a daemon: `cargo run --release -p accelerd-client --example load -- embed --concurrency 32`, or
//! `... -- upsert --collection new --text-field body --concurrency 1` for points with words. `accelctl bench` has open loops.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::time::Duration;

use accelerd_client::{
    Client, Code, Collection, CollectionOptions, DEFAULT_URL, Error, Payload, Priority, SearchOptions, Value,
    load::{self, Until},
};
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(about = "Puts load on a daemon and prints throughput and latencies")]
struct Args {
    /// The method to call.
    what: What,
    /// Where the daemon is.
    #[arg(long, env = "ACCELERD_SERVER", default_value = DEFAULT_URL)]
    server: String,
    /// Calls in flight.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// Seconds to run.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Texts a call.
    #[arg(long, default_value_t = 1)]
    batch: u64,
    /// The collection to search or to write to, which is made where it is not there.
    #[arg(long, required_if_eq_any([("what", "search"), ("what", "upsert")]))]
    collection: Option<String>,
    /// Payload field for the texts that are written, whose words a new collection knows.
    #[arg(long, default_value = "")]
    text_field: String,
    /// Search by words, too.
    #[arg(long)]
    hybrid: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    Embed,
    Search,
    Upsert,
}

/// Texts that differ from call to call, so that no cache answers.
fn texts(call: u64, batch: u64) -> impl Iterator<Item = String> {
    let words = ["parse", "socket", "gzip", "thread", "json", "token", "matrix", "path"];
    let word = move |n: u64| words[usize::try_from(n % 8).unwrap_or_default()];
    (0..batch).map(move |n| format!("def {}_{}_{call}(value): return {}(value)", word(call), word(n), word(call / 8)))
}

async fn make(collection: &Collection, text_field: &str) -> Result<(), Error> {
    let model = "builtin".to_owned();
    let text_field = text_field.to_owned();
    match collection.create(&CollectionOptions { model, text_field, ..CollectionOptions::default() }).await {
        Err(error) if error.code() != Code::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

async fn upsert(collection: &Collection, call: u64, batch: u64, text_field: &str) -> Result<(), Error> {
    let ids: Vec<_> = (call * batch..(call + 1) * batch).collect();
    let texts: Vec<_> = texts(call, batch).collect();
    let payload = |text: &String| Payload::from([(text_field.to_owned(), Value::Text(text.clone()))]);
    let payloads = if text_field.is_empty() { vec![] } else { texts.iter().map(payload).collect() };
    collection.upsert_texts(ids, texts, payloads).await.map(|_| ())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let args = Args::parse();
    let client = Client::connect(&args.server).await?;
    let collection = client.collection(args.collection.unwrap_or_default());
    let options = SearchOptions { hybrid: args.hybrid, ..SearchOptions::limit(10) };
    if matches!(args.what, What::Upsert) {
        make(&collection, &args.text_field).await?;
    }
    let until = Until::Elapsed(Duration::try_from_secs_f64(args.seconds).unwrap_or(Duration::from_secs(5)));
    let priorities = std::iter::repeat(Priority::Normal);
    let report = load::closed_loop(args.concurrency, until, priorities, None, async |call, _| match args.what {
        What::Embed => client.embed(texts(call, args.batch)).await.map(|_| ()),
        What::Search => collection.search_text(texts(call, args.batch), &options).await.map(|_| ()),
        What::Upsert => upsert(&collection, call, args.batch, &args.text_field).await,
    })
    .await;
    let total = report.total();
    println!("{:.0} calls/s, {} answered, {} failed", report.rate(), total.ok(), total.failed());
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        println!("{name} {:?}", total.latencies.quantile(share));
    }
    report.first_error.map_or(Ok(()), Err)
}
