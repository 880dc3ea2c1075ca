//! Runs the program against an in-memory fake of the daemon.

mod common;

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use accelerd_test_support::{DIM, busy};
use serde_json::Value;
use tonic::Status;

use self::common::{index, numbered, run, served, tree, write};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_sends_nothing_and_later_ones_only_what_changed() {
    let (fake, server) = served().await;
    let folder = tree();
    let first = index(&server, folder.path(), &[]).await;
    assert_eq!((&first["indexed"], &first["chunks"]), (&3.into(), &5.into()));
    let paths = fake.points("code");
    assert_eq!(
        paths.iter().map(|(path, line)| (path.as_str(), *line)).collect::<Vec<_>>(),
        [("t/long.py", 1), ("t/long.py", 31), ("t/long.py", 61), ("t/net/socket.py", 1), ("t/pack.py", 1)]
    );

    fake.state().upserts.clear();
    let second = index(&server, folder.path(), &[]).await;
    assert_eq!((&second["indexed"], &second["unchanged"]), (&0.into(), &3.into()));
    assert!(fake.state().upserts.is_empty());

    write(folder.path(), "long.py", &numbered(10, "short"));
    fs::remove_file(folder.path().join("pack.py")).expect("it is there");
    let third = index(&server, folder.path(), &[]).await;
    assert_eq!((&third["indexed"], &third["unchanged"], &third["removed"]), (&1.into(), &1.into(), &1.into()));
    assert_eq!(third["deleted_chunks"], 3);
    assert_eq!(fake.points("code"), [("t/long.py".to_owned(), 1), ("t/net/socket.py".to_owned(), 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_reports_and_changes_nothing() {
    let (fake, server) = served().await;
    let folder = tree();
    let plan = index(&server, folder.path(), &["--dry-run"]).await;
    assert_eq!((&plan["indexed"], &plan["dry_run"]), (&3.into(), &true.into()));
    assert_eq!(fake.state().calls, ["GetCollection", "Parse", "Parse"]);
    index(&server, folder.path(), &[]).await;
    fs::remove_file(folder.path().join("pack.py")).expect("it is there");
    let plan = index(&server, folder.path(), &["--dry-run"]).await;
    assert_eq!((&plan["removed"], &plan["indexed"]), (&1.into(), &0.into()));
    assert_eq!(fake.points("code").len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_in_one_collection_do_not_remove_each_other() {
    let (fake, server) = served().await;
    let one = tree();
    let two = tree();
    for folder in [&one, &two] {
        let path = folder.path().to_str().expect("UTF-8");
        assert_eq!(run(&server, &["index", path, "-c", "code"]).await.code, 0);
    }
    assert_eq!(fake.points("code").len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_batch_is_retried() {
    let (fake, server) = served().await;
    fake.state().failing_step = Some(0);
    let folder = tree();
    index(&server, folder.path(), &[]).await;
    assert_eq!(fake.points("code").len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_file_is_sent_again() {
    let (fake, server) = served().await;
    let folder = tree();
    index(&server, folder.path(), &[]).await;
    let order: Vec<_> = fake.state().upserts.iter().map(|(_, text)| text.clone()).collect();
    let at = |start: &str| order.iter().position(|text| text.starts_with(start)).expect("it was sent");
    assert!(at("long\nline 61") < at("long\nline 31") && at("long\nline 31") < at("long\nline 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn search_shows_paths_and_snippets() {
    let (_fake, server) = served().await;
    let folder = tree();
    let root = folder.path().to_str().expect("UTF-8");
    assert_eq!(run(&server, &["index", root, "-c", "code"]).await.code, 0);
    let ran = run(&server, &["search", "tcp connections", "gzip", "-c", "code", "-k", "2", "--timing"]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("net/socket.py:1-2"), "{}", ran.out);
    assert!(ran.out.contains("listen for tcp connections") && ran.out.contains("execute"), "{}", ran.out);
    assert!(!ran.out.contains('\x1b'), "colours only on a terminal");

    let found = run(&server, &["search", "tcp connections", "gzip", "-c", "code", "-k", "1", "--json"]).await.json();
    assert_eq!(found["queries"][1]["query"], "gzip");
    let hit = &found["queries"][0]["hits"][0];
    assert_eq!((&hit["rank"], &hit["start_line"], &hit["language"]), (&1.into(), &1.into(), &"python".into()));
    assert!(hit["snippet"].as_str().is_some_and(|snippet| snippet.contains("listen")), "{hit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn search_is_hybrid_by_default() {
    let (fake, server) = served().await;
    let folder = tree();
    index(&server, folder.path(), &[]).await;
    let texts = fake.texts("code", "text");
    assert!(texts.iter().any(|text| text.contains("listen for tcp connections")), "{texts:?}");
    let weighed =
        ["search", "tcp", "-c", "code", "--text-weight", "1", "--fusion", "reciprocal-rank", "--no-penalty", "--json"];
    let weighed = run(&server, &weighed).await.json();
    assert_eq!(weighed["queries"][0]["hits"][0]["score"], 3.0, "the daemon here scores by the sum of both: {weighed}");
    for alone in [&["--no-hybrid"][..], &["--vectors-only"], &["--min-score", "0.1"]] {
        let words = [&["search", "tcp connections", "-c", "code", "-k", "1", "--json"], alone].concat();
        let found = run(&server, &words).await.json();
        let score = found["queries"][0]["hits"][0]["score"].as_f64().expect("a score");
        assert!(score < 1.0, "a cosine, and no sum of both: {score}");
    }
    let refused = run(&server, &["search", "tcp", "-c", "code", "--text-weight", "1.5"]).await;
    assert!(refused.code == 2 && refused.err.contains("from 0 to 1"), "{}", refused.err);
    let refused = run(&server, &["search", "tcp", "-c", "code", "--no-hybrid", "--text-weight", "0.5"]).await;
    assert!(refused.code == 2 && refused.err.contains("--no-hybrid"), "{}", refused.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_without_a_text_index_is_searched_by_vectors() {
    let (fake, server) = served().await;
    let folder = tree();
    index(&server, folder.path(), &["--no-hybrid"]).await;
    assert!(fake.texts("code", "text").is_empty(), "no text is kept");
    let found = run(&server, &["search", "tcp connections", "-c", "code", "-k", "1", "--json"]).await;
    assert_eq!((found.code, found.err.as_str()), (0, ""));
    assert!(found.json()["queries"][0]["hits"][0]["path"].as_str().is_some_and(|path| path.ends_with("net/socket.py")));
    let refused = run(&server, &["search", "tcp", "-c", "code", "--hybrid"]).await;
    assert!(refused.code == 2 && refused.err.contains("has no text field"), "{}", refused.err);
    let root = folder.path().to_str().expect("UTF-8");
    let refused = run(&server, &["index", root, "-c", "code", "--hybrid"]).await;
    assert!(refused.code == 2 && refused.err.contains("no full-text index"), "{}", refused.err);
}

/// A folder with a test and a generated file that match a query better than the code does.
fn flagged_tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "src/socket.rs", "/// Opens a socket.\nfn open() {\n    listen(tcp, backlog)\n}\n");
    write(folder.path(), "tests/socket.rs", "fn open_socket() {}\n");
    write(folder.path(), "src/gen.rs", "// @generated\nfn open_socket_generated() {}\n");
    write(folder.path(), "src/tests.md", "nothing of the kind\n");
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_and_generated_files_rank_lower_or_not_at_all() {
    let (_fake, server) = served().await;
    let folder = flagged_tree();
    index(&server, folder.path(), &[]).await;
    let found = async |more: &[&str]| -> Vec<String> {
        let words = [&["search", "open socket", "-c", "code", "-k", "9", "--no-hybrid", "--json"], more].concat();
        let hits = run(&server, &words).await.json()["queries"][0]["hits"].clone();
        let path = |hit: &Value| hit["path"].as_str().expect("a path").to_owned();
        hits.as_array().expect("hits").iter().map(path).collect()
    };
    let has = |paths: &[String], path: &str| paths.iter().any(|p| p == path);
    assert_eq!(found(&["--no-penalty"]).await[0], "t/tests/socket.rs");
    let place = |paths: &[String], path: &str| paths.iter().position(|p| p == path).expect("it is found");
    let lowered = found(&[]).await;
    assert!(place(&lowered, "t/src/socket.rs") < place(&lowered, "t/tests/socket.rs"), "{lowered:?}");
    let without = found(&["--no-tests", "--no-generated"]).await;
    assert!(has(&without, "t/src/socket.rs") && !has(&without, "t/tests/socket.rs") && !has(&without, "t/src/gen.rs"));
    let without = found(&["--exclude", "*.md", "--exclude", "tests"]).await;
    assert!(has(&without, "t/src/gen.rs") && !has(&without, "t/tests/socket.rs") && !has(&without, "t/src/tests.md"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_results_have_exit_code_1_as_in_grep() {
    let (_fake, server) = served().await;
    let folder = tree();
    index(&server, folder.path(), &[]).await;
    let none = run(&server, &["search", "tcp", "-c", "code", "--language", "rs"]).await;
    assert_eq!((none.code, none.err.as_str()), (1, ""));
    assert!(none.out.contains("no results"), "{}", none.out);
    let unknown = run(&server, &["search", "tcp", "-c", "code", "--language", "quux"]).await;
    assert!(
        unknown.code == 2 && unknown.err.contains("quux") && unknown.err.contains("python, r, rst"),
        "{}",
        unknown.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_other_than_the_collections_is_rejected() {
    let (_fake, server) = served().await;
    let folder = tree();
    let root = folder.path().to_str().expect("UTF-8");
    index(&server, folder.path(), &["--model", "toy"]).await;
    let refused = run(&server, &["index", root, "-c", "code", "--model", "other"]).await;
    let says = |name: &str| refused.err.contains(&format!("{name:?}"));
    assert!(refused.code == 2 && says("toy") && says("other"), "{}", refused.err);
    index(&server, folder.path(), &["--model", "toy"]).await;
    index(&server, folder.path(), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_are_whole_where_programs_read_them() {
    let (_fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = format!("{}/socket.py", ["a_folder_with_a_rather_long_name"; 6].join("/"));
    write(folder.path(), &path, "def open_socket():\n    listen for tcp connections\n");
    let root = fs::canonicalize(folder.path()).expect("it is there");
    let root = root.to_str().expect("UTF-8");
    assert_eq!(run(&server, &["index", root, "-c", "code"]).await.code, 0);
    for words in [&["search", "tcp", "-c", "code"][..], &["cluster", "-c", "code", "-k", "1"]] {
        let shown = run(&server, words).await.out;
        assert!(shown.contains(&format!("{root}/{path}")) && !shown.contains('…'), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_keeps_to_a_path_however_far_down_its_hits_are() {
    let (_fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    (0..150).for_each(|n| write(folder.path(), &format!("near/{n}.py"), "tcp socket\n"));
    write(folder.path(), "far/one.py", "tcp gzip json matrix\n");
    index(&server, folder.path(), &[]).await;
    let words = ["search", "tcp socket", "-c", "code", "-k", "2", "--path", "t/far", "--json"];
    let found = run(&server, &words).await.json();
    let hits = found["queries"][0]["hits"].as_array().expect("hits");
    assert_eq!((hits.len(), &hits[0]["path"]), (1, &"t/far/one.py".into()));
    let none = run(&server, &["search", "tcp", "-c", "code", "--language", "rs", "--json"]).await.json();
    assert_eq!(none["queries"][0]["hits"], Value::Array(vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corpus_is_embedded_in_a_stream_and_written_in_order() {
    let (fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let texts = folder.path().join("a.txt");
    fs::write(&texts, numbered(5_000, "line")).expect("it can be written");
    fake.state().failing_step = Some(3);
    let ran = run(&server, &["embed", "first", "--file", texts.to_str().expect("UTF-8")]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let told: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let expected = std::iter::once("first".to_owned()).chain((1..=5_000).map(|n| format!("line {n}")));
    assert!(told.iter().map(|line| line["text"].clone()).eq(expected.map(Value::from)), "in the order given");
    assert_eq!(fake.state().calls, ["EmbedStream", "Embed"], "the batch that was refused is sent again");

    let missing = run(&server, &["embed", "x", "--file", "/nowhere/texts"]).await;
    assert!(missing.code != 0 && missing.err.contains("/nowhere/texts"), "{}", missing.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_go_to_json_lines_or_npy_and_back_in() {
    let (_fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = run(&server, &["embed", "open a socket", "gzip"]).await;
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), &lines[0]["token_count"]), (2, &3.into()));
    assert_eq!(lines[1]["embedding"].as_array().map(Vec::len), Some(DIM));

    let npy = folder.path().join("a.npy");
    let texts = folder.path().join("a.txt");
    fs::write(&texts, "open a socket\ngzip\nparse json\n").expect("it can be written");
    let npy = npy.to_str().expect("UTF-8");
    let texts = texts.to_str().expect("UTF-8");
    let written = run(&server, &["embed", "--file", texts, "--output", npy, "--json"]).await.json();
    assert_eq!((&written["rows"], &written["dimensions"]), (&3.into(), &DIM.into()));
    let similar = run(&server, &["similar", npy, npy, "-k", "1", "--json"]).await.json();
    assert_eq!(similar["queries"][2]["matches"][0]["row"], 2);
    let similar = run(&server, &["similar", "--text", "gzip", texts, "-k", "1", "--json"]).await.json();
    assert_eq!(similar["queries"][0]["matches"][0]["text"], "gzip");
    let clusters = run(&server, &["cluster", npy, "-k", "2", "--json"]).await.json();
    assert_eq!(clusters["clusters"][0]["size"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_command_prints_one_json_document() {
    let (_fake, server) = served().await;
    let folder = tree();
    index(&server, folder.path(), &[]).await;
    let json = async |words: &[&str]| run(&server, &[words, &["--json"]].concat()).await.json();
    assert_eq!(json(&["models"]).await["models"][0]["name"], "toy");
    assert_eq!(json(&["models", "list"]).await["models"][0]["dimensions"], 64);
    assert_eq!(json(&["models", "inspect", "toy"]).await["vocabulary_size"], 7800);
    let loaded = json(&["models", "load", "mine", "/models/mine", "--alias", "m", "--precision", "f32"]).await;
    assert_eq!((&loaded["name"], &loaded["aliases"][0]), (&"mine".into(), &"m".into()));
    assert_eq!(json(&["models", "unload", "a", "b"]).await["unloaded"][1], "b");
    assert_eq!(json(&["collections", "list"]).await["collections"][0]["points"], 5);
    assert_eq!(json(&["stats"]).await["lanes"][0]["wait_ms"]["p99"], 4.0);
    assert_eq!(json(&["health"]).await["serving"], true);
    assert_eq!(json(&["collections", "snapshot", "code", "--url", "file:///s"]).await["url"], "file:///s/code");
    assert_eq!(json(&["cluster", "-c", "code", "-k", "2"]).await["clusters"].as_array().map(Vec::len), Some(2));
    let bench = json(&["bench", "embed", "--concurrency", "1,4", "--requests", "20"]).await;
    assert_eq!((&bench["levels"][1]["concurrency"], &bench["levels"][1]["calls"]), (&4.into(), &20.into()));
    let bench = json(&["bench", "embed", "--model", "toy", "--tokens", "5", "--batch", "3", "--requests", "2"]).await;
    assert_eq!((&bench["input"], &bench["levels"][0]["failed"]), (&"3 texts of 5 token ids".into(), &0.into()));
    let bench = json(&["bench", "execute", "add", "--shape", "4x6", "--shape", "4x6", "--requests", "2"]).await;
    assert_eq!((&bench["input"], &bench["levels"][0]["first_error"]), (&"add of 4x6, 4x6".into(), &Value::Null));
    let bench = json(&["bench", "search", "--rows", "100", "--dim", "64", "--requests", "5"]).await;
    assert_eq!((&bench["levels"][0]["calls"], &bench["collection"]), (&5.into(), &Value::Null));
    let bench =
        json(&["bench", "cluster", "--rows", "50", "--dim", "64", "-k", "3", "--requests", "2", "--keep"]).await;
    let kept = bench["collection"].as_str().expect("it is named").to_owned();
    let again = json(&["bench", "cluster", "--collection", &kept, "-k", "3", "--requests", "2"]).await;
    assert_eq!(again["input"], "3 clusters of 50 points x 64");
    assert_eq!(json(&["collections", "delete", &kept]).await["deleted"][0], kept.as_str());
    assert_eq!(json(&["collections", "delete", "code"]).await["deleted"][0], "code");
    assert_eq!(json(&["collections", "list"]).await["collections"], Value::Array(vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_loop_reports_refusals_and_expired_calls_by_priority() {
    let (fake, server) = served().await;
    fake.fail_next_of("Embed", (0..6).map(|_| busy(None)));
    fake.fail_next_of("Embed", (0..3).map(|_| Status::deadline_exceeded("in the queue")));
    let load = ["--rate", "400", "--requests", "50", "--deadline", "30s", "--warm-up", "0"];
    let words = [&["bench", "embed", "--json", "--priorities", "high=1,low=1"][..], &load].concat();
    // A busy machine can make the generator late, which the exit code and this field tell.
    let ran = run(&server, &words).await;
    let level = &ran.json()["levels"][0];
    assert_eq!(ran.code == 0, level["generator"]["kept_up"] == true, "{}", ran.err);
    let counts = |of: &Value| ["sent", "refused", "expired", "errors"].map(|name| of[name].as_u64().expect("a count"));
    assert_eq!(counts(level), [50, 6, 3, 0]);
    assert_eq!(
        (&level["calls"], &level["rate"], &level["codes"]["ResourceExhausted"]),
        (&41.into(), &400.0.into(), &6.into())
    );
    let [high, low] = ["high", "low"].map(|name| counts(&level["priorities"][name]));
    assert_eq!(std::array::from_fn(|index| high[index] + low[index]), counts(level));
    assert!(level["refused_p99_ms"].as_f64() > Some(0.0) && level["priorities"]["normal"].is_null());
    let sent = std::mem::take(&mut fake.state().priorities);
    assert_eq!(sent.iter().filter(|name| name.as_deref() == Some("high")).count() as u64, high[0]);

    // Any other error is unexpected.
    fake.fail_next_of("Embed", [Status::internal("kernel")]);
    let ran = run(&server, &[&["bench", "embed"][..], &load].concat()).await;
    assert!(
        ran.code == 1 && ran.err.contains("1 call failed") && ran.out.contains("kernel"),
        "{} {}",
        ran.out,
        ran.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_lines_are_ranked() {
    let (fake, server) = served().await;
    let folder = tree();
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let socket = file("net/socket.py");
    let pack = file("pack.py");
    let words = ["rerank", "listen for tcp connections", &pack, &socket, "-m", "toy", "--json"];
    let ranked = run(&server, &words).await.json();
    let best = &ranked["results"][0];
    assert_eq!((&best["rank"], &best["index"], &best["file"]), (&1.into(), &1.into(), &socket.as_str().into()));
    assert_eq!((&best["score"], &ranked["model"]), (&4.0.into(), &"toy".into()));
    let raw = run(&server, &["rerank", "tcp", &pack, &socket, "-m", "toy", "-k", "1", "--raw"]).await;
    assert!(
        raw.out.contains("10.0000") && raw.out.contains("socket.py") && !raw.out.contains("pack.py"),
        "{}",
        raw.out
    );
    let none = run(&server, &["rerank", "tcp", "-m", "toy"]).await;
    assert!(none.code == 2 && none.err.contains("no document"), "{}", none.err);
    assert_eq!(run(&server, &["rerank", "tcp", &file("gone.py"), "-m", "toy"]).await.code, 2);
    assert_eq!(fake.state().calls, ["Rerank", "Rerank"]);

    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    let piped = command.args(["rerank", "b c", "-m", "toy", "--json"]).env("ACCELERD_SERVER", &server);
    let mut child = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"a b\nb c d\n").expect("it reads");
    let out =
        tokio::task::spawn_blocking(|| child.wait_with_output()).await.expect("no panic").expect("it ends").stdout;
    let ranked: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(ranked["results"][0]["text"], "b c d");
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_are_reranked_by_their_texts() {
    let (fake, server) = served().await;
    let folder = tree();
    index(&server, folder.path(), &[]).await;
    let words = ["search", "gzip compress it tcp", "-c", "code", "-k", "1", "--rerank", "toy", "--json"];
    let of_words = run(&server, &words).await.json();
    let best = &of_words["queries"][0]["hits"][0];
    assert_eq!((&best["rank"], &best["path"]), (&1.into(), &"t/pack.py".into()));
    assert!(best["score"].as_f64().is_some_and(|score| score >= 2.0), "{best}");
    assert!(fake.state().calls.ends_with(&["Search", "Rerank"]));

    let root = folder.path().to_str().expect("UTF-8");
    assert_eq!(run(&server, &["index", root, "-c", "plain", "--no-hybrid"]).await.code, 0);
    let from_disk = ["search", "compress it", "-c", "plain", "-k", "2", "--rerank", "toy", "--json"];
    let from_disk = run(&server, &from_disk).await.json();
    let hits = from_disk["queries"][0]["hits"].as_array().expect("hits");
    assert_eq!((hits.len(), &hits[0]["score"]), (2, &2.0.into()), "{hits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_those_of_the_collection_unless_a_search_asks_for_others() {
    let (fake, server) = served().await;
    let folder = tree();
    let prompts = ["--document-prompt-name", "passage", "--query-prompt", "find "];
    index(&server, folder.path(), &prompts).await;
    let listed = run(&server, &["collections", "list"]).await;
    assert!(listed.out.contains(r#"code: prompts "passage: " for documents, "find " for queries"#), "{}", listed.out);
    let listed = run(&server, &["collections", "list", "--json"]).await.json();
    let listed = &listed["collections"][0];
    assert_eq!((&listed["document_prompt"], &listed["query_prompt"]), (&"passage: ".into(), &"find ".into()));
    index(&server, folder.path(), &prompts).await;
    let root = folder.path().to_str().expect("UTF-8");
    let refused = run(&server, &["index", root, "-c", "code", "--document-prompt", "title: "]).await;
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains(r#"the document prompt "passage", not "title: ""#), "{}", refused.err);

    let create = ["collections", "create", "empty", "--model", "toy", "--query-prompt-name", "query"];
    assert_eq!(run(&server, &create).await.code, 0);
    let listed = run(&server, &["collections", "list", "--json"]).await.json();
    assert_eq!(listed["collections"][1]["query_prompt"], "query: ");

    fake.state().prompts.clear();
    for words in [&[][..], &["--prompt-name", "passage"], &["--prompt", ""]] {
        assert_eq!(run(&server, &[&["search", "compress it", "-c", "code"], words].concat()).await.code, 0);
    }
    let expected = [("", None), ("passage", None), ("", Some(""))];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.map(str::to_owned)));
    assert_eq!(fake.state().prompts, expected);
    let both = run(&server, &["search", "compress it", "-c", "code", "--prompt", "a", "--prompt-name", "b"]).await;
    assert_eq!(both.code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_one_document_per_line() {
    let (_fake, server) = served().await;
    let ran = run(&server, &["stats", "--watch", "--json"]).await;
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), ran.code), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_have_their_codes_and_hints() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let ran = run(&format!("http://{gone}"), &["models"]).await;
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("accelerd serve"), "{}", ran.err);

    let (fake, server) = served().await;
    let ran = run(&server, &["search", "x", "-c", "nowhere"]).await;
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("accelctl index"), "{}", ran.err);
    let ran = run(&server, &["search", "x", "-c", "nowhere", "--json"]).await;
    let error: Value = serde_json::from_str(&ran.err).expect("JSON");
    assert_eq!(error["error"]["exit_code"], 4);

    fake.fail_next([busy(None)]);
    assert_eq!(run(&server, &["models"]).await.code, 5);
    fake.fail_next([Status::deadline_exceeded("late")]);
    assert_eq!(run(&server, &["models"]).await.code, 6);
    assert_eq!(run(&server, &["similar", "no.npy", "no.npy"]).await.code, 2);
    assert_eq!(run("ftp://secure", &["models"]).await.code, 2);
    assert_eq!(run(&server, &["collections", "restore", "file:///s"]).await.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn points_are_counted_and_scrolled() {
    let (_fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "long.txt", &numbered(40_000, "line"));
    write(folder.path(), "a.go", "package a\n\nfunc f() {}\n");
    let chunks = index(&server, folder.path(), &[]).await["chunks"].as_u64().expect("a number");
    assert!(chunks > 1_000, "more than a page: {chunks}");
    assert_eq!(run(&server, &["collections", "count", "code"]).await.out, format!("{chunks}\n"));
    let go = ["collections", "count", "code", "--where", "language=go", "--where", "start_line=1", "--json"];
    assert_eq!(run(&server, &go).await.json()["points"], 1);
    let lines = async |more: &[&str]| -> Vec<Value> {
        let ran = run(&server, &[&["collections", "scroll", "code"], more].concat()).await;
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let all = lines(&[]).await;
    let ids: std::collections::BTreeSet<_> = all.iter().map(|point| point["id"].as_str().expect("an id")).collect();
    assert_eq!((all.len() as u64, ids.len() as u64), (chunks, chunks), "each once");
    assert!(all[0]["payload"]["start_line"].is_i64() && all[0].get("vector").is_none(), "{}", all[0]);
    let few = lines(&["-n", "3", "--vectors", "--no-payload"]).await;
    assert_eq!((few.len(), few[0]["vector"].as_array().map(Vec::len)), (3, Some(DIM)));
    assert!(few[0].get("payload").is_none() && few[0]["id"] == all[0]["id"]);
    let missing = run(&server, &["collections", "count", "nowhere"]).await;
    assert_eq!(missing.code, 4, "{}", missing.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn assignments_of_clusters_are_written_as_the_extension_says() {
    let (_fake, server) = served().await;
    let folder = tree();
    index(&server, folder.path(), &[]).await;
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    for name in ["a.csv", "a.jsonl", "a.npy"] {
        let ran = run(&server, &["cluster", "-c", "code", "-k", "2", "--assignments", &file(name)]).await;
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let csv = fs::read_to_string(file("a.csv")).expect("it is written");
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (6, "id,cluster,path,start_line,end_line"));
    assert!(lines.iter().any(|line| line.ends_with(",t/net/socket.py,1,2")), "{csv}");
    let json = fs::read_to_string(file("a.jsonl")).expect("it is written");
    let points: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(points.len() == 5 && points.iter().all(|p| p["cluster"].is_i64() && p["path"].is_string()), "{json}");
    let npy = fs::read(file("a.npy")).expect("it is written");
    assert!(npy.len() == 128 + 4 * 5 && String::from_utf8_lossy(&npy[..128]).contains("'<i4'"));

    let vectors = file("v.npy");
    assert_eq!(run(&server, &["embed", "a", "b", "c", "--output", &vectors]).await.code, 0);
    let rows = file("rows.csv");
    assert_eq!(run(&server, &["cluster", &vectors, "-k", "2", "--assignments", &rows]).await.code, 0);
    assert_eq!(fs::read_to_string(&rows).expect("it is written"), "row,cluster\n0,0\n1,1\n2,0\n");
    let refused = run(&server, &["cluster", &vectors, "--assignments", "a.txt"]).await;
    assert!(refused.code == 2 && refused.err.contains(".jsonl"), "{}", refused.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_index_keeps_what_was_sent_and_says_so() {
    let (fake, server) = served().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    (0..12).for_each(|n| write(folder.path(), &format!("{n}.txt"), &numbered(5_000, "line")));
    let (release, held) = tokio::sync::watch::channel(false);
    fake.state().held = Some((3, held));
    let root = folder.path().to_str().expect("UTF-8");
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    command.args(["index", root, "-c", "code", "--name", "t"]).env("ACCELERD_SERVER", &server);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let landed = async |count: usize| {
        while fake.points("code").len() < count {
            tokio::task::yield_now().await;
        }
    };
    // Three batches of 128 are answered; the others wait.
    tokio::time::timeout(std::time::Duration::from_secs(60), landed(3 * 128)).await.expect("they land");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let mut err = std::io::BufReader::new(child.stderr.take().expect("a pipe"));
    let (note, err) = tokio::task::spawn_blocking(move || {
        let mut line = || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut err, &mut line).expect("a line");
            line
        };
        let warning = line();
        let note = line();
        assert!(warning.contains("lives in memory"), "{warning}");
        (note, err)
    })
    .await
    .expect("no panic");
    assert!(note.contains("interrupted"), "{note}");
    release.send(true).expect("the daemon listens");
    let (said, code) = tokio::task::spawn_blocking(move || {
        let mut err = err;
        let mut said = String::new();
        std::io::Read::read_to_string(&mut err, &mut said).expect("text");
        (said, child.wait().expect("it ends").code())
    })
    .await
    .expect("no panic");
    let kept = fake.points("code").len();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("stay in the collection"), "{said}");
    let all = index(&server, folder.path(), &[]).await;
    let total = fake.points("code").len();
    assert!(kept < total && all["unchanged"].as_u64() < Some(12), "{kept} of {total}");
    assert_eq!(index(&server, folder.path(), &[]).await["unchanged"], 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn shells_complete_names_of_collections_and_nothing_without_a_daemon() {
    let (_fake, server) = served().await;
    let folder = tree();
    index(&server, folder.path(), &[]).await;
    let complete = async |server: &str, words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
        command.arg("--").arg("accelctl").args(words).env("COMPLETE", "fish").env("ACCELERD_SERVER", server);
        let done = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
        (String::from_utf8(done.stdout).expect("text"), String::from_utf8(done.stderr).expect("text"))
    };
    for words in [&["search", "-c", ""][..], &["index", ".", "--collection", "co"], &["collections", "delete", "co"]] {
        let (out, err) = complete(&server, words).await;
        assert!(out.lines().any(|line| line.trim_end() == "code"), "{words:?}: {out:?} {err:?}");
    }
    assert!(complete(&server, &["embed", "x", "--model", ""]).await.0.contains("toy"));
    let (out, err) = complete("http://127.0.0.1:1", &["search", "-c", ""]).await;
    assert!(!out.contains("code") && err.is_empty(), "{out:?} {err:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_collection_that_cannot_be_says_how_to_start_the_daemon() {
    let (fake, server) = served().await;
    let folder = tree();
    let reason = "this daemon keeps nothing on disk: store.data_dir is not set";
    let details = tonic_types::ErrorDetails::with_bad_request_violation("durable", reason);
    let refusal = <Status as tonic_types::StatusExt>::with_error_details(tonic::Code::InvalidArgument, reason, details);
    fake.fail_next([Status::not_found("no such collection"), refusal]);
    let root = folder.path().to_str().expect("UTF-8");
    let ran = run(&server, &["index", root, "-c", "code", "--durable"]).await;
    assert!(ran.code == 2 && ran.err.contains("accelerd serve --data-dir FOLDER"), "{}", ran.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_and_man_pages_need_no_daemon() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for shell in ["bash", "zsh", "fish"] {
        let ran = run("http://localhost:1", &["completions", shell]).await;
        assert!(ran.code == 0 && ran.out.contains("accelctl"), "{shell}");
    }
    let path = folder.path().to_str().expect("UTF-8");
    assert_eq!(run("http://localhost:1", &["man", path]).await.code, 0);
    assert!(folder.path().join("accelctl-index.1").exists());
}
