//! The report of a suite in HTML: one file without scripts or external resources.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    comparison::OutputReport,
    markdown::result,
    report::{CheckReport, Findings, SideReport, Status, SuiteReport},
};
use crate::format;

/// No script runs and nothing is loaded, whatever the text of the page is.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = "
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; background: #fff; }
table { border-collapse: collapse; margin: .8em 0; }
th, td { text-align: left; padding: .25em .8em .25em 0; border-bottom: 1px solid #ddd; vertical-align: top; }
td.number { text-align: right; }
code { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
.passed { color: #1a7f37; } .failed, .error { color: #b3261e; font-weight: 600; }
.bar { background: #5e81ac; height: .8em; min-width: 1px; } td.bars { width: 24em; }
section { border-top: 2px solid #ddd; margin-top: 2em; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b; } th, td, section { border-color: #444; }
  .passed { color: #57c374; } .failed, .error { color: #ff8a80; }
}
";

pub(super) fn document(report: &SuiteReport) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (report.suite) ": " (report.totals()) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (report.suite) }
                p { (report.totals()) " in " (format!("{:.2} s", report.seconds)) "; accelctl " (report.client_version) ", accelerd " (report.daemon_version) }
                (overview(report))
                @for (nth, check) in report.checks.iter().enumerate() { (details(nth, check)) }
            }
        }
    };
    page.into_string()
}

fn class(status: Status) -> &'static str {
    match status {
        Status::Passed => "passed",
        Status::Failed => "failed",
        Status::Error => "error",
    }
}

fn overview(report: &SuiteReport) -> Markup {
    html! {
        table {
            tr { th { "check" } th { "result" } th { "cases" } th { "failed" } th { "cases/s" } th { "worst ULP" } }
            @for (nth, check) in report.checks.iter().enumerate() {
                tr {
                    td { a href={ "#check-" (nth) } { (check.name) } }
                    td class=(class(check.status)) { (result(check.status)) }
                    @if let Some(findings) = &check.findings {
                        td.number { (format::count(findings.cases)) }
                        td.number { (format::count(findings.failed)) }
                        td.number { (format::rate(findings.cases_per_second)) }
                        td.number { (format::count(findings.max_ulps)) }
                    }
                }
            }
        }
    }
}

fn details(nth: usize, check: &CheckReport) -> Markup {
    html! {
        section id={ "check-" (nth) } {
            h2 { (check.name) " " span class=(class(check.status)) { (result(check.status)) } }
            @if let Some(error) = &check.error { p.error { (error) } }
            table {
                tr { th { "side" } th { "source" } th { "SHA-256" } th { "outcomes" } }
                (side("subject", &check.subject))
                (side("reference", &check.reference))
            }
            @if let Some(findings) = &check.findings {
                p { (findings.failures()) "; " (format::rate(findings.cases_per_second)) " cases/s" }
                (outputs(&findings.outputs))
                (counterexamples(findings))
            }
            p { "Run again: " code { (check.command) } }
        }
    }
}

fn side(name: &str, side: &SideReport) -> Markup {
    html! { tr { td { (name) } td { (side.source) } td { code { (side.sha256) } } td { (side.outcomes()) } } }
}

fn outputs(outputs: &[OutputReport]) -> Markup {
    html! {
        table {
            tr {
                @for head in ["output", "verdict", "type", "tolerance", "failed", "largest absolute", "largest relative", "largest ULP"] {
                    th { (head) }
                }
            }
            @for output in outputs {
                tr {
                    td { (output.name) }
                    td { (output.verdict) }
                    td { (output.actual_dtype) }
                    td { (output.tolerances.join(", ")) }
                    @for figure in output.largest() { td.number { (figure) } }
                }
            }
        }
        @for output in outputs { (histogram(output)) }
    }
}

fn histogram(output: &OutputReport) -> Markup {
    let buckets = output.histogram();
    let maximum = buckets.iter().map(|(_, pairs)| *pairs).max().unwrap_or(0).max(1);
    html! {
        @if !buckets.is_empty() {
            table {
                tr { th { "ULP of " (output.name) } th { "pairs" } th {} }
                @for (range, pairs) in buckets {
                    tr {
                        td.number { (range) }
                        td.number { (format::count(pairs)) }
                        td.bars {
                            @if pairs > 0 { div.bar style=(format!("width: {:.1}%", 100.0 * pairs as f64 / maximum as f64)) {} }
                        }
                    }
                }
            }
        }
    }
}

fn counterexamples(findings: &Findings) -> Markup {
    html! {
        @for counterexample in &findings.counterexamples {
            @for (how, case) in counterexample.cases() {
                h3 { "Case " (format::count(counterexample.case)) ", " (how) }
                table { @for [name, value] in case.rows() { tr { th { (name) } td { code { (value) } } } } }
            }
        }
        @for small in findings.outputs.iter().filter_map(|output| output.small_output.as_ref()) {
            p { (small.line()) }
        }
        @if findings.counterexamples.is_empty() {
            @for output in &findings.outputs {
                @let mismatches = output.mismatches();
                @if !mismatches.is_empty() {
                    h3 { "First mismatches of " (output.name) }
                    table {
                        tr { th { "index" } th { "actual" } th { "expected" } th { "ULP" } }
                        @for row in mismatches { tr { @for cell in row { td.number { code { (cell) } } } } }
                    }
                }
            }
        }
    }
}
