//! Closed-loop benchmarks of a daemon: throughput, latencies and batching of requests of different clients.

mod clients;
mod embed;
mod parse;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use accelerd_client::{
    Builder, Collection, CollectionOptions, Error, Matrix, SearchOptions, SimilarOptions, load::Until,
    proto::GetStatsResponse,
};
use clap::{Args, Subcommand};
use rand::Rng;
use serde::Serialize;

use self::{
    clients::{Calls, Clients, Crowd},
    embed::EmbedBench,
    parse::ParseBench,
};
use crate::{
    args::duration,
    error::{CliError, Result},
    format,
    output::{Output, Report, SPINNER},
    renderer::{Renderer, Style, Table},
};

/// Hits or rows per query.
const K: u32 = 10;
/// Rows per upsert of the random collection.
const ROWS_AN_UPSERT: usize = 4096;
/// Distinct inputs, used round-robin.
const INPUTS: u64 = 64;

/// Measure throughput, latency and batching.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Embed short texts.
    Embed(EmbedBench),
    /// Search a temporary collection of random vectors, or an existing one.
    Search(SearchBench),
    /// Search an inline corpus, which is sent with each call.
    Similar(SimilarBench),
    /// Parse Python files.
    Parse(ParseBench),
}

#[derive(Debug, Args)]
struct Load {
    /// Calls in flight; several levels are measured one after another.
    #[arg(long, value_delimiter = ',', default_value = "1,32,100", value_name = "N,...")]
    concurrency: Vec<NonZeroUsize>,
    /// Connections that the calls share [default: one per call in flight].
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroUsize>,
    /// Duration of each level.
    #[arg(long, value_parser = duration, default_value = "3s", value_name = "TIME", conflicts_with = "requests")]
    duration: Duration,
    /// Calls of each level, instead of a duration.
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
}

#[derive(Debug, Args)]
struct Items {
    /// Texts or query rows per call.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
}

#[derive(Debug, Args)]
struct SearchBench {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    items: Items,
    /// An existing collection; the queries are texts if it has a model.
    #[arg(long, short, conflicts_with_all = ["rows", "dim"])]
    collection: Option<String>,
    #[command(flatten)]
    corpus: Corpus,
}

#[derive(Debug, Args)]
struct SimilarBench {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    items: Items,
    #[command(flatten)]
    corpus: Corpus,
}

#[derive(Debug, Args)]
struct Corpus {
    /// Rows of the random corpus.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// Dimensions of the random corpus.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    dim: u32,
}

#[derive(Serialize)]
struct Results {
    bench: &'static str,
    input: String,
    items_per_call: u32,
    levels: Vec<Level>,
}

#[derive(Serialize)]
struct Level {
    concurrency: usize,
    connections: usize,
    calls: u64,
    failed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<String>,
    seconds: f64,
    calls_per_second: f64,
    items_per_second: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    lane: String,
    calls_per_batch: f64,
}

impl Report for Results {
    fn render(&self, renderer: &mut Renderer) {
        renderer.title(format!("{}: {}", self.bench, self.input));
        let heads = ["in flight", "calls/s", "?items/s", "p50", "p90", "p99", "max", "calls/batch", "?failed"];
        let mut table = Table::new(heads);
        let ms = |ms: f64| format::time(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default());
        for level in &self.levels {
            let failed = if level.failed > 0 { Style::Bad } else { Style::Dim };
            table.row([
                level.concurrency.to_string(),
                renderer.style(Style::Figure, format::rate(level.calls_per_second)),
                if self.items_per_call > 1 { format::rate(level.items_per_second) } else { "-".into() },
                ms(level.p50_ms),
                ms(level.p90_ms),
                ms(level.p99_ms),
                ms(level.max_ms),
                format!("{:.1}", level.calls_per_batch),
                renderer.style(failed, format::count(level.failed)),
            ]);
        }
        renderer.table(&table);
        if let Some(error) = self.levels.iter().find_map(|level| level.first_error.as_ref()) {
            renderer.line(format!("  {} {error}", renderer.style(Style::Bad, "first error:")));
        }
    }
}

/// A benchmark: the calls, their input and the items per call.
struct Subject {
    bench: &'static str,
    input: String,
    items: u32,
    calls: Calls,
}

pub async fn run(args: BenchArgs, builder: &Builder, output: &Output) -> Result {
    match args.what {
        What::Embed(bench) => {
            let (input, calls) = bench.calls(builder).await?;
            measure(Subject { bench: "embed", input, items: bench.items.batch, calls }, &bench.load, builder, output)
                .await
        }
        What::Search(bench) => match &bench.collection {
            Some(name) => search(&bench, &builder.clone().connect().await?.collection(name), builder, output).await,
            None => search_own(&bench, builder, output).await,
        },
        What::Similar(bench) => {
            let (items, Corpus { rows, dim }) = (bench.items.batch, &bench.corpus);
            let input = format!("{items} against {} inline x {dim}", format::count((*rows).into()));
            let subject = Subject { bench: "similar", input, items, calls: similar_calls(&bench)? };
            measure(subject, &bench.load, builder, output).await
        }
        What::Parse(bench) => {
            let (input, items, calls) = bench.calls()?;
            measure(Subject { bench: "parse", input, items, calls }, &bench.load, builder, output).await
        }
    }
}

/// Measures searches in a temporary collection of random vectors, which is always deleted.
async fn search_own(bench: &SearchBench, builder: &Builder, output: &Output) -> Result {
    let Corpus { rows, dim } = bench.corpus;
    let collection =
        builder.clone().connect().await?.collection(format!("accelctl-bench-{:08x}", rand::random::<u32>()));
    collection.create(&CollectionOptions { dimensions: dim, ..Default::default() }).await?;
    let measured = async {
        fill(&collection, rows, dim).await?;
        search(bench, &collection, builder, output).await
    };
    let outcome = tokio::select! {
        outcome = measured => outcome,
        _ = tokio::signal::ctrl_c() => Err(CliError::Partial("interrupted".into())),
    };
    let dropped = collection.delete().await;
    outcome.and(dropped.map_err(Into::into))
}

async fn fill(collection: &Collection, rows: u32, dim: u32) -> Result {
    let rows = random(rows, dim)?;
    for (at, part) in rows.as_slice().chunks(ROWS_AN_UPSERT * rows.dim()).enumerate() {
        let part = accelerd_client::MatrixRef::new(part, rows.dim()).map_err(Error::from)?;
        let first = (at * ROWS_AN_UPSERT) as u64;
        collection.upsert_vectors(first..first + part.rows() as u64, part, vec![]).await?;
    }
    Ok(())
}

fn similar_calls(bench: &SimilarBench) -> Result<Calls> {
    let Corpus { rows, dim } = bench.corpus;
    let (corpus, queries) = (random(rows, dim)?, random(bench.items.batch, dim)?);
    let options = SimilarOptions::cosine(K.min(rows));
    Ok(Arc::new(move |client| {
        let (client, queries, corpus, options) = (client.clone(), queries.clone(), corpus.clone(), options.clone());
        Arc::new(move |_| {
            let (client, queries, corpus) = (client.clone(), queries.clone(), corpus.clone());
            let options = options.clone();
            Box::pin(async move { client.find_similar(queries, corpus, &options).await.map(|_| ()) })
        })
    }))
}

async fn search(bench: &SearchBench, collection: &Collection, builder: &Builder, output: &Output) -> Result {
    let described = collection.get().await?;
    let (items, points) = (bench.items.batch, format::count(described.point_count));
    let options = SearchOptions { no_payload: true, ..SearchOptions::limit(K) };
    let name = collection.name().to_owned();
    let (input, calls): (_, Calls) = if described.model.is_empty() {
        let queries = random(items, described.dimensions)?;
        let calls: Calls = Arc::new(move |client| {
            let (collection, queries, options) = (client.collection(&name), queries.clone(), options.clone());
            Arc::new(move |_| {
                let (collection, queries, options) = (collection.clone(), queries.clone(), options.clone());
                Box::pin(async move { collection.search_vectors(queries, &options).await.map(|_| ()) })
            })
        });
        (format!("{items} vector(s) against {points} points x {}", described.dimensions), calls)
    } else {
        let inputs = Arc::new(texts(items, 6));
        let calls: Calls = Arc::new(move |client| {
            let (collection, inputs, options) = (client.collection(&name), Arc::clone(&inputs), options.clone());
            Arc::new(move |number| {
                let (collection, texts, options) = (collection.clone(), pick(&inputs, number), options.clone());
                Box::pin(async move { collection.search_text(texts, &options).await.map(|_| ()) })
            })
        });
        (format!("{items} text(s) against {points} points"), calls)
    };
    measure(Subject { bench: "search", input, items, calls }, &bench.load, builder, output).await
}

/// Random rows between -1 and 1.
fn random(rows: u32, dim: u32) -> Result<Matrix> {
    let count = (rows as usize).saturating_mul(dim as usize);
    let mut random = rand::rng();
    let numbers = (0..count).map(|_| random.random_range(-1.0..1.0)).collect();
    Ok(Matrix::new(numbers, dim as usize).map_err(Error::from)?)
}

/// Texts that resemble code, distinct per input.
fn texts(batch: u32, words: usize) -> Vec<Vec<String>> {
    const WORDS: [&str; 24] = [
        "parse", "socket", "def", "return", "buffer", "self", "open", "json", "index", "value", "thread", "import",
        "read", "config", "error", "path", "async", "token", "matrix", "list", "write", "query", "hash", "time",
    ];
    let mut random = rand::rng();
    let mut text = || (0..words).map(|_| WORDS[random.random_range(0..WORDS.len())]).collect::<Vec<_>>().join(" ");
    (0..INPUTS).map(|_| (0..batch).map(|_| text()).collect()).collect()
}

fn pick(inputs: &[Vec<String>], number: u64) -> Vec<String> {
    let at = usize::try_from(number % INPUTS).unwrap_or_default();
    inputs.get(at).cloned().unwrap_or_default()
}

async fn measure(subject: Subject, load: &Load, builder: &Builder, output: &Output) -> Result {
    let Subject { bench, input, items, calls } = subject;
    let observer = builder.clone().connect().await?;
    let spinner = output.bar(0, SPINNER, bench);
    let mut levels = vec![];
    for concurrency in &load.concurrency {
        spinner.set_message(format!("{concurrency} in flight"));
        let crowd = Crowd::new(*concurrency, load.connections);
        let clients = Clients::gather(crowd, builder, &calls).await?;
        let until = load.requests.map_or(Until::Elapsed(load.duration), Until::Requests);
        let before = observer.stats().await?;
        let report = clients.run(until).await?;
        let after = observer.stats().await?;
        levels.push(level(crowd, items, &report, &before, &after));
    }
    spinner.finish_and_clear();
    let failed: u64 = levels.iter().map(|level| level.failed).sum();
    output.show(&Results { bench, input, items_per_call: items, levels })?;
    if failed > 0 { Err(CliError::Partial(format!("{} failed", format::plural(failed, "call")))) } else { Ok(()) }
}

fn level(
    crowd: Crowd,
    items: u32,
    report: &clients::Report,
    before: &GetStatsResponse,
    after: &GetStatsResponse,
) -> Level {
    let ms = |share: f64| report.latencies.quantile(share).as_secs_f64() * 1e3;
    let (lane, calls_per_batch) = busiest(before, after);
    Level {
        concurrency: crowd.concurrency,
        connections: crowd.connections,
        calls: report.succeeded,
        failed: report.failed,
        first_error: report.first_error.as_ref().map(ToString::to_string),
        seconds: report.elapsed.as_secs_f64(),
        calls_per_second: report.rate(),
        items_per_second: report.rate() * f64::from(items),
        p50_ms: ms(0.5),
        p90_ms: ms(0.9),
        p99_ms: ms(0.99),
        max_ms: report.latencies.max().as_secs_f64() * 1e3,
        lane,
        calls_per_batch,
    }
}

/// The lane that executed the most requests between two samples, and its mean requests per batch.
fn busiest(before: &GetStatsResponse, after: &GetStatsResponse) -> (String, f64) {
    let difference = |lane: &accelerd_client::proto::LaneStats| {
        let old = before.lanes.iter().find(|old| old.name == lane.name).cloned().unwrap_or_default();
        (lane.request_count.saturating_sub(old.request_count), lane.batch_count.saturating_sub(old.batch_count))
    };
    let lanes = after.lanes.iter().map(|lane| (difference(lane), lane));
    lanes.max_by_key(|((requests, _), _)| *requests).map_or((String::new(), 0.0), |((requests, batches), lane)| {
        (lane.name.clone(), requests as f64 / batches.max(1) as f64)
    })
}

#[cfg(test)]
mod tests {
    use accelerd_client::proto::LaneStats;

    use super::*;

    #[test]
    fn batching_is_of_the_lane_that_did_the_work_in_between() {
        let sample = |embed: (u64, u64), search: (u64, u64)| {
            let lane = |name: &str, (request_count, batch_count): (u64, u64)| LaneStats {
                name: name.into(),
                request_count,
                batch_count,
                ..Default::default()
            };
            GetStatsResponse { lanes: vec![lane("embed", embed), lane("search", search)], ..Default::default() }
        };
        let (lane, calls) = busiest(&sample((1000, 10), (0, 0)), &sample((1010, 20), (90, 30)));
        assert!(lane == "search" && (calls - 3.0).abs() < 1e-9, "{lane}: {calls}");
        assert_eq!(busiest(&GetStatsResponse::default(), &GetStatsResponse::default()).0, "");
    }
}
