//! Benchmark of searches in a collection.

use std::sync::Arc;

use accelerd_client::{Collection, SearchOptions};
use clap::Args;

use super::{
    Calls, Context, Items, K, Load, Subject, measure, pick, texts,
    vectors::{Source, random},
};
use crate::{error::Result, format};

/// Words per query of a collection with a model.
const WORDS: usize = 6;

/// The queries are texts if the collection has a model.
#[derive(Debug, Args)]
pub(super) struct SearchBench {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    items: Items,
    #[command(flatten)]
    source: Source,
}

impl SearchBench {
    pub(super) async fn run(&self, context: &Context<'_>) -> Result {
        let measured = async |collection: Collection, kept| {
            let (input, calls) = self.calls(&collection).await?;
            let subject = Subject { bench: "search", input, items: self.items.batch, calls, kept };
            measure(subject, &self.load, context).await
        };
        self.source.with_collection(context.builder, measured).await
    }

    /// Returns a description of the input and the calls.
    async fn calls(&self, collection: &Collection) -> Result<(String, Calls)> {
        let described = collection.get().await?;
        let items = self.items.batch;
        let points = format::count(described.point_count);
        let options = SearchOptions { no_payload: true, ..SearchOptions::limit(K) };
        let name = collection.name().to_owned();
        if described.model.is_empty() {
            let queries = random(items, described.dimensions)?;
            let calls: Calls = Arc::new(move |client| {
                let collection = client.collection(&name);
                let queries = queries.clone();
                let options = options.clone();
                Arc::new(move |_| {
                    let collection = collection.clone();
                    let queries = queries.clone();
                    let options = options.clone();
                    Box::pin(async move { collection.search_vectors(queries, &options).await.map(|_| ()) })
                })
            });
            return Ok((format!("{items} vector(s) against {points} points x {}", described.dimensions), calls));
        }
        let inputs = Arc::new(texts(items, WORDS));
        let calls: Calls = Arc::new(move |client| {
            let collection = client.collection(&name);
            let inputs = Arc::clone(&inputs);
            let options = options.clone();
            Arc::new(move |number| {
                let collection = collection.clone();
                let texts = pick(&inputs, number);
                let options = options.clone();
                Box::pin(async move { collection.search_text(texts, &options).await.map(|_| ()) })
            })
        });
        Ok((format!("{items} text(s) against {points} points"), calls))
    }
}
