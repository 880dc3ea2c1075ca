//! Where results, remarks and progress go: results to standard output, everything else to standard error.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::{
    args::{Color, Global},
    error::{CliError, Result},
    page::{Page, Paint, paint},
};

/// Width where there is no terminal: programs get lines whole.
const UNBOUNDED_WIDTH: usize = usize::MAX;
/// Width of a terminal that does not say.
const DEFAULT_WIDTH: usize = 100;
/// Narrowest page: below this a table is easier to read where the terminal breaks its lines.
const MIN_WIDTH: usize = 40;

/// What a command found out: a JSON document for programs, a page for people.
pub trait Report: Serialize {
    /// Writes it for people.
    fn render(&self, page: &mut Page);
}

/// Where everything goes.
#[derive(Debug)]
pub struct Screen {
    json: bool,
    quiet: bool,
    out: Output,
    color_err: bool,
}

/// Where results go.
#[derive(Debug)]
struct Output {
    terminal: bool,
    color: bool,
    width: usize,
}

impl Screen {
    /// What the options and the terminal allow.
    pub fn new(global: &Global) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let plain = set("NO_COLOR") || std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let color = |terminal: bool| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !plain,
        };
        let terminal = io::stdout().is_terminal();
        let columns = || console::Term::stdout().size_checked().map_or(DEFAULT_WIDTH, |(_, columns)| columns.into());
        let width = if terminal { columns().max(MIN_WIDTH) } else { UNBOUNDED_WIDTH };
        Self {
            json: global.json,
            quiet: global.quiet,
            out: Output { terminal, color: color(terminal), width },
            color_err: color(io::stderr().is_terminal()),
        }
    }

    /// Whether JSON was asked for.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Whether results go to a terminal.
    pub fn terminal(&self) -> bool {
        self.out.terminal
    }

    /// An empty page that fits.
    pub fn page(&self) -> Page {
        Page::new(self.out.color, self.out.width)
    }

    /// Shows what a command found out.
    pub fn show(&self, report: &impl Report) -> Result {
        if !self.json {
            let mut page = self.page();
            report.render(&mut page);
            return write(page.text().as_bytes());
        }
        let document =
            if self.out.terminal { serde_json::to_string_pretty(report) } else { serde_json::to_string(report) };
        write(format!("{}\n", document.map_err(|error| CliError::Output(error.into()))?).as_bytes())
    }

    /// A remark for people.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            self.complain(Paint::Dim, "note", text.as_ref());
        }
    }

    /// Something that people should know although it goes on.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.complain(Paint::Warn, "warning", text.as_ref());
    }

    fn complain(&self, what: Paint, label: &str, text: &str) {
        let label = paint(self.color_err, what, &format!("{label}:"));
        // Nothing is left to tell it to when standard error is gone.
        let _gone = writeln!(io::stderr(), "{label} {text}");
    }

    /// Says what went wrong and what to do, and gives the exit code.
    pub fn fail(&self, error: &CliError) -> ExitCode {
        if matches!(error, CliError::Output(source) if source.kind() == io::ErrorKind::BrokenPipe) {
            return ExitCode::SUCCESS;
        }
        if matches!(error, CliError::NothingFound) {
            return ExitCode::from(error.exit_code());
        }
        let hint = error.hint();
        if self.json {
            let document = serde_json::json!({
                "error": { "message": error.to_string(), "hint": hint, "exit_code": error.exit_code() }
            });
            let _gone = writeln!(io::stderr(), "{document}");
        } else {
            self.complain(Paint::Bad, "error", &error.to_string());
            if let Some(hint) = hint {
                self.complain(Paint::Name, " hint", &hint);
            }
        }
        ExitCode::from(error.exit_code())
    }

    /// A progress bar on standard error; hidden where nobody would see it.
    pub fn bar(&self, length: u64, template: &'static str, what: &'static str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(length), self.draw_target());
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸ "));
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    fn draw_target(&self) -> ProgressDrawTarget {
        if self.quiet || self.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
    }
}

/// Writes JSON documents to standard output, each on a line of its own.
pub fn write_json_lines(documents: impl IntoIterator<Item = impl Serialize>) -> Result {
    let mut lines = vec![];
    for document in documents {
        serde_json::to_writer(&mut lines, &document).map_err(|error| CliError::Output(error.into()))?;
        lines.push(b'\n');
    }
    write(&lines)
}

/// Writes to standard output.
pub fn write(bytes: &[u8]) -> Result {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Files by bytes.
pub const BYTES_BAR: &str = "{prefix:>9} {bar:30.cyan/dim} {percent:>3}% {binary_bytes_per_sec:.dim} {wide_msg:.dim}";
/// Items of which nobody knows how many there are.
pub const COUNT_BAR: &str = "{prefix:>9} {spinner:.cyan} {human_pos} {per_sec:.dim} {elapsed:.dim}";
/// Something that takes as long as it takes.
pub const SPINNER: &str = "{prefix:>9} {spinner:.cyan} {elapsed} {wide_msg:.dim}";
