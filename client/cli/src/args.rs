//! What the command line looks like. The arguments of each command stand beside the command.

use std::time::Duration;

use accelerd_client::DEFAULT_URL;
use clap::{Args, Parser, Subcommand, ValueEnum, builder::Styles, builder::styling::AnsiColor};

use crate::commands::{
    bench::BenchArgs, cluster::ClusterArgs, collections::CollectionsArgs, embed::EmbedArgs, generate, health,
    index::IndexArgs, models::ModelsArgs, parse::ParseArgs, rerank::RerankArgs, search::SearchArgs,
    similar::SimilarArgs, stats::StatsArgs,
};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  it failed, the daemon is not well, or what was parsed has errors
  2  bad usage, or a file that cannot be read or is not what it should be
  3  the daemon cannot be reached
  4  a collection, model or snapshot does not exist
  5  the daemon is busy or out of room
  6  no answer in time

Examples:
  accelctl index src/ --collection code
  accelctl search \"where do we retry a failed upload\" --collection code
  accelctl parse src/
  echo 'open a socket' | accelctl embed - --output query.npy";

/// Index code and search it by meaning, embed, compare and cluster: the command line of accelerd.
#[derive(Debug, Parser)]
#[command(version, styles = STYLES, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for every command")]
pub struct Global {
    /// Where the daemon is: http://host:port or unix:///path.
    #[arg(long, global = true, env = "ACCELERD_SERVER", default_value = DEFAULT_URL, value_name = "URL")]
    pub server: String,
    /// Print one JSON document, or one a line for streams.
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress bars and no remarks.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// When to use colours; NO_COLOR turns them off too.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Longest that one call may take, retries included.
    #[arg(long, global = true, value_parser = duration, default_value = "60s", value_name = "TIME")]
    pub timeout: Duration,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Index(IndexArgs),
    Search(SearchArgs),
    Rerank(RerankArgs),
    Embed(EmbedArgs),
    Similar(SimilarArgs),
    Cluster(ClusterArgs),
    Parse(ParseArgs),
    Stats(StatsArgs),
    Bench(BenchArgs),
    Models(ModelsArgs),
    Collections(CollectionsArgs),
    Health(health::HealthArgs),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
}

/// A length of time with its unit, as in `500ms`, `5s` or `2m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a time such as 500ms, 5s or 2m, got {text:?}");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// A size with its unit, as in `512`, `64KiB`, `1MB`.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a size such as 512KiB or 1MB, got {text:?}");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1_000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "5", "s", "-1s", "5 parsecs", "1e400s"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_take_binary_and_decimal_units() {
        assert_eq!((size("512"), size("64KiB"), size("1MB")), (Ok(512), Ok(65_536), Ok(1_000_000)));
        for bad in ["", "MiB", "1.5MiB", "12quux", "99999999999999GiB"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn global_options_may_follow_the_command() {
        let cli = Cli::try_parse_from(["accelctl", "models", "--json", "--server", "unix:///run/a.sock"]).unwrap();
        assert!(cli.global.json);
        assert_eq!(cli.global.server, "unix:///run/a.sock");
    }

    #[test]
    fn commands_that_need_a_collection_ask_for_one() {
        for words in [vec!["search", "a"], vec!["index", "."], vec!["collections", "delete"]] {
            let words = ["accelctl"].into_iter().chain(words);
            assert!(Cli::try_parse_from(words.clone()).is_err(), "{:?}", words.collect::<Vec<_>>());
        }
    }
}
