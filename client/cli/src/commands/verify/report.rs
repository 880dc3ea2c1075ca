//! The report of a suite: the findings of each check, as text and as a JSON document.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use accelerd_client::{
    VerifySummary,
    proto::{CaseResult, Counterexample, NamedTensor},
};
use serde::Serialize;

use super::{
    comparison::OutputReport,
    suite::{Check, Generated, Inputs, Side},
};
use crate::{
    dtype, format,
    output::Report,
    renderer::{Renderer, Style},
};

/// Elements of a tensor that are shown.
const SHOWN_ELEMENTS: usize = 32;

/// The results of a suite's checks.
#[derive(Serialize)]
pub(super) struct SuiteReport {
    pub(super) suite: String,
    pub(super) client_version: &'static str,
    pub(super) daemon_version: String,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) errors: usize,
    pub(super) seconds: f64,
    pub(super) checks: Vec<CheckReport>,
}

/// The result of a check.
#[derive(Serialize)]
pub(super) struct CheckReport {
    pub(super) name: String,
    pub(super) status: Status,
    /// Why the check could not be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) subject: SideReport,
    pub(super) reference: SideReport,
    /// The seed of the generator, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
    /// The command that runs the check again.
    pub(super) command: String,
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) findings: Option<Findings>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Passed,
    Failed,
    Error,
}

/// A function, or arrays.
#[derive(Serialize)]
pub(super) struct SideReport {
    pub(super) source: String,
    pub(super) sha256: String,
    /// Cases by how the function ended.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) outcomes: BTreeMap<String, u64>,
}

/// Findings of the daemon.
#[derive(Serialize)]
pub(super) struct Findings {
    pub(super) cases: u64,
    pub(super) failed: u64,
    pub(super) cases_per_second: f64,
    /// The largest distance of all outputs.
    pub(super) max_ulps: u64,
    /// Cases in which only one side has a result, or that the outcome policy forbids.
    pub(super) outcome_mismatches: u64,
    pub(super) nondeterministic: u64,
    /// Cases that a GPU decided. The others ran on the CPU.
    pub(super) gpu_decided_count: u64,
    pub(super) outputs: Vec<OutputReport>,
    pub(super) counterexamples: Vec<CounterexampleReport>,
}

#[derive(Serialize)]
pub(super) struct CounterexampleReport {
    pub(super) case: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shrunk: Option<CaseReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) found: Option<CaseReport>,
}

#[derive(Serialize)]
pub(super) struct CaseReport {
    pub(super) inputs: Vec<ValueReport>,
    pub(super) subject: ResultReport,
    pub(super) reference: ResultReport,
}

/// The result of one side.
#[derive(Serialize)]
pub(super) struct ResultReport {
    pub(super) outcome: String,
    pub(super) outputs: Vec<ValueReport>,
}

/// A tensor: its first elements and their bits.
#[derive(Serialize)]
pub(super) struct ValueReport {
    pub(super) name: String,
    pub(super) dtype: &'static str,
    pub(super) shape: Vec<i64>,
    pub(super) values: Vec<String>,
    pub(super) bits: Vec<String>,
    /// True if there are more elements.
    pub(super) truncated: bool,
}

impl SuiteReport {
    pub(super) fn new(suite: String, daemon_version: String, seconds: f64, checks: Vec<CheckReport>) -> Self {
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        Self {
            suite,
            client_version: env!("CARGO_PKG_VERSION"),
            daemon_version,
            passed: count(Status::Passed),
            failed: count(Status::Failed),
            errors: count(Status::Error),
            seconds,
            checks,
        }
    }

    /// As `2 passed, 1 failed`.
    pub(super) fn totals(&self) -> String {
        let mut totals = format!("{} passed, {} failed", self.passed, self.failed);
        if self.errors > 0 {
            // Writing to a string does not fail.
            let _ = write!(totals, ", {}", format::plural(self.errors as u64, "error"));
        }
        totals
    }
}

impl CheckReport {
    pub(super) fn new(check: &Check, suite: &str, time: Duration, outcome: Result<VerifySummary, String>) -> Self {
        let generated = match &check.inputs {
            Inputs::Generated(generated) => Some(generated),
            Inputs::Given { .. } => None,
        };
        let mut report = Self {
            name: check.name.clone(),
            status: Status::Error,
            error: None,
            subject: SideReport::new(&check.subject),
            reference: SideReport::new(&check.reference),
            seed: generated.map(|generated| generated.seed),
            command: command(suite, &check.name, generated),
            seconds: time.as_secs_f64(),
            findings: None,
        };
        match outcome {
            Ok(summary) => report.add(summary),
            Err(error) => report.error = Some(error),
        }
        report
    }

    fn add(&mut self, summary: VerifySummary) {
        let functions = summary.functions.unwrap_or_default();
        self.subject.add(functions.subject_outcomes, &functions.subject_hash);
        self.reference.add(functions.reference_outcomes, &functions.reference_hash);
        let has_passed = summary.passed && functions.nondeterministic_count == 0;
        self.status = if has_passed { Status::Passed } else { Status::Failed };
        let outputs: Vec<_> = summary.outputs.iter().map(OutputReport::of).collect();
        let distances = outputs.iter().filter_map(|output| Some(output.differences.as_ref()?.max_ulps.as_ref()?.value));
        self.findings = Some(Findings {
            cases: summary.case_count,
            failed: summary.failed_count,
            cases_per_second: summary.case_count as f64 / self.seconds.max(1e-9),
            max_ulps: distances.max().unwrap_or(0),
            outcome_mismatches: functions.outcome_mismatch_count,
            nondeterministic: functions.nondeterministic_count,
            gpu_decided_count: functions.gpu_decided_count,
            outputs,
            counterexamples: functions.counterexamples.into_iter().map(CounterexampleReport::new).collect(),
        });
    }

    /// The line of the check: status, cases, cases per second and largest distance.
    pub(super) fn line(&self, renderer: &mut Renderer) {
        let (style, status) = match self.status {
            Status::Passed => (Style::Good, "passed"),
            Status::Failed => (Style::Bad, "FAILED"),
            Status::Error => (Style::Bad, "ERROR "),
        };
        let status = renderer.style(style, status);
        let name = renderer.style(Style::Name, &self.name);
        let facts = match &self.findings {
            Some(findings) => findings.facts(),
            None => self.error.clone().unwrap_or_default(),
        };
        renderer.whole_line(format!("{status} {name}  {facts}"));
    }

    /// Shows the findings of a check that failed: counterexamples, or else the outputs that differ.
    pub(super) fn details(&self, renderer: &mut Renderer) {
        let Some(findings) = self.findings.as_ref().filter(|_| self.status == Status::Failed) else { return };
        renderer.gap();
        renderer.title(format!("{}: {}", self.name, findings.failures()));
        for counterexample in &findings.counterexamples {
            counterexample.render(renderer);
        }
        if findings.counterexamples.is_empty() {
            for output in findings.outputs.iter().filter(|output| output.verdict != "passed") {
                renderer.line(format!("output {}", renderer.style(Style::Name, &output.name)));
                output.render(renderer);
            }
        }
        renderer.whole_line(format!("  {}", renderer.style(Style::Dim, &self.command)));
    }
}

impl Findings {
    fn facts(&self) -> String {
        let failed = if self.failed > 0 { format!("{} failed, ", format::count(self.failed)) } else { String::new() };
        format!(
            "{failed}{}, {} cases/s, worst {} ULP",
            format::plural(self.cases, "case"),
            format::rate(self.cases_per_second),
            format::count(self.max_ulps)
        )
    }

    /// As `10 of 100 cases fail, 3 by their outcome; 80 decided on a GPU`.
    pub(super) fn failures(&self) -> String {
        let mut text = format!("{} of {} fail", format::count(self.failed), format::plural(self.cases, "case"));
        // Writing to a string does not fail.
        if self.outcome_mismatches > 0 {
            let _ = write!(text, ", {} by their outcome", format::count(self.outcome_mismatches));
        }
        if self.nondeterministic > 0 {
            let _ = write!(text, ", {} have other results when they run again", format::count(self.nondeterministic));
        }
        if self.gpu_decided_count > 0 {
            let _ = write!(text, "; {} decided on a GPU", format::count(self.gpu_decided_count));
        }
        text
    }
}

impl SideReport {
    fn new(side: &Side) -> Self {
        Self { source: side.description.clone(), sha256: side.sha256.clone(), outcomes: BTreeMap::new() }
    }

    /// Adds the daemon's description of a function. The hash is that of the code that ran.
    fn add(&mut self, outcomes: BTreeMap<String, u64>, hash: &[u8]) {
        self.outcomes = outcomes;
        if !hash.is_empty() {
            self.sha256 = hex::encode(hash);
        }
    }

    /// As `ok 90, unreachable 10`; empty if there is nothing to say.
    pub(super) fn outcomes(&self) -> String {
        let outcomes: Vec<_> =
            self.outcomes.iter().map(|(name, count)| format!("{name} {}", format::count(*count))).collect();
        outcomes.join(", ")
    }
}

impl CounterexampleReport {
    fn new(counterexample: Counterexample) -> Self {
        Self {
            case: counterexample.case_index,
            shrunk: counterexample.shrunk.map(CaseReport::new),
            found: counterexample.found.map(CaseReport::new),
        }
    }

    /// The case shrunk first, then as it was found.
    pub(super) fn cases(&self) -> impl Iterator<Item = (&'static str, &CaseReport)> {
        let shrunk = self.shrunk.as_ref().map(|case| ("shrunk", case));
        shrunk.into_iter().chain(self.found.as_ref().map(|case| ("as found", case)))
    }

    fn render(&self, renderer: &mut Renderer) {
        for (how, case) in self.cases() {
            renderer.whole_line(format!("  case {}, {how}", format::count(self.case)));
            for [name, value] in case.rows() {
                let name = renderer.style(Style::Dim, format!("{name:>9}"));
                renderer.whole_line(format!("    {name}  {value}"));
            }
        }
    }
}

impl CaseReport {
    fn new(case: CaseResult) -> Self {
        let values = |tensors: Vec<NamedTensor>| tensors.into_iter().map(ValueReport::new).collect::<Vec<_>>();
        Self {
            inputs: values(case.inputs),
            subject: ResultReport { outcome: case.subject_outcome, outputs: values(case.actual) },
            reference: ResultReport { outcome: case.reference_outcome, outputs: values(case.expected) },
        }
    }

    /// Rows of the report: the inputs, then the results of both sides.
    pub(super) fn rows(&self) -> Vec<[String; 2]> {
        let inputs = self.inputs.iter().map(|value| ["input".to_owned(), value.to_string()]);
        let results = [("subject", &self.subject), ("reference", &self.reference)];
        let results = results.into_iter().flat_map(|(side, result)| {
            let outputs = result.outputs.iter().map(move |value| [side.to_owned(), value.to_string()]);
            let outcome = (result.outputs.is_empty() || result.outcome != "ok")
                .then(|| [side.to_owned(), result.outcome.clone()]);
            outputs.chain(outcome)
        });
        inputs.chain(results).collect()
    }
}

impl ValueReport {
    fn new(NamedTensor { name, value }: NamedTensor) -> Self {
        let tensor = value.unwrap_or_default();
        Self {
            name,
            dtype: dtype::of(tensor.dtype()).name,
            values: dtype::values(&tensor, SHOWN_ELEMENTS),
            bits: dtype::bits(&tensor, SHOWN_ELEMENTS),
            truncated: tensor.data.len() / dtype::of(tensor.dtype()).bytes > SHOWN_ELEMENTS,
            shape: tensor.shape,
        }
    }
}

impl std::fmt::Display for ValueReport {
    /// As `x = 1.5 (0x3fc00000)`, or `x = [1 (0x01), 2 (0x02)]`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let elements: Vec<_> =
            self.values.iter().zip(&self.bits).map(|(value, bits)| format!("{value} ({bits})")).collect();
        let elements = elements.join(", ");
        let more = if self.truncated { ", ..." } else { "" };
        if self.shape.is_empty() {
            write!(out, "{} = {elements}", self.name)
        } else {
            write!(out, "{} = [{elements}{more}]", self.name)
        }
    }
}

/// The command that runs a check again.
fn command(suite: &str, name: &str, generated: Option<&Generated>) -> String {
    let mut command = format!("accelctl verify run {} --filter {}", quoted(suite), quoted(name));
    if let Some(Generated { count, seed, .. }) = generated {
        // Writing to a string does not fail.
        let _ = write!(command, " --count {count} --seed {seed}");
    }
    command
}

/// A word of a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

impl Report for SuiteReport {
    /// Renders the part after the lines of the checks.
    fn render(&self, renderer: &mut Renderer) {
        for check in &self.checks {
            check.details(renderer);
        }
        if self.failed > 0 {
            renderer.gap();
        }
        let style = if self.failed + self.errors > 0 { Style::Bad } else { Style::Good };
        renderer.line(renderer.style(style, self.totals()));
    }
}
