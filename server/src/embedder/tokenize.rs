//! Converts texts to token ids, and finds where each token is in its text.

use std::{collections::BTreeMap, sync::Arc};

use accelerd_models::{Model, Sequences};

use super::{
    embed::{Embedder, Tokens},
    registry::LoadedModel,
    tokenizer_pool::{TokenizeFn, untruncated},
};
use crate::error::ApiError;

/// Where the tokens of texts are, with an entry for each token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSpans {
    /// The first byte of its text.
    pub starts: Vec<u32>,
    /// The byte after its last one.
    pub ends: Vec<u32>,
    /// Whether the model adds it to the text.
    pub special: Vec<bool>,
    /// Texts of the tokens that the model adds, by id.
    pub special_texts: BTreeMap<u32, String>,
}

impl Embedder {
    /// Tokenizes texts with special tokens and without truncation. Spans are empty unless asked for.
    pub async fn tokenize(
        &self,
        model: &Arc<LoadedModel>,
        texts: Vec<String>,
        with_spans: bool,
    ) -> Result<(Tokens, TokenSpans), ApiError> {
        self.check_texts("texts", &texts)?;
        let tokenize: TokenizeFn = if with_spans { Arc::new(Model::token_spans) } else { untruncated() };
        let sequences = self.tokenizer_pool.tokenize(model, texts, tokenize).await?;
        let spans = if with_spans { TokenSpans::new(model, &sequences) } else { TokenSpans::default() };
        Ok((Tokens { ids: sequences.ids, offsets: sequences.offsets }, spans))
    }
}

impl TokenSpans {
    fn new(model: &Model, sequences: &Sequences) -> Self {
        // Texts have fewer bytes than a message, whose limit is below 4 GiB.
        let position = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
        let (before, after) = model.special_tokens();
        let mut special = vec![false; sequences.ids.len()];
        for text in 0..sequences.texts() {
            let of_text = &mut special[sequences.tokens(text)];
            let end = of_text.len() - after.len();
            of_text[..before.len()].fill(true);
            of_text[end..].fill(true);
        }
        let texts = before.iter().chain(after).filter_map(|&id| Some((id, model.special_text(id)?)));
        Self {
            starts: sequences.bytes.iter().map(|range| position(range.start)).collect(),
            ends: sequences.bytes.iter().map(|range| position(range.end)).collect(),
            special,
            special_texts: texts.collect(),
        }
    }
}
