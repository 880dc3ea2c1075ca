//! Benchmark of searches in an inline corpus.

use std::sync::Arc;

use accelerd_client::SimilarOptions;
use clap::Args;

use super::{
    Calls, Items, K, Load, Subject,
    vectors::{Corpus, random},
};
use crate::{error::Result, format};

#[derive(Debug, Args)]
pub(super) struct SimilarBench {
    #[command(flatten)]
    pub(super) load: Load,
    #[command(flatten)]
    items: Items,
    #[command(flatten)]
    corpus: Corpus,
}

impl SimilarBench {
    pub(super) fn subject(&self) -> Result<Subject> {
        let items = self.items.batch;
        let Corpus { rows, dim } = self.corpus;
        let input = format!("{items} against {} inline x {dim}", format::count(rows.into()));
        Ok(Subject { bench: "similar", input, items, calls: self.calls()?, kept: None })
    }

    fn calls(&self) -> Result<Calls> {
        let Corpus { rows, dim } = self.corpus;
        let corpus = random(rows, dim)?;
        let queries = random(self.items.batch, dim)?;
        let options = SimilarOptions::cosine(K.min(rows));
        Ok(Arc::new(move |client| {
            let client = client.clone();
            let queries = queries.clone();
            let corpus = corpus.clone();
            let options = options.clone();
            Arc::new(move |_| {
                let client = client.clone();
                let queries = queries.clone();
                let corpus = corpus.clone();
                let options = options.clone();
                Box::pin(async move { client.find_similar(queries, corpus, &options).await.map(|_| ()) })
            })
        }))
    }
}
