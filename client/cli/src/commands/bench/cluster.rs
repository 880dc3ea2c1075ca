//! Benchmark of k-means over a collection.

use std::sync::Arc;

use accelerd_client::{ClusterOptions, Collection};
use clap::Args;

use super::{Calls, Context, Load, Subject, measure, vectors::Source};
use crate::{error::Result, format};

#[derive(Debug, Args)]
pub(super) struct ClusterBench {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    source: Source,
    /// Number of clusters.
    #[arg(short = 'k', long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    clusters: u32,
    /// Maximum iterations; 0 means the daemon's default.
    #[arg(long, default_value_t = 0, value_name = "N")]
    iterations: u32,
}

impl ClusterBench {
    pub(super) async fn run(&self, context: &Context<'_>) -> Result {
        let measured = async |collection: Collection, kept| {
            let described = collection.get().await?;
            let points = format::count(described.point_count);
            let dim = described.dimensions;
            let input = format!("{} of {points} points x {dim}", format::plural(self.clusters.into(), "cluster"));
            let items = u32::try_from(described.point_count).unwrap_or(u32::MAX);
            let subject = Subject { bench: "cluster", input, items, calls: self.calls(collection.name()), kept };
            measure(subject, &self.load, context).await
        };
        self.source.with_collection(context.builder, measured).await
    }

    fn calls(&self, collection: &str) -> Calls {
        let name: Arc<str> = collection.into();
        let options = ClusterOptions { max_iterations: self.iterations, ..ClusterOptions::clusters(self.clusters) };
        Arc::new(move |client| {
            let client = client.clone();
            let name = Arc::clone(&name);
            let options = options.clone();
            Arc::new(move |_| {
                let client = client.clone();
                let name = Arc::clone(&name);
                let options = options.clone();
                Box::pin(async move { client.cluster_collection(&*name, &options).await.map(|_| ()) })
            })
        })
    }
}
