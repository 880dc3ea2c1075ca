//! Vectors and ranked documents, as the APIs of other servers ask for them.

use accelerd_proto::{
    methods::embed_service,
    v1::{self as pb, embed_request},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::StatusCode;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, SeqAccess, Visitor},
    ser::SerializeSeq,
};

use super::models;
use crate::{exchange::Exchange, failure::Failure};

/// Texts or lists of token ids, alone or as a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inputs {
    /// One text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// The token ids of one text.
    Tokens(Vec<u32>),
    /// The token ids of several texts.
    TokenLists(Vec<Vec<u32>>),
}

const EXPECTED: &str = "a string, a list of strings, a list of token ids, or a list of lists of token ids";

impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InputsVisitor;
        impl<'de> Visitor<'de> for InputsVisitor {
            type Value = Inputs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Inputs, E> {
                Ok(Inputs::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Inputs, E> {
                Ok(Inputs::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Inputs, A::Error> {
                Ok(match items.next_element::<Item>()? {
                    None => Inputs::Texts(vec![]),
                    Some(Item::Text(first)) => Inputs::Texts(rest(first, items)?),
                    Some(Item::Token(first)) => Inputs::Tokens(rest(first, items)?),
                    Some(Item::Tokens(first)) => Inputs::TokenLists(rest(first, items)?),
                })
            }
        }
        from.deserialize_any(InputsVisitor)
    }
}

/// The first item of a list, which decides about the others.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a string, a token id, or a list of token ids")]
enum Item {
    Text(String),
    Token(u32),
    Tokens(Vec<u32>),
}

fn rest<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(first: T, mut items: A) -> Result<Vec<T>, A::Error> {
    let mut all = vec![first];
    while let Some(item) = items.next_element()? {
        all.push(item);
    }
    Ok(all)
}

impl Inputs {
    /// The input of a request to embed; token ids are those of the model.
    pub(crate) fn into_request(self) -> embed_request::Input {
        let texts = |values| embed_request::Input::Texts(pb::TextInput { values });
        match self {
            Self::Text(text) => texts(vec![text]),
            Self::Texts(values) => texts(values),
            Self::Tokens(ids) => embed_request::Input::Tokens(token_input(&[ids])),
            Self::TokenLists(lists) => embed_request::Input::Tokens(token_input(&lists)),
        }
    }
}

fn token_input(lists: &[Vec<u32>]) -> pb::TokenInput {
    let ends = lists.iter().scan(0, |end, list| {
        *end += list.len();
        Some(u32::try_from(*end).unwrap_or(u32::MAX))
    });
    pb::TokenInput { offsets: std::iter::once(0).chain(ends).collect(), ids: lists.concat() }
}

/// Vectors of f32, which stay as the service sent them.
#[derive(Debug)]
pub(crate) struct Vectors {
    tensor: pb::Tensor,
    pub(crate) token_counts: Vec<u32>,
    pub(crate) model: String,
}

/// Embeds the inputs of a request.
pub(crate) async fn embed(exchange: &Exchange, request: &pb::EmbedRequest) -> Result<Vectors, Failure> {
    let response = exchange.call(embed_service::EMBED, request).await?;
    let pb::EmbedResponse { embeddings, token_counts, model, .. } = response;
    let missing = || Failure::internal("the response has no vectors");
    Ok(Vectors { tensor: embeddings.ok_or_else(missing)?, token_counts, model })
}

impl Vectors {
    /// The vectors in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vector<'_>> {
        let dimensions = self.tensor.shape.last().map_or(1, |dimensions| usize::try_from(*dimensions).unwrap_or(1));
        self.tensor.data.chunks_exact(dimensions.max(1) * size_of::<f32>()).map(Vector)
    }

    /// Bytes of their text: most numbers take about three times as many characters as bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        self.tensor.data.len().saturating_mul(3)
    }

    /// Tokens of all inputs.
    pub(crate) fn tokens(&self) -> u64 {
        self.token_counts.iter().map(|count| u64::from(*count)).sum()
    }
}

/// The bytes of a vector of f32 in little-endian order. Its numbers are written with as few digits as identify them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vector<'a>(&'a [u8]);

impl Vector<'_> {
    pub(crate) fn base64(self) -> String {
        STANDARD.encode(self.0)
    }

    pub(crate) fn values(self) -> Vec<f32> {
        self.0.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }
}

impl Serialize for Vector<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.0.len() / size_of::<f32>()))?;
        for bytes in self.0.as_chunks::<4>().0 {
            list.serialize_element(&f32::from_le_bytes(*bytes))?;
        }
        list.end()
    }
}

/// Documents to rank: texts, or objects with a `text`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a string or an object with a string `text`")]
pub(crate) enum Document {
    /// A text.
    Text(String),
    /// An object with a text.
    Object {
        /// The text.
        text: String,
    },
}

impl Document {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Object { text } => text,
        }
    }
}

/// The name of the reranker of a request without one: the only cross-encoder that is loaded, if no setting names one.
pub(crate) async fn reranker(exchange: &Exchange, asked: Option<String>) -> Result<String, Failure> {
    let configured = exchange.shared.settings.reranker.clone();
    if let Some(name) = [asked.unwrap_or_default(), configured].into_iter().find(|name| !name.is_empty()) {
        return Ok(name);
    }
    let mut encoders =
        models::list(exchange).await?.into_iter().filter(|model| model.cross_encoder).map(|model| model.name);
    match (encoders.next(), encoders.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Failure::new(StatusCode::NOT_FOUND, "no reranker is loaded; see the setting models.preload")),
        (Some(_), Some(_)) => {
            let message = "several rerankers are loaded: name one, or set http.reranker";
            Err(Failure::invalid("model", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_texts_or_token_ids() {
        let parsed = |text: &str| serde_json::from_str::<Inputs>(text);
        let texts = |texts: &[&str]| Inputs::Texts(texts.iter().map(|&text| text.to_owned()).collect());
        assert_eq!(parsed(r#""a\u00e9""#).expect("a text"), Inputs::Text("aé".to_owned()));
        assert_eq!(parsed(r#"["a", ""]"#).expect("texts"), texts(&["a", ""]));
        assert_eq!(parsed("[]").expect("nothing"), texts(&[]));
        assert_eq!(parsed("[1, 4294967295]").expect("ids"), Inputs::Tokens(vec![1, u32::MAX]));
        assert_eq!(parsed("[[1], [], [2, 3]]").expect("lists"), Inputs::TokenLists(vec![vec![1], vec![], vec![2, 3]]));
        for malformed in
            ["1", "{}", "null", "[null]", r#"["a", 1]"#, "[1, \"a\"]", "[-1]", "[4294967296]", "[[1], 2]", "[1.5]"]
        {
            parsed(malformed).expect_err(malformed);
        }
    }

    #[test]
    fn lists_of_token_ids_are_concatenated() {
        let input = token_input(&[vec![7], vec![], vec![8, 9]]);
        assert_eq!((input.ids, input.offsets), (vec![7, 8, 9], vec![0, 1, 1, 3]));
    }

    #[test]
    fn numbers_of_vectors_are_read_back_with_equal_bits() {
        let values = [0.1f32, -0.0, f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX, 1.0 / 3.0, 16_777_216.0];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let text = serde_json::to_string(&Vector(&bytes)).expect("JSON");
        let read: Vec<f64> = serde_json::from_str(&text).expect("numbers");
        #[expect(clippy::cast_possible_truncation, reason = "a reader of f32 rounds what it has read as f64")]
        let read: Vec<u32> = read.iter().map(|value| (*value as f32).to_bits()).collect();
        assert_eq!(read, values.map(f32::to_bits));
        assert_eq!(STANDARD.decode(Vector(&bytes).base64()).expect("base64"), bytes);
    }
}
