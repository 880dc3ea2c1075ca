//! Random vectors, and collections of them.

use accelerd_client::{Builder, Collection, CollectionOptions, Error, Matrix, MatrixRef};
use clap::Args;
use rand::Rng;

use crate::error::{CliError, Result};

/// Rows per upsert.
const ROWS_AN_UPSERT: usize = 4096;

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Corpus {
    /// Rows of the random corpus.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rows: u32,
    /// Dimensions of the random corpus.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) dim: u32,
}

/// The collection of a benchmark.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// An existing collection.
    #[arg(long, short, conflicts_with_all = ["rows", "dim", "keep"])]
    collection: Option<String>,
    #[command(flatten)]
    corpus: Corpus,
    /// Keep the random collection, and print its name.
    #[arg(long)]
    keep: bool,
}

impl Source {
    /// Calls `measure` with the collection and, if it is random and kept, its name. A random collection is deleted at the end
    /// unless it is kept.
    pub(super) async fn with_collection(
        &self,
        builder: &Builder,
        measure: impl AsyncFnOnce(Collection, Option<String>) -> Result,
    ) -> Result {
        let client = builder.clone().connect().await?;
        if let Some(name) = &self.collection {
            return measure(client.collection(name), None).await;
        }
        let Corpus { rows, dim } = self.corpus;
        let collection = client.collection(format!("accelctl-bench-{:08x}", rand::random::<u32>()));
        collection.create(&CollectionOptions { dimensions: dim, ..Default::default() }).await?;
        let kept = self.keep.then(|| collection.name().to_owned());
        let measured = async {
            fill(&collection, rows, dim).await?;
            measure(collection.clone(), kept).await
        };
        let outcome = tokio::select! {
            outcome = measured => outcome,
            _ = tokio::signal::ctrl_c() => Err(CliError::Partial("interrupted".into())),
        };
        if self.keep {
            return outcome;
        }
        let deleted = collection.delete().await;
        outcome.and(deleted.map_err(Into::into))
    }
}

async fn fill(collection: &Collection, rows: u32, dim: u32) -> Result {
    let rows = random(rows, dim)?;
    for (index, part) in rows.as_slice().chunks(ROWS_AN_UPSERT * rows.dim()).enumerate() {
        let part = MatrixRef::new(part, rows.dim()).map_err(Error::from)?;
        let first = (index * ROWS_AN_UPSERT) as u64;
        collection.upsert_vectors(first..first + part.rows() as u64, part, vec![]).await?;
    }
    Ok(())
}

/// Random rows between -1 and 1.
pub(super) fn random(rows: u32, dim: u32) -> Result<Matrix> {
    let count = (rows as usize).saturating_mul(dim as usize);
    let mut random = rand::rng();
    let numbers = (0..count).map(|_| random.random_range(-1.0..1.0)).collect();
    Ok(Matrix::new(numbers, dim as usize).map_err(Error::from)?)
}
