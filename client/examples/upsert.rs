//! Measures a bulk upsert, as the example of the same name in every other language does:
//! `cargo run --release -p accelerd-client --example upsert -- --points 100000 --dimensions 256 --batch 1000`.
#![allow(clippy::print_stdout, reason = "its result is a line of JSON")]

use std::time::Instant;

use accelerd_client::{Client, CollectionOptions, Error, Matrix, Points, Prompt, Upsert};
use clap::Parser;
use futures::{StreamExt, stream};

#[derive(Parser)]
struct Arguments {
    /// URL of the daemon.
    #[arg(long, default_value = accelerd_client::DEFAULT_URL)]
    target: String,
    /// Points to write.
    #[arg(long, default_value_t = 100_000)]
    points: u64,
    /// Dimensions of a vector.
    #[arg(long, default_value_t = 256)]
    dimensions: u32,
    /// Points of a batch.
    #[arg(long, default_value_t = 1000)]
    batch: usize,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let batches = batches(&arguments);
    let collection = Client::connect(arguments.target).await?.collection("upsert-rust");
    let options = CollectionOptions { dimensions: arguments.dimensions, ..CollectionOptions::default() };
    collection.create(&options).await?;
    let start = Instant::now();
    let mut outcomes = collection.upsert_stream(stream::iter(batches)).await?;
    while let Some(outcome) = outcomes.next().await {
        outcome?.result?;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(r#"{{"points": {}, "seconds": {seconds:.3}}}"#, arguments.points);
    collection.delete().await
}

/// Vectors of random numbers from 0 to 1.
fn batches(arguments: &Arguments) -> Vec<Upsert> {
    let ids: Vec<u64> = (0..arguments.points).collect();
    let dimensions = arguments.dimensions as usize;
    let batch = |ids: &[u64]| {
        let numbers: Vec<f32> = (0..ids.len() * dimensions).map(|_| rand::random()).collect();
        let vectors = Matrix::new(numbers, dimensions).expect("each row has its numbers");
        Upsert {
            ids: ids.to_vec().into(),
            points: Points::Vectors(vectors.into()),
            payloads: vec![],
            prompt: Prompt::Default,
        }
    };
    ids.chunks(arguments.batch).map(batch).collect()
}
