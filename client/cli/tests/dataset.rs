//! Runs `accelctl dataset` against an in-memory fake of the daemon, which makes every kernel twice.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use accelerd_test_support::FakeDaemon;
use serde_json::Value;

async fn dataset(server: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    command.args(["--json", "dataset"]).args(words).env("ACCELERD_SERVER", server).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts")
}

async fn started() -> (FakeDaemon, String, tempfile::TempDir) {
    let fake = FakeDaemon::default();
    let server = format!("http://{}", fake.listen().await);
    (fake, server, tempfile::tempdir().expect("a temporary folder"))
}

fn document(done: &Output) -> Value {
    serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr)))
}

fn lines(folder: &Path) -> Vec<Value> {
    let parts = ["train", "validation", "test"].map(|part| folder.join(format!("{part}.jsonl")));
    let text: String = parts.iter().filter_map(|part| fs::read_to_string(part).ok()).collect();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_set_goes_on_where_it_was_interrupted_and_has_every_kernel_once() {
    let (fake, server, folder) = started().await;
    let out = folder.path().to_str().expect("UTF-8");
    let done = dataset(&server, &["generate", "-o", out, "-n", "2", "--seed", "3"]).await;
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!((document(&done)["new"].as_u64(), document(&done)["duplicates"].as_u64()), (Some(2), Some(1)));
    assert_eq!(fake.state().calls, ["GenerateDataset"; 2], "for two pairs, and for the one that is missing");

    let first = folder.path().join("train.jsonl");
    let whole = fs::read_to_string(&first).expect("there is one");
    fs::write(&first, whole.clone() + "{\"index\": 2, \"id\"").expect("an interrupted line");
    let done = dataset(&server, &["generate", "-o", out, "-n", "5", "--seed", "3"]).await;
    assert_eq!(done.status.code(), Some(1), "the kernel of index 4 is wrong");
    assert_eq!((document(&done)["pairs"].as_u64(), document(&done)["disagreeing"].as_u64()), (Some(5), Some(1)));
    let mut indices: Vec<_> = lines(folder.path()).iter().map(|line| line["index"].as_u64()).collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 2, 4, 6, 8].map(Some));

    let other = dataset(&server, &["generate", "-o", out, "--seed", "4"]).await;
    assert_eq!(other.status.code(), Some(2), "other kernels would not fit those that are there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_for_each_pair_has_its_files() {
    let (_fake, server, folder) = started().await;
    let out = folder.path().to_str().expect("UTF-8");
    let done = dataset(&server, &["generate", "-o", out, "-n", "2", "--layout", "folders"]).await;
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let pair = folder.path().join("validation/math/math_2");
    assert!(fs::read_to_string(pair.join("source.py")).expect("a source").starts_with("def math_2(x"));
    assert_eq!(fs::read(pair.join("math_2.wasm")).expect("a module"), b"\0asm\x01\0\0\0");
    assert_eq!(fs::read_to_string(pair.join("math_2.cu")).expect("a program"), "// CUDA C++\n");
    let checked = dataset(&server, &["verify", out]).await;
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    assert_eq!(document(&checked)["reproduced"].as_u64(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_that_was_changed_is_found() {
    let (_fake, server, folder) = started().await;
    let out = folder.path().to_str().expect("UTF-8");
    dataset(&server, &["generate", "-o", out, "-n", "4"]).await;
    let part = folder.path().join("train.jsonl");
    let text = fs::read_to_string(&part).expect("there is one");
    fs::write(&part, text.replacen("x * 0.0", "x * 1.0", 1)).expect("it is changed");
    let checked = dataset(&server, &["verify", out]).await;
    assert_eq!(checked.status.code(), Some(1));
    let found = document(&checked);
    assert_eq!((found["pairs"].as_u64(), found["reproduced"].as_u64()), (Some(4), Some(3)));
    // The third kernel is wrong on this daemon.
    assert_eq!(found["agreeing"].as_u64(), Some(3));
    assert_eq!(found["problems"][0]["name"], "math_0");
    assert_eq!(found["problem_count"].as_u64(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_count_without_a_daemon() {
    let (_fake, server, folder) = started().await;
    let out = folder.path().to_str().expect("UTF-8");
    dataset(&server, &["generate", "-o", out, "-n", "4"]).await;
    let stats = document(&dataset("http://127.0.0.1:1", &["stats", out]).await);
    assert_eq!((stats["pairs"].as_u64(), stats["duplicates"].as_u64()), (Some(4), Some(0)));
    assert_eq!((stats["structures"].as_u64(), stats["shared_structures"].as_u64()), (Some(4), Some(0)));
    assert_eq!(stats["categories"]["math"]["train"].as_u64(), Some(2));
    assert_eq!(stats["agreement"]["cpu"]["different"].as_u64(), Some(1));
    let none = dataset("http://127.0.0.1:1", &["stats", &format!("{out}/none")]).await;
    assert_eq!(none.status.code(), Some(2));
}
