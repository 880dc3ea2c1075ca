//! Parses Python files and shows whether they are Python, their trees, outlines or tokens.

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

use self::{send::Batch, show::Problem};
use crate::{
    args::size,
    error::{CliError, Result},
    human,
    page::{Page, Paint, Table},
    screen::{Report, Screen},
};

/// Parse Python files: tells which have errors, or shows trees, outlines or tokens.
///
/// Takes the .py and .pyi files below folders, by the rules of `accelctl index`; files that are named are taken whatever
/// their name. The verdict is CPython's, and so are the trees. Exits with 1 where a source has an error.
#[derive(Debug, Args)]
pub struct ParseArgs {
    /// Files and folders; `-` is standard input.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    show: ShowArgs,
    /// Take the source for Python 3.N, 8 to 14; the newest by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=14))]
    feature_version: Option<u32>,
    /// Leave out what matches, as in a .gitignore; may be given several times.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Pass over larger files.
    #[arg(long, default_value = "8MiB", value_parser = size, value_name = "SIZE")]
    max_file_size: u64,
}

/// What to show of each source.
#[derive(Clone, Copy, Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct ShowArgs {
    /// Show the tree as `ast.dump` does; with several sources, --json says which is whose.
    #[arg(long, group = "shown")]
    dump: bool,
    /// Show lines and columns of nodes too.
    #[arg(long, requires = "dump")]
    attributes: bool,
    /// Spaces a level of the tree; without, it is one line.
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

/// What was found out.
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
    fn render(&self, page: &mut Page) {
        for problem in &self.errors {
            page.whole_line(problem.line(page));
        }
        if !self.errors.is_empty() {
            page.gap();
        }
        let mut table = Table::new(["files", "lines", "size", "time", "MB/s", "errors", "?unreadable", "?too large"]);
        let time = human::time(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let paint = if self.error_count > 0 { Paint::Bad } else { Paint::Good };
        table.row([
            human::count(self.files),
            human::count(self.lines),
            human::bytes(self.bytes),
            time,
            human::rate(self.megabytes_per_second),
            page.paint(paint, human::count(self.error_count)),
            human::count(self.unreadable),
            human::count(self.too_large),
        ]);
        page.table(&table);
    }
}

/// Parses and shows.
pub async fn run(args: ParseArgs, client: &Client, screen: &Screen) -> Result {
    let start = Instant::now();
    let sources = sources::find(&args)?;
    for problem in &sources.problems {
        screen.warn(problem);
    }
    let options = ParseOptions { feature_version: args.feature_version.unwrap_or(0), outputs: args.show.outputs() };
    let mut summary = Summary { unreadable: sources.unreadable, too_large: sources.too_large, ..Default::default() };
    send::each_batch(client, sources, &options, screen, |batch| note(batch, args.show, &mut summary, screen)).await?;
    summary.seconds = start.elapsed().as_secs_f64();
    summary.megabytes_per_second = summary.bytes as f64 / 1e6 / summary.seconds.max(1e-9);
    finish(&summary, args.show, screen)
}

/// Counts a batch and shows its sources where that was asked for.
fn note(batch: &Batch, show: ShowArgs, summary: &mut Summary, screen: &Screen) -> Result {
    summary.unreadable += batch.unreadable;
    for (path, parsed) in batch.sources() {
        summary.files += 1;
        summary.bytes += parsed.text().len() as u64;
        summary.lines += line_count(parsed);
        if let Some(diagnostic) = parsed.diagnostic() {
            summary.error_count += 1;
            summary.errors.push(Problem::new(path, diagnostic));
        }
        if show.anything() {
            show::show(path, parsed, show, screen)?;
        }
    }
    Ok(())
}

/// Lines as editors count them: a final newline starts none.
fn line_count(parsed: Parsed<'_>) -> u64 {
    let lines = parsed.lines();
    let ends_open = lines.start(lines.len()) < parsed.text().len();
    (lines.len() - usize::from(!ends_open)) as u64
}

/// Shows the summary, or where something else was shown only the errors.
fn finish(summary: &Summary, show: ShowArgs, screen: &Screen) -> Result {
    if !show.anything() {
        screen.show(summary)?;
    } else if !screen.json() {
        for problem in &summary.errors {
            screen.warn(problem.plain());
        }
    }
    let wrong = summary.error_count + summary.unreadable;
    if wrong == 0 {
        return Ok(());
    }
    let of = human::plural(summary.files + summary.unreadable, "source");
    let verb = if wrong == 1 { "has" } else { "have" };
    Err(CliError::Partial(format!("{} of {of} {verb} errors", human::count(wrong))))
}
