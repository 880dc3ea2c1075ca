//! Runs suites of checks.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    time::Instant,
};

use accelerd_client::{Client, CompareOptions, VerifySummary, proto::OutputVerdict};
use clap::{Args, ValueHint};
use futures::stream;
use indicatif::ProgressBar;

use super::{
    html, junit, markdown,
    report::{CheckReport, SuiteReport},
    suite::{self, Arrays, Check, Inputs},
};
use crate::{
    error::{CliError, Result},
    output::{self, CASES_BAR, Output},
    visible,
};

/// Run the checks of a suite, one after the other.
///
/// A check compares what a subject computes with what a reference computes, for given cases or for those of a generator. docs/verify.md
/// describes suites. The exit code is 0 if all checks pass, 1 if some fail, and 2 if the suite has mistakes, the daemon cannot be reached or a
/// check cannot be run. --timeout is that of a check.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The suite: FILE.toml or FILE.json.
    #[arg(value_name = "SUITE", value_hint = ValueHint::FilePath)]
    suite: PathBuf,
    /// Run the checks whose name contains this text only; can be repeated.
    #[arg(long = "filter", value_name = "NAME")]
    filters: Vec<String>,
    /// Seed of all generators, in place of the suite's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Cases of all generators, in place of the suite's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Write the results as JUnit XML, which CI systems read.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,
    /// Write a report in HTML, which needs no other file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Write a report in Markdown.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    markdown: Option<PathBuf>,
}

impl RunArgs {
    /// The checks to run.
    pub(super) fn suite(&self) -> Result<Vec<Check>> {
        let all = suite::read(&self.suite)?;
        let names: Vec<_> = all.iter().map(|check| check.name.clone()).collect();
        let is_chosen =
            |check: &Check| self.filters.is_empty() || self.filters.iter().any(|part| check.name.contains(part));
        let mut checks: Vec<_> = all.into_iter().filter(is_chosen).collect();
        if checks.is_empty() {
            return Err(CliError::Usage(format!("no check has such a name; the checks are {}", names.join(", "))));
        }
        for check in &mut checks {
            if let Inputs::Generated(generated) = &mut check.inputs {
                generated.count = self.count.unwrap_or(generated.count);
                generated.seed = self.seed.unwrap_or(generated.seed);
            }
        }
        Ok(checks)
    }

    /// Opens the files of the reports, so that one that cannot be written fails before the checks run.
    fn open_reports(&self) -> Result {
        let open =
            |path: &PathBuf| OpenOptions::new().create(true).append(true).open(path).map_err(CliError::file(path));
        let paths = [&self.junit, &self.html, &self.markdown];
        paths.into_iter().flatten().try_for_each(|path| open(path).map(drop))
    }

    fn write(&self, report: &SuiteReport) -> Result {
        let write = |path: &Path, text: String| fs::write(path, &*visible::lines(&text)).map_err(CliError::file(path));
        if let Some(path) = &self.junit {
            let text = junit::document(report).map_err(|reason| CliError::Format { path: path.clone(), reason })?;
            write(path, text)?;
        }
        if let Some(path) = &self.html {
            write(path, html::document(report))?;
        }
        match &self.markdown {
            Some(path) => write(path, markdown::document(report)),
            None => Ok(()),
        }
    }
}

pub(super) async fn run(args: &RunArgs, checks: Vec<Check>, client: &Client, output: &Output) -> Result {
    args.open_reports()?;
    let suite = args.suite.display().to_string();
    let daemon_version = client.stats().await.map_err(CliError::SuiteConnection)?.version;
    let start = Instant::now();
    let mut reports = vec![];
    for check in &checks {
        let start = Instant::now();
        let outcome = run_check(check, client, output).await;
        let report = CheckReport::new(check, &suite, start.elapsed(), outcome.map_err(|error| error.to_string()));
        if !output.json() {
            let mut renderer = output.renderer();
            report.line(&mut renderer);
            output::show(&renderer)?;
        }
        reports.push(report);
    }
    let report = SuiteReport::new(suite, daemon_version, start.elapsed().as_secs_f64(), reports);
    output.show(&report)?;
    args.write(&report)?;
    match (report.errors, report.failed) {
        (0, 0) => Ok(()),
        (0, _) => Err(CliError::Differs),
        _ => Err(CliError::Unchecked),
    }
}

async fn run_check(check: &Check, client: &Client, output: &Output) -> accelerd_client::Result<VerifySummary> {
    if let Some((actual, expected)) = check.whole_arrays() {
        return compare(check, actual, expected, client).await;
    }
    let case_count = match &check.inputs {
        Inputs::Generated(generated) => generated.count,
        Inputs::Given { case_count, .. } => *case_count,
    };
    let progress = output.bar(case_count, CASES_BAR, "verify");
    progress.set_message(visible::line(&check.name).into_owned());
    let summary = verify(check, client, &progress).await;
    progress.finish_and_clear();
    summary
}

async fn verify(check: &Check, client: &Client, progress: &ProgressBar) -> accelerd_client::Result<VerifySummary> {
    let mut verdicts = client.verify(&check.verification(), stream::iter(check.chunks())).await?;
    while let Some(chunk) = verdicts.next().await? {
        progress.inc(chunk.case_count);
    }
    verdicts.summary().await
}

/// Compares arrays in one call, which a tolerance relative to the largest number needs.
async fn compare(
    check: &Check,
    actual: &Arrays,
    expected: &Arrays,
    client: &Client,
) -> accelerd_client::Result<VerifySummary> {
    let options = CompareOptions::default().policy(check.policy().clone()).row_verdicts();
    let policies = check.output_policies();
    let options = policies.fold(options, |options, (name, policy)| options.output_policy(name, policy.clone()));
    let compared = client.compare(actual.iter().cloned(), expected.iter().cloned(), &options).await?;
    let case_count = match &check.inputs {
        Inputs::Given { case_count, .. } => *case_count,
        Inputs::Generated(_) => 0,
    };
    let mut failed_rows: Vec<u8> = vec![];
    for output in &compared.outputs {
        let rows = output.differences.as_ref().map(|differences| &differences.failed_rows[..]).unwrap_or_default();
        failed_rows.resize(failed_rows.len().max(rows.len()), 0);
        failed_rows.iter_mut().zip(rows).for_each(|(all, row)| *all |= row);
    }
    let is_compared = |verdict| matches!(verdict, OutputVerdict::Passed | OutputVerdict::Mismatch);
    let failed_count = if compared.outputs.iter().all(|output| is_compared(output.verdict())) {
        failed_rows.iter().map(|byte| u64::from(byte.count_ones())).sum()
    } else {
        case_count
    };
    let outputs = compared.outputs;
    Ok(VerifySummary { passed: compared.passed, case_count, failed_count, outputs, functions: None })
}
