//! Runs the program against an in-memory fake of the daemon.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use accelerd_test_support::FakeDaemon;
use serde_json::Value;

/// Result of a run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {:?} {:?}", self.out, self.err))
    }
}

/// Runs the program on a blocking thread, so that the fake daemon can respond.
pub(crate) async fn run(server: &str, words: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    command.args(words).env("ACCELERD_SERVER", server).env_remove("NO_COLOR").stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
    Ran {
        code: output.status.code().expect("no signal"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

pub(crate) async fn served() -> (FakeDaemon, String) {
    let fake = FakeDaemon::default();
    let server = format!("http://{}", fake.listen().await);
    (fake, server)
}

pub(crate) fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

pub(crate) fn numbered(lines: usize, word: &str) -> String {
    let lines: Vec<_> = (1..=lines).map(|n| format!("{word} {n}")).collect();
    lines.join("\n")
}

/// A folder with three files, one of which has several chunks.
pub(crate) fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "net/socket.py", "def open_socket():\n    listen for tcp connections\n");
    write(folder.path(), "pack.py", "def gzip_file(path):\n    compress it\n");
    write(folder.path(), "long.py", &numbered(100, "line"));
    folder
}

pub(crate) async fn index(server: &str, folder: &Path, more: &[&str]) -> Value {
    let folder = folder.to_str().expect("UTF-8");
    let words = [&["index", folder, "--collection", "code", "--name", "t", "--json"], more].concat();
    let ran = run(server, &words).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.json()
}
