//! Estimates of a request's cost before it is handled: whether it is cheap, and the size of its response.

use std::sync::Arc;

use accelerd_proto::v1 as pb;

/// The dimensions of a model's embeddings by its name; 0 for a model that is not loaded.
pub(super) type Dimensions = Arc<dyn Fn(&str) -> usize + Send + Sync>;

/// Cost of a request. Methods with requests of variable size implement it here.
pub(super) trait RequestCost {
    /// Returns true if the handler, and building the response, are cheap enough for the reactor. The response's size is checked
    /// separately.
    fn is_cheap(&self) -> bool {
        false
    }

    /// Lower bound of the response's size in bytes, charged before it is computed.
    fn response_bytes(&self, _: &Dimensions) -> usize {
        0
    }
}

impl RequestCost for pb::EmbedRequest {
    fn is_cheap(&self) -> bool {
        match &self.input {
            Some(pb::embed_request::Input::Texts(texts)) => texts.values.len() <= 256,
            Some(pb::embed_request::Input::Tokens(tokens)) => tokens.offsets.len() <= 256,
            None => true,
        }
    }

    fn response_bytes(&self, dimensions: &Dimensions) -> usize {
        let rows = match &self.input {
            _ if !self.spans.is_empty() => self.spans.len(),
            Some(pb::embed_request::Input::Texts(texts)) => texts.values.len(),
            Some(pb::embed_request::Input::Tokens(tokens)) => tokens.offsets.len().saturating_sub(1),
            None => 0,
        };
        let columns = match self.dimensions {
            0 => dimensions(&self.model),
            dimensions => dimensions as usize,
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

impl RequestCost for pb::EmbedStreamRequest {
    fn response_bytes(&self, dimensions: &Dimensions) -> usize {
        self.embed.as_ref().map_or(0, |embed| embed.response_bytes(dimensions))
    }
}

impl RequestCost for pb::RerankRequest {
    fn is_cheap(&self) -> bool {
        self.documents.as_ref().is_none_or(|documents| documents.values.len() <= 256)
    }
}

impl RequestCost for pb::TokenizeRequest {
    fn is_cheap(&self) -> bool {
        self.texts.as_ref().is_none_or(|texts| texts.values.len() <= 64)
    }
}

impl RequestCost for pb::ParseRequest {
    fn is_cheap(&self) -> bool {
        self.sources.len() <= 64
    }
}

impl RequestCost for pb::FindSimilarRequest {
    fn is_cheap(&self) -> bool {
        hits(self.queries.as_ref(), self.k) <= 4096
    }
}

impl RequestCost for pb::SearchRequest {
    fn is_cheap(&self) -> bool {
        use pb::search_request::Query;
        let hits_per_query = self.limit.saturating_add(self.offset);
        let hits = match &self.query {
            Some(Query::Vectors(vectors)) => hits(Some(vectors), hits_per_query),
            Some(Query::Texts(texts)) => texts.values.len() as u64 * u64::from(hits_per_query),
            #[allow(unreachable_patterns, reason = "the proto may add kinds of queries")]
            Some(_) | None => u64::from(hits_per_query),
        };
        hits <= 256
    }
}

impl RequestCost for pb::GetPointsRequest {
    fn is_cheap(&self) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.numbers.len() + ids.uuids.len() <= 64)
    }
}

impl RequestCost for pb::UpsertRequest {
    fn is_cheap(&self) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.numbers.len() + ids.uuids.len() <= 256)
    }
}

/// Requests of large methods are never cheap.
macro_rules! large_requests {
    ($($service:ident $field:ident {
        $($id:ident $name:ident $cardinality:ident $size:ident $request:ident $response:ident;)*
    })*) => {
        $($(large_request! { $size $request })*)*
    };
}

macro_rules! large_request {
    (large $request:ident) => {
        impl RequestCost for pb::$request {}
    };
    ($other:ident $request:ident) => {};
}

accelerd_proto::with_all_services!(large_requests);

fn hits(queries: Option<&pb::Tensor>, hits_per_query: u32) -> u64 {
    let rows = queries.and_then(|queries| queries.shape.first().copied()).unwrap_or_default();
    u64::try_from(rows).unwrap_or_default().saturating_mul(hits_per_query.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_embedding_response_is_estimated() {
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
            assert_eq!(request.response_bytes(&dimensions), expected);
        }
        assert_eq!(pb::EmbedRequest::default().response_bytes(&dimensions), 0);
    }
}
