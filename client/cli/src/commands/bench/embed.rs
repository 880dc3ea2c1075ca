//! Benchmark of embeddings of random texts or token ids.

use std::sync::Arc;

use accelerd_client::{Builder, EmbedOptions, Tokens};
use clap::Args;
use rand::Rng;

use super::{Calls, Items, Load, pick, texts};
use crate::{
    error::{CliError, Result},
    format,
};

#[derive(Debug, Args)]
pub(super) struct EmbedBench {
    #[command(flatten)]
    pub(super) load: Load,
    #[command(flatten)]
    pub(super) items: Items,
    /// Name or alias of a loaded model.
    #[arg(long, default_value = "builtin")]
    model: String,
    /// Words per text.
    #[arg(long, default_value_t = 16, value_name = "N")]
    words: usize,
    /// Send this many random token ids per text instead of words.
    #[arg(long, value_name = "N", conflicts_with = "words", value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Option<u32>,
}

impl EmbedBench {
    /// Returns a description of the input and the calls.
    pub(super) async fn calls(&self, builder: &Builder) -> Result<(String, Calls)> {
        let texts = format::plural(self.items.batch.into(), "text");
        Ok(match self.tokens {
            Some(tokens) => (format!("{texts} of {tokens} token ids"), self.calls_with_ids(tokens, builder).await?),
            None => (format!("{texts} of {} words", self.words), self.calls_with_words()),
        })
    }

    fn options(&self) -> EmbedOptions {
        EmbedOptions { model: self.model.clone(), ..Default::default() }
    }

    fn calls_with_words(&self) -> Calls {
        let options = self.options();
        let inputs = Arc::new(texts(self.items.batch, self.words));
        Arc::new(move |client| {
            let client = client.clone();
            let options = options.clone();
            let inputs = Arc::clone(&inputs);
            Arc::new(move |number| {
                let client = client.clone();
                let texts = pick(&inputs, number);
                let options = options.clone();
                Box::pin(async move { client.embed_with(texts, &options).await.map(|_| ()) })
            })
        })
    }

    async fn calls_with_ids(&self, length: u32, builder: &Builder) -> Result<Calls> {
        let models = builder.clone().connect().await?.models().await?;
        let model = models.iter().find(|model| model.name == self.model || model.aliases.contains(&self.model));
        let Some(model) = model else { return Err(CliError::Usage(format!("no model {} is loaded", self.model))) };
        let options = self.options();
        let tokens = Arc::new(ids(self.items.batch, length, model.vocabulary_size)?);
        Ok(Arc::new(move |client| {
            let client = client.clone();
            let options = options.clone();
            let tokens = Arc::clone(&tokens);
            Arc::new(move |_| {
                let client = client.clone();
                let options = options.clone();
                let tokens = tokens.as_ref().clone();
                Box::pin(async move { client.embed_tokens(tokens, &options).await.map(|_| ()) })
            })
        }))
    }
}

/// Random texts of `length` token ids.
fn ids(texts: u32, length: u32, vocabulary: u32) -> Result<Tokens> {
    let total = texts.checked_mul(length).ok_or_else(|| CliError::Usage("too many token ids for one call".into()))?;
    let mut random = rand::rng();
    Ok(Tokens {
        ids: (0..total).map(|_| random.random_range(0..vocabulary.max(1))).collect(),
        offsets: (0..=texts).map(|text| text * length).collect(),
    })
}
