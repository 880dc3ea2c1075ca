//! The harnesses of fuzz targets with fixed seeds. `ACCELERD_FUZZ_CASES` multiplies the number of cases.

use std::path::PathBuf;

use accelerd_tests::{
    encoders,
    fuzz::{cases, daemon, files, rpc, seeds::seeds},
};
use rand::{RngCore, SeedableRng, rngs::StdRng};

/// Bytes that choose a case.
const CASE_BYTES: usize = 256;
const CALLS_OF_METHOD: u64 = 40;
const FILES: u64 = 200;
const GENERATORS: u64 = 5000;

/// The bytes of cases, which differ between targets.
fn data(target: &str, count: u64) -> impl Iterator<Item = Vec<u8>> {
    let factor = std::env::var("ACCELERD_FUZZ_CASES").ok().map_or(1, |text| text.parse().expect("a number"));
    let of_target = target.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    (0..count * factor).map(move |nth| {
        let mut bytes = vec![0; CASE_BYTES];
        StdRng::seed_from_u64(of_target ^ nth << 32).fill_bytes(&mut bytes);
        bytes
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_ends_without_an_internal_error_whatever_is_sent() {
    let (daemon, channel) = daemon::start(PathBuf::from(env!("CARGO_BIN_EXE_sandbox-process"))).await;
    let (methods, seeds) = (rpc::methods(), seeds());
    for method in &methods {
        assert!(seeds.iter().any(|seed| seed.method == method.name()), "{} has no seed", method.name());
        for data in data(method.name(), CALLS_OF_METHOD) {
            rpc::run(&channel, method, &seeds, &data).await;
        }
    }
    daemon.shutdown().await;
}

#[test]
fn cases_are_in_the_domains_of_any_inputs() {
    data("cases", GENERATORS).for_each(|data| cases::run(&data));
}

#[test]
fn damaged_model_folders_do_not_panic() {
    data("models", FILES).for_each(|data| files::model_folder(&encoders(), &data));
}

#[test]
fn damaged_tables_do_not_panic() {
    data("npy", FILES).for_each(|data| files::npy(&data));
    data("safetensors", FILES).for_each(|data| files::safetensors(&data));
}

#[tokio::test]
async fn damaged_snapshots_do_not_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    files::write_snapshot(folder.path()).await;
    for data in data("snapshots", FILES) {
        files::snapshot(folder.path(), &data).await;
    }
}
