//! The report of a suite in Markdown.

use super::{
    comparison::OutputReport,
    report::{CheckReport, Findings, Status, SuiteReport},
};
use crate::format;

pub(super) fn document(report: &SuiteReport) -> String {
    let mut document = Document::default();
    document.paragraph(format!("# {}", text(&report.suite)));
    let versions = format!("accelctl {}, accelerd {}", report.client_version, report.daemon_version);
    document.paragraph(format!("{}. {}.", report.totals(), text(&versions)));
    document.table(["check", "result", "cases", "failed", "cases/s", "worst ULP"], report.checks.iter().map(row));
    for check in &report.checks {
        details(&mut document, check);
    }
    document.0
}

/// A check in the table of all.
fn row(check: &CheckReport) -> [String; 6] {
    let cells = match &check.findings {
        Some(found) => [
            format::count(found.cases),
            format::count(found.failed),
            format::rate(found.cases_per_second),
            format::count(found.max_ulps),
        ],
        None => ["-"; 4].map(str::to_owned),
    };
    let [cases, failed, rate, ulps] = cells;
    [text(&check.name), result(check.status).to_owned(), cases, failed, rate, ulps]
}

pub(super) fn result(status: Status) -> &'static str {
    match status {
        Status::Passed => "passed",
        Status::Failed => "FAILED",
        Status::Error => "ERROR",
    }
}

fn details(document: &mut Document, check: &CheckReport) {
    document.paragraph(format!("## {}", text(&check.name)));
    if let Some(error) = &check.error {
        document.paragraph(format!("{}: {}", result(check.status), text(error)));
    }
    if let Some(findings) = &check.findings {
        document.paragraph(format!("{}: {}.", result(check.status), findings.failures()));
    }
    let sides = [("subject", &check.subject), ("reference", &check.reference)]
        .map(|(name, side)| [name.to_owned(), code(&side.source), code(&side.sha256), text(&side.outcomes())]);
    document.table(["", "source", "SHA-256", "outcomes"], sides);
    if let Some(findings) = &check.findings {
        document.table(
            ["output", "verdict", "type", "tolerance", "failed", "largest absolute", "largest relative", "largest ULP"],
            findings.outputs.iter().map(output),
        );
        histograms(document, findings);
        counterexamples(document, findings);
    }
    document.paragraph(code(&check.command));
}

fn output(output: &OutputReport) -> [String; 8] {
    let [failed, absolute, relative, ulps] = output.largest();
    [
        text(&output.name),
        output.verdict.to_owned(),
        output.actual_dtype.clone(),
        output.tolerances.join(", "),
        failed,
        absolute,
        relative,
        ulps,
    ]
}

fn histograms(document: &mut Document, findings: &Findings) {
    for output in &findings.outputs {
        let buckets = output.histogram();
        if !buckets.is_empty() {
            document.paragraph(format!("Distances of {} in ULP:", text(&output.name)));
            document.table(["ULP", "pairs"], buckets.into_iter().map(|(range, pairs)| [range, format::count(pairs)]));
        }
    }
}

fn counterexamples(document: &mut Document, findings: &Findings) {
    for counterexample in &findings.counterexamples {
        for (how, case) in counterexample.cases() {
            document.paragraph(format!("Case {}, {how}:", format::count(counterexample.case)));
            document.table(["", "value"], case.rows().into_iter().map(|[name, value]| [name, code(&value)]));
        }
    }
    for output in findings.outputs.iter().filter(|_| findings.counterexamples.is_empty()) {
        let mismatches = output.mismatches();
        if !mismatches.is_empty() {
            document.paragraph(format!("First mismatches of {}:", text(&output.name)));
            document.table(["index", "actual", "expected", "ULP"], mismatches);
        }
    }
}

/// Text of a document.
#[derive(Default)]
struct Document(String);

impl Document {
    fn paragraph(&mut self, text: impl AsRef<str>) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }

    /// A table, unless it has no rows.
    fn table<const N: usize>(&mut self, heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
        let line = |row: [String; N]| format!("| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
        let rows: Vec<_> = rows.into_iter().map(line).collect();
        if !rows.is_empty() {
            let rule = format!("|{}", "---|".repeat(N));
            self.paragraph(format!("| {} |\n{rule}\n{}", heads.join(" | "), rows.join("\n")));
        }
    }
}

/// Text whose characters mean themselves.
fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => escaped.push(' '),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => escaped.extend(['\\', c]),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Text as code.
fn code(code: &str) -> String {
    let line = code.replace(['\n', '\r'], " ");
    let fence = "`".repeat(1 + line.split(|c| c != '`').map(str::len).max().unwrap_or(0));
    let space = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    if line.is_empty() { String::new() } else { format!("{fence}{space}{line}{space}{fence}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_meaning_in_markdown() {
        assert_eq!(text("<b>a</b>\n# *x*"), "&lt;b>a&lt;/b> \\# \\*x\\*");
        assert_eq!(code("a `b` c"), "``a `b` c``");
        assert_eq!(code("`a`"), "`` `a` ``");
        let mut document = Document::default();
        document.table(["a", "b"], [[text("x|y"), code("x|y")]]);
        assert_eq!(document.0, "| a | b |\n|---|---|\n| x\\|y | `x\\|y` |\n");
    }
}
