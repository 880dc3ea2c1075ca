//! Models named `hf://`: fetched whole or not at all, by those who may, and refused by what is wrong.

use std::{fs, path::Path};

use accelerd::{
    config::{Allow, ByteSize, Config, Preload},
    serve::{Daemon, StartError},
};
use accelerd_proto::v1;
use accelerd_tests::encoders;
use fake::{Asked, COMMIT, FakeHub, Fault};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::harness::{self, World, assert_refused, f32s, load_within, texts};

mod fake;

fn of_hub(path: &str) -> v1::LoadModelRequest {
    v1::LoadModelRequest { name: "model".to_owned(), path: path.to_owned(), ..v1::LoadModelRequest::default() }
}

/// A daemon whose callers may name models of a hub, kept in a folder.
async fn world(hub: &FakeHub, cache: &TempDir, change: impl FnOnce(&mut Config)) -> World {
    let (endpoint, cache) = (hub.endpoint(), cache.path().to_owned());
    World::start_with(move |config| {
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

async fn unload(world: &World) {
    world.embed().unload_model(v1::UnloadModelRequest { name: "model".to_owned() }).await.expect("it is forgotten");
}

/// The model computes what the one in its folder computes.
async fn assert_same_as(world: &World, folder: &str) {
    let path = encoders().join(folder).to_string_lossy().into_owned();
    let source = v1::LoadModelRequest { name: "local".to_owned(), path, ..v1::LoadModelRequest::default() };
    world.embed().load_model(source).await.expect("it is loaded");
    let lists = v1::TokenInput { ids: vec![5, 6, 7, 8], offsets: vec![0, 3, 4] };
    let mut vectors = vec![];
    for model in ["model", "local"] {
        let input = Some(v1::embed_request::Input::Tokens(lists.clone()));
        let request = v1::EmbedRequest { model: model.to_owned(), input, ..v1::EmbedRequest::default() };
        let answer = world.embed().embed(request).await.expect("it embeds").into_inner();
        vectors.push(f32s(&answer.embeddings.expect("vectors")));
    }
    assert_eq!(vectors[0], vectors[1]);
    world.embed().unload_model(v1::UnloadModelRequest { name: "local".to_owned() }).await.expect("it is forgotten");
}

#[tokio::test]
async fn a_model_of_the_hub_is_fetched_once_with_what_it_needs() {
    let (hub, cache) = hub_with_bert().await;
    let world = world(&hub, &cache, |_| {}).await;
    let loaded = world.embed().load_model(of_hub("hf://small/bert")).await.expect("it is loaded").into_inner();
    let model = loaded.model.expect("a model");
    assert_eq!((model.architecture.as_str(), model.default_max_tokens, model.takes_texts), ("bert", 16, true));
    assert_eq!((model.pooling(), model.prompt_names.join(" ")), (v1::Pooling::Cls, "document query".to_owned()));
    assert_same_as(&world, "bert").await;
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
    unload(&world).await;
    world.embed().load_model(of_hub("hf://small/bert@refs/pr/1")).await.expect("it is loaded");
    assert_eq!(paths(&hub.asked()), ["/api/models/small/bert/revision/refs%2Fpr%2F1"], "the same commit");
    unload(&world).await;
    world.embed().load_model(of_hub(&format!("hf://small/bert@{COMMIT}"))).await.expect("it is loaded");
    assert_eq!(hub.asked(), [], "a commit that is here is not asked for");
}

#[tokio::test]
async fn a_model_in_parts_is_fetched_whole_also_from_a_hub_that_says_no_sizes() {
    let hub = FakeHub::start().await;
    hub.with("small/distilbert", "distilbert");
    hub.say_no_sizes();
    let cache = tempfile::tempdir().expect("a folder");
    // Nothing is kept where no folder is named.
    let world = world(&hub, &cache, |config| config.models.hub.cache = "".into()).await;
    for _ in 0..2 {
        world.embed().load_model(of_hub("hf://small/distilbert")).await.expect("it is loaded");
        assert_same_as(&world, "distilbert").await;
        let asked = hub.asked();
        let weights = paths(&asked).into_iter().filter(|path| path.starts_with("/files") && path.contains("-of-00002"));
        assert_eq!(weights.count(), 2);
        unload(&world).await;
    }
}

#[tokio::test]
async fn models_of_the_hub_are_for_those_whom_the_settings_say() {
    let (hub, cache) = hub_with_bert().await;
    let off = world(&hub, &cache, |config| config.models.hub.allow = Allow::Off).await;
    assert_refused(off.embed().load_model(of_hub("hf://small/bert")).await, Code::PermissionDenied, "models.hub.allow");
    let by_settings = world(&hub, &cache, |config| {
        config.models.hub.allow = Allow::Preload;
        config.models.preload = vec![preloaded()];
    })
    .await;
    let again = v1::LoadModelRequest { name: "again".to_owned(), ..of_hub("hf://small/bert") };
    assert_refused(by_settings.embed().load_model(again).await, Code::PermissionDenied, "\"preload\"");
    assert_same_as(&by_settings, "bert").await;
    hub.asked();
    let owners = world(&hub, &cache, |config| config.models.hub.owners = vec!["large".to_owned()]).await;
    let refused = owners.embed().load_model(of_hub("hf://small/bert")).await;
    assert_refused(refused, Code::PermissionDenied, "models.hub.owners: large");
    assert_eq!(hub.asked(), [], "what is not allowed is not asked for");
}

#[tokio::test]
async fn what_a_hub_refuses_is_refused_by_what_it_means() {
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
    let world = world(&hub, &cache, |_| {}).await;
    for (path, code, names) in [
        ("hf://small/none", Code::NotFound, "hf://small/none"),
        ("hf://small/bert@v9", Code::NotFound, "hf://small/bert@v9"),
        ("hf://a/gated", Code::PermissionDenied, "HF_TOKEN"),
        ("hf://a/forbidden", Code::PermissionDenied, "hf://a/forbidden"),
        ("hf://a/hidden", Code::PermissionDenied, "not there"),
        ("hf://a/tired", Code::Unavailable, "503"),
        ("hf://a/busy", Code::Unavailable, "429"),
        ("hf://bert", Code::InvalidArgument, "hf://owner/name"),
        ("hf://small/../bert", Code::InvalidArgument, "hf://owner/name"),
        ("hf://a/pickle", Code::InvalidArgument, "pytorch_model.bin"),
        ("hf://a/bare", Code::InvalidArgument, "has no config.json"),
        ("hf://a/new", Code::InvalidArgument, "unknown architecture \"t5\""),
        ("hf://a/outside", Code::InvalidArgument, "\"../model.safetensors\""),
    ] {
        assert_refused(world.embed().load_model(of_hub(path)).await, code, names);
    }
    world.embed().load_model(of_hub("hf://small/bert")).await.expect("the others are loaded");
    world.assert_serving().await;
}

#[tokio::test]
async fn a_model_that_came_broken_is_not_served_and_is_fetched_again_where_it_broke() {
    let (hub, cache) = hub_with_bert().await;
    let world = world(&hub, &cache, |_| {}).await;
    for (fault, code, names) in [
        (Fault::Cut, Code::Unavailable, "not whole"),
        (Fault::Longer, Code::Unavailable, "larger than said"),
        (Fault::Flip, Code::DataLoss, "model.safetensors of hf://small/bert is damaged"),
    ] {
        hub.fault("model.safetensors", fault);
        assert_refused(world.embed().load_model(of_hub("hf://small/bert")).await, code, names);
        let asked = world.embed().embed(v1::EmbedRequest { model: "model".to_owned(), ..texts(&["a"]) }).await;
        assert_refused(asked, Code::NotFound, "model");
        assert!(!cache.path().join("small/bert").join(COMMIT).exists(), "nothing that looks whole");
    }
    hub.fault("model.safetensors", Fault::None);
    hub.asked();
    world.embed().load_model(of_hub("hf://small/bert")).await.expect("it is loaded");
    let asked = hub.asked();
    let sent: Vec<_> = paths(&asked).into_iter().filter(|path| path.starts_with("/files")).collect();
    assert_eq!(sent, [WEIGHTS], "the rest had come");
    assert_same_as(&world, "bert").await;
}

#[tokio::test]
async fn without_the_hub_the_cache_serves_and_the_rest_is_named() {
    let (hub, cache) = hub_with_bert().await;
    let filling = world(&hub, &cache, |_| {}).await;
    filling.embed().load_model(of_hub("hf://small/bert")).await.expect("it is loaded");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = nobody.local_addr().expect("an address");
    drop(nobody);
    let far = world(&hub, &cache, |config| config.models.hub.endpoint = format!("http://{address}")).await;
    let missing = far.embed().load_model(of_hub("hf://small/roberta")).await;
    assert_refused(missing, Code::Unavailable, &format!("cannot reach {address}"));
    far.embed().load_model(of_hub("hf://small/bert")).await.expect("the cache has it");
    assert_same_as(&far, "bert").await;
    hub.asked();
    let offline = world(&hub, &cache, |config| config.models.hub.offline = true).await;
    let missing = offline.embed().load_model(of_hub("hf://small/roberta")).await;
    assert_refused(missing, Code::Unavailable, "models.hub.offline");
    offline.embed().load_model(of_hub("hf://small/bert")).await.expect("the cache has it");
    assert_same_as(&offline, "bert").await;
    assert_eq!(hub.asked(), []);
}

#[tokio::test]
async fn a_model_larger_than_the_memory_for_models_is_refused_before_it_is_fetched() {
    let (hub, cache) = hub_with_bert().await;
    let world = world(&hub, &cache, |config| config.models.memory_limit = ByteSize::b(10_000)).await;
    let refused = world.embed().load_model(of_hub("hf://small/bert")).await;
    assert_refused(refused, Code::ResourceExhausted, "models.memory_limit");
    let asked = hub.asked();
    assert!(paths(&asked).iter().all(|path| !path.contains("model.safetensors")), "{asked:?}");
    hub.say_no_sizes();
    let refused = world.embed().load_model(of_hub("hf://small/bert")).await;
    assert_refused(refused, Code::ResourceExhausted, "models.memory_limit");
    world.assert_serving().await;
}

#[tokio::test]
async fn the_cache_keeps_to_its_limit_and_what_is_in_it_serves() {
    let (hub, cache) = hub_with_bert().await;
    hub.with("small/distilbert", "distilbert");
    let world = world(&hub, &cache, |config| config.models.hub.cache_limit = ByteSize::b(60_000)).await;
    world.embed().load_model(of_hub("hf://small/bert")).await.expect("there is room");
    unload(&world).await;
    hub.asked();
    let refused = world.embed().load_model(of_hub("hf://small/distilbert")).await;
    assert_refused(refused, Code::ResourceExhausted, "models.hub.cache_limit");
    let asked = hub.asked();
    assert!(paths(&asked).iter().all(|path| !path.ends_with(".safetensors")), "{asked:?}");
    world.embed().load_model(of_hub("hf://small/bert")).await.expect("it is there");
    assert_same_as(&world, "bert").await;
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

/// Waits until a fetch is at the weights.
async fn weights_are_asked_for(hub: &FakeHub) {
    while !paths(&hub.asked()).contains(&WEIGHTS) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_fetch_whose_caller_has_gone_is_given_up_and_spoils_nothing() {
    let (hub, cache) = hub_with_bert().await;
    let (open, gate) = watch::channel(false);
    hub.fault("model.safetensors", Fault::Gate(gate));
    let world = world(&hub, &cache, |_| {}).await;
    // Long enough for it to come to the weights on any machine; the hub has sent half of them then.
    assert_eq!(load_within(&world, "2S", &of_hub("hf://small/bert")).await, Code::DeadlineExceeded);
    let sent_once = hub.asked();
    assert!(paths(&sent_once).contains(&WEIGHTS), "{sent_once:?}");
    let held = world.embed().load_model(of_hub("hf://small/bert")).await;
    assert_refused(held, Code::AlreadyExists, "model");
    open.send(true).expect("the hub waits");
    // The name is free when the fetch has seen that nobody waits for it.
    let loaded = loop {
        match world.embed().load_model(of_hub("hf://small/bert")).await {
            Err(taken) if taken.code() == Code::AlreadyExists => tokio::task::yield_now().await,
            loaded => break loaded,
        }
    };
    loaded.expect("it is loaded");
    let asked = hub.asked();
    assert!(paths(&asked).contains(&WEIGHTS), "the first was given up: {asked:?}");
    assert_same_as(&world, "bert").await;
    let left = files_below(cache.path()).into_iter().filter(|path| path.contains(".coming")).collect::<Vec<_>>();
    assert_eq!(left, [""; 0]);
}

#[tokio::test]
async fn a_start_that_is_stopped_while_it_fetches_a_model_ends_and_the_next_goes_on() {
    let (hub, cache) = hub_with_bert().await;
    let (open, gate) = watch::channel(false);
    hub.fault("model.safetensors", Fault::Gate(gate));
    let mut config = harness::config();
    config.models.preload = vec![preloaded()];
    (config.models.hub.endpoint, config.models.hub.cache) = (hub.endpoint(), cache.path().to_owned());
    let stop = CancellationToken::new();
    let starting = tokio::spawn(Daemon::start_until(stop.clone(), config.clone()));
    weights_are_asked_for(&hub).await;
    stop.cancel();
    let ended = starting.await.expect("no panic");
    assert!(matches!(ended, Err(StartError::Stopped)), "the hub has sent half of it: {ended:?}");
    open.send(true).expect("the hub waits");
    let daemon = Daemon::start(config).await.expect("the model is whole now");
    assert_eq!(daemon.app().embedder.models().len(), 2);
    let asked = hub.asked();
    let sent = paths(&asked).into_iter().filter(|path| path.starts_with("/files")).collect::<Vec<_>>();
    assert_eq!(sent, [WEIGHTS], "the rest had come");
}
