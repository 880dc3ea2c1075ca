//! Runs `accelctl verify compare` against an in-memory fake of the daemon.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use accelerd_test_support::FakeDaemon;
use serde_json::Value;

/// Writes f32 of a shape to a .npy file, and returns its path.
fn npy(folder: &Path, name: &str, shape: &str, numbers: &[f32]) -> String {
    let facts = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(facts.len()).expect("short").to_le_bytes());
    bytes.extend(facts.as_bytes());
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    let path = folder.join(name);
    fs::write(&path, bytes).expect("it can be written");
    path.to_str().expect("UTF-8").to_owned()
}

async fn compare(server: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    command.args(["verify", "compare"]).args(words).env("ACCELERD_SERVER", server).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_says_whether_arrays_differ_and_the_report_how() {
    let fake = FakeDaemon::default();
    let server = format!("http://{}", fake.listen().await);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = npy(folder.path(), "a.npy", "(2, 3)", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = npy(folder.path(), "b.npy", "(2, 3)", &[1.0, 2.0, 3.0, 4.0, 5.5, 6.0]);
    let other = npy(folder.path(), "c.npy", "(6,)", &[1.0; 6]);

    let same = compare(&server, &[&a, &a]).await;
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    assert!(text(&same.stdout).starts_with("passed: f32[2, 3]\n"), "{}", text(&same.stdout));

    let different = compare(&server, &[&a, &b, "--max-ulps", "4"]).await;
    let (out, err) = (text(&different.stdout), text(&different.stderr));
    assert_eq!((different.status.code(), err.as_str()), (Some(1), ""));
    assert!(out.starts_with("mismatch: f32[2, 3]\n") && out.contains("1 (16.7%)") && out.contains("4 ULP"), "{out}");
    assert!(out.contains("[1, 1]") && out.contains("5.5") && out.contains("0x40b00000"), "{out}");

    let json = compare(&server, &[&a, &b, "--json"]).await;
    let report: Value = serde_json::from_slice(&json.stdout).expect("a document");
    assert_eq!((json.status.code(), &report["passed"]), (Some(1), &false.into()));
    assert_eq!(report["outputs"][0]["differences"]["mismatches"][0]["index"], serde_json::json!([1, 1]));

    let shapes = compare(&server, &[&a, &other]).await;
    assert_eq!(shapes.status.code(), Some(1));
    assert!(text(&shapes.stdout).starts_with("shape mismatch"), "{}", text(&shapes.stdout));

    let missing = compare(&server, &[&a, "nowhere.npy"]).await;
    assert_eq!(missing.status.code(), Some(2));
    let contradiction = compare(&server, &[&a, &b, "--exact", "--atol", "1"]).await;
    assert_eq!(contradiction.status.code(), Some(2));
}
