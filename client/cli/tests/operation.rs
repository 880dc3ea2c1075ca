//! Sources of all encodings, what is skipped, interruption, drain, new collections and hints, against a fake of the daemon.

mod common;

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    process::{Command, Stdio},
};

use serde_json::Value;
use tonic::{Code, Status, transport::Server};
use tonic_types::{ErrorDetails, StatusExt};

use self::common::{index, numbered, run, served, tree, write};

/// A folder with sources of four encodings, and three files that are skipped.
fn encodings() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let utf_16: Vec<u8> = "\u{feff}r\u{e9}sum\u{e9} of sockets\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    // The Japanese for "it returns the largest value".
    let shift_jis = b"x = 1  # \x8d\xc5\x91\xe5\x82\xcc\x92l\x82\xf0\x95\xd4\x82\xb5\x82\xdc\x82\xb7\n";
    let files: [(&str, &[u8]); 6] = [
        ("declared.py", b"# -*- coding: iso-8859-1 -*-\ndef caf\xe9():\n    return tcp\n"),
        ("latin.c", b"/* na\xefve */\nint tcp(void);\n"),
        ("notes.txt", &utf_16),
        ("shift.py", shift_jis),
        ("image.bin", b"\0\x01\x02"),
        ("martian.py", b"# coding: martian\n# \xe9\n"),
    ];
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).expect("it is written");
    }
    fs::write(folder.path().join(OsStr::from_bytes(b"odd\xff.py")), "x = 1\n").expect("it is written");
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_of_all_encodings_are_indexed_and_what_is_skipped_is_named() {
    let (_fake, server) = served().await;
    let folder = encodings();
    let root = folder.path().to_str().expect("UTF-8");
    let words = ["index", root, "-c", "code", "--json"];
    let summary = run(&server, &words).await.json();
    assert_eq!(summary["indexed"], 4, "{summary}");
    assert_eq!(
        ["binary", "undecodable", "misnamed", "unreadable"].map(|reason| &summary["skipped"][reason]),
        [1, 1, 1, 0].map(Value::from).each_ref(),
    );
    let skipped = summary["skipped_files"].as_array().expect("a list");
    for (name, reason) in
        [("/image.bin", "binary"), ("/martian.py", "martian"), ("/odd\u{fffd}.py", "name is not UTF-8")]
    {
        let is_it = |file: &&Value| file["path"].as_str().is_some_and(|path| path.ends_with(name));
        let found = skipped.iter().find(is_it).unwrap_or_else(|| panic!("{name} in {summary}"));
        assert!(found["reason"].as_str().is_some_and(|text| text.contains(reason)), "{found}");
    }
    let found = run(&server, &["search", "na\u{ef}ve caf\u{e9}", "-c", "code", "--json"]).await.json();
    let hits = found["queries"][0]["hits"].as_array().expect("hits");
    let snippets: String = hits.iter().filter_map(|hit| hit["snippet"].as_str()).collect();
    assert!(snippets.contains("na\u{ef}ve") && snippets.contains("caf\u{e9}"), "{found}");

    // The odd name does not keep removed files in the collection.
    fs::remove_file(folder.path().join("latin.c")).expect("it is there");
    let again = run(&server, &["index", root, "-c", "code"]).await;
    assert!(
        again.out.contains("1 file") && again.err.contains("image.bin: it is binary"),
        "{} {}",
        again.out,
        again.err
    );
    assert!(again.err.contains("odd\u{fffd}.py: its name is not UTF-8"), "{}", again.err);
    let quiet = run(&server, &["index", root, "-c", "code", "-q"]).await;
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (0, "", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_index_ends_although_the_daemon_does_not_answer() {
    let (fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    (0..12).for_each(|n| write(folder.path(), &format!("{n}.txt"), &numbered(5_000, "line")));
    let (_never_released, held) = tokio::sync::watch::channel(false);
    fake.state().held = Some((3, held));
    let root = folder.path().to_str().expect("UTF-8");
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    command.args(["index", root, "-c", "code", "--name", "t"]).env("ACCELERD_SERVER", &server);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let landed = async {
        while fake.points("code").len() < 3 * 128 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), landed).await.expect("they land");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let ended =
        tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("no panic").expect("it ends");
    let said = String::from_utf8(ended.stderr).expect("text");
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("384 chunks were sent and stay in the collection"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_may_have_conditions() {
    let (_fake, server) = served().await;
    let folder = tree();
    write(folder.path(), "net/socket.go", "package net\n\n// listen for tcp connections\nfunc open() {}\n");
    index(&server, folder.path(), &[]).await;
    let paths = async |more: &[&str]| -> Vec<String> {
        let words = [&["search", "listen for tcp connections", "-c", "code", "--json"], more].concat();
        let found = run(&server, &words).await.json();
        let hits = found["queries"][0]["hits"].as_array().expect("hits");
        hits.iter().map(|hit| hit["path"].as_str().expect("a path").to_owned()).collect()
    };
    assert!(paths(&[]).await.iter().any(|path| path == "t/net/socket.py"));
    let go = paths(&["--where", "language=go"]).await;
    assert!(!go.is_empty() && go.iter().all(|path| path == "t/net/socket.go"), "{go:?}");
    let none = run(&server, &["search", "x", "-c", "code", "--where", "language=go", "--where", "start_line=77"]).await;
    assert_eq!(none.code, 1, "{}", none.out);
    assert_eq!(run(&server, &["search", "x", "-c", "code", "--where", "language"]).await.code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_is_created_with_its_options() {
    let (_fake, server) = served().await;
    let words =
        ["collections", "create", "texts", "--model", "toy", "--text-field", "text", "--metric", "dot", "--json"];
    let created = run(&server, &words).await;
    assert_eq!(created.code, 0, "{}", created.err);
    let created = &created.json()["collections"][0];
    assert_eq!(
        (&created["name"], &created["model"], &created["metric"]),
        (&"texts".into(), &"toy".into(), &"dot".into())
    );
    let vectors =
        run(&server, &["collections", "create", "vectors", "--dimensions", "12", "--in-memory", "--json"]).await;
    assert_eq!(vectors.json()["collections"][0]["dimensions"], 12, "{}", vectors.err);
    let neither = run(&server, &["collections", "create", "nothing"]).await;
    assert!(neither.code == 2 && neither.err.contains("--dimensions"), "{}", neither.err);
    let twice = run(&server, &["collections", "create", "texts", "--model", "toy"]).await;
    assert!(twice.code == 1 && twice.err.contains("choose another name"), "{}", twice.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_is_drained_and_resumed() {
    let (fake, server) = served().await;
    let drained = run(&server, &["drain", "--wait", "5s", "--json"]).await;
    assert_eq!((drained.code, &drained.json()["complete"]), (0, &true.into()));
    let resumed = run(&server, &["resume"]).await;
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "the daemon accepts work again\n"));
    assert_eq!(fake.state().calls, ["Drain", "Resume"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_listed_and_old_ones_deleted() {
    let (fake, server) = served().await;
    let versions = |of: &Value| -> Vec<u64> {
        of.as_array().expect("a list").iter().map(|snapshot| snapshot["version"].as_u64().expect("a number")).collect()
    };
    let listed = run(&server, &["snapshots", "list", "code", "--json"]).await.json();
    assert_eq!(versions(&listed["snapshots"]), [1, 2, 3]);
    let table = run(&server, &["snapshots", "list", "code"]).await;
    assert!(table.out.contains("file:///snapshots/code/v0000000003"), "{}", table.out);
    let planned = run(&server, &["snapshots", "prune", "code", "--keep", "1", "--dry-run", "--json"]).await.json();
    assert_eq!((versions(&planned["deleted"]), &planned["dry_run"]), (vec![1, 2], &true.into()));
    assert!(!fake.state().calls.contains(&"PruneSnapshots"), "nothing was deleted");
    let pruned = run(&server, &["snapshots", "prune", "code", "--keep", "2", "--json"]).await.json();
    assert_eq!(versions(&pruned["deleted"]), [1]);
    assert_eq!(run(&server, &["snapshots", "prune", "code", "--keep", "0"]).await.code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_follow_the_reason_and_not_the_code() {
    let (fake, server) = served().await;
    let failing = |code, reason: &str, metadata: &[(&str, &str)]| {
        let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let details = ErrorDetails::with_error_info(reason, "accelerd", metadata.collect::<HashMap<_, _>>());
        Status::with_error_details(code, "it failed", details)
    };
    let said = async |failure: Status| {
        fake.fail_next([failure]);
        run(&server, &["models", "--json"]).await.err
    };
    let figures = [("kind", "models"), ("setting", "models.memory_limit")];
    let memory = said(failing(Code::ResourceExhausted, "MEMORY_LIMIT", &figures)).await;
    assert!(memory.contains("models unload") && memory.contains("raise models.memory_limit"), "{memory}");
    assert!(!memory.contains("retry later"), "{memory}");
    let folder = said(failing(Code::PermissionDenied, "NOT_ALLOWED", &[])).await;
    assert!(!folder.contains("principals"), "{folder}");
    let role = said(failing(Code::PermissionDenied, "ROLE_TOO_LOW", &[])).await;
    assert!(role.contains("principals"), "{role}");
    let method = said(failing(Code::Unimplemented, "UNKNOWN_METHOD", &[])).await;
    assert!(method.contains("older than this client"), "{method}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_port_is_not_taken_for_an_older_daemon() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let (_reporter, health) = tonic_health::server::health_reporter();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(Server::builder().add_service(health).serve_with_incoming(incoming));
    let ran = run(&server, &["models"]).await;
    assert!(ran.err.contains("health port") && !ran.err.contains("older"), "{}", ran.err);
}
