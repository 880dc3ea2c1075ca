//! Models named `hf://`: downloads are complete or leave nothing, need permission, and fail with a named error.

use std::{fs, path::Path};

use accelerd::{
    StartError,
    config::{Allow, ByteSize, Config, Preload},
    serve::Daemon,
};
use accelerd_parity::encoders;
use accelerd_proto::v1;
use fake::{Asked, COMMIT, FakeHub, Fault};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::harness::{self, TestServer, assert_refused, f32s, load_within, texts};

mod fake;

fn of_hub(path: &str) -> v1::LoadModelRequest {
    v1::LoadModelRequest { name: "model".to_owned(), path: path.to_owned(), ..v1::LoadModelRequest::default() }
}

/// A daemon whose callers may load models from a hub, with a cache folder.
async fn start_server(hub: &FakeHub, cache: &TempDir, change: impl FnOnce(&mut Config)) -> TestServer {
    let endpoint = hub.endpoint();
    let cache = cache.path().to_owned();
    TestServer::start_with(move |config| {
        config.models.folders = vec![encoders()];
        config.models.hub.allow = Allow::Callers;
        (config.models.hub.endpoint, config.models.hub.cache) = (endpoint, cache);
        change(config);
    })
    .await
}

fn preloaded() -> Preload {
    Preload {
        name: "model".to_owned(),
        path: "hf://small/bert".to_owned(),
        aliases: vec![],
        precision: accelerd::config::Precision::Auto,
    }
}

async fn hub_with_bert() -> (FakeHub, TempDir) {
    let hub = FakeHub::start().await;
    hub.with("small/bert", "bert");
    (hub, tempfile::tempdir().expect("a folder"))
}

fn paths(asked: &[Asked]) -> Vec<&str> {
    asked.iter().map(|asked| asked.path.as_str()).collect()
}

async fn unload(server: &TestServer) {
    server.embed().unload_model(v1::UnloadModelRequest { name: "model".to_owned() }).await.expect("it is forgotten");
}

/// Asserts that the downloaded model equals the one in its folder.
async fn assert_same_as(server: &TestServer, folder: &str) {
    let path = encoders().join(folder).to_string_lossy().into_owned();
    let source = v1::LoadModelRequest { name: "local".to_owned(), path, ..v1::LoadModelRequest::default() };
    server.embed().load_model(source).await.expect("it is loaded");
    let lists = v1::TokenInput { ids: vec![5, 6, 7, 8], offsets: vec![0, 3, 4] };
    let mut vectors = vec![];
    for model in ["model", "local"] {
        let input = Some(v1::embed_request::Input::Tokens(lists.clone()));
        let request = v1::EmbedRequest { model: model.to_owned(), input, ..v1::EmbedRequest::default() };
        let answer = server.embed().embed(request).await.expect("it embeds").into_inner();
        vectors.push(f32s(&answer.embeddings.expect("vectors")));
    }
    assert_eq!(vectors[0], vectors[1]);
    server.embed().unload_model(v1::UnloadModelRequest { name: "local".to_owned() }).await.expect("it is forgotten");
}

#[tokio::test]
async fn a_model_is_downloaded_once_with_only_the_files_it_needs() {
    let (hub, cache) = hub_with_bert().await;
    let server = start_server(&hub, &cache, |_| {}).await;
    let loaded = server.embed().load_model(of_hub("hf://small/bert")).await.expect("it is loaded").into_inner();
    let model = loaded.model.expect("a model");
    assert_eq!((model.architecture.as_str(), model.default_max_tokens, model.accepts_text), ("bert", 16, true));
    assert_eq!((model.pooling(), model.prompt_names.join(" ")), (v1::Pooling::Cls, "document query".to_owned()));
    assert_same_as(&server, "bert").await;
    let asked = hub.asked();
    let mut sent: Vec<_> =
        paths(&asked).into_iter().filter_map(|path| path.strip_prefix("/files/small/bert/")).collect();
    sent.sort_unstable();
    let needed = [
        "1_Pooling/config.json",
        "config.json",
        "config_sentence_transformers.json",
        "model.safetensors",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
    ];
    assert_eq!(sent, needed, "each once, and nothing else");
    unload(&server).await;
    server.embed().load_model(of_hub("hf://small/bert@refs/pr/1")).await.expect("it is loaded");
    assert_eq!(paths(&hub.asked()), ["/api/models/small/bert/revision/refs%2Fpr%2F1"], "the same commit");
    unload(&server).await;
    server.embed().load_model(of_hub(&format!("hf://small/bert@{COMMIT}"))).await.expect("it is loaded");
    assert_eq!(hub.asked(), [], "a commit that is here is not asked for");
}

#[tokio::test]
async fn a_model_in_the_folder_of_its_module_is_downloaded_from_there() {
    let hub = FakeHub::start().await;
    hub.with("inner/bert", "bert");
    for file in ["config.json", "model.safetensors", "tokenizer.json", "sentence_bert_config.json"] {
        let bytes = std::fs::read(encoders().join("bert").join(file)).expect("a file");
        hub.remove("inner/bert", file);
        hub.write("inner/bert", &format!("0_Transformer/{file}"), &bytes);
    }
    let modules = std::fs::read_to_string(encoders().join("bert/modules.json")).expect("a file");
    hub.write(
        "inner/bert",
        "modules.json",
        modules.replace("\"path\": \"\"", "\"path\": \"0_Transformer\"").as_bytes(),
    );
    let cache = tempfile::tempdir().expect("a folder");
    let server = start_server(&hub, &cache, |_| {}).await;
    let loaded = server.embed().load_model(of_hub("hf://inner/bert")).await.expect("it is loaded").into_inner();
    assert_eq!(loaded.model.map(|model| model.default_max_tokens), Some(16), "of its settings");
    assert_same_as(&server, "bert").await;
    let asked = hub.asked();
    let sent = paths(&asked).into_iter().filter_map(|path| path.strip_prefix("/files/inner/bert/"));
    let weights = sent.filter(|path| path.ends_with(".safetensors"));
    assert_eq!(weights.collect::<Vec<_>>(), ["0_Transformer/model.safetensors"]);
}

#[tokio::test]
async fn a_sharded_model_is_downloaded_even_if_the_hub_lists_no_sizes() {
    let hub = FakeHub::start().await;
    hub.with("small/distilbert", "distilbert");
    hub.say_no_sizes();
    let cache = tempfile::tempdir().expect("a folder");
    // Without a cache folder, nothing is kept.
    let server = start_server(&hub, &cache, |config| config.models.hub.cache = "".into()).await;
    for _ in 0..2 {
        server.embed().load_model(of_hub("hf://small/distilbert")).await.expect("it is loaded");
        assert_same_as(&server, "distilbert").await;
        let asked = hub.asked();
        let weights = paths(&asked).into_iter().filter(|path| path.starts_with("/files") && path.contains("-of-00002"));
        assert_eq!(weights.count(), 2);
        unload(&server).await;
    }
}

#[tokio::test]
async fn the_settings_decide_who_may_download_models() {
    let (hub, cache) = hub_with_bert().await;
    let off = start_server(&hub, &cache, |config| config.models.hub.allow = Allow::Off).await;
    assert_refused(off.embed().load_model(of_hub("hf://small/bert")).await, Code::PermissionDenied, "models.hub.allow");
    let by_settings = start_server(&hub, &cache, |config| {
        config.models.hub.allow = Allow::Preload;
        config.models.preload = vec![preloaded()];
    })
    .await;
    let again = v1::LoadModelRequest { name: "again".to_owned(), ..of_hub("hf://small/bert") };
    assert_refused(by_settings.embed().load_model(again).await, Code::PermissionDenied, "\"preload\"");
    assert_same_as(&by_settings, "bert").await;
    hub.asked();
    let owners = start_server(&hub, &cache, |config| config.models.hub.owners = vec!["large".to_owned()]).await;
    let refused = owners.embed().load_model(of_hub("hf://small/bert")).await;
    assert_refused(refused, Code::PermissionDenied, "models.hub.owners: large");
    assert_eq!(hub.asked(), [], "what is not allowed is not asked for");
}

#[tokio::test]
async fn errors_of_the_hub_map_to_grpc_codes() {
    let (hub, cache) = hub_with_bert().await;
    for (name, status, word) in [
        ("a/gated", 401, "GatedRepo"),
        ("a/forbidden", 403, ""),
        ("a/hidden", 401, ""),
        ("a/tired", 503, ""),
        ("a/busy", 429, ""),
    ] {
        hub.refuse(name, status, word);
    }
    hub.with("a/pickle", "bert");
    hub.remove("a/pickle", "model.safetensors");
    hub.with("a/bare", "bert");
    hub.remove("a/bare", "config.json");
    hub.with("a/new", "bert");
    hub.write("a/new", "config.json", br#"{"model_type": "t5"}"#);
    hub.with("a/outside", "distilbert");
    hub.write("a/outside", "model.safetensors.index.json", br#"{"weight_map": {"a": "../model.safetensors"}}"#);
    let server = start_server(&hub, &cache, |_| {}).await;
    for (path, code, names) in [
        ("hf://small/none", Code::NotFound, "hf://small/none"),
        ("hf://small/bert@v9", Code::NotFound, "hf://small/bert@v9"),
        ("hf://a/gated", Code::PermissionDenied, "HF_TOKEN"),
        ("hf://a/forbidden", Code::PermissionDenied, "hf://a/forbidden"),
        ("hf://a/hidden", Code::PermissionDenied, "missing"),
        ("hf://a/tired", Code::Unavailable, "503"),
        ("hf://a/busy", Code::Unavailable, "429"),
        ("hf://bert", Code::InvalidArgument, "hf://owner/name"),
        ("hf://small/../bert", Code::InvalidArgument, "hf://owner/name"),
        ("hf://a/pickle", Code::InvalidArgument, "pytorch_model.bin"),
        ("hf://a/bare", Code::InvalidArgument, "has no config.json"),
        ("hf://a/new", Code::InvalidArgument, "unknown architecture \"t5\""),
        ("hf://a/outside", Code::InvalidArgument, "\"../model.safetensors\""),
    ] {
        assert_refused(server.embed().load_model(of_hub(path)).await, code, names);
    }
    server.embed().load_model(of_hub("hf://small/bert")).await.expect("the others are loaded");
    server.assert_serving().await;
}

#[tokio::test]
async fn a_corrupt_download_is_not_served_and_resumes_at_the_corrupt_file() {
    let (hub, cache) = hub_with_bert().await;
    let server = start_server(&hub, &cache, |_| {}).await;
    for (fault, code, names) in [
        (Fault::Truncate, Code::Unavailable, "incomplete response"),
        (Fault::Longer, Code::Unavailable, "larger than announced"),
        (Fault::Flip, Code::DataLoss, "model.safetensors of hf://small/bert is corrupt"),
    ] {
        hub.fault("model.safetensors", fault);
        assert_refused(server.embed().load_model(of_hub("hf://small/bert")).await, code, names);
        let asked = server.embed().embed(v1::EmbedRequest { model: "model".to_owned(), ..texts(&["a"]) }).await;
        assert_refused(asked, Code::NotFound, "model");
        assert!(!cache.path().join("small/bert").join(COMMIT).exists(), "nothing that looks whole");
    }
    hub.fault("model.safetensors", Fault::None);
    hub.asked();
    server.embed().load_model(of_hub("hf://small/bert")).await.expect("it is loaded");
    let asked = hub.asked();
    let sent: Vec<_> = paths(&asked).into_iter().filter(|path| path.starts_with("/files")).collect();
    assert_eq!(sent, [WEIGHTS], "the rest had come");
    assert_same_as(&server, "bert").await;
}

#[tokio::test]
async fn offline_mode_serves_the_cache_and_names_what_is_missing() {
    let (hub, cache) = hub_with_bert().await;
    let filling = start_server(&hub, &cache, |_| {}).await;
    filling.embed().load_model(of_hub("hf://small/bert")).await.expect("it is loaded");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = nobody.local_addr().expect("an address");
    drop(nobody);
    let far = start_server(&hub, &cache, |config| config.models.hub.endpoint = format!("http://{address}")).await;
    let missing = far.embed().load_model(of_hub("hf://small/roberta")).await;
    assert_refused(missing, Code::Unavailable, &format!("cannot reach {address}"));
    far.embed().load_model(of_hub("hf://small/bert")).await.expect("the cache has it");
    assert_same_as(&far, "bert").await;
    hub.asked();
    let offline = start_server(&hub, &cache, |config| config.models.hub.offline = true).await;
    let missing = offline.embed().load_model(of_hub("hf://small/roberta")).await;
    assert_refused(missing, Code::Unavailable, "models.hub.offline");
    offline.embed().load_model(of_hub("hf://small/bert")).await.expect("the cache has it");
    assert_same_as(&offline, "bert").await;
    assert_eq!(hub.asked(), []);
}

#[tokio::test]
async fn a_model_above_the_memory_limit_is_refused_before_its_download() {
    let (hub, cache) = hub_with_bert().await;
    let server = start_server(&hub, &cache, |config| config.models.memory_limit = ByteSize::b(10_000)).await;
    let refused = server.embed().load_model(of_hub("hf://small/bert")).await;
    assert_refused(refused, Code::ResourceExhausted, "models.memory_limit");
    let asked = hub.asked();
    assert!(paths(&asked).iter().all(|path| !path.contains("model.safetensors")), "{asked:?}");
    hub.say_no_sizes();
    let refused = server.embed().load_model(of_hub("hf://small/bert")).await;
    assert_refused(refused, Code::ResourceExhausted, "models.memory_limit");
    server.assert_serving().await;
}

#[tokio::test]
async fn the_cache_stays_within_its_limit_and_serves() {
    let (hub, cache) = hub_with_bert().await;
    hub.with("small/distilbert", "distilbert");
    let server = start_server(&hub, &cache, |config| config.models.hub.cache_limit = ByteSize::b(60_000)).await;
    server.embed().load_model(of_hub("hf://small/bert")).await.expect("there is room");
    unload(&server).await;
    hub.asked();
    let refused = server.embed().load_model(of_hub("hf://small/distilbert")).await;
    assert_refused(refused, Code::ResourceExhausted, "models.hub.cache_limit");
    let asked = hub.asked();
    assert!(paths(&asked).iter().all(|path| !path.ends_with(".safetensors")), "{asked:?}");
    server.embed().load_model(of_hub("hf://small/bert")).await.expect("it is there");
    assert_same_as(&server, "bert").await;
}

fn files_below(folder: &Path) -> Vec<String> {
    let mut files = vec![];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path().display().to_string());
        }
    }
    files
}

const WEIGHTS: &str = "/files/small/bert/model.safetensors";

/// Waits until a download has reached the weights.
async fn weights_are_asked_for(hub: &FakeHub) {
    while !paths(&hub.asked()).contains(&WEIGHTS) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_cancelled_download_stops_and_leaves_the_cache_intact() {
    let (hub, cache) = hub_with_bert().await;
    let (open, gate) = watch::channel(false);
    hub.fault("model.safetensors", Fault::Gate(gate));
    let server = start_server(&hub, &cache, |_| {}).await;
    // Long enough to reach the weights on any machine; the hub has then sent half of them.
    assert_eq!(load_within(&server, "2S", &of_hub("hf://small/bert")).await, Code::DeadlineExceeded);
    let sent_once = hub.asked();
    assert!(paths(&sent_once).contains(&WEIGHTS), "{sent_once:?}");
    let held = server.embed().load_model(of_hub("hf://small/bert")).await;
    assert_refused(held, Code::AlreadyExists, "model");
    open.send(true).expect("the hub waits");
    // The name is free again once the download has noticed the cancellation.
    let loaded = loop {
        match server.embed().load_model(of_hub("hf://small/bert")).await {
            Err(taken) if taken.code() == Code::AlreadyExists => tokio::task::yield_now().await,
            loaded => break loaded,
        }
    };
    loaded.expect("it is loaded");
    let asked = hub.asked();
    assert!(paths(&asked).contains(&WEIGHTS), "the first was given up: {asked:?}");
    assert_same_as(&server, "bert").await;
    let left = files_below(cache.path()).into_iter().filter(|path| path.contains(".incomplete")).collect::<Vec<_>>();
    assert_eq!(left, [""; 0]);
}

#[tokio::test]
async fn a_shutdown_during_a_preload_ends_the_download_and_the_next_start_resumes_it() {
    let (hub, cache) = hub_with_bert().await;
    let (open, gate) = watch::channel(false);
    hub.fault("model.safetensors", Fault::Gate(gate));
    let mut config = harness::config();
    config.models.preload = vec![preloaded()];
    (config.models.hub.endpoint, config.models.hub.cache) = (hub.endpoint(), cache.path().to_owned());
    let stop = CancellationToken::new();
    let starting = tokio::spawn(Daemon::start_with_cancel(stop.clone(), config.clone()));
    weights_are_asked_for(&hub).await;
    stop.cancel();
    let ended = starting.await.expect("no panic");
    assert!(matches!(ended, Err(StartError::Cancelled)), "the hub has sent half of it: {ended:?}");
    open.send(true).expect("the hub waits");
    let daemon = Daemon::start(config).await.expect("the model is whole now");
    assert_eq!(daemon.app().embedder.models().len(), 2);
    let asked = hub.asked();
    let sent = paths(&asked).into_iter().filter(|path| path.starts_with("/files")).collect::<Vec<_>>();
    assert_eq!(sent, [WEIGHTS], "the rest had come");
}
