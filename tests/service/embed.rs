//! Embedding of texts and token ids.

use accelerd_proto::v1::{self, embed_stream_response::Result as Outcome};
use futures::TryStreamExt;
use tonic::Code;

use super::harness::{TestServer, f32s, texts};

#[tokio::test]
async fn texts_become_unit_vectors_of_the_models_dimensions() {
    let server = TestServer::start().await;
    let answer = server.embed().embed(texts(&["parse a date", "", "open a file"])).await.expect("embeds").into_inner();
    let embeddings = answer.embeddings.expect("an answer has embeddings");
    assert_eq!(embeddings.shape, [3, 256]);
    assert_eq!(answer.model, "builtin");
    assert_eq!(answer.token_counts.len(), 3);
    assert_eq!(answer.token_counts[1], 0);
    let lengths: Vec<f32> =
        f32s(&embeddings).chunks(256).map(|v| v.iter().map(|x| x * x).sum::<f32>().sqrt()).collect();
    assert!((lengths[0] - 1.0).abs() < 1e-5 && (lengths[2] - 1.0).abs() < 1e-5, "{lengths:?}");
    assert!(lengths[1] < f32::MIN_POSITIVE, "an empty text has the zero vector");
}

#[tokio::test]
async fn token_ids_from_tokenize_give_the_same_vectors_as_the_texts() {
    let server = TestServer::start().await;
    let values = vec!["def parseDate(s): return s".to_owned(), "snake_case and CamelCase".to_owned()];
    let input = v1::TextInput { values: values.clone() };
    let request = v1::TokenizeRequest { texts: Some(input), ..v1::TokenizeRequest::default() };
    let tokens = server.embed().tokenize(request).await.expect("tokenises").into_inner().tokens.expect("tokens");
    let by_ids =
        v1::EmbedRequest { input: Some(v1::embed_request::Input::Tokens(tokens)), ..v1::EmbedRequest::default() };
    let by_ids = server.embed().embed(by_ids).await.expect("embeds").into_inner().embeddings.expect("embeddings");
    let by_text = texts(&values.iter().map(String::as_str).collect::<Vec<_>>());
    let by_text = server.embed().embed(by_text).await.expect("embeds").into_inner().embeddings.expect("embeddings");
    assert_eq!(by_ids.data, by_text.data);
}

#[tokio::test]
async fn a_stream_answers_each_batch_with_its_sequence_or_error() {
    let server = TestServer::start().await;
    let step = |sequence, embed| v1::EmbedStreamRequest { sequence, embed };
    let unknown = v1::EmbedRequest { model: "nobody".to_owned(), ..texts(&["a"]) };
    let mut steps = vec![step(7, Some(texts(&[]))), step(8, None), step(9, Some(unknown))];
    steps.extend((10..60).map(|n| step(n, Some(texts(&[&format!("def f{n}(): return {n}"), "pass"])))));
    let stream = server.embed().embed_stream(tokio_stream::iter(steps)).await.expect("streams").into_inner();
    let mut answers: Vec<v1::EmbedStreamResponse> = stream.try_collect().await.expect("no failure ends it");
    answers.sort_by_key(|answer| answer.sequence);
    let mut answers = answers.into_iter().map(|answer| (answer.sequence, answer.result.expect("an outcome")));
    for (expected, code, names) in
        [(7, Code::InvalidArgument, "texts"), (8, Code::InvalidArgument, "embed"), (9, Code::NotFound, "nobody")]
    {
        let Some((sequence, Outcome::Error(error))) = answers.next() else { panic!("{expected} fails") };
        assert_eq!((sequence, error.code), (expected, code as i32));
        assert!(error.message.contains(names), "{error:?}");
    }
    let mut count = 0;
    for (sequence, outcome) in answers {
        let Outcome::Embed(answer) = outcome else { panic!("{outcome:?}") };
        let alone = server.embed().embed(texts(&[&format!("def f{sequence}(): return {sequence}"), "pass"])).await;
        assert_eq!(answer, alone.expect("embeds").into_inner());
        count += 1;
    }
    assert_eq!(count, 50);
}

#[tokio::test]
async fn related_texts_are_nearer_than_unrelated_ones() {
    let server = TestServer::start().await;
    let request =
        texts(&["compress a file with gzip", "def gzip_compress(data): return gzip.compress(data)", "send an email"]);
    let answer = server.embed().embed(request).await.expect("embeds").into_inner().embeddings.expect("embeddings");
    let vectors = f32s(&answer);
    let dot = |a: usize, b: usize| -> f32 {
        vectors[a * 256..][..256].iter().zip(&vectors[b * 256..][..256]).map(|(x, y)| x * y).sum()
    };
    assert!(dot(0, 1) > dot(0, 2) + 0.2, "{} against {}", dot(0, 1), dot(0, 2));
}

#[tokio::test]
async fn dimensions_truncate_before_normalising() {
    let server = TestServer::start().await;
    let full = v1::EmbedRequest { normalize: Some(false), ..texts(&["matryoshka"]) };
    let full = f32s(&server.embed().embed(full).await.expect("embeds").into_inner().embeddings.expect("embeddings"));
    let short = v1::EmbedRequest { dimensions: 64, ..texts(&["matryoshka"]) };
    let short = f32s(&server.embed().embed(short).await.expect("embeds").into_inner().embeddings.expect("embeddings"));
    assert_eq!(short.len(), 64);
    let length = full[..64].iter().map(|x| x * x).sum::<f32>().sqrt();
    for (full, short) in full.iter().zip(&short) {
        assert!((full / length - short).abs() < 1e-5, "{} against {short}", full / length);
    }
}

#[tokio::test]
async fn the_models_are_listed() {
    let server = TestServer::start().await;
    let models = server.embed().list_models(v1::ListModelsRequest {}).await.expect("lists").into_inner().models;
    assert_eq!(models.len(), 1);
    assert_eq!(models[0].name, "builtin");
    assert_eq!((models[0].dimensions, models[0].supported_dimensions.as_slice()), (256, [256, 128, 64].as_slice()));
    assert!(models[0].vocabulary_size > 1000 && models[0].size_bytes > 1_000_000);
    assert_eq!(models[0].sha256.len(), 64);
}
