//! Runs `accelctl bench tensor` and `accelctl report` against an in-memory fake of the daemon.

use std::{
    fs,
    process::{Command, Stdio},
};

use accelerd_test_support::FakeDaemon;
use serde_json::Value;
use tonic::Status;

/// A run of the program in a folder: its exit code, standard output and standard error.
async fn run(fake: &FakeDaemon, folder: &tempfile::TempDir, words: &str) -> (i32, String, String) {
    let server = format!("http://{}", fake.listen().await);
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    command.args(words.split(' ')).current_dir(folder.path()).env("ACCELERD_SERVER", server).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[tokio::test(flavor = "multi_thread")]
async fn tensor_operations_are_measured_and_written_in_every_format() {
    let fake = FakeDaemon::default();
    let folder = folder();
    let words = "bench tensor --repetitions 7 --max-time 2s --output r.json --output r.md --output r.svg";
    let (code, out, err) = run(&fake, &folder, words).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("softmax") && out.contains("50%") && out.contains("Toy CPU"), "{out}");
    let requests = std::mem::take(&mut fake.state().benchmarks);
    assert!(requests.iter().all(|request| request.repetition_count == 7 && request.max_time.is_some()));
    let elements = |shape: &[i64]| shape.iter().product::<i64>();
    let sizes = requests.iter().flat_map(|request| &request.operands).map(|operand| elements(&operand.shape));
    assert!(sizes.max() <= Some(1 << 22), "a CPU gets small shapes");

    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("it is written");
    let results: Value = serde_json::from_str(&read("r.json")).expect("JSON");
    let cases = results["cases"].as_array().expect("cases");
    assert_eq!((cases.len(), &results["device"], &results["size"]), (requests.len(), &"cpu".into(), &"small".into()));
    let product = cases.iter().find(|case| case["name"] == "matmul").expect("a product");
    assert_eq!((&product["bound"], &product["bound_share"]), (&"product".into(), &0.5.into()));
    assert_eq!((&product["median_ms"], &product["moved_bytes"]), (&2.0.into(), &(1 << 20).into()));
    let page = read("r.md");
    let plot = read("r.svg");
    assert!(page.contains("| matmul | f32[512x512], f32[512x512] | 2.0000 ms | ±0% | 0.5 GB/s |"), "{page}");
    assert_eq!(plot.matches("height=\"16\"").count(), cases.len(), "a bar for each case");
    assert!(plot.starts_with("<svg") && plot.ends_with("</svg>\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_that_fails_is_reported_and_the_others_are_measured() {
    let fake = FakeDaemon::default();
    let folder = folder();
    fake.fail_next_of("BenchmarkOp", [Status::invalid_argument("too large")]);
    let (code, out, err) = run(&fake, &folder, "bench tensor --case softmax --case gelu --size large").await;
    assert!(code == 1 && out.contains("too large") && err.contains("1 of 3 cases failed"), "{code} {out} {err}");
    let (code, _, err) = run(&fake, &folder, "bench tensor --case quux").await;
    assert!(code == 2 && err.contains("softmax"), "{err}");
    let (code, _, err) = run(&fake, &folder, "bench tensor --output r.txt").await;
    assert!(code == 2 && err.contains(".svg"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_has_the_bandwidth_of_kernels_as_a_share_of_that_of_copies() {
    let fake = FakeDaemon::default();
    let folder = folder();
    let (code, out, err) = run(&fake, &folder, "report").await;
    assert_eq!(code, 0, "{err}");
    for row in [
        "| cpu | Toy CPU | 2 | 1.0 KiB | 1.0 GB/s | ready |",
        "| pool_rows | cpu | 7 | 21 ms | 3.00 ms | 10.0 MiB | 0.5 GB/s | 50% |",
        "| embed | 3 | 0 | 0 | 0 | 250 µs |",
        "| host | all | 1.0 KiB | 2.0 KiB | 4.0 KiB |",
    ] {
        assert!(out.contains(row), "{row}: {out}");
    }
    let (code, _, err) = run(&fake, &folder, "report --output report.json --no-measure").await;
    assert_eq!(code, 0, "{err}");
    let report = fs::read_to_string(folder.path().join("report.json")).expect("it is written");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(
        (&report["kernels"][0]["calls"], &report["devices"][0]["copy_bytes_per_second"]),
        (&7.into(), &Value::Null)
    );
    assert_eq!(fake.state().benchmarks.len(), 1, "the second report measures nothing");
    let (code, out, err) = run(&fake, &folder, "report --json").await;
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {code} {out} {err}"));
    assert!(report["kernels"][0]["copy_share"].as_f64().is_some_and(|share| (share - 0.5).abs() < 1e-9), "{report}");
    fake.fail_next_of("BenchmarkOp", [Status::unimplemented("an older daemon")]);
    let (code, out, err) = run(&fake, &folder, "report").await;
    assert!(code == 0 && err.contains("an older daemon") && out.contains("pool_rows"), "{out} {err}");
}
