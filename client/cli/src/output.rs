//! Output of the program: results go to standard output, messages and progress to standard error.
//!
//! All text passes through `visible`, because names and messages of others may contain control characters.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::{
    error::{CliError, Result},
    global::{Color, Global},
    renderer::{Renderer, Style, style},
    visible,
};

/// Width without a terminal: lines are not truncated.
const UNBOUNDED_WIDTH: usize = usize::MAX;
/// Width of a terminal that reports none.
const DEFAULT_WIDTH: usize = 100;
/// Minimum width: in a narrower terminal, wrapped lines are easier to read than truncated ones.
const MIN_WIDTH: usize = 40;

/// Result of a command, as a JSON document or as text.
pub trait Report: Serialize {
    /// Renders the result as text.
    fn render(&self, renderer: &mut Renderer);
}

/// Standard output and standard error with the user's options.
#[derive(Debug)]
pub struct Output {
    json: bool,
    quiet: bool,
    out: Stdout,
    color_err: bool,
}

#[derive(Debug)]
struct Stdout {
    terminal: bool,
    color: bool,
    width: usize,
}

impl Output {
    /// Combines the options with the properties of the terminal.
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
            out: Stdout { terminal, color: color(terminal), width },
            color_err: color(io::stderr().is_terminal()),
        }
    }

    /// Returns true if results are printed as JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Returns true if results go to a terminal.
    pub fn terminal(&self) -> bool {
        self.out.terminal
    }

    /// Returns an empty renderer for standard output.
    pub fn renderer(&self) -> Renderer {
        Renderer::new(self.out.color, self.out.width)
    }

    /// Prints the result of a command.
    pub fn show(&self, report: &impl Report) -> Result {
        if !self.json {
            let mut renderer = self.renderer();
            report.render(&mut renderer);
            return show(&renderer);
        }
        write(json(report, self.out.terminal)?.as_bytes())
    }

    /// Prints what a command did, unless --quiet is set and no document is asked for.
    pub fn summarize(&self, report: &impl Report) -> Result {
        if self.quiet && !self.json { Ok(()) } else { self.show(report) }
    }

    /// Prints what a step of a command did, as [`Self::summarize`] does, with one line per document.
    pub fn summarize_line(&self, report: &impl Report) -> Result {
        if self.json { write_json_lines([report]) } else { self.summarize(report) }
    }

    /// Prints a note unless --quiet is set.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            self.message(Style::Dim, "note", text);
        }
    }

    /// Prints a warning.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.message(Style::Warn, "warning", text);
    }

    fn message(&self, label_style: Style, label: &str, text: impl AsRef<str>) {
        let label = style(self.color_err, label_style, &format!("{label}:"));
        let mut renderer = Renderer::new(self.color_err, UNBOUNDED_WIDTH);
        renderer.whole_line(format!("{label} {}", text.as_ref()));
        // A closed standard error cannot be reported.
        let _gone = write!(io::stderr(), "{}", renderer.text());
    }

    /// Prints an error with its hint. Returns its exit code.
    pub fn fail(&self, error: &CliError) -> ExitCode {
        if matches!(error, CliError::Output(source) if source.kind() == io::ErrorKind::BrokenPipe) {
            return ExitCode::SUCCESS;
        }
        if error.is_reported() {
            return ExitCode::from(error.exit_code());
        }
        let hint = error.hint();
        if self.json {
            let document = serde_json::json!({
                "error": { "message": error.to_string(), "hint": hint, "exit_code": error.exit_code() }
            });
            let _gone = writeln!(io::stderr(), "{}", visible::json(&document.to_string()));
        } else {
            self.message(Style::Bad, "error", error.to_string());
            for mistake in error.mistakes() {
                let _gone = writeln!(io::stderr(), "  {}", visible::line(mistake));
            }
            if let Some(hint) = hint {
                self.message(Style::Name, " hint", hint);
            }
        }
        ExitCode::from(error.exit_code())
    }

    /// Returns a progress bar on standard error, hidden with --quiet and --json.
    pub fn bar(&self, length: u64, template: &'static str, prefix: &'static str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(length), self.draw_target());
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸ "));
        bar.set_prefix(prefix);
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    fn draw_target(&self) -> ProgressDrawTarget {
        if self.quiet || self.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
    }
}

/// Writes JSON documents to standard output, one per line.
pub fn write_json_lines(documents: impl IntoIterator<Item = impl Serialize>) -> Result {
    let mut lines = String::new();
    for document in documents {
        lines.push_str(&json(&document, false)?);
    }
    write(lines.as_bytes())
}

/// A value as a JSON document that ends with a newline.
pub fn json(value: &impl Serialize, pretty: bool) -> Result<String> {
    let document = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    let document = document.map_err(|error| CliError::Output(error.into()))?;
    Ok(format!("{}\n", visible::json(&document)))
}

/// Writes rendered text to standard output.
pub fn show(renderer: &Renderer) -> Result {
    write(renderer.text().as_bytes())
}

/// Writes lines of text to standard output.
pub fn write_lines(text: &str) -> Result {
    write(visible::lines(text).as_bytes())
}

/// Writes a script of this program to standard output as it is.
pub fn write_script(script: &[u8]) -> Result {
    write(script)
}

/// Clears the terminal.
pub fn clear() -> Result {
    write(b"\x1b[2J\x1b[H")
}

fn write(bytes: &[u8]) -> Result {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Progress in bytes.
pub const BYTES_BAR: &str =
    "{prefix:>9} {bar:30.cyan/dim} {percent:>3}% {binary_bytes_per_sec:.dim} {eta:.dim} left  {wide_msg:.dim}";
/// Progress in cases of a check.
pub const CASES_BAR: &str =
    "{prefix:>9} {bar:30.cyan/dim} {percent:>3}% {per_sec:.dim} {eta:.dim} left  {wide_msg:.dim}";
/// Progress in items of an unknown total.
pub const COUNT_BAR: &str = "{prefix:>9} {spinner:.cyan} {human_pos} {per_sec:.dim} {elapsed:.dim}";
/// Progress of unknown extent.
pub const SPINNER: &str = "{prefix:>9} {spinner:.cyan} {elapsed} {wide_msg:.dim}";
