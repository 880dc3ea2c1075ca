//! `accelctl parse`, and what parsing does for the index, against a small daemon in memory.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use accelerd_test_support::FakeDaemon;
use serde_json::Value;
use tonic::Status;

const CLIENT: &str = "import os

class Client:
    \"\"\"Talks.\"\"\"

    def connect(self):
        return os

    @property
    def name(self):
        pass

def main():
    def inner():
        pass
    return inner
";

/// Exit code, standard output, standard error.
type Ran = (i32, String, String);

async fn run(server: &str, folder: &Path, words: &[&str], input: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    command.args(words).env("ACCELERD_SERVER", server).env_remove("NO_COLOR").current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let run = move || {
        let mut child = command.spawn().expect("it starts");
        // It may end without reading.
        let _closed = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        child.wait_with_output().expect("it ends")
    };
    let output = tokio::task::spawn_blocking(run).await.expect("no panic");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

/// A daemon and a folder with files.
async fn served(files: &[(&str, &str)]) -> (FakeDaemon, String, tempfile::TempDir) {
    let fake = FakeDaemon::default();
    let server = format!("http://{}", fake.listen().await);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }
    (fake, server, folder)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_listed_with_their_places_and_the_rest_is_counted() {
    let files = [("a/ok.py", "x = 1\ny = 2\n"), ("a/bad.pyi", "x = 1\n  what is this\n"), ("a/notes.txt", "no")];
    let (_fake, server, folder) = served(&files).await;
    let (code, out, err) = run(&server, folder.path(), &["parse", "a"], "").await;
    assert_eq!(code, 1);
    assert!(out.starts_with("a/bad.pyi:2:3: invalid syntax\n\n"), "{out}");
    assert!(err.contains("1 of 2 sources has errors"), "{err}");
    let row: Vec<_> = out.lines().last().expect("a row").split_whitespace().collect();
    assert_eq!((row[0], row[1], row.last()), ("2", "4", Some(&"1")), "{out}");

    let (code, out, err) = run(&server, folder.path(), &["parse", "a", "--json"], "").await;
    let summary = &lines(&out)[0];
    assert_eq!((code, &summary["files"], &summary["lines"], &summary["bytes"]), (1, &2.into(), &4.into(), &33.into()));
    assert_eq!(summary["errors"][0]["message"], "invalid syntax");
    assert_eq!(lines(&err)[0]["error"]["exit_code"], 1);
    let (code, _, _) = run(&server, folder.path(), &["parse", "a", "--exclude", "*.pyi"], "").await;
    assert_eq!(code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_named_are_taken_whatever_their_name() {
    let files =
        [("script", "x = 1\n"), (".gitignore", "b.py"), ("b.py", "x = 1"), ("c.py", "x = 1"), ("d.txt", "y = 2")];
    let (fake, server, folder) = served(&files).await;
    let (code, _, err) = run(&server, folder.path(), &["parse", "script", ".", "-"], "x = 3\n").await;
    assert_eq!((code, fake.state().parsed), (0, 3), "{err}");
    let (code, _, err) = run(&server, folder.path(), &["parse", "-"], "one two\n").await;
    assert_eq!(code, 1, "{err}");
    assert_eq!(run(&server, folder.path(), &["parse", "nowhere"], "").await.0, 2);
    assert_eq!(run(&server, folder.path(), &["parse", "d.txt", "--indent", "2"], "").await.0, 2);
    assert_eq!(run(&server, folder.path(), &["parse", "d.txt", "--feature-version", "7"], "").await.0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_outlines_and_tokens_are_shown() {
    let (_fake, server, folder) = served(&[("client.py", CLIENT), ("bad.py", "a b  # c\n")]).await;
    let parse = async |words: &[&str]| run(&server, folder.path(), &[&["parse"], words].concat(), "").await;

    let (code, out, _) = parse(&["client.py", "--outline"]).await;
    let expected = "client.py
  import os  1
  class Client  3-11
    def connect  6-7
    def name  9-11
  def main  13-16
    def inner  14-15
";
    assert_eq!((code, out.as_str()), (0, expected));
    let (_, out, _) = parse(&["client.py", "--outline", "--json"]).await;
    let outline = &lines(&out)[0]["outline"];
    assert_eq!((&outline[2]["qualified_name"], &outline[2]["parent"]), (&"Client.connect".into(), &1.into()));

    let (code, out, err) = parse(&[".", "--dump"]).await;
    assert_eq!((code, out.as_str()), (1, "Module()\n"));
    assert!(err.contains("warning: ./bad.py:1:1: invalid syntax"), "{err}");
    let (_, out, _) = parse(&[".", "--dump", "--json"]).await;
    assert_eq!((&lines(&out)[0]["error"]["line"], &lines(&out)[1]["dump"]), (&1.into(), &"Module()".into()));

    let (_, out, _) = parse(&["bad.py", "--tokens"]).await;
    assert_eq!(out.lines().nth(1), Some("       1:0  name            a"));
    assert!(out.contains("1:5  comment         # c"), "{out}");
    let (_, out, _) = parse(&["bad.py", "--tokens", "--json"]).await;
    assert_eq!(lines(&out)[0]["tokens"][1]["text"], "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_files_are_batched_and_halved_if_the_response_is_too_large() {
    let names: Vec<_> = (0..600).map(|n| format!("{n}.py")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "x = 1\n")).collect();
    let (fake, server, folder) = served(&files).await;
    fake.fail_next([Status::out_of_range("the answer is larger than a message may be")]);
    let (code, out, err) = run(&server, folder.path(), &["parse", ".", "--json"], "").await;
    assert_eq!((code, &lines(&out)[0]["files"]), (0, &600.into()), "{err}");
    assert_eq!(fake.state().calls.len(), 5, "three batches, one of them again in two");
}

#[tokio::test(flavor = "multi_thread")]
async fn python_is_indexed_by_functions_and_classes_and_found_by_name() {
    let (fake, server, folder) = served(&[("net/client.py", CLIENT), ("notes.txt", "gzip\n")]).await;
    let index = async || {
        let words = ["index", ".", "-c", "code", "--name", "t", "--json"];
        let (code, out, err) = run(&server, folder.path(), &words, "").await;
        assert_eq!(code, 0, "{err}");
        lines(&out).remove(0)
    };
    assert_eq!(index().await["chunks"], 5);
    let starts: Vec<_> = fake.points("code").into_iter().map(|(_, line)| line).collect();
    assert_eq!(starts, [1, 6, 9, 13, 1], "the import goes with the class that follows it");
    let again = index().await;
    assert_eq!((&again["unchanged"], &again["chunks"]), (&2.into(), &0.into()));

    let words = ["search", "client connect self return os", "-c", "code", "-k", "1"];
    let (_, out, _) = run(&server, folder.path(), &words, "").await;
    assert!(out.contains("net/client.py:6-7  Client.connect  python"), "{out}");
    let (_, out, _) = run(&server, folder.path(), &[&words[..], &["--json"]].concat(), "").await;
    assert_eq!(lines(&out)[0]["queries"][0]["hits"][0]["name"], "Client.connect");

    fs::write(folder.path().join("net/client.py"), CLIENT.replace("def name", "what is")).expect("it is there");
    let broken = index().await;
    assert_eq!((&broken["indexed"], &broken["deleted_chunks"]), (&1.into(), &3.into()), "a window took their place");
    assert_eq!(fake.points("code").len(), 2);
    fs::write(folder.path().join("net/client.py"), CLIENT).expect("it is there");
    assert_eq!(index().await["chunks"], 4);
    assert_eq!(fake.points("code").len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_parser_files_are_split_into_windows() {
    let (fake, server, folder) = served(&[("client.py", CLIENT)]).await;
    let words = ["index", ".", "-c", "code", "--json", "--dry-run"];
    fake.fail_next([Status::not_found("no collection"), Status::unimplemented("no such service")]);
    let (code, out, err) = run(&server, folder.path(), &words, "").await;
    assert_eq!((code, &lines(&out)[0]["chunks"]), (0, &1.into()), "{err}");
    assert!(err.contains("does not parse Python"), "{err}");
}
