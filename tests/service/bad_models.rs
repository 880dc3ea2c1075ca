//! Invalid model folders: each gets an error that names the defect, and loaded models keep serving.

use std::{fs, os::unix::net::UnixListener, path::Path, process::Command};

use accelerd::config::ByteSize;
use accelerd_parity::encoders;
use accelerd_proto::v1;
use tempfile::TempDir;
use tonic::Code;

use crate::{
    harness::{TestServer, assert_refused, load_within},
    models::{of_bert, source, vectors},
};

/// A daemon with BERT loaded, and an empty folder from which callers may load models.
async fn start_server() -> (TestServer, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    let server = TestServer::start_with(move |config| config.models.folders = vec![encoders(), path]).await;
    server.embed().load_model(source("bert", "bert")).await.expect("it is loaded");
    (server, folder)
}

fn from(path: &Path) -> v1::LoadModelRequest {
    let path = path.to_string_lossy().into_owned();
    v1::LoadModelRequest { name: "bad".to_owned(), path, ..v1::LoadModelRequest::default() }
}

fn copy(name: &str, to: &Path) {
    for entry in fs::read_dir(encoders().join(name)).expect("a folder") {
        let entry = entry.expect("an entry");
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        }
    }
    // `modules.json` refers to a folder that is not part of the copy.
    fs::remove_file(to.join("modules.json")).ok();
}

fn replaced(path: &Path, from: &str, to: &str) {
    let bytes = fs::read(path).expect("a file");
    let offset =
        bytes.windows(from.len()).position(|part| part == from.as_bytes()).expect("it is there to be replaced");
    fs::write(path, [&bytes[..offset], to.as_bytes(), &bytes[offset + from.len()..]].concat()).expect("written");
}

/// A change to a valid folder, and the text that the error must name.
type Harm = (&'static str, fn(&Path), &'static str);

const WEIGHTS: &str = "model.safetensors";

const HARMS: [Harm; 15] = [
    ("bert", |at| replaced(&at.join(WEIGHTS), "query.weight", "quern.weight"), "query.weight is missing"),
    ("bert", |at| replaced(&at.join(WEIGHTS), "[48,32]", "[32,48]"), "is expected to be [48, 32], got [32, 48]"),
    ("bert", |at| replaced(&at.join(WEIGHTS), "F16", "I16"), "of I16"),
    ("bert", |at| truncate(&at.join(WEIGHTS), 2), "model.safetensors: is truncated"),
    ("bert", |at| truncate(&at.join(WEIGHTS), 10_000), "model.safetensors: is truncated"),
    ("bert", |at| fs::write(at.join(WEIGHTS), [255; 64]).expect("written"), "no safetensors file"),
    ("bert", |at| fs::remove_file(at.join(WEIGHTS)).expect("removed"), "has neither model.safetensors nor"),
    ("bert", |at| fs::remove_file(at.join("config.json")).expect("removed"), "config.json: is missing"),
    ("bert", |at| truncate(&at.join("config.json"), 2), "config.json"),
    ("bert", |at| truncate(&at.join("tokenizer.json"), 2), "tokenizer.json"),
    ("bert", |at| replaced(&at.join("tokenizer.json"), "\"the\": 34", "\"the\": 99"), "100 tokens, the model 48 words"),
    ("bert", |at| replaced(&at.join("config.json"), "\"model_type\": \"bert\"", "\"model_type\": \"t5\""), KNOWN),
    ("bert", |at| replaced(&at.join("config.json"), "\"vocab_size\": 48", "\"vocab_size\": -1"), "vocab_size"),
    ("distilbert", |at| fs::remove_file(at.join(SHARD)).expect("removed"), SHARD),
    (
        "distilbert",
        |at| replaced(&at.join(INDEX), SHARD, "../of-another-model.safetensors"),
        "not a file of this folder",
    ),
];

const SHARD: &str = "model-00002-of-00002.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const KNOWN: &str = "unknown architecture \"t5\"; known are bert, camembert, distilbert, jina_bert,";

fn truncate(path: &Path, divisor: usize) {
    let bytes = fs::read(path).expect("a file");
    fs::write(path, &bytes[..bytes.len() / divisor]).expect("written");
}

#[tokio::test]
async fn an_invalid_folder_gets_an_error_that_names_the_defect_and_loaded_models_keep_serving() {
    let (server, folder) = start_server().await;
    let expected = vectors(&server, of_bert(&["a"])).await;
    for (number, (name, harm, named)) in HARMS.into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        fs::create_dir(&path).expect("made");
        copy(name, &path);
        harm(&path);
        assert_refused(server.embed().load_model(from(&path)).await, Code::InvalidArgument, named);
        assert_eq!(vectors(&server, of_bert(&["a"])).await, expected, "after {named:?}");
    }
    let whole = folder.path().join("whole");
    fs::create_dir(&whole).expect("made");
    copy("bert", &whole);
    server.embed().load_model(from(&whole)).await.expect("nothing of the others is left, not even their name");
}

#[tokio::test]
async fn a_path_that_is_neither_folder_nor_file_is_refused() {
    let (server, folder) = start_server().await;
    let socket = folder.path().join("socket");
    let _listening = UnixListener::bind(&socket).expect("a socket");
    assert_refused(
        server.embed().load_model(from(&socket)).await,
        Code::InvalidArgument,
        "neither a folder nor a file",
    );
    let text = folder.path().join("words.txt");
    fs::write(&text, "no table").expect("written");
    assert_refused(server.embed().load_model(from(&text)).await, Code::InvalidArgument, "words.txt");
    assert_eq!(vectors(&server, of_bert(&["a"])).await.len(), 32);
}

#[tokio::test]
async fn a_cancelled_load_holds_its_name_and_memory_until_reading_stops() {
    let folder = tempfile::tempdir().expect("a folder");
    copy("bert", folder.path());
    // A named pipe: the read completes when the test writes.
    let gate = folder.path().join("config.json");
    fs::remove_file(&gate).expect("removed");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("a program").success());
    let bytes = fs::metadata(folder.path().join(WEIGHTS)).expect("a file").len();
    let path = folder.path().to_owned();
    let server = TestServer::start_with(move |config| {
        config.models.folders = vec![encoders(), path];
        config.models.memory_limit = ByteSize::b(bytes + 10_000);
    })
    .await;
    // Long enough for the load to start reading on any machine.
    assert_eq!(load_within(&server, "1S", &from(folder.path())).await, Code::DeadlineExceeded);
    let again = server.embed().load_model(source("bad", "bert")).await;
    assert_refused(again, Code::AlreadyExists, "bad");
    let other = server.embed().load_model(source("roberta", "roberta")).await;
    assert_refused(other, Code::ResourceExhausted, "models.memory_limit");
    server.assert_serving().await;
    // The content is not a valid configuration, so the abandoned load ends.
    tokio::task::spawn_blocking(move || fs::write(gate, "{}")).await.expect("no panic").expect("it is read");
    let loaded = loop {
        match server.embed().load_model(source("bad", "roberta")).await {
            Err(taken) if taken.code() == Code::AlreadyExists => tokio::task::yield_now().await,
            loaded => break loaded,
        }
    };
    loaded.expect("name and memory are free");
    server.assert_serving().await;
}
