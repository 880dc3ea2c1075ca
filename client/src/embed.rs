//! Texts, code and token ids to vectors.

use crate::{
    Client, Error, Matrix, Result,
    call::Method,
    proto::{self, embed_request::Input},
    timing::Timings,
};

const EMBED: Method<proto::EmbedRequest, proto::EmbedResponse> = Method::repeatable("/accelerd.v1.EmbedService/Embed");
const TOKENIZE: Method<proto::TokenizeRequest, proto::TokenizeResponse> =
    Method::repeatable("/accelerd.v1.EmbedService/Tokenize");
const LIST_MODELS: Method<proto::ListModelsRequest, proto::ListModelsResponse> =
    Method::repeatable("/accelerd.v1.EmbedService/ListModels");

/// How to embed. The default is the daemon's built-in model at full length, normalised.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbedOptions {
    /// Name or alias of a loaded model; empty means `builtin`.
    pub model: String,
    /// Leading dimensions to keep; 0 keeps all.
    pub dimensions: u32,
    /// Leave vectors at the length the model gives them.
    pub keep_length: bool,
}

/// Vectors of some texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// One row a text, in the order given.
    pub vectors: Matrix,
    /// Tokens of each text.
    pub token_counts: Vec<u32>,
    /// The model that answered.
    pub model: String,
    /// Where the time went.
    pub timings: Timings,
}

/// Token ids of many texts, flattened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Ids of all texts, one after the other.
    pub ids: Vec<u32>,
    /// Where each text starts in `ids`, then the length of `ids`.
    pub offsets: Vec<u32>,
}

impl Tokens {
    /// The ids of each text; a pair of offsets that lies gives an empty one.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|pair| self.ids.get(pair[0] as usize..pair[1] as usize).unwrap_or_default())
    }
}

fn text_input(texts: impl IntoIterator<Item = impl Into<String>>) -> proto::TextInput {
    proto::TextInput { values: texts.into_iter().map(Into::into).collect() }
}

impl Client {
    /// Embeds texts with the built-in model.
    pub async fn embed(&self, texts: impl IntoIterator<Item = impl Into<String>>) -> Result<Embeddings> {
        self.embed_with(texts, &EmbedOptions::default()).await
    }

    /// Embeds texts.
    pub async fn embed_with(
        &self,
        texts: impl IntoIterator<Item = impl Into<String>>,
        options: &EmbedOptions,
    ) -> Result<Embeddings> {
        self.embed_input(Input::Texts(text_input(texts)), options).await
    }

    /// Embeds token ids, as [`Client::tokenize`] makes them.
    pub async fn embed_tokens(&self, tokens: Tokens, options: &EmbedOptions) -> Result<Embeddings> {
        let Tokens { ids, offsets } = tokens;
        self.embed_input(Input::Tokens(proto::TokenInput { ids, offsets }), options).await
    }

    async fn embed_input(&self, input: Input, options: &EmbedOptions) -> Result<Embeddings> {
        let request = proto::EmbedRequest {
            model: options.model.clone(),
            input: Some(input),
            dimensions: options.dimensions,
            normalize: Some(!options.keep_length),
        };
        let reply = self.unary(EMBED, request).await?;
        Ok(Embeddings {
            vectors: Matrix::from_tensor(reply.message.embeddings, "embeddings")?,
            token_counts: reply.message.token_counts,
            model: reply.message.model,
            timings: reply.timings,
        })
    }

    /// Splits texts into the token ids a model would see. An empty name means `builtin`.
    pub async fn tokenize(
        &self,
        model: impl Into<String>,
        texts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Tokens> {
        let request = proto::TokenizeRequest { model: model.into(), texts: Some(text_input(texts)) };
        let tokens = self.unary(TOKENIZE, request).await?.message.tokens;
        let proto::TokenInput { ids, offsets } = tokens.ok_or_else(|| Error::Malformed("no tokens".into()))?;
        Ok(Tokens { ids, offsets })
    }

    /// The models that are loaded, by name.
    pub async fn models(&self) -> Result<Vec<proto::Model>> {
        Ok(self.unary(LIST_MODELS, proto::ListModelsRequest {}).await?.message.models)
    }
}
