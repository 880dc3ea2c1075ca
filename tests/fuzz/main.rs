//! The harnesses of fuzz targets with fixed seeds, so that each run has the same cases.
//!
//! `ACCELERD_FUZZ_CASE=Execute:17` runs only case 17 of the target Execute, as a failure prints it. `ACCELERD_FUZZ_FACTOR=10` runs ten times
//! as many cases.

use std::{collections::BTreeMap, env, panic::AssertUnwindSafe, path::PathBuf, time::Instant};

use accelerd_parity::encoders;
use accelerd_tests::fuzz::{cases, judge, models, rpc, snapshots, target::Target};
use futures::FutureExt;
use rand::{RngCore, SeedableRng, rngs::StdRng};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Bytes that choose a case.
const CASE_BYTES: usize = 256;
const CALLS_OF_METHOD: u64 = 40;
const GENERATORS: u64 = 2000;
const MODEL_FOLDERS: u64 = 120;
const SNAPSHOTS: u64 = 120;
const TABLES: u64 = 60;

/// The cases that failed.
#[derive(Debug, Default)]
struct Failures(Vec<String>);

impl Failures {
    /// Runs a case, and remembers it if it fails.
    async fn run<T>(&mut self, case: Case, harness: impl Future<Output = T>) -> Option<T> {
        let again = format!("ACCELERD_FUZZ_CASE={}:{} cargo test -p accelerd-tests --test fuzz", case.target, case.nth);
        self.catch(&again, harness).await
    }

    async fn catch<T>(&mut self, what: &str, harness: impl Future<Output = T>) -> Option<T> {
        let ended = AssertUnwindSafe(harness).catch_unwind().await;
        if ended.is_err() {
            eprintln!("{what}");
            self.0.push(what.to_owned());
        }
        ended.ok()
    }

    /// Fails if a case has failed.
    fn assert_none(self) {
        assert!(self.0.is_empty(), "{} cases failed:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// A case of a target, and the bytes that choose it.
struct Case {
    target: String,
    nth: u64,
    data: Vec<u8>,
}

/// Returns true if the environment selects this target, or none.
fn is_selected(target: &str) -> bool {
    selected().is_none_or(|(name, _)| name == target)
}

fn selected() -> Option<(String, u64)> {
    let text = env::var("ACCELERD_FUZZ_CASE").ok()?;
    let (target, nth) = text.split_once(':').expect("a target, a colon and a number");
    Some((target.to_owned(), nth.parse().expect("a number")))
}

/// The cases of a target, which differ from those of other targets.
fn cases_of(target: &str, count: u64) -> impl Iterator<Item = Case> {
    let factor = env::var("ACCELERD_FUZZ_FACTOR").ok().map_or(1, |text| text.parse().expect("a number"));
    let numbers = match selected() {
        Some((name, nth)) if name == target => nth..nth + 1,
        Some(_) => 0..0,
        None => 0..count * factor,
    };
    let target = target.to_owned();
    let of_target = target.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    numbers.map(move |nth| {
        let mut data = vec![0; CASE_BYTES];
        StdRng::seed_from_u64(of_target ^ nth << 32).fill_bytes(&mut data);
        Case { target: target.clone(), nth, data }
    })
}

async fn start() -> Target {
    Target::start(PathBuf::from(env!("CARGO_BIN_EXE_sandbox-process"))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_ends_with_a_named_status_whatever_is_sent() {
    let target = start().await;
    let mut failures = Failures::default();
    for method in rpc::methods().iter().filter(|method| is_selected(method.name())) {
        failures.catch(method.full_name(), rpc::run_seeds(&target, method)).await;
        let begin = Instant::now();
        let mut codes = BTreeMap::<_, u32>::new();
        for case in cases_of(method.name(), CALLS_OF_METHOD) {
            let data = case.data.clone();
            let code = failures.run(case, rpc::run(&target, method, &data)).await;
            *codes.entry(format!("{code:?}")).or_default() += 1;
        }
        eprintln!("{}: {codes:?} in {:?}", method.name(), begin.elapsed());
        // The cases have left the daemon able to serve other callers.
        failures.catch(method.full_name(), rpc::run_seeds(&target, method)).await;
    }
    target.shutdown().await;
    failures.assert_none();
}

#[test]
fn failures_of_a_daemon_are_seen() {
    let named = Status::with_error_details(
        Code::InvalidArgument,
        "grid: expected 1 dimension",
        ErrorDetails::with_bad_request_violation("grid", "expected 1 dimension"),
    );
    assert_eq!(judge::status(&named), Ok(()));
    assert_eq!(judge::status(&Status::deadline_exceeded("the deadline passed")), Ok(()));
    let failures = [
        Status::internal("the daemon failed to handle the call"),
        Status::unknown("transport error"),
        Status::unavailable("the connection was closed"),
        Status::unimplemented("no such method"),
        Status::invalid_argument("names no field"),
        Status::not_found(""),
        Status::not_found("x".repeat(judge::MAX_STATUS_BYTES + 1)),
    ];
    for failure in failures {
        assert!(judge::status(&failure).is_err(), "{failure:?}");
    }
}

#[tokio::test]
async fn generated_cases_are_in_the_domains_of_any_inputs() {
    let mut failures = Failures::default();
    for case in cases_of("cases", GENERATORS) {
        let data = case.data.clone();
        failures.run(case, async { cases::run(&data) }).await;
    }
    failures.assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_models_are_refused_by_name_or_embed() {
    let target = start().await;
    let mut failures = Failures::default();
    for case in cases_of("model_folders", MODEL_FOLDERS) {
        let data = case.data.clone();
        failures.run(case, models::folder(&target, &encoders(), &data)).await;
    }
    for case in cases_of("npy", TABLES) {
        let data = case.data.clone();
        failures.run(case, models::npy(&target, &data)).await;
    }
    for case in cases_of("safetensors", TABLES) {
        let data = case.data.clone();
        failures.run(case, models::safetensors(&target, &data)).await;
    }
    target.shutdown().await;
    failures.assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_snapshots_are_refused_by_name_or_restored() {
    let target = start().await;
    let mut failures = Failures::default();
    let seed = snapshots::write(&target).await;
    for case in cases_of("snapshots", SNAPSHOTS) {
        let data = case.data.clone();
        failures.run(case, snapshots::run(&target, &seed, &data)).await;
    }
    target.shutdown().await;
    failures.assert_none();
}
