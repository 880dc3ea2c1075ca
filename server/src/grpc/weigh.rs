//! What a request costs, told before it is handled: how long its handler takes, and how large its answer is at least.

use std::sync::Arc;

use accelerd_proto::v1 as pb;

/// The dimensions of a model's embeddings, by its name; 0 for a model that is not loaded.
pub(super) type Dimensions = Arc<dyn Fn(&str) -> usize + Send + Sync>;

/// What a request costs, by what it asks for.
pub(super) trait Weigh {
    /// Whether neither the handler nor the structure of the answer takes long. The answer's bytes are weighed by themselves.
    fn is_light(&self) -> bool {
        false
    }

    /// Bytes of the answer as far as they follow from the request, at least: they are charged before the answer is computed.
    fn answer_bytes(&self, _: &Dimensions) -> usize {
        0
    }
}

impl Weigh for pb::EmbedRequest {
    fn is_light(&self) -> bool {
        match &self.input {
            Some(pb::embed_request::Input::Texts(texts)) => texts.values.len() <= 256,
            Some(pb::embed_request::Input::Tokens(tokens)) => tokens.offsets.len() <= 256,
            None => true,
        }
    }

    fn answer_bytes(&self, dimensions: &Dimensions) -> usize {
        let rows = match &self.input {
            _ if !self.spans.is_empty() => self.spans.len(),
            Some(pb::embed_request::Input::Texts(texts)) => texts.values.len(),
            Some(pb::embed_request::Input::Tokens(tokens)) => tokens.offsets.len().saturating_sub(1),
            None => 0,
        };
        let columns = match self.dimensions {
            0 => dimensions(&self.model),
            fewer => fewer as usize,
        };
        let bits = match self.output_type() {
            pb::OutputType::Unspecified | pb::OutputType::F32 => 32,
            pb::OutputType::F16 | pb::OutputType::Bf16 => 16,
            pb::OutputType::Int8 => 8,
            pb::OutputType::Binary => 1,
        };
        rows.saturating_mul(columns).saturating_mul(bits) / 8
    }
}

impl Weigh for pb::EmbedStreamRequest {
    fn answer_bytes(&self, dimensions: &Dimensions) -> usize {
        self.embed.as_ref().map_or(0, |embed| embed.answer_bytes(dimensions))
    }
}

impl Weigh for pb::RerankRequest {
    fn is_light(&self) -> bool {
        self.documents.as_ref().is_none_or(|documents| documents.values.len() <= 256)
    }
}

impl Weigh for pb::TokenizeRequest {
    fn is_light(&self) -> bool {
        self.texts.as_ref().is_none_or(|texts| texts.values.len() <= 64)
    }
}

impl Weigh for pb::ParseRequest {
    fn is_light(&self) -> bool {
        self.sources.len() <= 64
    }
}

impl Weigh for pb::FindSimilarRequest {
    fn is_light(&self) -> bool {
        hits(self.queries.as_ref(), self.k) <= 4096
    }
}

impl Weigh for pb::SearchRequest {
    fn is_light(&self) -> bool {
        use pb::search_request::Query;
        let wanted = self.limit.saturating_add(self.offset);
        let hits = match &self.query {
            Some(Query::Vectors(vectors)) => hits(Some(vectors), wanted),
            Some(Query::Texts(texts)) => texts.values.len() as u64 * u64::from(wanted),
            #[allow(unreachable_patterns, reason = "kinds of queries may be added")]
            Some(_) | None => u64::from(wanted),
        };
        hits <= 256
    }
}

impl Weigh for pb::GetPointsRequest {
    fn is_light(&self) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.numbers.len() + ids.uuids.len() <= 64)
    }
}

impl Weigh for pb::UpsertRequest {
    fn is_light(&self) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.numbers.len() + ids.uuids.len() <= 256)
    }
}

impl Weigh for pb::ClusterRequest {}
impl Weigh for pb::ParseStreamRequest {}
impl Weigh for pb::UpsertStreamRequest {}

fn hits(queries: Option<&pb::Tensor>, each: u32) -> u64 {
    let rows = queries.and_then(|queries| queries.shape.first().copied()).unwrap_or_default();
    u64::try_from(rows).unwrap_or_default().saturating_mul(each.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_an_embedding_is_foretold() {
        let dimensions: Dimensions = Arc::new(|_| 256);
        let input = Some(pb::embed_request::Input::Tokens(pb::TokenInput { ids: vec![1; 9], offsets: vec![0, 4, 9] }));
        let tokens = pb::EmbedRequest { input, ..pb::EmbedRequest::default() };
        let values = vec!["a".to_owned(); 3];
        let input = Some(pb::embed_request::Input::Texts(pb::TextInput { values }));
        let texts = pb::EmbedRequest { input, ..pb::EmbedRequest::default() };
        let fewer = pb::EmbedRequest { dimensions: 64, ..tokens.clone() };
        let binary = pb::EmbedRequest { output_type: pb::OutputType::Binary.into(), ..tokens.clone() };
        let spans = pb::EmbedRequest { spans: vec![pb::Span::default(); 5], ..tokens.clone() };
        let cases = [(tokens, 2 * 1024), (fewer, 2 * 256), (binary, 2 * 32), (spans, 5 * 1024), (texts, 3 * 1024)];
        for (request, expected) in cases {
            assert_eq!(request.answer_bytes(&dimensions), expected);
        }
        assert_eq!(pb::EmbedRequest::default().answer_bytes(&dimensions), 0);
    }
}
