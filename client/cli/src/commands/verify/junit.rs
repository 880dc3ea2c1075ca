//! The report of a suite as JUnit XML.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::report::{CheckReport, Status, SuiteReport};
use crate::renderer::Renderer;

pub(super) fn document(report: &SuiteReport) -> Result<String, String> {
    let mut suite = TestSuite::new(report.suite.as_str());
    suite.set_time(seconds(report.seconds));
    suite.add_property(("accelctl", report.client_version));
    suite.add_property(("accelerd", report.daemon_version.as_str()));
    suite.add_test_cases(report.checks.iter().map(|check| test_case(&report.suite, check)));
    let mut document = Report::new("accelctl verify");
    document.set_time(seconds(report.seconds));
    document.add_test_suite(suite);
    document.to_string().map_err(|error| error.to_string())
}

fn test_case(suite: &str, check: &CheckReport) -> TestCase {
    let mut case = TestCase::new(check.name.as_str(), status(check));
    case.set_classname(suite).set_time(seconds(check.seconds));
    for (side, report) in [("subject", &check.subject), ("reference", &check.reference)] {
        case.add_property((side, report.source.as_str()));
        case.add_property((format!("{side}_sha256"), report.sha256.clone()));
    }
    case.add_property(("command", check.command.as_str()));
    case
}

fn status(check: &CheckReport) -> TestCaseStatus {
    let (kind, message) = match (&check.findings, check.status) {
        (Some(findings), Status::Failed) => (NonSuccessKind::Failure, findings.failures()),
        (_, Status::Error) => (NonSuccessKind::Error, check.error.clone().unwrap_or_default()),
        (_, Status::Passed | Status::Failed) => return TestCaseStatus::success(),
    };
    let mut details = Renderer::new(false, usize::MAX);
    check.details(&mut details);
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(message).set_description(details.text().trim_start());
    status
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
