//! Texts and token lists far longer than a model's maximum sequence length.

use accelerd_proto::v1;
use tonic::Code;

use crate::{
    harness::{assert_refused, texts},
    models::{answer, of_bert, tokens, vectors, with_bert},
};

/// Letters that a model with a limit of 16 tokens reads at once, in addition to two special tokens.
const PART: &str = "a b c d e f g h i j k l m n ";

const MEBIBYTE: usize = 1 << 20;

fn f32s(answer: v1::EmbedResponse) -> Vec<f32> {
    crate::harness::f32s(&answer.embeddings.expect("vectors"))
}

#[tokio::test]
async fn half_a_megabyte_in_chunks_has_the_mean_of_its_chunks() {
    let server = with_bert().await;
    let mean = v1::EmbedRequest { pooling: v1::Pooling::Mean.into(), ..of_bert(&[PART]) };
    let expected = vectors(&server, mean.clone()).await;
    let chunks = 500_000 / PART.len();
    let long = of_bert(&[&PART.repeat(chunks), "x"]);
    let chunked =
        v1::EmbedRequest { long_input: v1::LongInput::Chunk.into(), ..v1::EmbedRequest { input: long.input, ..mean } };
    let chunked = answer(&server, chunked).await;
    let count = u32::try_from(16 * chunks).expect("few");
    assert_eq!(chunked.token_counts, [count, 3], "every token was read");
    let got = f32s(chunked);
    assert_eq!(got.len(), 64);
    assert!(got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "all chunks are alike");
    server.assert_serving().await;
}

#[tokio::test]
async fn a_megabyte_is_truncated_on_either_side_and_one_byte_more_is_refused() {
    let server = with_bert().await;
    let mut long = PART.repeat(MEBIBYTE / PART.len());
    long.push_str(&" ".repeat(MEBIBYTE - long.len()));
    let first = vectors(&server, of_bert(&[PART])).await;
    let cut = answer(&server, of_bert(&[&long])).await;
    assert_eq!(cut.token_counts, [16]);
    assert_eq!(f32s(cut), first, "what stands behind the limit is as if it was not there");
    let left = v1::EmbedRequest { truncation_side: v1::TruncationSide::Left.into(), ..of_bert(&[&long]) };
    assert_eq!(vectors(&server, left).await, first, "the end has the same letters");
    let refused = v1::EmbedRequest { long_input: v1::LongInput::Error.into(), ..of_bert(&["a", &long]) };
    assert_refused(server.embed().embed(refused).await, Code::InvalidArgument, "texts.values[1]");
    long.push('a');
    let refused = server.embed().embed(of_bert(&["a", &long])).await;
    assert_refused(refused, Code::InvalidArgument, "texts.values[1]");
    let many = vec!["a"; 16_385];
    assert_refused(server.embed().embed(texts(&many)).await, Code::InvalidArgument, "texts");
    let whole = v1::TokenizeRequest {
        model: "bert".to_owned(),
        texts: Some(v1::TextInput { values: vec![PART.repeat(MEBIBYTE / PART.len())] }),
        ..Default::default()
    };
    let whole = server.embed().tokenize(whole).await.expect("it is cut to no length").into_inner().tokens.expect("ids");
    assert_eq!(whole.ids.len(), MEBIBYTE / PART.len() * 14 + 2);
    server.assert_serving().await;
}

#[tokio::test]
async fn token_ids_are_truncated_or_refused_like_texts_and_must_be_in_the_vocabulary() {
    let server = with_bert().await;
    let first = vectors(&server, tokens(&[vec![5; 16]])).await;
    let cut = answer(&server, tokens(&[vec![5; 200_000]])).await;
    assert_eq!(cut.token_counts, [16]);
    assert_eq!(f32s(cut), first);
    let error = v1::EmbedRequest { long_input: v1::LongInput::Error.into(), ..tokens(&[vec![5], vec![5; 41]]) };
    assert_refused(server.embed().embed(error).await, Code::InvalidArgument, "tokens.offsets[2]");
    for (lists, field) in [
        (vec![vec![5], vec![5, 48]], "tokens.ids[2]"),
        (vec![vec![u32::MAX]], "expected an id below 48, got 4294967295"),
    ] {
        assert_refused(server.embed().embed(tokens(&lists)).await, Code::InvalidArgument, field);
        assert_eq!(vectors(&server, tokens(&[vec![5; 16]])).await, first);
    }
    let empty = answer(&server, tokens(&[vec![], vec![]])).await;
    assert_eq!(empty.token_counts, [0, 0]);
    assert!(f32s(empty).iter().all(|x| *x == 0.0));
}
