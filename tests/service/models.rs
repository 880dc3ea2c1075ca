//! Models loaded at run time: by folder and name, within limits, with every option of a request.

use std::fs;

use accelerd::config::{ByteSize, Preload};
use accelerd_parity::encoders;
use accelerd_proto::{
    methods::embed_service,
    v1::{self, embed_request::Input, embed_stream_response::Result as Outcome},
};
use bytes::Bytes;
use futures::TryStreamExt;
use http_body_util::Full;
use prost::Message;
use tonic::{Code, Status, body::Body};
use tonic_types::StatusExt;
use tower::Service;

use super::harness::{TestServer, assert_refused, bare, f32s, texts};

/// f32, so that GPU and CPU answers can be compared.
pub(crate) fn source(name: &str, folder: &str) -> v1::LoadModelRequest {
    let path = encoders().join(folder).to_string_lossy().into_owned();
    let precision = v1::Precision::F32.into();
    v1::LoadModelRequest { name: name.to_owned(), path, precision, ..v1::LoadModelRequest::default() }
}

/// A daemon that may load the small models.
async fn start_server() -> TestServer {
    TestServer::start_with(|config| config.models.folders = vec![encoders()]).await
}

/// The same daemon, with BERT loaded.
pub(crate) async fn with_bert() -> TestServer {
    let server = start_server().await;
    server.embed().load_model(source("bert", "bert")).await.expect("it is loaded");
    server
}

pub(crate) fn of_bert(values: &[&str]) -> v1::EmbedRequest {
    v1::EmbedRequest { model: "bert".to_owned(), ..texts(values) }
}

pub(crate) fn tokens(lists: &[Vec<u32>]) -> v1::EmbedRequest {
    let ends = lists.iter().scan(0, |end, ids| {
        *end += u32::try_from(ids.len()).expect("few ids");
        Some(*end)
    });
    let offsets = [0].into_iter().chain(ends).collect();
    let input = Some(Input::Tokens(v1::TokenInput { ids: lists.concat(), offsets }));
    v1::EmbedRequest { model: "bert".to_owned(), input, ..v1::EmbedRequest::default() }
}

pub(crate) async fn answer(server: &TestServer, request: v1::EmbedRequest) -> v1::EmbedResponse {
    server.embed().embed(request).await.expect("it is embedded").into_inner()
}

pub(crate) async fn vectors(server: &TestServer, request: v1::EmbedRequest) -> Vec<f32> {
    f32s(&answer(server, request).await.embeddings.expect("vectors"))
}

#[tokio::test]
async fn a_loaded_model_returns_the_hidden_states_that_pytorch_computed() {
    let server = with_bert().await;
    let expected = fs::read(encoders().join("bert/expected.json")).expect("it is there");
    let expected: serde_json::Value = serde_json::from_slice(&expected).expect("JSON");
    let lists: Vec<Vec<u32>> = serde_json::from_value(expected["texts"].clone()).expect("lists of ids");
    let states = fs::read(encoders().join("bert/states.f32")).expect("it is there");
    let states: Vec<f32> = bytemuck::pod_collect_to_vec(&states);
    let all = v1::EmbedRequest {
        pooling: v1::Pooling::None.into(),
        normalize: Some(false),
        max_tokens: 40,
        ..tokens(&lists)
    };
    let got = answer(&server, all).await;
    assert_eq!(got.token_counts, [1, 2, 3, 17, 40]);
    let got = got.embeddings.expect("states");
    assert_eq!(got.shape, [63, 32]);
    assert!(f32s(&got).iter().zip(&states).all(|(a, b)| (a - b).abs() < 1e-4));
}

#[tokio::test]
async fn models_are_listed_aliased_and_unloaded() {
    let server = start_server().await;
    let aliases = vec!["small".to_owned(), "default".to_owned()];
    let request = v1::LoadModelRequest { aliases, ..source("bert", "bert") };
    let loaded = server.embed().load_model(request).await.expect("it is loaded").into_inner().model.expect("a model");
    assert_eq!((loaded.name.as_str(), loaded.architecture.as_str(), loaded.dimensions), ("bert", "bert", 32));
    assert_eq!((loaded.max_tokens, loaded.default_max_tokens, loaded.vocabulary_size), (40, 16, 48));
    assert_eq!((loaded.pooling(), loaded.normalize), (v1::Pooling::Cls, false));
    assert_eq!(
        (loaded.aliases.join(" "), loaded.prompt_names.join(" ")),
        ("default small".into(), "document query".into())
    );
    assert_eq!(loaded.sha256.len(), 64);
    assert_eq!((loaded.precision(), loaded.cpu_precision()), (v1::Precision::F32, v1::Precision::F32));
    let listed = server.embed().list_models(v1::ListModelsRequest {}).await.expect("listed").into_inner().models;
    assert_eq!(listed.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["bert", "builtin"]);
    assert_eq!(listed[0], loaded);
    let by_alias = v1::EmbedRequest { model: "small".to_owned(), ..texts(&["the def"]) };
    assert_eq!(vectors(&server, by_alias).await, vectors(&server, of_bert(&["the def"])).await);
    let unload = |name: &str| v1::UnloadModelRequest { name: name.to_owned() };
    assert_eq!(server.embed().unload_model(unload("default")).await.expect("unloaded").into_inner().name, "bert");
    assert_refused(server.embed().embed(of_bert(&["a"])).await, Code::NotFound, "bert");
    assert_refused(server.embed().unload_model(unload("bert")).await, Code::NotFound, "bert");
    assert_refused(server.embed().unload_model(unload("builtin")).await, Code::InvalidArgument, "name");
    server.embed().load_model(source("small", "roberta")).await.expect("its names are free again");
    server.assert_serving().await;
}

#[tokio::test]
async fn where_nothing_is_asked_for_a_cpu_computes_in_f32_and_a_gpu_in_bfloat16() {
    let server = start_server().await;
    let on_gpu = server.has_gpu();
    let mut loaded = vec![];
    let precisions = [("f32", v1::Precision::F32), ("bf16", v1::Precision::Bf16), ("bert", v1::Precision::Unspecified)];
    for (name, precision) in precisions {
        let request = v1::LoadModelRequest { precision: precision.into(), ..source(name, "bert") };
        loaded.extend(server.embed().load_model(request).await.expect("it is loaded").into_inner().model);
    }
    let models = server.embed().list_models(v1::ListModelsRequest {}).await.expect("listed").into_inner().models;
    let unasked = models.iter().find(|model| model.name == "bert").expect("it is listed");
    assert_eq!((unasked.precision(), unasked.cpu_precision()), (v1::Precision::Bf16, v1::Precision::F32));
    assert_eq!(loaded[1].precision(), v1::Precision::Bf16);
    assert!(matches!(loaded[1].cpu_precision(), v1::Precision::Bf16 | v1::Precision::F32), "as the machine has it");
    let of = async |model: &str| {
        vectors(&server, v1::EmbedRequest { model: model.to_owned(), ..texts(&["the def of a thing"]) }).await
    };
    let unasked = of("bert").await;
    let single = of("f32").await;
    let halves = of("bf16").await;
    assert_eq!(&unasked, if on_gpu { &halves } else { &single });
    assert_eq!(halves == single, !on_gpu && loaded[1].cpu_precision() == v1::Precision::F32);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let cosine = dot(&halves, &single) / (dot(&halves, &halves) * dot(&single, &single)).sqrt();
    assert!(cosine > 0.9999, "{cosine}");
}

#[tokio::test]
async fn callers_load_only_what_the_settings_allow() {
    let server = start_server().await;
    let elsewhere = v1::LoadModelRequest { path: "/etc".to_owned(), ..source("x", "bert") };
    assert_refused(server.embed().load_model(elsewhere).await, Code::PermissionDenied, "models.folders");
    let upwards = source("x", "bert/../../../src");
    assert_refused(server.embed().load_model(upwards).await, Code::PermissionDenied, "models.folders");
    let missing = source("x", "none");
    assert_refused(server.embed().load_model(missing).await, Code::PermissionDenied, "models.folders");
    let nowhere = v1::LoadModelRequest { path: String::new(), ..source("x", "bert") };
    let expected = "path: expected a folder, a file or hf://OWNER/NAME, got none";
    assert_refused(server.embed().load_model(nowhere).await, Code::InvalidArgument, expected);
    let hub = v1::LoadModelRequest { path: "hf://BAAI/bge-small".to_owned(), ..source("x", "bert") };
    assert_refused(server.embed().load_model(hub).await, Code::PermissionDenied, "models.hub.allow");
    for name in ["", "a b", "-a"] {
        assert_refused(server.embed().load_model(source(name, "bert")).await, Code::InvalidArgument, "name");
    }
    assert_refused(server.embed().load_model(source("builtin", "bert")).await, Code::AlreadyExists, "builtin");
    let twice = v1::LoadModelRequest { aliases: vec!["x".to_owned()], ..source("x", "bert") };
    assert_refused(server.embed().load_model(twice).await, Code::AlreadyExists, "x");
    let aliases = (0..65).map(|n| format!("a{n}")).collect();
    let many = v1::LoadModelRequest { aliases, ..source("x", "bert") };
    assert_refused(server.embed().load_model(many).await, Code::InvalidArgument, "aliases");
    let unknown = v1::LoadModelRequest { precision: 9, ..source("x", "bert") };
    assert_refused(server.embed().load_model(unknown).await, Code::InvalidArgument, "precision");
    server.assert_serving().await;
}

#[tokio::test]
async fn models_share_a_memory_limit() {
    let bytes = fs::metadata(encoders().join("bert/model.safetensors")).expect("it is there").len();
    let server = TestServer::start_with(move |config| {
        config.models.folders = vec![encoders()];
        config.models.memory_limit = ByteSize::b(bytes + 10_000);
    })
    .await;
    server.embed().load_model(source("bert", "bert")).await.expect("it fits");
    let second = server.embed().load_model(source("roberta", "roberta")).await;
    assert_refused(second, Code::ResourceExhausted, "roberta");
    server.embed().unload_model(v1::UnloadModelRequest { name: "bert".to_owned() }).await.expect("unloaded");
    server.embed().load_model(source("roberta", "roberta")).await.expect("now it fits");
}

#[tokio::test]
async fn models_in_the_settings_are_loaded_at_the_start() {
    let preload = Preload {
        name: "bert".to_owned(),
        path: encoders().join("bert").to_string_lossy().into_owned(),
        aliases: vec!["b".to_owned()],
        precision: accelerd::config::Precision::F32,
    };
    let server = TestServer::start_with(move |config| config.models.preload = vec![preload]).await;
    assert_eq!(vectors(&server, v1::EmbedRequest { model: "b".to_owned(), ..texts(&["a"]) }).await.len(), 32);
}

#[tokio::test]
async fn texts_above_the_limit_are_truncated_refused_or_chunked() {
    let server = with_bert().await;
    let long = "abc def ".repeat(2000);
    let cut = answer(&server, of_bert(&[&long, "a", ""])).await;
    assert_eq!(cut.token_counts, [16, 3, 2], "the limit of its sentences, with special tokens");
    let more = v1::EmbedRequest { max_tokens: 40, ..of_bert(&[&long]) };
    assert_eq!(answer(&server, more).await.token_counts, [40]);
    let left = v1::EmbedRequest {
        truncation_side: v1::TruncationSide::Left.into(),
        ..of_bert(&["a b c d e f g h i j k l m n o p"])
    };
    assert_eq!(vectors(&server, left).await, vectors(&server, of_bert(&["c d e f g h i j k l m n o p"])).await);
    let error = v1::EmbedRequest { long_input: v1::LongInput::Error.into(), ..of_bert(&["a", &long]) };
    assert_refused(server.embed().embed(error).await, Code::InvalidArgument, "texts.values[1]");
    let mean = v1::Pooling::Mean.into();
    let chunk = v1::EmbedRequest {
        long_input: v1::LongInput::Chunk.into(),
        pooling: mean,
        ..of_bert(&["a b c d e f g h i j k l m n o p q r"])
    };
    let chunked = answer(&server, chunk.clone()).await;
    assert_eq!(chunked.token_counts, [22], "18 letters in two parts");
    let parts = v1::EmbedRequest { pooling: mean, ..of_bert(&["a b c d e f g h i j k l m n", "o p q r"]) };
    let parts = vectors(&server, parts).await;
    let chunked = f32s(&chunked.embeddings.expect("a vector"));
    for (index, whole) in chunked.iter().enumerate() {
        let expected = (16.0 * parts[index] + 6.0 * parts[32 + index]) / 22.0;
        assert!((whole - expected).abs() < 1e-5, "the mean over the tokens of both");
    }
    let first = v1::EmbedRequest { pooling: v1::Pooling::Cls.into(), ..chunk };
    assert_refused(server.embed().embed(first).await, Code::InvalidArgument, "long_input");
    let over = v1::EmbedRequest { max_tokens: 41, ..of_bert(&["a"]) };
    assert_refused(server.embed().embed(over).await, Code::InvalidArgument, "max_tokens");
    let under = v1::EmbedRequest { max_tokens: 2, ..of_bert(&["a"]) };
    assert_refused(server.embed().embed(under).await, Code::InvalidArgument, "max_tokens");
    server.assert_serving().await;
}

#[tokio::test]
async fn spans_are_mean_pooled_over_their_own_tokens_after_one_pass() {
    let server = with_bert().await;
    let every = v1::EmbedRequest { pooling: v1::Pooling::None.into(), ..of_bert(&["x", "the defs a"]) };
    let states = vectors(&server, every).await;
    let span = |text, start, end| v1::Span { text, start, end };
    let spans = vec![span(0, 0, 1), span(1, 4, 8), span(1, 9, 10)];
    let request = v1::EmbedRequest { pooling: v1::Pooling::Mean.into(), spans, ..of_bert(&["x", "the defs a"]) };
    let got = vectors(&server, request.clone()).await;
    let row = |token: usize| &states[token * 32..][..32];
    assert_eq!(got[..32], *row(1));
    let mean: Vec<f32> = row(5).iter().zip(row(6)).map(|(a, b)| (a + b) / 2.0).collect();
    assert_eq!(got[32..64], mean, "def and ##s");
    assert_eq!(got[64..], *row(7));
    for (bad, field) in [
        (vec![span(2, 0, 1)], "spans[0].text"),
        (vec![span(1, 0, 1), span(0, 0, 1)], "spans[1].text"),
        (vec![span(1, 3, 4)], "spans[0]"),
        (vec![span(1, 50, 60)], "spans[0]"),
    ] {
        let request = v1::EmbedRequest { spans: bad, ..request.clone() };
        assert_refused(server.embed().embed(request).await, Code::InvalidArgument, field);
    }
}

#[tokio::test]
async fn vectors_are_returned_in_every_dtype() {
    let server = with_bert().await;
    let full = vectors(&server, of_bert(&["the def", "xyz"])).await;
    let with = |output: v1::OutputType| v1::EmbedRequest { output_type: output.into(), ..of_bert(&["the def", "xyz"]) };
    let int8 = answer(&server, with(v1::OutputType::Int8)).await;
    let scales = f32s(&int8.scales.expect("scales"));
    let int8 = int8.embeddings.expect("vectors");
    assert_eq!((int8.dtype(), int8.shape.as_slice(), scales.len()), (v1::Dtype::I8, [2, 32].as_slice(), 2));
    for (index, x) in int8.data.iter().enumerate() {
        let back = f32::from(x.cast_signed()) * scales[index / 32];
        assert!((back - full[index]).abs() <= scales[index / 32] * 0.51, "{back} for {}", full[index]);
    }
    let binary = answer(&server, with(v1::OutputType::Binary)).await.embeddings.expect("vectors");
    assert_eq!((binary.dtype(), binary.shape), (v1::Dtype::U8, vec![2, 4]));
    for (index, x) in full.iter().enumerate() {
        assert_eq!(binary.data[index / 8] >> (7 - index % 8) & 1 == 1, *x > 0.0);
    }
    for (output, dtype) in [(v1::OutputType::F16, v1::Dtype::F16), (v1::OutputType::Bf16, v1::Dtype::Bf16)] {
        let half = answer(&server, with(output)).await;
        assert!(half.scales.is_none());
        let half = half.embeddings.expect("vectors");
        assert_eq!((half.dtype(), half.data.len()), (dtype, 128));
    }
    let table = v1::EmbedRequest { output_type: v1::OutputType::Int8.into(), ..texts(&["parse"]) };
    let table = answer(&server, table).await;
    assert_eq!(
        (table.embeddings.expect("vectors").dtype(), table.scales.expect("scales").shape),
        (v1::Dtype::I8, vec![1])
    );
}

#[tokio::test]
async fn prompts_are_prepended_to_texts() {
    let server = with_bert().await;
    let expected = vectors(&server, of_bert(&["the abc"])).await;
    let by_name = v1::EmbedRequest { prompt_name: "query".to_owned(), ..of_bert(&["abc"]) };
    assert_eq!(vectors(&server, by_name.clone()).await, expected);
    let by_words = v1::EmbedRequest { prompt: Some("the ".to_owned()), ..of_bert(&["abc"]) };
    assert_eq!(vectors(&server, by_words).await, expected);
    let unknown = v1::EmbedRequest { prompt_name: "poem".to_owned(), ..by_name.clone() };
    assert_refused(server.embed().embed(unknown).await, Code::InvalidArgument, "document, query");
    for prompt in ["the ", ""] {
        let both = v1::EmbedRequest { prompt: Some(prompt.to_owned()), ..by_name.clone() };
        let expected = "prompt: expected none with prompt_name, got both";
        assert_refused(server.embed().embed(both).await, Code::InvalidArgument, expected);
    }
    let ids = v1::EmbedRequest { prompt_name: "query".to_owned(), ..tokens(&[vec![5]]) };
    assert_refused(server.embed().embed(ids).await, Code::InvalidArgument, "prompt_name");
    let long = v1::EmbedRequest { prompt: Some("x".repeat((1 << 20) + 1)), ..of_bert(&["abc"]) };
    assert_refused(server.embed().embed(long).await, Code::InvalidArgument, "prompt");
    let often = v1::EmbedRequest { prompt: Some("x".repeat(1 << 16)), ..of_bert(&vec!["abc"; 2_000]) };
    assert_refused(server.embed().embed(often).await, Code::InvalidArgument, "prompt");
    let of_table = v1::EmbedRequest { model: "builtin".to_owned(), ..by_name };
    assert_refused(server.embed().embed(of_table).await, Code::InvalidArgument, "prompt_name");
}

#[tokio::test]
async fn invalid_encoder_requests_are_refused_by_field_and_unusual_texts_are_embedded() {
    let server = with_bert().await;
    let refused = [
        (v1::EmbedRequest { pooling: 77, ..of_bert(&["a"]) }, "pooling"),
        (v1::EmbedRequest { output_type: 77, ..of_bert(&["a"]) }, "output_type"),
        (v1::EmbedRequest { long_input: 77, ..of_bert(&["a"]) }, "long_input"),
        (v1::EmbedRequest { truncation_side: 77, ..of_bert(&["a"]) }, "truncation_side"),
        (v1::EmbedRequest { dimensions: 33, ..of_bert(&["a"]) }, "dimensions"),
        (tokens(&[vec![48]]), "tokens.ids[0]"),
        (v1::EmbedRequest { pooling: v1::Pooling::Cls.into(), ..texts(&["a"]) }, "pooling"),
        (v1::EmbedRequest { max_tokens: 5, ..texts(&["a"]) }, "max_tokens"),
        (v1::EmbedRequest { spans: vec![v1::Span::default()], ..texts(&["a"]) }, "spans"),
    ];
    for (request, field) in refused {
        assert_refused(server.embed().embed(request).await, Code::InvalidArgument, field);
    }
    let huge = "x".repeat(1 << 20);
    let odd = answer(&server, of_bert(&["", " ", "\u{0}\u{200b}", "[SEP][MASK]", "数据 🙂", &huge])).await;
    assert_eq!(odd.token_counts.len(), 6);
    assert!(f32s(&odd.embeddings.expect("vectors")).iter().all(|x| x.is_finite()));
    let none = answer(&server, tokens(&[vec![], vec![7]])).await;
    let none = f32s(&none.embeddings.expect("vectors"));
    assert!(none[..32].iter().all(|x| *x == 0.0), "no tokens are zeros");
    server.assert_serving().await;
}

#[tokio::test]
async fn a_response_above_the_message_limit_is_refused_before_it_is_computed() {
    let server = TestServer::start_with(|config| {
        config.models.folders = vec![encoders()];
        config.server.max_message_bytes = ByteSize::kib(64);
        config.limits.max_texts = 1_000;
    })
    .await;
    server.embed().load_model(source("bert", "bert")).await.expect("it is loaded");
    let many = vec!["a b c d e f g h i j k l m n"; 200];
    let states = v1::EmbedRequest { pooling: v1::Pooling::None.into(), ..of_bert(&many) };
    assert_refused(server.embed().embed(states.clone()).await, Code::ResourceExhausted, "the maximum is 65536");
    let smaller = v1::EmbedRequest { output_type: v1::OutputType::Binary.into(), ..states };
    assert_eq!(answer(&server, smaller).await.embeddings.expect("states").shape, [3_200, 4]);
    let words = v1::EmbedRequest { model: "builtin".to_owned(), ..of_bert(&many) };
    assert_refused(server.embed().embed(words).await, Code::ResourceExhausted, "the maximum is 65536");
    let spans = vec![v1::Span { text: 0, start: 0, end: 1 }; 1_001];
    assert_refused(
        server.embed().embed(v1::EmbedRequest { spans, ..of_bert(&["a"]) }).await,
        Code::InvalidArgument,
        "spans",
    );
    server.assert_serving().await;
}

/// An encoded request whose text is a lone surrogate, as JavaScript or Python could send it.
fn with_lone_surrogate() -> Vec<u8> {
    let mut message = of_bert(&["abc"]).encode_to_vec();
    let index = message.windows(3).position(|bytes| bytes == b"abc").expect("the text");
    message[index..index + 3].copy_from_slice(&[0xed, 0xa0, 0x80]);
    message
}

#[tokio::test]
async fn a_lone_surrogate_is_refused_and_the_daemon_keeps_serving() {
    let server = with_bert().await;
    let message = with_lone_surrogate();
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    let frame = [&[0], length.as_slice(), &message].concat();
    let request = http::Request::post(format!("http://{}{}", server.daemon.grpc_addr(), embed_service::EMBED.path()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(Bytes::from(frame))))
        .expect("a request");
    let response = bare(&server).await.call(request).await.expect("an answer");
    let status = Status::from_header_map(response.headers()).expect("a refusal without a message");
    assert_ne!(status.code(), Code::Ok);
    assert!(status.message().contains("UTF-8"), "{status:?}");
    server.assert_serving().await;
}

#[tokio::test]
async fn an_embedding_has_the_same_bits_alone_and_in_a_batch_of_five_hundred() {
    let server = with_bert().await;
    let many: Vec<String> = (0..500).map(|i: usize| "abc def ing s ".repeat(i % 4) + &"z ".repeat(i % 9)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let crowd = vectors(&server, of_bert(&many)).await;
    for index in [0, 13, 250, 499] {
        assert_eq!(vectors(&server, of_bert(&[many[index]])).await, crowd[index * 32..][..32], "text {index}");
        let pair = vectors(&server, of_bert(&[many[(index + 7) % 500], many[index]])).await;
        assert_eq!(pair[32..], crowd[index * 32..][..32], "text {index} in a pair");
    }
}

#[tokio::test]
async fn a_corpus_in_several_requests_keeps_the_vectors_spans_and_errors_of_its_texts() {
    let server = with_bert().await;
    let many: Vec<String> = (0..400).map(|i: usize| "abc def ing s ".repeat(60 + i % 50)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(many.iter().map(|text| text.len()).sum::<usize>() > 400_000, "more than one part");
    let crowd = answer(&server, of_bert(&many)).await;
    assert_eq!(crowd.token_counts, [16; 400]);
    let crowd = f32s(&crowd.embeddings.expect("vectors"));
    for index in [0, 250, 399] {
        assert_eq!(vectors(&server, of_bert(&[many[index]])).await, crowd[index * 32..][..32], "text {index}");
    }
    let spans = vec![v1::Span { text: 1, start: 0, end: 3 }, v1::Span { text: 399, start: 4, end: 7 }];
    let spanned = v1::EmbedRequest { spans: spans.clone(), pooling: v1::Pooling::Mean.into(), ..of_bert(&many) };
    let spanned = vectors(&server, spanned).await;
    let alone = vec![v1::Span { text: 0, ..spans[1] }];
    let alone = v1::EmbedRequest { spans: alone, pooling: v1::Pooling::Mean.into(), ..of_bert(&many[399..]) };
    assert_eq!(spanned[32..], vectors(&server, alone).await);
    let mut short = vec!["a"; 400];
    short[399] = many[0];
    let padding = "x".repeat(1 << 19);
    short[0] = &padding;
    let refused = v1::EmbedRequest { long_input: v1::LongInput::Error.into(), ..of_bert(&short) };
    assert_refused(server.embed().embed(refused).await, Code::InvalidArgument, "texts.values[399]");
}

#[tokio::test]
async fn an_accepted_call_waits_for_admission_and_a_new_one_gets_retry_info() {
    let server = TestServer::start_with(|config| {
        config.models.folders = vec![encoders()];
        config.admission.max_bytes = ByteSize::mib(12);
    })
    .await;
    server.embed().load_model(source("bert", "bert")).await.expect("it is loaded");
    let many = vec!["a b c d e f g h i j k l m n"; 2_500];
    let whole = answer(&server, of_bert(&many)).await;
    assert_eq!(whole.token_counts.iter().sum::<u32>(), 40_000, "five requests, of which one fits");
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let mut embed = server.embed();
            let request = of_bert(&many);
            tokio::spawn(async move { embed.embed(request).await })
        })
        .collect();
    let steps = (0..12).map(|sequence| v1::EmbedStreamRequest { sequence, embed: Some(of_bert(&many)) });
    let steps: Vec<_> = steps.collect();
    let stream = server.embed().embed_stream(tokio_stream::iter(steps)).await.expect("streams").into_inner();
    let answers: Vec<v1::EmbedStreamResponse> = stream.try_collect().await.expect("no failure ends it");
    assert_eq!(answers.len(), 12);
    for answer in answers {
        let Some(Outcome::Embed(answer)) = answer.result else { panic!("a batch of a stream waits: {answer:?}") };
        assert_eq!(answer.embeddings, whole.embeddings);
    }
    for call in calls {
        match call.await.expect("no panic") {
            Ok(answer) => assert_eq!(answer.into_inner().embeddings, whole.embeddings),
            Err(refused) => {
                assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
                assert!(refused.get_details_retry_info().is_some(), "{refused:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_collection_embeds_texts_with_a_loaded_model() {
    let server = with_bert().await;
    let request = v1::CreateCollectionRequest {
        name: "code".to_owned(),
        model: "bert".to_owned(),
        metric: v1::Metric::Cosine.into(),
        ..v1::CreateCollectionRequest::default()
    };
    let made = server.similarity().create_collection(request).await.expect("it is made").into_inner();
    assert_eq!(made.collection.map(|made| made.dimensions), Some(32));
}

/// A table of word embeddings, as an `.npy` file of f32.
fn table(rows: &[[f32; 2]]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, 2), }}\n", rows.len());
    let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
    let numbers = rows.iter().flatten().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &numbers].concat()
}

#[tokio::test]
async fn vectors_that_are_not_finite_are_refused_by_the_item_and_a_bad_weight_at_load() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_owned();
    let server = TestServer::start_with(|config| config.models.folders = vec![path]).await;
    let load = async |name: &str, rows: &[[f32; 2]]| {
        let path = folder.path().join(format!("{name}.npy"));
        fs::write(&path, table(rows)).expect("written");
        let path = path.to_string_lossy().into_owned();
        server.embed().load_model(v1::LoadModelRequest { name: name.into(), path, ..Default::default() }).await
    };
    let refused = load("bad", &[[1.0, 2.0], [f32::NAN, 2.0]]).await.expect_err("a weight is NaN");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().ends_with("has NaN or infinity at element 2"), "{}", refused.message());

    load("large", &[[1.0, 2.0], [1e6, 2.0]]).await.expect("all weights are finite");
    let request = |output: v1::OutputType| v1::EmbedRequest {
        model: "large".to_owned(),
        normalize: Some(false),
        output_type: output.into(),
        ..tokens(&[vec![0], vec![1]])
    };
    let refused = server.embed().embed(request(v1::OutputType::F16)).await.expect_err("1e6 exceeds f16");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.get_details_error_info().map(|info| info.reason), Some("NON_FINITE".to_owned()));
    assert!(refused.message().starts_with("tokens.offsets[1]: model \"large\""), "{}", refused.message());
    for output in [v1::OutputType::F32, v1::OutputType::Bf16, v1::OutputType::Int8, v1::OutputType::Binary] {
        server.embed().embed(request(output)).await.expect("it fits the type");
    }
}
