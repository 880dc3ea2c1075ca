//! The command line, and the dispatch to its commands.

use accelerd_client::Client;
use clap::{CommandFactory, Parser, Subcommand, builder::Styles, builder::styling::AnsiColor};

use crate::{
    commands::{
        bench, cluster, collections, dataset, drain, embed, generate, health, index, kernel, models, parse, report,
        rerank, search, similar, snapshots, stats, tensor, verify,
    },
    error::Result,
    global::Global,
    output::Output,
};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Exit codes:
  0    success
  1    failure, no search results, an unhealthy daemon, syntax errors in parsed files, outputs that differ, checks that
       fail, kernels that cannot be translated or that end with a fault
  2    invalid usage, or a file that cannot be read or is invalid
  3    the daemon cannot be reached (2 with `verify run`)
  4    a collection, model or snapshot does not exist
  5    the daemon is busy, or its memory or disk is full
  6    deadline exceeded
  7    the daemon does not know the caller, or does not permit the call
  130  interrupted by Ctrl-C

Examples:
  accelctl index src/ --collection code
  accelctl search \"where do we retry a failed upload\" --collection code
  accelctl parse src/
  accelctl verify run suite.toml --html report.html
  accelctl tensor run matmul a.npy b.npy --output c.npy
  echo 'open a socket' | accelctl embed - --output query.npy";

/// Command-line client of accelerd: index and search code, embed, rerank, cluster, parse, compute with tensors, translate and
/// run kernels, verify functions.
#[derive(Debug, Parser)]
#[command(version, styles = STYLES, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Index(index::IndexArgs),
    Search(search::SearchArgs),
    Rerank(rerank::RerankArgs),
    Embed(embed::EmbedArgs),
    Similar(similar::SimilarArgs),
    Cluster(cluster::ClusterArgs),
    Parse(parse::ParseArgs),
    Tensor(tensor::TensorArgs),
    Kernel(kernel::KernelArgs),
    Verify(verify::VerifyArgs),
    Dataset(dataset::DatasetArgs),
    Stats(stats::StatsArgs),
    Report(report::ReportArgs),
    Bench(bench::BenchArgs),
    Models(models::ModelsArgs),
    Collections(collections::CollectionsArgs),
    Snapshots(snapshots::SnapshotsArgs),
    Health(health::HealthArgs),
    Drain(drain::DrainArgs),
    Resume(drain::ResumeArgs),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
}

/// Runs a command.
pub async fn run(command: Command, global: &Global, output: &Output) -> Result {
    match command {
        Command::Index(args) => index::run(args, &connect(global, false).await?, output).await,
        Command::Search(args) => {
            let client = connect(global, args.timing()).await?;
            search::run(args, &client, output).await
        }
        Command::Rerank(args) => rerank::run(args, &connect(global, false).await?, output).await,
        Command::Embed(args) => embed::run(args, &connect(global, false).await?, output).await,
        Command::Similar(args) => similar::run(args, &connect(global, false).await?, output).await,
        Command::Cluster(args) => cluster::run(args, &connect(global, false).await?, output).await,
        Command::Parse(args) => parse::run(args, &connect(global, false).await?, output).await,
        Command::Tensor(args) => tensor::run(args, &connect(global, false).await?, output).await,
        Command::Kernel(args) => kernel::run(args, &connect(global, false).await?, output).await,
        Command::Verify(args) => verify::run(args, global, output).await,
        Command::Dataset(args) => dataset::run(args, global, output).await,
        Command::Stats(args) => stats::run(&args, &connect(global, false).await?, output).await,
        Command::Report(args) => report::run(args, &connect(global, false).await?, output).await,
        Command::Bench(args) => bench::run(args, &global.builder()?, global.priority, output).await,
        Command::Models(args) => models::run(args, &connect(global, false).await?, output).await,
        Command::Collections(args) => collections::run(args, &connect(global, false).await?, output).await,
        Command::Snapshots(args) => snapshots::run(args, &connect(global, false).await?, output).await,
        Command::Health(args) => health::run(&args, &global.connection, output).await,
        Command::Drain(args) => drain::drain(&args, &connect(global, false).await?, output).await,
        Command::Resume(_) => drain::resume(&connect(global, false).await?, output).await,
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::man(&args, self::command(), output),
    }
}

/// The command line. A negative number is a value, which is checked, rather than an unknown option.
pub(crate) fn command() -> clap::Command {
    fn with_numbers(command: clap::Command) -> clap::Command {
        command.allow_negative_numbers(true).mut_subcommands(with_numbers)
    }
    with_numbers(Cli::command())
}

async fn connect(global: &Global, timings: bool) -> Result<Client> {
    Ok(global.builder()?.timings(timings).connect().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn a_negative_number_is_a_value_of_its_option() {
        let words = ["accelctl", "verify", "run", "suite.toml", "--count", "-1"];
        let error = command().try_get_matches_from(words).expect_err("below the range").to_string();
        assert!(error.contains("invalid value '-1' for '--count <N>'"), "{error}");
    }

    #[test]
    fn global_options_may_follow_the_command() {
        let cli = Cli::try_parse_from(["accelctl", "models", "--json", "--server", "unix:///run/a.sock"]).unwrap();
        assert!(cli.global.json);
        assert_eq!(cli.global.connection.server, "unix:///run/a.sock");
    }

    #[test]
    fn commands_that_need_a_collection_require_the_option() {
        for words in [vec!["search", "a"], vec!["index", "."], vec!["collections", "delete"]] {
            let words = ["accelctl"].into_iter().chain(words);
            assert!(Cli::try_parse_from(words.clone()).is_err(), "{:?}", words.collect::<Vec<_>>());
        }
    }
}
