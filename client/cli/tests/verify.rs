//! Runs `accelctl verify` against an in-memory fake of the daemon.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use accelerd_proto::v1::{KernelDevice, VerifyHeader, VerifyRequest, verify_request::Part};
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
    let out = text(&different.stdout);
    let err = text(&different.stderr);
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

/// A fake daemon and a folder with `ref.py`, `lib.wasm`, `a.npy` and `b.npy`, in which the program runs.
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
        fs::write(folder.path().join("ref.py"), "def f(x: float) -> float: ...").expect("it can be written");
        fs::write(folder.path().join("lib.wasm"), b"\0asm").expect("it can be written");
        npy(folder.path(), "a.npy", "(3,)", &[1.0, 2.0, 3.0]);
        npy(folder.path(), "b.npy", "(3,)", &[1.0, 2.5, 3.0]);
        Self { fake, server, folder }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("it can be written");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect("it was written")
    }

    /// Runs `accelctl verify run` on a blocking thread, so that the fake daemon can respond.
    async fn run(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
        command.args(["verify", "run"]).args(words).current_dir(self.folder.path());
        command.env("ACCELERD_SERVER", &self.server).stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
        Ran { code: output.status.code().expect("no signal"), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// The headers of the verifications that the daemon got.
    fn headers(&self) -> Vec<VerifyHeader> {
        let messages = std::mem::take(&mut self.fake.state().verifications);
        let header = |message: VerifyRequest| match message.part {
            Some(Part::Header(header)) => Some(header),
            _ => None,
        };
        messages.into_iter().filter_map(header).collect()
    }
}

/// A check of a function of the module against `ref.py`.
fn check(name: &str, function: &str) -> String {
    format!(
        "[[check]]\nname = \"{name}\"\nsubject = {{ wasm = \"lib.wasm\", function = \"{function}\" }}\n\
         reference = {{ python = \"ref.py\", function = \"f\" }}\n"
    )
}

/// A check of arrays.
fn arrays(name: &str, actual: &str, more: &str) -> String {
    format!(
        "[[check]]\nname = \"{name}\"\nsubject = {{ npy = {{ y = \"{actual}\" }} }}\n\
         reference = {{ npy = {{ y = \"a.npy\" }} }}\n{more}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_checks_have_a_line_each_and_exit_with_0() {
    let session = Session::new().await;
    session
        .write("s.toml", &format!("count = 2500\nmax_ulps = 1\n{}{}", check("norm", "f"), arrays("same", "a.npy", "")));
    let ran = session.run(&["s.toml"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let lines: Vec<_> = ran.out.lines().collect();
    assert!(
        lines[0].starts_with("passed norm  2,500 cases, ") && lines[0].ends_with("cases/s, worst 0 ULP"),
        "{}",
        ran.out
    );
    assert!(lines[1].starts_with("passed same  3 cases, "), "{}", ran.out);
    assert_eq!(lines[2..], ["2 passed, 0 failed"]);
    let headers = session.headers();
    assert_eq!(headers[0].policy.as_ref().map(|policy| policy.tolerances.len()), Some(1));
    assert!(headers[0].generator.is_some() && headers[1].generator.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_check_shows_its_shrunk_case_first_and_exits_with_1() {
    let session = Session::new().await;
    session.write("s.toml", &(check("norm", "wrong") + &check("trap", "raises") + &check("fine", "f")));
    let ran = session.run(&["s.toml", "--count", "100", "--seed", "18446744073709551615"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(
        ran.out.contains("FAILED norm  10 failed, 100 cases, ") && ran.out.contains("worst 4,096 ULP"),
        "{}",
        ran.out
    );
    let details = "
norm: 10 of 100 cases fail
  case 9, shrunk
        input  x = 0 (0x0000000000000000)
      subject  result = 1 (0x3ff0000000000000)
    reference  result = 0 (0x0000000000000000)
  case 9, as found
        input  x = 1e-300 (0x01a56e1fc2f8f359)
      subject  result = 1 (0x3ff0000000000000)
    reference  result = 1e-300 (0x01a56e1fc2f8f359)
  accelctl verify run s.toml --filter norm --count 100 --seed 18446744073709551615
";
    assert!(ran.out.contains(details), "{}", ran.out);
    assert!(ran.out.contains("trap: 10 of 100 cases fail, 10 by their outcome\n"), "{}", ran.out);
    assert!(
        ran.out.contains("      subject  unreachable\n") && ran.out.ends_with("\n1 passed, 2 failed\n"),
        "{}",
        ran.out
    );

    let json = session.run(&["s.toml", "--filter", "nor", "--filter", "fin", "--json"]).await;
    let report: Value = serde_json::from_str(&json.out).expect("a document");
    assert_eq!((json.code, &report["passed"], &report["failed"]), (1, &1.into(), &1.into()));
    let norm = &report["checks"][0];
    assert_eq!((&norm["status"], &norm["failed"], &norm["max_ulps"]), (&"failed".into(), &1000.into(), &4096.into()));
    let shrunk = &norm["counterexamples"][0]["shrunk"];
    assert_eq!(shrunk["subject"]["outputs"][0]["bits"][0], "0x3ff0000000000000");
    assert_eq!(norm["subject"]["sha256"], "ab".repeat(32));
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_fail_with_their_first_mismatches() {
    let session = Session::new().await;
    session.write("s.toml", &(arrays("streamed", "b.npy", "") + &arrays("whole", "b.npy", "max_norm = 1e-3")));
    let ran = session.run(&["s.toml", "--markdown", "r.md"]).await;
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("output y\nmismatch: f32[3]\n") && ran.out.contains("0x40200000"), "{}", ran.out);
    assert_eq!(session.fake.state().calls.iter().filter(|call| **call == "Verify").count(), 1);
    let page = session.read("r.md");
    assert!(page.contains("| [1] | 2.5 (0x40200000) | 2 (0x40000000) | tolerance |"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_differ_from_run_to_run_fail_if_that_is_checked() {
    let session = Session::new().await;
    session
        .write("s.toml", &(check("unchecked", "random") + &check("checked", "random") + "check_determinism = true\n"));
    let ran = session.run(&["s.toml"]).await;
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains("passed unchecked") && ran.out.contains("3 have other results when they run again"),
        "{}",
        ran.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_say_how_many_cases_a_gpu_decided() {
    let session = Session::new().await;
    let cpu = check("on the CPU", "wrong");
    let gpu = check("on a GPU", "wrong");
    session.write("s.toml", &format!("count = 1000\n{cpu}device = \"cpu\"\n{gpu}device = \"cuda\"\n"));
    let ran = session.run(&["s.toml", "--html", "r.html", "--markdown", "r.md"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let devices: Vec<_> = session.headers().iter().map(VerifyHeader::device).collect();
    assert_eq!(devices, [KernelDevice::Cpu, KernelDevice::Cuda]);
    assert!(ran.out.contains("on the CPU: 100 of 1,000 cases fail\n"), "{}", ran.out);
    for text in [ran.out, session.read("r.html"), session.read("r.md")] {
        assert!(text.contains("100 of 1,000 cases fail; 900 decided on a GPU"), "{text}");
        assert_eq!(text.matches("decided on a GPU").count(), 1, "{text}");
    }

    let json = session.run(&["s.toml", "--json"]).await;
    let report: Value = serde_json::from_str(&json.out).expect("a document");
    let decided = [0, 1].map(|nth: usize| &report["checks"][nth]["gpu_decided_count"]);
    assert_eq!(decided, [&Value::from(0), &900.into()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_cannot_be_run_does_not_stop_the_others_and_exits_with_2() {
    let session = Session::new().await;
    session.write(
        "s.toml",
        &(check("bad", "refused") + &check("gone", "crash") + &check("fine", "f") + &check("norm", "wrong")),
    );
    let ran = session.run(&["s.toml", "--junit", "r.xml"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (2, ""));
    assert!(
        ran.out.contains("ERROR  bad  the module is invalid; header.wasm.module: expected a module\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("ERROR  gone  the child process ended\n"), "{}", ran.out);
    assert!(ran.out.ends_with("\n1 passed, 1 failed, 2 errors\n"), "{}", ran.out);
    let document = session.read("r.xml");
    assert!(document.contains("errors=\"2\" failures=\"1\""), "{document}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_and_connection_errors_exit_with_2() {
    let mut session = Session::new().await;
    session.write("bad.toml", &(check("norm", "f") + "max_ulp = 1\n[check.inputs]\nx = 3\n"));
    session.write("s.toml", &check("norm", "f"));
    for (words, reasons) in [
        (
            &["bad.toml"][..],
            &[
                "bad.toml: check \"norm\": max_ulp: unknown key",
                "bad.toml: check \"norm\": inputs.x: expected a table, got 3",
            ][..],
        ),
        (&["gone.toml"], &["gone.toml: No such file"]),
        (&["ref.py"], &["ref.py: expected a .toml or .json file"]),
        (&["s.toml", "--filter", "other"], &["no check has such a name; the checks are norm"]),
        (&["s.toml", "--count", "0"], &["--count"]),
        (&["s.toml", "--html", "nowhere/r.html"], &["nowhere/r.html: No such file"]),
    ] {
        let ran = session.run(words).await;
        let are_named = reasons.iter().all(|reason| ran.err.contains(reason));
        assert!(ran.code == 2 && are_named, "{words:?}: {} {}", ran.code, ran.err);
    }
    assert_eq!(session.headers().len(), 0, "nothing is sent if the suite or the place of a report is wrong");
    session.server = "http://127.0.0.1:1".to_owned();
    let ran = session.run(&["s.toml"]).await;
    assert!(ran.code == 2 && ran.err.contains("is the daemon running?"), "{} {}", ran.code, ran.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_have_the_facts_and_no_markup_of_names() {
    let session = Session::new().await;
    session.write("s.toml", &(check("<script>alert(1)</script>", "wrong") + &check("a|b & `c`", "f")));
    let ran =
        session.run(&["s.toml", "--html", "r.html", "--markdown", "r.md", "--junit", "r.xml", "--seed", "7"]).await;
    assert_eq!(ran.code, 1, "{}", ran.err);
    let documents = ["r.html", "r.md", "r.xml"].map(|name| session.read(name));
    let version = env!("CARGO_PKG_VERSION");
    for document in &documents {
        for fact in [version, &"ab".repeat(32), &"cd".repeat(32), "lib.wasm: wrong", "--seed 7", "0x01a56e1fc2f8f359"] {
            assert!(document.contains(fact), "{fact}: {document}");
        }
    }
    let [html, markdown, junit] = documents;
    assert!(!html.contains("<script") && !junit.contains("<script"), "{html} {junit}");
    // As code it is text.
    assert!(!markdown.replace("--filter '<script>", "").contains("<script"), "{markdown}");
    assert!(
        html.contains("<h2>&lt;script&gt;alert(1)&lt;/script&gt; <span class=\"failed\">FAILED</span></h2>"),
        "{html}"
    );
    assert!(html.contains("<td class=\"number\">2 to 3</td><td class=\"number\">1,000</td>"), "{html}");
    assert!(html.contains("style=\"width: 11.1%\"") && html.contains("Content-Security-Policy"), "{html}");
    for loaded in ["http://", "https://", "src=", "<link", "@import", "url("] {
        assert!(!html.contains(loaded), "{loaded}");
    }
    assert!(markdown.contains(r"| a\|b &amp; \`c\` | passed |"), "{markdown}");
    assert!(markdown.contains("| 2 to 3 | 1,000 |"), "{markdown}");
    assert!(junit.contains("<failure message=\"1,000 of 10,000 cases fail\""), "{junit}");
    assert!(junit.contains("name=\"a|b &amp; `c`\""), "{junit}");
}
