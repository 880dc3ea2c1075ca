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
    points: usize,
    /// Dimensions of a vector.
    #[arg(long, default_value_t = 256)]
    dimensions: usize,
    /// Points of a batch.
    #[arg(long, default_value_t = 1000)]
    batch: usize,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let batches = batches(&arguments);
    let collection = Client::connect(arguments.target).await?.collection("upsert-rust");
    let options = CollectionOptions { dimensions: arguments.dimensions as u32, ..CollectionOptions::default() };
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

/// Vectors of pseudo-random numbers from -1 to 1, by xorshift.
fn batches(arguments: &Arguments) -> Vec<Upsert> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut number = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    };
    let ids: Vec<u64> = (0..arguments.points as u64).collect();
    let batch = |ids: &[u64]| {
        let numbers = (0..ids.len() * arguments.dimensions).map(|_| number()).collect();
        let vectors = Matrix::new(numbers, arguments.dimensions).expect("each row has its numbers");
        Upsert {
            ids: ids.to_vec().into(),
            points: Points::Vectors(vectors.into()),
            payloads: vec![],
            prompt: Prompt::Default,
        }
    };
    ids.chunks(arguments.batch).map(batch).collect()
}
