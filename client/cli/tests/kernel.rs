//! Runs `accelctl kernel` against an in-memory fake of the daemon.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use accelerd_proto::v1::{
    Dtype::{F32, I32},
    KernelDevice, LaunchRequest,
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
    let source = source.to_str().expect("UTF-8");
    let out_folder = folder.path().join("out");
    let out = out_folder.to_str().expect("UTF-8");

    let done =
        translate(&server, &[source, "-o", out, "--constant", "N=3", "--constant", "B=True", "--target", "cuda"]).await;
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let shown = text(&done.stdout);
    assert!(shown.contains("a: f32, x: f32[:, :]") && shown.contains("exact") && shown.contains("f.cu"), "{shown}");
    let written = fs::read_to_string(folder.path().join("out/f/f.cu")).expect("it was written");
    assert!(written.starts_with("# source\n") && written.contains("Integer(3)") && written.contains("Boolean(true)"));
    assert!(written.ends_with("[1]"), "{written}");

    let partly = translate(&server, &[source, "--kernel", "g", "--kernel", "h"]).await;
    let shown = text(&partly.stdout);
    let error = text(&partly.stderr);
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

const SCALE: &str = "def scale(x: array, a: float, n: int, v: vec, y: array):\n    ...\n";

/// A fake daemon and a folder, in which the program runs.
struct Session {
    fake: FakeDaemon,
    server: String,
    folder: tempfile::TempDir,
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Session {
    async fn new() -> Self {
        let fake = FakeDaemon::default();
        let server = format!("http://{}", fake.listen().await);
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("k.py"), SCALE).expect("it can be written");
        fs::write(folder.path().join("bad.py"), format!("# fault\n{SCALE}")).expect("it can be written");
        npy(&folder.path().join("x.npy"), &[1.0, 2.0, 3.0]);
        Self { fake, server, folder }
    }

    /// Runs `accelctl kernel` on a blocking thread, so that the fake daemon can respond.
    async fn run(&self, words: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
        command.arg("kernel").args(words.split(' ')).current_dir(self.folder.path());
        command.env("ACCELERD_SERVER", &self.server).stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
        Ran { code: output.status.code().expect("no signal"), out: text(&output.stdout), err: text(&output.stderr) }
    }

    async fn json(&self, words: &str) -> Value {
        let ran = self.run(&format!("{words} --json")).await;
        assert_eq!(ran.code, 0, "{words}: {}", ran.err);
        serde_json::from_str(&ran.out).expect("JSON")
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

fn npy(path: &Path, numbers: &[f32]) {
    let facts = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", numbers.len());
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(facts.len()).expect("a short header").to_le_bytes());
    bytes.extend(facts.as_bytes());
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    fs::write(path, bytes).expect("it can be written");
}

/// The elements of a written .npy file.
fn numbers(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).expect("it is written");
    bytes[128..].chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_runs_on_files_and_numbers_and_writes_its_results() {
    let session = Session::new().await;
    let words = "run k.py --name scale --arg x=x.npy --arg a=2 --arg n=1 --arg v=1,0,-0.5 --grid 3 --shape y=4 -o out";
    let ran = session.run(words).await;
    assert!(
        ran.code == 0 && ran.out.contains("3 5 7 3") && ran.out.contains("scale ran for 2.00 ms"),
        "{} {}",
        ran.out,
        ran.err
    );
    assert_eq!(numbers(&session.path("out/y.npy")), [3.0, 5.0, 7.0, 3.0]);
    let launch = session.fake.state().launches[0].clone();
    assert_eq!((launch.grid.as_slice(), launch.outputs[0].shape.as_slice()), ([3].as_slice(), [4].as_slice()));
    let shapes = launch.arguments.iter().map(|argument| match &argument.source {
        Some(accelerd_proto::v1::tensor_input::Source::Value(tensor)) => (tensor.dtype(), tensor.shape.clone()),
        other => panic!("expected a tensor, got {other:?}"),
    });
    assert_eq!(shapes.collect::<Vec<_>>(), [(F32, vec![3]), (F32, vec![]), (I32, vec![]), (F32, vec![3])]);

    let document = session.json("run k.py --arg x=1,2 --arg n=7 --output y=z.npy").await;
    assert_eq!(numbers(&session.path("z.npy")), [8.0, 9.0]);
    assert_eq!((&document["execution_ms"], &document["outputs"][0]["file"]), (&2.0.into(), &"z.npy".into()));
    session.json("run k.py --arg x=x.npy --same y=x --shape v=3").await;
    let launch = session.fake.state().launches.last().expect("a launch").clone();
    let names: Vec<_> = launch.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!((names, launch.views[0].argument.as_str()), (vec!["x", "v"], "x"), "x has what is written to y");
    session.json("run k.py --arg x=x.npy --output y=z.safetensors").await;
    assert!(session.path("z.safetensors").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_has_its_place_and_the_exit_code_of_a_failure() {
    let session = Session::new().await;
    for command in ["run", "bench"] {
        let ran = session.run(&format!("{command} bad.py --arg x=x.npy")).await;
        let expected =
            "bad.py:3:5: out_of_bounds in thread 7: index 10 is outside of dimension 0 of x, which has 8 elements\n";
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, expected, ""));
    }
    let ran = session.run("run bad.py --json").await;
    let document: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((&document["fault"]["line"], &document["fault"]["array"]), (&3.into(), &"x".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_benchmark_compiles_once_and_counts_elements() {
    let session = Session::new().await;
    let document = session.json("bench k.py --arg x=x.npy --launches 4 --warm-up 2").await;
    assert_eq!((&document["execution"]["median_ms"], &document["elements"]), (&2.0.into(), &3.into()));
    assert_eq!(document["elements_per_second"], 1500.0);
    assert_eq!(session.fake.state().calls, [&["Compile"][..], &["Launch"; 6]].concat());
    let on_gpu = |session: &Session| session.fake.state().launches.last().map(LaunchRequest::device);
    assert_eq!(on_gpu(&session), Some(KernelDevice::Cpu));
    let shown = session.run("bench k.py --arg x=x.npy --grid 1000,4 --launches 1 --device cuda").await.out;
    assert_eq!(on_gpu(&session), Some(KernelDevice::Cuda));
    assert!(shown.contains("2.00M elements/s of 4,000") && shown.contains("±0%"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_benchmark_that_checks_has_a_verdict_and_its_exit_code() {
    let session = Session::new().await;
    let document = session.json("bench k.py --arg x=x.npy --launches 4 --warm-up 2 --check --fixed x").await;
    assert_eq!((&document["verdict"], &document["execution"]["median_ms"]), (&"passed".into(), &2.0.into()));
    let sent = session.fake.state().kernel_benchmarks[0].clone();
    assert_eq!((sent.run_count, sent.warm_up_count, sent.reference), (Some(4), Some(2), None));
    assert_eq!(sent.fixed_arguments, ["x"]);
    std::fs::write(session.path("wrong.py"), "# wrong\n").expect("a temporary folder");
    let ran = session.run("bench k.py --arg x=x.npy --launches 1 --reference wrong.py").await;
    let expected = "launch 1: y has 1 wrong element, first 0: 1 != 0\n";
    assert!(ran.code == 1 && ran.out.starts_with(expected) && ran.out.contains("cpu: mismatch"), "{}", ran.out);
    let fault = session.run("bench bad.py --arg x=x.npy --check").await;
    assert!(fault.code == 1 && fault.out.starts_with("bad.py:3:5: out_of_bounds"), "{}", fault.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_has_a_verdict_and_its_exit_code() {
    const REST: &str = "--entry k --param x=in:x.npy --param y=out:f32:3 --param n=i32:3 --grid 1 --block 32,2";
    let session = Session::new().await;
    for (file, source) in [("right.cu", "// right"), ("wrong.cu", "// wrong"), ("invalid.cu", "// invalid")] {
        std::fs::write(session.path(file), source).expect("a temporary folder");
    }
    let document = session.json(&format!("evaluate right.cu {REST} --reference k.py --runs 4 --fixed x")).await;
    assert_eq!((&document["verdict"], &document["median_ms"]), (&"passed".into(), &3.0.into()));
    assert_eq!((&document["resources"]["registers"], &document["runs"]), (&16.into(), &4.into()));
    let sent = session.fake.state().evaluations[0].clone();
    let subject = sent.subject.expect("it is set");
    let names: Vec<_> = subject.params.iter().map(|param| (param.name.as_str(), param.dtype())).collect();
    assert_eq!((subject.entry.as_str(), names), ("k", vec![("x", F32), ("y", F32), ("n", I32)]));
    assert_eq!((subject.grid, subject.block, sent.arguments.len()), (vec![1], vec![32, 2], 2));
    let wrong = session.run(&format!("evaluate wrong.cu {REST} --expect y=x.npy")).await;
    assert!(wrong.code == 1 && wrong.out.starts_with("mismatch: 1 elements of \"y\""), "{}", wrong.out);
    let invalid = session.run(&format!("evaluate invalid.cu {REST} --reference k.py")).await;
    assert!(
        invalid.code == 1 && invalid.out.starts_with("kernel.cu(1): error: invalid\ncompile_error"),
        "{}",
        invalid.out
    );
    let neither = session.run(&format!("evaluate right.cu {REST}")).await;
    assert!(neither.code == 2 && neither.err.contains("--reference"), "{}", neither.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn compiled_kernels_are_listed_and_evicted_by_the_beginning_of_their_id() {
    let session = Session::new().await;
    session.run("run k.py").await;
    session.run("run bad.py").await;
    let listed = session.run("list").await.out;
    assert!(listed.contains("a: f32, n: i32, v: f32x3, y: f32[:]") && listed.contains("1000 B"), "{listed}");
    let id = session.json("list").await["kernels"][0]["id"].as_str().expect("an id").to_owned();
    let ambiguous = session.run("evict 00").await;
    assert!(ambiguous.code == 2 && ambiguous.err.contains("several kernels"), "{}", ambiguous.err);
    let missing = session.run("evict ").await;
    assert!(missing.code == 2 && missing.err.contains("expected the id of a kernel"), "{}", missing.err);
    assert_eq!(session.json(&format!("evict {id}")).await["evicted"], id.as_str());
    session.json("evict 00").await;
    let gone = session.run(&format!("evict {id}")).await;
    assert!(gone.code == 4 && gone.err.contains("accelctl kernel list"), "{}", gone.err);
    assert_eq!(session.json("list").await["kernels"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_a_launch_are_named() {
    let session = Session::new().await;
    fs::write(session.path("none.py"), "x = 1\n").expect("it can be written");
    for (words, reason) in [
        ("run gone.py", "gone.py: No such file"),
        ("run none.py", "no_kernel"),
        ("run k.py --arg x=gone.npy", "gone.npy: No such file"),
        ("run k.py --arg z=1", "scale has no such parameter, expected one of x, a, n, v, y"),
        ("run k.py --arg n=2.5", "or 1 number of type i32, got \"2.5\""),
        ("run k.py --arg v=1,2", "or 3 numbers of type f32, got \"1,2\""),
        ("run k.py --arg x=1,b", "or numbers of type f32"),
        ("run k.py --arg x", "NAME=VALUE"),
        ("run k.py --shape y=1,-2", "extents such as 10,3"),
        ("run k.py --grid=-1", "--grid"),
        ("run k.py --output y=y.txt", "NAME=FILE.npy"),
    ] {
        let refused = session.run(words).await;
        assert!(refused.code == 2 && refused.err.contains(reason), "{words}: {} {}", refused.code, refused.err);
    }
}
