//! Runs `accelctl kernel translate` against an in-memory fake of the daemon.

use std::{
    fs,
    process::{Command, Output, Stdio},
};

use accelerd_test_support::FakeDaemon;
use serde_json::Value;

async fn translate(server: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    command.args(["kernel", "translate"]).args(words).env("ACCELERD_SERVER", server).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_and_diagnostics_have_places() {
    let fake = FakeDaemon::default();
    let server = format!("http://{}", fake.listen().await);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("module.py");
    fs::write(&source, "# source\n").expect("it can be written");
    let (source, out) = (source.to_str().expect("UTF-8"), folder.path().join("out"));
    let out = out.to_str().expect("UTF-8");

    let done =
        translate(&server, &[source, "-o", out, "--constant", "N=3", "--constant", "B=True", "--target", "cuda"]).await;
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let shown = text(&done.stdout);
    assert!(shown.contains("a: f32, x: f32[:, :]") && shown.contains("exact") && shown.contains("f.cu"), "{shown}");
    let written = fs::read_to_string(folder.path().join("out/f/f.cu")).expect("it was written");
    assert!(written.starts_with("# source\n") && written.contains("Integer(3)") && written.contains("Boolean(true)"));
    assert!(written.ends_with("[1]"), "{written}");

    let partly = translate(&server, &[source, "--kernel", "g", "--kernel", "h"]).await;
    let (shown, error) = (text(&partly.stdout), text(&partly.stderr));
    assert_eq!((partly.status.code(), error.as_str()), (Some(1), ""));
    assert!(shown.contains("module.py:3:5: unsupported_statement in h: expected less"), "{shown}");

    let json = translate(&server, &[source, "--kernel", "g", "--json"]).await;
    let report: Value = serde_json::from_slice(&json.stdout).expect("a document");
    assert_eq!((&report["kernels"][0]["name"], &report["kernels"][0]["bit_exact"]), (&"g".into(), &true.into()));

    for wrong in [&["nowhere.py"][..], &[source, "--constant", "N"], &[source, "--constant", "N=x"]] {
        assert_eq!(translate(&server, wrong).await.status.code(), Some(2), "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_outside_of_the_folder_is_not_written() {
    let fake = FakeDaemon::default();
    let server = format!("http://{}", fake.listen().await);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("module.py");
    fs::write(&source, "# source\n").expect("it can be written");
    let out = folder.path().join("out");
    let arguments = [source.to_str().expect("UTF-8"), "-o", out.to_str().expect("UTF-8"), "--kernel", "../escaped"];
    let done = translate(&server, &arguments).await;
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("which is not written"), "{}", text(&done.stderr));
    assert!(!folder.path().join("escaped").exists());
}
