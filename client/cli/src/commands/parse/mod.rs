//! Parses Python files and shows their errors, trees, outlines or tokens.

mod follow;
mod send;
mod show;
mod sources;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use accelerd_client::{Client, DumpOptions, ParseOptions, Parsed, proto::ParseOutput};
use clap::Args;
use serde::Serialize;

use self::{send::Batch, show::Problem, sources::Sources};
use crate::{
    args::size,
    error::{CliError, Result},
    format,
    output::{Output, Report},
    renderer::{Renderer, Style, Table},
    watch::WatchArgs,
};

/// Parse Python files: list syntax errors, or show trees, outlines or tokens.
///
/// Takes the .py and .pyi files below folders, by the rules of `accelctl index`, and all files that are arguments. Errors and
/// trees are CPython's. Exits with 1 if a source has an error.
///
/// With --watch, it then parses files that change, until Ctrl-C, and prints their errors and the files that have none any more.
#[derive(Debug, Args)]
pub struct ParseArgs {
    /// Files and folders; `-` is standard input.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    show: ShowArgs,
    /// Parse as Python 3.N, from 8 to 14 [default: the newest].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=14))]
    feature_version: Option<u32>,
    /// Exclude files that match, as in a .gitignore; can be repeated.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Skip larger files.
    #[arg(long, default_value = "8MiB", value_parser = size, value_name = "SIZE")]
    max_file_size: u64,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Output options.
#[derive(Clone, Copy, Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct ShowArgs {
    /// Show the tree as `ast.dump` does; with several sources, use --json to tell them apart.
    #[arg(long, group = "shown")]
    dump: bool,
    /// Include lines and columns of nodes.
    #[arg(long, requires = "dump")]
    attributes: bool,
    /// Spaces per level of the tree [default: one line].
    #[arg(long, value_name = "N", requires = "dump", value_parser = clap::value_parser!(u8).range(..=16))]
    indent: Option<u8>,
    /// Show functions, classes and imports with their lines.
    #[arg(long, group = "shown")]
    outline: bool,
    /// Show tokens and comments.
    #[arg(long, group = "shown")]
    tokens: bool,
}

impl ShowArgs {
    fn outputs(self) -> Vec<ParseOutput> {
        match self {
            Self { dump: true, .. } => vec![ParseOutput::Tree],
            Self { outline: true, .. } => vec![ParseOutput::Outline, ParseOutput::LineStarts],
            Self { tokens: true, .. } => vec![ParseOutput::Tokens, ParseOutput::Comments, ParseOutput::LineStarts],
            _ => vec![ParseOutput::LineStarts],
        }
    }

    fn dump_options(self) -> DumpOptions {
        DumpOptions { attributes: self.attributes, indent: self.indent.map(usize::from) }
    }

    fn anything(self) -> bool {
        self.dump || self.outline || self.tokens
    }
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    files: u64,
    lines: u64,
    bytes: u64,
    seconds: f64,
    megabytes_per_second: f64,
    error_count: u64,
    unreadable: u64,
    too_large: u64,
    errors: Vec<Problem>,
}

impl Report for Summary {
    fn render(&self, renderer: &mut Renderer) {
        for problem in &self.errors {
            renderer.whole_line(problem.line(renderer));
        }
        if !self.errors.is_empty() {
            renderer.gap();
        }
        let mut table = Table::new(["files", "lines", "size", "time", "MB/s", "errors", "?unreadable", "?too large"]);
        let time = format::time(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let style = if self.error_count > 0 { Style::Bad } else { Style::Good };
        table.row([
            format::count(self.files),
            format::count(self.lines),
            format::bytes(self.bytes),
            time,
            format::rate(self.megabytes_per_second),
            renderer.style(style, format::count(self.error_count)),
            format::count(self.unreadable),
            format::count(self.too_large),
        ]);
        renderer.table(&table);
    }
}

pub async fn run(args: ParseArgs, client: &Client, output: &Output) -> Result {
    if args.watch.watch {
        return follow::run(&args, client, output).await;
    }
    let start = Instant::now();
    let sources = sources::find(&args)?;
    let summary = parse(&args, client, output, start, sources, |_, _| true).await?;
    show_summary(&summary, args.show, output)?;
    finish(&summary)
}

/// Parses sources, and counts and shows those that `is_wanted`.
async fn parse(
    args: &ParseArgs,
    client: &Client,
    output: &Output,
    start: Instant,
    sources: Sources,
    mut is_wanted: impl FnMut(&str, Parsed<'_>) -> bool,
) -> Result<Summary> {
    for problem in &sources.problems {
        output.warn(problem);
    }
    let options = ParseOptions { feature_version: args.feature_version.unwrap_or(0), outputs: args.show.outputs() };
    let mut summary = Summary { unreadable: sources.unreadable, too_large: sources.too_large, ..Default::default() };
    let note = |batch: &Batch| {
        summary.unreadable += batch.unreadable;
        let mut wanted = batch.sources().filter(|(path, parsed)| is_wanted(path, *parsed));
        wanted.try_for_each(|(path, parsed)| note(path, parsed, args.show, &mut summary, output))
    };
    send::each_batch(client, sources, &options, output, note).await?;
    summary.seconds = start.elapsed().as_secs_f64();
    summary.megabytes_per_second = summary.bytes as f64 / 1e6 / summary.seconds.max(1e-9);
    Ok(summary)
}

/// Counts a source, and shows it if requested.
fn note(path: &str, parsed: Parsed<'_>, show: ShowArgs, summary: &mut Summary, output: &Output) -> Result {
    summary.files += 1;
    summary.bytes += parsed.text().len() as u64;
    summary.lines += line_count(parsed);
    if let Some(diagnostic) = parsed.diagnostic() {
        summary.error_count += 1;
        summary.errors.push(Problem::new(path, diagnostic));
    }
    if show.anything() { show::show(path, parsed, show, output) } else { Ok(()) }
}

/// Number of lines as editors count them: a final newline does not start a line.
fn line_count(parsed: Parsed<'_>) -> u64 {
    let lines = parsed.lines();
    let ends_open = lines.start(lines.len()) < parsed.text().len();
    (lines.len() - usize::from(!ends_open)) as u64
}

/// Shows the summary, or only the errors if sources were shown.
fn show_summary(summary: &Summary, show: ShowArgs, output: &Output) -> Result {
    if !show.anything() {
        return output.show(summary);
    }
    warn_of(&summary.errors, output);
    Ok(())
}

/// Shows errors of sources that were shown; documents have them.
fn warn_of(errors: &[Problem], output: &Output) {
    for problem in errors.iter().filter(|_| !output.json()) {
        output.warn(problem.plain());
    }
}

/// Fails if a source has an error.
fn finish(summary: &Summary) -> Result {
    let wrong = summary.error_count + summary.unreadable;
    if wrong == 0 {
        return Ok(());
    }
    let sources = format::plural(summary.files + summary.unreadable, "source");
    let verb = if wrong == 1 { "has" } else { "have" };
    Err(CliError::Partial(format!("{} of {sources} {verb} errors", format::count(wrong))))
}
