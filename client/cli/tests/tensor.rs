//! Runs `accelctl tensor` against an in-memory fake of the daemon.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use accelerd_test_support::FakeDaemon;
use serde_json::Value;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// A fake daemon and a folder, in which the program runs.
struct Session {
    fake: FakeDaemon,
    server: String,
    folder: tempfile::TempDir,
}

impl Session {
    async fn new() -> Self {
        let fake = FakeDaemon::default();
        let server = format!("http://{}", fake.listen().await);
        Self { fake, server, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Runs `accelctl tensor` on a blocking thread, so that the fake daemon can respond.
    async fn run(&self, words: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
        command.arg("tensor").args(words.split(' ')).current_dir(self.folder.path());
        command.env("ACCELERD_SERVER", &self.server).stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
        Ran {
            code: output.status.code().expect("no signal"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    async fn json(&self, words: &str) -> Value {
        let ran = self.run(&format!("{words} --json")).await;
        assert_eq!(ran.code, 0, "{words}: {}", ran.err);
        serde_json::from_str(&ran.out).expect("JSON")
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.fake.state().calls)
    }
}

fn npy(path: &Path, shape: &str, numbers: &[f32]) {
    let facts = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
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
async fn an_operation_reads_and_writes_files_of_both_formats() {
    let session = Session::new().await;
    npy(&session.path("a.npy"), "(2, 1)", &[1.0, 2.0]);
    npy(&session.path("b.npy"), "(2, 1)", &[10.0, 20.0]);
    let shown = session.run("run add a.npy b.npy --attr alpha=1 --output c.safetensors").await;
    assert!(shown.code == 0 && shown.out.contains("2x1") && shown.out.contains("11 22"), "{} {}", shown.out, shown.err);
    let document = session.json("run neg c.safetensors:add -o d.npy").await;
    assert_eq!(numbers(&session.path("d.npy")), [-11.0, -22.0]);
    let result = &document["results"][0];
    assert_eq!((&result["name"], &result["dtype"], &result["file"]), (&"neg".into(), &"f32".into(), &"d.npy".into()));
    assert_eq!(result["shape"], serde_json::json!([2, 1]));
    let both = session.json("run aminmax c.safetensors --output low.npy --output high.npy").await;
    assert_eq!((numbers(&session.path("low.npy")), numbers(&session.path("high.npy"))), (vec![11.0], vec![22.0]));
    assert_eq!(both["results"][1]["name"], "aminmax:1");
    session.json("run aminmax c.safetensors --results 2 --output e.safetensors").await;
    assert_eq!(session.json("run neg e.safetensors:aminmax:1").await["results"][0]["values"][0], "-22");
    assert_eq!(session.calls(), ["Execute"; 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_file_names_inputs_nodes_and_outputs() {
    let session = Session::new().await;
    npy(&session.path("a.npy"), "(1,)", &[1.0]);
    npy(&session.path("b.npy"), "(1,)", &[5.0]);
    let graph = "inputs = ['x', 'y']\noutputs = ['z', 'minus']\n\
        [[nodes]]\nname = 'minus'\nop = 'neg'\ninputs = ['x']\n\
        [[nodes]]\nname = 'z'\nop = 'add'\ninputs = ['minus', 'y']\nattributes = { alpha = 1 }\n";
    fs::write(session.path("g.toml"), graph).expect("it can be written");
    session.json("run g.toml y=b.npy a.npy -o z.npy -o minus.npy").await;
    assert_eq!((numbers(&session.path("z.npy")), numbers(&session.path("minus.npy"))), (vec![4.0], vec![-1.0]));
    for (words, reason) in [
        ("run g.toml a.npy", "2 operands (x, y), got 1"),
        ("run g.toml a.npy b.npy -o z.npy", "2 .npy files"),
        ("run g.toml a.npy b.npy --attr dim=1", "--attr"),
    ] {
        let refused = session.run(words).await;
        assert!(refused.code == 2 && refused.err.contains(reason), "{words}: {}", refused.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_operands_and_streamed_calls_leave_nothing_on_the_device() {
    let session = Session::new().await;
    let large = vec![1.5; (16 << 18) + 1];
    npy(&session.path("a.npy"), &format!("({},)", large.len()), &large);
    session.json("run neg a.npy --output b.npy").await;
    assert_eq!(numbers(&session.path("b.npy")), vec![-1.5; large.len()]);
    assert_eq!(session.calls(), ["UploadTensor", "Execute", "DownloadTensor", "FreeTensors"]);
    npy(&session.path("c.npy"), "(1,)", &[1.0]);
    let failed = session.run("run sub c.npy --stream").await;
    assert!(failed.code == 2 && failed.err.contains("nodes[sub].op"), "{}", failed.err);
    assert!(session.fake.state().tensors.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn resident_tensors_are_operands_by_their_handles() {
    let session = Session::new().await;
    npy(&session.path("a.npy"), "(2,)", &[1.0, 2.0]);
    let handle = |document: &Value, list: &str| document[list][0]["handle"].as_str().expect("a handle").to_owned();
    let uploaded = handle(&session.json("upload a.npy").await, "tensors");
    let kept = handle(&session.json(&format!("run neg handle:{uploaded} --keep")).await, "results");
    let listed = session.run("list").await.out;
    assert!(listed.contains(&uploaded) && listed.contains(&kept) && listed.contains("8 B"), "{listed}");
    session.json(&format!("download {kept} --output b.npy")).await;
    assert_eq!(numbers(&session.path("b.npy")), [-1.0, -2.0]);
    session.json(&format!("copy {kept}")).await;
    assert_eq!(session.json(&format!("free {uploaded}")).await["freed"][0], uploaded.as_str());
    let gone = session.run(&format!("run neg handle:{uploaded}")).await;
    assert!(gone.code == 4 && gone.err.contains("accelctl tensor list"), "{}", gone.err);
    session.json("free --all").await;
    assert!(session.fake.state().tensors.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_named() {
    let session = Session::new().await;
    npy(&session.path("a.npy"), "(1,)", &[1.0]);
    npy(&session.path("short.npy"), "(3,)", &[1.0]);
    for (words, reason) in [
        ("run neg gone.npy", "gone.npy: No such file"),
        ("run neg short.npy", "does not fit its 4 bytes"),
        ("run neg a.txt", "FILE.npy, FILE.safetensors:NAME or handle:HANDLE"),
        ("run neg a.npy --attr dim=0", "nodes[neg].attributes: expected no attribute, got dim"),
        ("run neg a.npy --attr dim", "NAME=VALUE"),
        ("run neg a.npy --output b.txt", "--output"),
        ("run gone.toml a.npy", "gone.toml: No such file"),
        ("upload handle:t1", "expected a file"),
    ] {
        let refused = session.run(words).await;
        assert!(refused.code == 2 && refused.err.contains(reason), "{words}: {} {}", refused.code, refused.err);
    }
    assert!(session.fake.state().tensors.is_empty());
}
