//! Patterns of collections and models, in every method that names one.

use accelerd::{Config, Daemon, auth::token::Token};
use accelerd_proto::v1;
use futures::StreamExt as _;
use tonic::{Code, transport::Channel};

use crate::harness::{
    Files, embed, new_collection, one_text, plaintext, principal, refusal, refused, similarity, token,
};

/// A daemon with a collection `a-1` and a collection `b-1`, an administrator, and a principal that may use only `a-*`.
struct Fixture {
    daemon: Daemon,
    channel: Channel,
    files: Files,
    admin: Token,
    limited: Token,
}

impl Fixture {
    async fn start() -> Self {
        let files = Files::new();
        let mut config = Config::loopback();
        let admin = token();
        let limited = token();
        let patterns = "collections = [\"a-*\"]\nmodels = [\"a-*\"]";
        let file = principal("admin", "admin", &admin, "") + &principal("limited", "admin", &limited, patterns);
        config.auth.principals = files.write("principals.toml", &file);
        config.store.snapshot_url = format!("file://{}", files.path("snapshots").display());
        std::fs::create_dir(files.path("snapshots")).expect("created");
        let daemon = Daemon::start(config).await.expect("the daemon starts");
        let channel = plaintext(&daemon).await;
        for name in ["a-1", "b-1"] {
            let created = similarity(&channel, Some(&admin)).create_collection(new_collection(name)).await;
            created.expect("the administrator may use every name");
        }
        Self { daemon, channel, files, admin, limited }
    }
}

fn points(collection: &str) -> v1::UpsertRequest {
    let data = [1.0f32, 2.0].into_iter().flat_map(f32::to_le_bytes).collect();
    let vectors = v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![1, 2], data };
    v1::UpsertRequest {
        collection: collection.to_owned(),
        ids: Some(v1::PointIds { numbers: vec![1], ..Default::default() }),
        points: Some(v1::upsert_request::Points::Vectors(vectors)),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_outside_of_the_patterns_are_refused_and_not_listed() {
    let fixture = Fixture::start().await;
    let mut client = similarity(&fixture.channel, Some(&fixture.limited));
    let name = || "b-1".to_owned();
    client.upsert(points("a-1")).await.expect("its own collection");
    let listed = client.list_collections(v1::ListCollectionsRequest::default()).await.expect("a list").into_inner();
    let listed: Vec<_> = listed.collections.iter().map(|collection| collection.name.as_str()).collect();
    assert_eq!(listed, ["a-1"]);
    let search = v1::SearchRequest { collection: name(), limit: 1, ..Default::default() };
    let get = v1::GetPointsRequest { collection: name(), ..Default::default() };
    let scroll = v1::ScrollPointsRequest { collection: name(), ..Default::default() };
    let count = v1::CountPointsRequest { collection: name(), ..Default::default() };
    let delete = v1::DeletePointsRequest { collection: name(), ..Default::default() };
    let input = Some(v1::cluster_request::Input::Collection(name()));
    let cluster = v1::ClusterRequest { input, cluster_count: 1, ..Default::default() };
    let snapshot = v1::CreateSnapshotRequest { collection: name(), ..Default::default() };
    for refusal in [
        refusal(client.create_collection(new_collection("b-2")).await),
        refusal(client.get_collection(v1::GetCollectionRequest { name: name() }).await),
        refusal(client.delete_collection(v1::DeleteCollectionRequest { name: name() }).await),
        refusal(client.upsert(points("b-1")).await),
        refusal(client.delete_points(delete).await),
        refusal(client.search(search).await),
        refusal(client.get_points(get).await),
        refusal(client.scroll_points(scroll).await),
        refusal(client.count_points(count).await),
        refusal(client.create_snapshot(snapshot).await),
        refusal(client.list_snapshots(v1::ListSnapshotsRequest { collection: name(), ..Default::default() }).await),
        refusal(
            client
                .prune_snapshots(v1::PruneSnapshotsRequest { collection: name(), keep_count: 1, ..Default::default() })
                .await,
        ),
        refusal(client.cluster(cluster).await),
        // A collection that does not exist is refused like one that does.
        refusal(client.get_collection(v1::GetCollectionRequest { name: "b-9".to_owned() }).await),
    ] {
        assert_eq!(refusal, refused(Code::PermissionDenied, "COLLECTION_NOT_ALLOWED"));
    }
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_of_a_stream_that_names_another_collection_fails_alone() {
    let fixture = Fixture::start().await;
    let batches = ["a-1", "b-1", "a-1"].into_iter().zip(0..);
    let batches =
        batches.map(|(collection, sequence)| v1::UpsertStreamRequest { sequence, upsert: Some(points(collection)) });
    let stream =
        similarity(&fixture.channel, Some(&fixture.limited)).upsert_stream(futures::stream::iter(batches)).await;
    let mut outcomes = vec![];
    let mut answers = stream.expect("a stream").into_inner();
    while let Some(answer) = answers.next().await {
        let v1::UpsertStreamResponse { sequence, result } = answer.expect("the stream goes on");
        let code = match result.expect("a result") {
            v1::upsert_stream_response::Result::Upsert(_) => Code::Ok,
            v1::upsert_stream_response::Result::Error(error) => Code::from_i32(error.code),
        };
        outcomes.push((sequence, code));
    }
    outcomes.sort_by_key(|(sequence, _)| *sequence);
    assert_eq!(outcomes, [(0, Code::Ok), (1, Code::PermissionDenied), (2, Code::Ok)]);
    let batches = [v1::EmbedStreamRequest { sequence: 0, embed: Some(one_text("")) }];
    let stream = embed(&fixture.channel, Some(&fixture.limited)).embed_stream(futures::stream::iter(batches)).await;
    let answer = stream.expect("a stream").into_inner().next().await.expect("an answer").expect("an item");
    let Some(v1::embed_stream_response::Result::Error(error)) = answer.result else { panic!("{answer:?}") };
    assert_eq!(Code::from_i32(error.code), Code::PermissionDenied);
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_collections_of_a_principal_are_limited_in_memory_whoever_writes_to_them() {
    let files = Files::new();
    let mut config = Config::loopback();
    let owner = token();
    let other = token();
    let file =
        principal("owner", "write", &owner, "resident_bytes = \"64KiB\"") + &principal("other", "write", &other, "");
    config.auth.principals = files.write("principals.toml", &file);
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let channel = plaintext(&daemon).await;
    let [mut owners, mut others] = [&owner, &other].map(|token| similarity(&channel, Some(token)));
    owners.create_collection(new_collection("owned")).await.expect("nothing is held");
    others.create_collection(new_collection("free")).await.expect("no quota");
    let batch = |collection: &str, nth: u64| {
        let data = [1.0f32; 2000].into_iter().flat_map(f32::to_le_bytes).collect();
        let vectors = v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![1000, 2], data };
        let numbers = (nth * 1000..(nth + 1) * 1000).collect();
        let ids = Some(v1::PointIds { numbers, ..Default::default() });
        v1::UpsertRequest { ids, points: Some(v1::upsert_request::Points::Vectors(vectors)), ..points(collection) }
    };
    let mut status = None;
    for nth in 0..100 {
        others.upsert(batch("free", nth)).await.expect("no quota");
        if status.is_none() {
            status = owners.upsert(batch("owned", nth)).await.err();
        }
    }
    let expected = refused(Code::ResourceExhausted, "RESIDENT_BYTES_EXCEEDED");
    assert_eq!(refusal(status.map_or(Ok(()), Err)), expected);
    assert_eq!(refusal(others.upsert(batch("owned", 200)).await), expected, "the owner's quota counts");
    owners.delete_collection(v1::DeleteCollectionRequest { name: "owned".to_owned() }).await.expect("deleted");
    owners.create_collection(new_collection("again")).await.expect("nothing is held");
    owners.upsert(batch("again", 0)).await.expect("it fits");
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_outside_of_the_patterns_are_refused_and_not_listed() {
    let fixture = Fixture::start().await;
    let mut client = embed(&fixture.channel, Some(&fixture.limited));
    let models = client.list_models(v1::ListModelsRequest::default()).await.expect("a list").into_inner().models;
    assert!(models.is_empty(), "{models:?}");
    let tokenize = v1::TokenizeRequest { texts: Some(v1::TextInput::default()), ..Default::default() };
    let rerank = v1::RerankRequest { model: "builtin".to_owned(), ..Default::default() };
    let load = v1::LoadModelRequest { name: "a-1".into(), path: "/x".into(), aliases: vec!["b".into()], precision: 0 };
    let mut with_model = new_collection("a-2");
    with_model.model = "builtin".to_owned();
    for refusal in [
        refusal(client.embed(one_text("")).await),
        refusal(client.embed(one_text("builtin")).await),
        refusal(client.embed(one_text("missing")).await),
        refusal(client.tokenize(tokenize).await),
        refusal(client.rerank(rerank).await),
        refusal(client.load_model(load).await),
        refusal(client.unload_model(v1::UnloadModelRequest { name: "builtin".into() }).await),
        refusal(similarity(&fixture.channel, Some(&fixture.limited)).create_collection(with_model).await),
    ] {
        assert_eq!(refusal, refused(Code::PermissionDenied, "MODEL_NOT_ALLOWED"));
    }
    assert_eq!(refusal(client.embed(one_text("a-9")).await).0, Code::NotFound, "a name within the patterns");
    fixture.daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_another_s_collection_cannot_be_restored_under_an_own_name() {
    let fixture = Fixture::start().await;
    let mut admin = similarity(&fixture.channel, Some(&fixture.admin));
    let create = v1::CreateSnapshotRequest { collection: "b-1".to_owned(), ..Default::default() };
    let url = admin.create_snapshot(create).await.expect("a snapshot").into_inner().snapshot.expect("its url").url;
    assert!(url.contains(&fixture.files.path("snapshots").display().to_string()), "{url}");
    let mut client = similarity(&fixture.channel, Some(&fixture.limited));
    for name in ["a-2", "", "b-2"] {
        let restore = v1::RestoreCollectionRequest { url: url.clone(), name: name.to_owned() };
        let refused = refused(Code::PermissionDenied, "COLLECTION_NOT_ALLOWED");
        assert_eq!(refusal(client.restore_collection(restore).await), refused, "{name:?}");
    }
    let restore = v1::RestoreCollectionRequest { url, name: "a-2".to_owned() };
    admin.restore_collection(restore).await.expect("the administrator may");
    fixture.daemon.shutdown().await;
}
