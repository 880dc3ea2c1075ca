//! Benchmarks of a daemon in closed or open loops: throughput, goodput, latencies and batching of requests of different
//! clients.

mod clients;
mod cluster;
mod embed;
mod execute;
mod levels;
mod load;
mod parse;
mod search;
mod similar;
mod tensor;
mod vectors;

use accelerd_client::{Builder, Priority};
use clap::{Args, Subcommand};
use rand::Rng;

use self::{
    clients::{Calls, Clients, Shape},
    cluster::ClusterBench,
    embed::EmbedBench,
    execute::ExecuteBench,
    levels::{Level, Results},
    load::Load,
    parse::ParseBench,
    search::SearchBench,
    similar::SimilarBench,
    tensor::TensorBench,
};
use crate::{
    error::{CliError, Result},
    format,
    output::{Output, SPINNER},
};

/// Hits or rows per query.
const K: u32 = 10;
/// Distinct inputs, used round-robin.
const INPUTS: u64 = 64;

/// Measure throughput, goodput, latency and batching.
///
/// A closed loop (--concurrency) keeps a number of calls in flight and finds the maximum throughput. An open loop (--rate)
/// offers calls whether earlier ones are answered or not, as independent callers do, and shows what a daemon does under
/// overload: goodput is the rate of answers within the deadline.
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
    /// Cluster a temporary collection of random vectors, or an existing one, by k-means.
    Cluster(ClusterBench),
    /// Parse Python files.
    Parse(ParseBench),
    /// Execute a graph of tensor operations on random operands.
    Execute(ExecuteBench),
    Tensor(TensorBench),
}

#[derive(Debug, Args)]
struct Items {
    /// Texts or query rows per call.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
}

/// A benchmark: the calls, their input and the items per call.
struct Subject {
    bench: &'static str,
    input: String,
    items: u32,
    calls: Calls,
    /// The random collection that is kept.
    kept: Option<String>,
}

/// State that all benchmarks share.
struct Context<'a> {
    builder: &'a Builder,
    /// Priority of the calls, unless the load has a mix.
    priority: Priority,
    output: &'a Output,
}

pub async fn run(args: BenchArgs, builder: &Builder, priority: Priority, output: &Output) -> Result {
    let context = Context { builder, priority, output };
    match args.what {
        What::Embed(bench) => {
            let (input, calls) = bench.calls(builder).await?;
            let subject = Subject { bench: "embed", input, items: bench.items.batch, calls, kept: None };
            measure(subject, &bench.load, &context).await
        }
        What::Search(bench) => bench.run(&context).await,
        What::Similar(bench) => measure(bench.subject()?, &bench.load, &context).await,
        What::Cluster(bench) => bench.run(&context).await,
        What::Parse(bench) => {
            let (input, items, calls) = bench.calls()?;
            measure(Subject { bench: "parse", input, items, calls, kept: None }, &bench.load, &context).await
        }
        What::Execute(bench) => measure(bench.subject()?, &bench.load, &context).await,
        What::Tensor(bench) => bench.run(builder, output).await,
    }
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
    let index = usize::try_from(number % INPUTS).unwrap_or_default();
    inputs.get(index).cloned().unwrap_or_default()
}

async fn measure(subject: Subject, load: &Load, context: &Context<'_>) -> Result {
    let Subject { bench, input, items, calls, kept } = subject;
    let Context { builder, priority, output } = context;
    let observer = (*builder).clone().connect().await?;
    let spinner = output.bar(0, SPINNER, bench);
    let mut levels = vec![];
    for plan in load.plans(*priority) {
        spinner.set_message(match plan.shape {
            Shape::Closed { concurrency } => format!("{concurrency} in flight"),
            Shape::Open { rate } => format!("{rate} calls/s offered"),
        });
        let clients = Clients::gather(&plan, &load.builder(builder), &calls).await?;
        let before = observer.stats().await?;
        let report = clients.run().await?;
        let after = observer.stats().await?;
        levels.push(Level::new(&plan, load.by_priority(), items, &report, (&before, &after)));
    }
    spinner.finish_and_clear();
    let results = Results { bench, input, items_per_call: items, collection: kept, levels };
    output.show(&results)?;
    verdict(&results.levels)
}

/// Fails if calls failed unexpectedly, or if the generator did not keep up with its own schedule.
fn verdict(levels: &[Level]) -> Result {
    let failed: u64 = levels.iter().map(Level::unexpected).sum();
    if failed > 0 {
        return Err(CliError::Partial(format!("{} failed", format::plural(failed, "call"))));
    }
    match levels.iter().find_map(Level::missed_rate) {
        Some((rate, how_late)) => Err(CliError::Partial(format!(
            "the load generator did not keep up with {rate} calls/s: {how_late}; its figures do not describe the daemon"
        ))),
        None => Ok(()),
    }
}
