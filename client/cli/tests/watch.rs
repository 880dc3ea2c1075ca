//! `accelctl index --watch` and `accelctl parse --watch` follow changes of files. Nothing sleeps: a test waits for the lines that the
//! program prints.

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use accelerd_test_support::FakeDaemon;
use serde_json::Value;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    task::spawn_blocking,
    time::timeout,
};
use tonic::Status;

use self::common::{index, run, served, tree, write};

/// Bounds a wait for something that must happen.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that watches. It is killed with this value.
struct Watching {
    child: Child,
    out: UnboundedReceiver<String>,
    err: UnboundedReceiver<String>,
}

/// Reads lines on a thread.
fn lines(of: impl Read + Send + 'static) -> UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::spawn(move || BufReader::new(of).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    receiver
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Watching {
    fn start(server: &str, folder: &Path, words: &[&str]) -> Self {
        Self::start_command(Command::new(env!("CARGO_BIN_EXE_accelctl")), server, folder, words)
    }

    fn start_command(mut command: Command, server: &str, folder: &Path, words: &[&str]) -> Self {
        command.args(words).current_dir(folder).env("ACCELERD_SERVER", server).env_remove("NO_COLOR");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let out = lines(child.stdout.take().expect("a pipe"));
        let err = lines(child.stderr.take().expect("a pipe"));
        Self { child, out, err }
    }

    /// Indexes a folder as the tree `t` of the collection `code`. Returns the summary of the first pass, too.
    async fn index(server: &str, folder: &Path, more: &[&str]) -> (Self, Value) {
        let words = [&["index", ".", "-c", "code", "--name", "t", "--watch", "--json"], more].concat();
        let mut watching = Self::start(server, folder, &words);
        let summary = watching.json().await;
        watching.said("watching for changes").await;
        (watching, summary)
    }

    async fn line(&mut self) -> String {
        match timeout(LIMIT, self.out.recv()).await.expect("it prints a line in time") {
            Some(line) => line,
            None => panic!("it ended: {:?}", self.err.recv().await),
        }
    }

    async fn json(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Waits for a message.
    async fn said(&mut self, part: &str) -> String {
        loop {
            let line = timeout(LIMIT, self.err.recv()).await.expect("it says it in time");
            let line = line.unwrap_or_else(|| panic!("it ended without {part:?}"));
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Reads changes until this many files were indexed and removed, which may come as several changes.
    async fn changes(&mut self, indexed: u64, removed: u64) -> Vec<Value> {
        let mut changes = vec![];
        let count = |changes: &[Value], of: &str| changes.iter().filter_map(|change| change[of].as_u64()).sum::<u64>();
        while count(&changes, "indexed") < indexed || count(&changes, "removed") < removed {
            changes.push(self.json().await);
        }
        changes
    }

    /// Presses Ctrl-C. Returns the exit code.
    async fn interrupt(self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill runs").success());
        self.ended().await
    }

    /// Waits for the end. Returns the exit code.
    async fn ended(mut self) -> Option<i32> {
        let ended = spawn_blocking(move || self.child.wait().expect("it ends").code());
        timeout(LIMIT, ended).await.expect("it ends in time").expect("no panic")
    }
}

fn paths(fake: &FakeDaemon) -> Vec<String> {
    let mut paths: Vec<_> = fake.points("code").into_iter().map(|(path, _)| path).collect();
    paths.dedup();
    paths
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_created_and_deleted_files_are_followed() {
    let (fake, server) = served().await;
    let folder = tree();
    let (mut watching, first) = Watching::index(&server, folder.path(), &[]).await;
    assert_eq!((&first["indexed"], &first["chunks"]), (&3.into(), &5.into()));

    write(folder.path(), "pack.py", "def zip_file(path):\n    compress it\n");
    let edited = watching.changes(1, 0).await.pop().expect("a change");
    assert_eq!((&edited["path"], &edited["chunks"]), (&"t/pack.py".into(), &1.into()));
    let found = run(&server, &["search", "zip file", "-c", "code", "-k", "1", "--json"]).await.json();
    assert_eq!(found["queries"][0]["hits"][0]["path"], "t/pack.py");

    write(folder.path(), "made/deep/new.py", "x = 1\n");
    watching.changes(1, 0).await;
    write(folder.path(), "made/deep/newer.py", "y = 1\n");
    watching.changes(1, 0).await;
    fs::remove_file(folder.path().join("long.py")).expect("it is there");
    let removed = watching.changes(0, 1).await.pop().expect("a change");
    assert_eq!((&removed["removed"], &removed["deleted_chunks"]), (&1.into(), &3.into()));
    let expected = ["t/made/deep/new.py", "t/made/deep/newer.py", "t/net/socket.py", "t/pack.py"];
    assert_eq!(paths(&fake), expected);
    assert_eq!(watching.interrupt().await, Some(130));
    let again = index(&server, folder.path(), &[]).await;
    assert_eq!((&again["indexed"], &again["unchanged"], &again["removed"]), (&0.into(), &4.into(), &0.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn renamed_files_and_folders_are_followed() {
    let (fake, server) = served().await;
    let folder = tree();
    let at = |path: &str| folder.path().join(path);
    let (mut watching, _) = Watching::index(&server, folder.path(), &[]).await;
    fs::rename(at("net"), at("network")).expect("it is renamed");
    watching.changes(1, 1).await;
    // The renamed folder is watched under its new name.
    write(folder.path(), "network/socket.py", "def close_socket(): ...\n");
    let edited = watching.changes(1, 0).await.pop().expect("a change");
    assert_eq!(edited["path"], "t/network/socket.py");
    // Vim and others write another file and rename it.
    write(folder.path(), "pack.py~", "def save(): ...\n");
    watching.changes(1, 0).await;
    fs::rename(at("pack.py~"), at("pack.py")).expect("it is renamed");
    watching.changes(1, 1).await;
    assert!(fake.texts("code", "text").iter().any(|text| text.contains("def save")));
    let outside = tempfile::tempdir().expect("a temporary folder");
    fs::rename(at("network"), outside.path().join("network")).expect("it is moved away");
    watching.changes(0, 1).await;
    fs::rename(outside.path().join("network"), at("net")).expect("it is moved back");
    watching.changes(1, 0).await;
    assert_eq!(paths(&fake), ["t/long.py", "t/net/socket.py", "t/pack.py"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_is_deleted_and_made_again_is_followed() {
    let (fake, server) = served().await;
    let above = tempfile::tempdir().expect("a temporary folder");
    write(above.path(), "one/two/a.py", "a = 1\n");
    let words = ["index", "one/two", "-c", "code", "--name", "t", "--watch", "--json"];
    let mut watching = Watching::start(&server, above.path(), &words);
    watching.said("watching for changes").await;
    watching.changes(1, 0).await;
    fs::remove_dir_all(above.path().join("one")).expect("it is there");
    watching.changes(0, 1).await;
    assert!(paths(&fake).is_empty());
    write(above.path(), "one/two/b.py", "b = 1\n");
    watching.changes(1, 0).await;
    write(above.path(), "one/two/c/d.py", "d = 1\n");
    watching.changes(1, 0).await;
    assert_eq!(paths(&fake), ["t/b.py", "t/c/d.py"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_of_a_walk_hold_and_their_changes_are_followed() {
    let (fake, server) = served().await;
    let folder = tree();
    write(folder.path(), ".gitignore", "build/\n");
    let (mut watching, _) = Watching::index(&server, folder.path(), &["--exclude", "*.tmp"]).await;
    for path in ["build/out.py", ".git/index.py", "a.tmp", ".hidden.py"] {
        write(folder.path(), path, "x = 1\n");
    }
    symlink(folder.path().join("pack.py"), folder.path().join("link.py")).expect("it is made");
    write(folder.path(), "last.py", "x = 1\n");
    watching.changes(1, 0).await;
    assert_eq!(paths(&fake), ["t/last.py", "t/long.py", "t/net/socket.py", "t/pack.py"]);
    write(folder.path(), ".gitignore", "net/\n");
    watching.changes(1, 1).await;
    assert_eq!(paths(&fake), ["t/build/out.py", "t/last.py", "t/long.py", "t/pack.py"]);
    write(folder.path(), "build/out.py", "x = 2\n");
    watching.changes(1, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_file_is_followed() {
    let (fake, server) = served().await;
    let folder = tree();
    let words = ["index", "pack.py", "-c", "code", "--watch", "--json"];
    let mut watching = Watching::start(&server, folder.path(), &words);
    watching.said("watching for changes").await;
    watching.changes(1, 0).await;
    write(folder.path(), "long.py", "not watched\n");
    fs::remove_file(folder.path().join("pack.py")).expect("it is there");
    watching.changes(0, 1).await;
    write(folder.path(), "pack.py", "def again(): ...\n");
    watching.changes(1, 0).await;
    assert_eq!(fake.points("code").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_finds_the_same_changes() {
    let (fake, server) = served().await;
    let folder = tree();
    let (mut watching, _) = Watching::index(&server, folder.path(), &["--poll", "10ms"]).await;
    write(folder.path(), "made/new.py", "x = 1\n");
    watching.changes(1, 0).await;
    fs::rename(folder.path().join("net"), folder.path().join("made/net")).expect("it is renamed");
    watching.changes(1, 1).await;
    assert_eq!(paths(&fake), ["t/long.py", "t/made/net/socket.py", "t/made/new.py", "t/pack.py"]);
    assert_eq!(watching.interrupt().await, Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_files_are_one_change() {
    let (fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = tempfile::tempdir().expect("a temporary folder");
    (0..1_000).for_each(|n| write(source.path(), &format!("{}/{n}.py", n % 10), &format!("x = {n}\n")));
    let (mut watching, _) = Watching::index(&server, folder.path(), &[]).await;
    fake.state().calls.clear();
    fs::rename(source.path(), folder.path().join("branch")).expect("it is moved");
    let change = watching.json().await;
    assert_eq!((&change["indexed"], &change["path"]), (&1_000.into(), &Value::Null));
    let streams = fake.state().calls.iter().filter(|call| **call == "UpsertStream").count();
    assert_eq!(streams, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_kept_while_the_daemon_fails() {
    let (fake, server) = served().await;
    let folder = tree();
    let (mut watching, _) = Watching::index(&server, folder.path(), &["--timeout", "3s"]).await;
    fake.fail_next_of("GetPoints", (0..1_000).map(|_| Status::unavailable("restarting")));
    write(folder.path(), "pack.py", "def later(): ...\n");
    watching.said("changes are kept").await;
    fake.state().failures_of.clear();
    watching.changes(1, 0).await;
    watching.said("up to date again").await;
    assert!(fake.texts("code", "text").iter().any(|text| text.contains("def later")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_a_restart_lost_is_made_again() {
    let (fake, server) = served().await;
    let folder = tree();
    let (mut watching, _) = Watching::index(&server, folder.path(), &[]).await;
    assert_eq!(run(&server, &["collections", "delete", "code"]).await.code, 0);
    write(folder.path(), "pack.py", "def later(): ...\n");
    watching.said("indexing all files").await;
    watching.changes(3, 0).await;
    assert_eq!(fake.points("code").len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_pass_that_the_daemon_does_not_answer() {
    let (fake, server) = served().await;
    let folder = tree();
    let (watching, _) = Watching::index(&server, folder.path(), &[]).await;
    fake.state().hang = true;
    write(folder.path(), "pack.py", "def later(): ...\n");
    let hangs = async {
        while fake.state().hang {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, hangs).await.expect("a call hangs");
    assert_eq!(watching.interrupt().await, Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_for_people_without_json_and_none_with_quiet() {
    let (fake, server) = served().await;
    let folder = tree();
    let words = ["index", ".", "-c", "code", "--name", "t", "--watch"];
    let mut watching = Watching::start(&server, folder.path(), &words);
    watching.said("watching for changes").await;
    write(folder.path(), "pack.py", "def zip_file(path): ...\n");
    while !watching.line().await.starts_with("indexed t/pack.py, 1 chunk embedded") {}
    fs::remove_file(folder.path().join("pack.py")).expect("it is there");
    while !watching.line().await.starts_with("removed t/pack.py") {}
    drop(watching);
    let mut quiet = Watching::start(&server, folder.path(), &[&words[..], &["-q"]].concat());
    write(folder.path(), "quiet.py", "x = 1\n");
    let indexed = async {
        while !paths(&fake).contains(&"t/quiet.py".to_owned()) {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, indexed).await.expect("it is indexed");
    let mut out = std::mem::replace(&mut quiet.out, mpsc::unbounded_channel().1);
    assert_eq!((quiet.interrupt().await, out.recv().await), (Some(130), None));
}

/// Runs the program in a user namespace that may watch few folders; `None` where the system allows no such namespace.
fn with_few_watches(count: u32) -> Option<Command> {
    let script = format!("echo {count} > /proc/sys/user/max_inotify_watches && exec \"$@\"");
    let words = ["--user", "--map-root-user", "sh", "-c", &script, "sh"];
    let tried = Command::new("unshare").args(words).arg("true").stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success()).then(|| {
        let mut command = Command::new("unshare");
        command.args(words).arg(env!("CARGO_BIN_EXE_accelctl"));
        command
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_watched_folders_is_named_with_its_remedies() {
    let (_fake, server) = served().await;
    let folder = tree();
    let Some(command) = with_few_watches(1) else { return };
    let words = ["index", ".", "-c", "code", "--watch"];
    let mut watching = Watching::start_command(command, &server, folder.path(), &words);
    let said = watching.said("fs.inotify.max_user_watches").await;
    assert!(said.contains("sysctl") && said.contains("--poll"), "{said}");
    assert_eq!(watching.ended().await, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_changed_functions_are_embedded_again() {
    let (fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = |body: &str| {
        format!("def first():\n    return 1\n\n\ndef second():\n    return {body}\n\n\ndef third():\n    pass\n")
    };
    write(folder.path(), "a.py", &source("2"));
    let first = index(&server, folder.path(), &[]).await;
    assert_eq!((&first["chunks"], &first["reused_chunks"]), (&3.into(), &0.into()));
    let embedded = |fake: &FakeDaemon| -> Vec<String> {
        let upserts = std::mem::take(&mut fake.state().upserts);
        upserts.into_iter().map(|(_, text)| text).filter(|text| !text.is_empty()).collect()
    };
    assert_eq!(embedded(&fake).len(), 3);
    // Each function moves by a line, and one changes.
    write(folder.path(), "a.py", &format!("\n{}", source("3")));
    let second = index(&server, folder.path(), &[]).await;
    assert_eq!((&second["chunks"], &second["reused_chunks"]), (&3.into(), &2.into()));
    let texts = embedded(&fake);
    assert!(texts.len() == 1 && texts[0].contains("return 3"), "{texts:?}");
    let lines: Vec<_> = fake.points("code").into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, [2, 6, 10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_of_the_command_is_no_change() {
    let (fake, server) = served().await;
    let folder = tree();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" > out.json", env!("CARGO_BIN_EXE_accelctl")]);
    let words = ["index", ".", "-c", "code", "--name", "t", "--json"];
    let watching = Watching::start_command(command, &server, folder.path(), &words);
    assert_eq!(watching.ended().await, Some(0));
    assert!(!fs::read(folder.path().join("out.json")).expect("it is written").is_empty());
    assert_eq!(paths(&fake), ["t/long.py", "t/net/socket.py", "t/pack.py"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_contradict_each_other_are_refused() {
    let (_fake, server) = served().await;
    for words in
        [&["--poll", "1s"][..], &["--watch", "--dry-run"], &["--watch", "--poll", "0s"], &["--watch", "--poll", "2"]]
    {
        let ran = run(&server, &[&["index", ".", "-c", "code"], words].concat()).await;
        assert_eq!(ran.code, 2, "{words:?}: {}", ran.err);
    }
    let stdin = run(&server, &["parse", "-", "--watch"]).await;
    assert!(stdin.code == 2 && stdin.err.contains("standard input"), "{}", stdin.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_changed_files_are_printed() {
    let (fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "a.py", "x = 1\n");
    write(folder.path(), "b.txt", "no Python\n");
    let mut watching = Watching::start(&server, folder.path(), &["parse", ".", "--watch", "--json"]);
    let first = watching.json().await;
    assert_eq!((&first["files"], &first["error_count"]), (&1.into(), &0.into()));
    watching.said("watching for changes").await;

    write(folder.path(), "a.py", "x = 1\n  what is this\n");
    let broken = watching.json().await;
    assert_eq!((&broken["errors"][0]["path"], &broken["errors"][0]["line"]), (&"./a.py".into(), &2.into()));
    // Equal contents are not parsed again, as after `touch`.
    write(folder.path(), "a.py", "x = 1\n  what is this\n");
    write(folder.path(), "sub/c.py", "y = 1\n");
    let made = watching.json().await;
    assert_eq!((&made["files"], &made["error_count"]), (&1.into(), &0.into()));
    fake.fail_next_of("Parse", [Status::unavailable("restarting")]);
    write(folder.path(), "a.py", "x = 2\n");
    assert_eq!(watching.json().await["fixed"][0], "./a.py");
    fs::remove_dir_all(folder.path().join("sub")).expect("it is there");
    assert_eq!(watching.json().await["removed"][0], "./sub/c.py");
    assert_eq!(watching.interrupt().await, Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_lines_for_people_and_shown_with_outlines() {
    let (_fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "a.py", "  what is this\n");
    let mut watching = Watching::start(&server, folder.path(), &["parse", ".", "--watch"]);
    watching.said("watching for changes").await;
    write(folder.path(), "a.py", "x = 1\n");
    while watching.line().await != "./a.py: no errors any more" {}
    watching.said("1 file parsed, 0 errors").await;
    write(folder.path(), "a.py", "x = 1\n  what is this\n");
    assert_eq!(watching.line().await, "./a.py:2:3: invalid syntax");
    drop(watching);
    let mut outlines = Watching::start(&server, folder.path(), &["parse", ".", "--watch", "--outline"]);
    outlines.said("a.py:2:3: invalid syntax").await;
    outlines.said("watching for changes").await;
    write(folder.path(), "a.py", "def made(): ...\n");
    assert_eq!(outlines.line().await, "./a.py");
    assert!(outlines.line().await.contains("def made"));
}
