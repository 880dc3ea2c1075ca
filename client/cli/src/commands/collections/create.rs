//! Creates an empty collection.

use accelerd_client::{
    Client, CollectionOptions,
    proto::{self, Dtype},
};
use clap::{Args, ValueEnum};

use crate::{
    commands::{prompts::CollectionPrompts, similar::Metric},
    complete,
    error::{CliError, Result},
};

/// Create an empty collection, of texts that a model embeds or of vectors.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Name of the collection.
    name: String,
    /// Model that embeds its texts; without one, the collection takes vectors only.
    #[arg(long, value_name = "MODEL", add = complete::models())]
    model: Option<String>,
    #[command(flatten)]
    prompts: CollectionPrompts,
    /// Dimensions of its vectors [default: the model's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    dimensions: Option<u32>,
    /// Metric.
    #[arg(long, value_enum, default_value_t = Metric::Cosine)]
    metric: Metric,
    /// Element type of the copy that a GPU scans; results are the same for all.
    #[arg(long, value_enum, value_name = "TYPE")]
    storage: Option<Storage>,
    /// Payload field to index for full-text search.
    #[arg(long, value_name = "FIELD")]
    text_field: Option<String>,
    /// Write to a log, so that the collection survives a restart or crash; fails if the daemon has no --data-dir. With one,
    /// collections are durable by default.
    #[arg(long)]
    durable: bool,
    /// Keep the collection in memory only, so that a restart discards it.
    #[arg(long, conflicts_with = "durable")]
    in_memory: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Storage {
    F32,
    F16,
    Bf16,
    I8,
}

impl From<Storage> for Dtype {
    fn from(storage: Storage) -> Self {
        match storage {
            Storage::F32 => Self::F32,
            Storage::F16 => Self::F16,
            Storage::Bf16 => Self::Bf16,
            Storage::I8 => Self::I8,
        }
    }
}

pub async fn run(args: CreateArgs, client: &Client) -> Result<proto::Collection> {
    if args.model.is_none() && args.dimensions.is_none() {
        return Err(CliError::Usage("expected --model for texts, or --dimensions for vectors".to_owned()));
    }
    let mut options = CollectionOptions {
        dimensions: args.dimensions.unwrap_or_default(),
        metric: args.metric.into(),
        storage: args.storage.map(Dtype::from).unwrap_or_default(),
        document_prompt: args.prompts.document(),
        query_prompt: args.prompts.query(),
        model: args.model.unwrap_or_default(),
        text_field: args.text_field.unwrap_or_default(),
        ..Default::default()
    };
    if args.durable || args.in_memory {
        options.durable = Some(args.durable);
    }
    Ok(client.collection(args.name).create(&options).await?)
}
