//! List, drop, snapshot and restore collections.

use std::time::Duration;

use accelerd_client::{Client, Metric, proto};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    complete,
    error::Result,
    human,
    page::{Page, Paint, Table},
    screen::{Report, Screen},
};

/// Writing or reading a large snapshot takes longer than a usual call may.
const SNAPSHOT_DEADLINE: Duration = Duration::from_secs(3600);

/// List, delete, snapshot and restore collections.
#[derive(Debug, Args)]
pub struct CollectionsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List every collection.
    List,
    /// Delete collections, their logs and their local snapshots.
    Delete {
        /// Their names.
        #[arg(required = true, add = complete::collections())]
        names: Vec<String>,
    },
    /// Write a snapshot to an object store.
    Snapshot {
        /// The collection.
        #[arg(add = complete::collections())]
        name: String,
        /// Folder in an object store (file:///...); without it the one that the daemon is configured with.
        #[arg(long, default_value = "", hide_default_value = true)]
        url: String,
    },
    /// Make a collection from a snapshot.
    Restore {
        /// What `snapshot` printed, or its folder for the newest.
        url: String,
        /// Name of the new collection; without it the snapshot's.
        #[arg(long, default_value = "", hide_default_value = true)]
        name: String,
    },
}

#[derive(Serialize)]
struct Collections {
    collections: Vec<Collection>,
}

/// A collection as it is shown.
#[derive(Serialize)]
struct Collection {
    name: String,
    points: u64,
    dimensions: u32,
    metric: &'static str,
    storage: String,
    model: String,
    durable: bool,
    device: String,
    host_bytes: u64,
    device_bytes: u64,
    tombstones: u64,
}

impl From<proto::Collection> for Collection {
    fn from(collection: proto::Collection) -> Self {
        let metric = match collection.metric() {
            Metric::Unspecified | Metric::Cosine => "cosine",
            Metric::Dot => "dot",
            Metric::SquaredL2 => "squared_l2",
        };
        let storage = collection.storage().as_str_name().trim_start_matches("DTYPE_").to_ascii_lowercase();
        Self {
            points: collection.point_count,
            dimensions: collection.dimensions,
            metric,
            storage,
            durable: collection.durable,
            host_bytes: collection.host_bytes,
            device_bytes: collection.device_bytes,
            tombstones: collection.tombstone_count,
            name: collection.name,
            model: collection.model,
            device: collection.device,
        }
    }
}

impl Report for Collections {
    fn render(&self, page: &mut Page) {
        if self.collections.is_empty() {
            page.line("no collections; `accelctl index PATH --collection NAME` makes one");
        }
        let heads = ["<collection", "points", "dim", "<metric", "<storage", "<model", "<durable", "<device", "memory"];
        let mut table = Table::new(heads);
        for collection in &self.collections {
            table.row([
                page.paint(Paint::Name, &collection.name),
                human::count(collection.points),
                collection.dimensions.to_string(),
                collection.metric.to_owned(),
                collection.storage.clone(),
                if collection.model.is_empty() { "-".to_owned() } else { collection.model.clone() },
                if collection.durable { "yes" } else { "no" }.to_owned(),
                collection.device.clone(),
                human::bytes(collection.host_bytes + collection.device_bytes),
            ]);
        }
        page.table(&table);
    }
}

#[derive(Serialize)]
struct Deleted {
    deleted: Vec<String>,
}

impl Report for Deleted {
    fn render(&self, page: &mut Page) {
        for name in &self.deleted {
            page.line(format!("deleted {}", page.paint(Paint::Name, name)));
        }
    }
}

#[derive(Serialize)]
struct Snapshot {
    url: String,
    version: u64,
    points: u64,
    size_bytes: u64,
}

impl Report for Snapshot {
    fn render(&self, page: &mut Page) {
        let (points, size) = (human::plural(self.points, "point"), human::bytes(self.size_bytes));
        page.line(page.paint(Paint::Name, &self.url));
        page.line(format!("  version {}, {points}, {size}", self.version));
    }
}

/// Does what was asked.
pub async fn run(args: CollectionsArgs, client: &Client, screen: &Screen) -> Result {
    match args.action {
        Action::List => {
            let collections = client.collections().await?.into_iter().map(Into::into).collect();
            screen.show(&Collections { collections })
        }
        Action::Delete { names } => {
            for name in &names {
                client.collection(name).delete().await?;
            }
            screen.show(&Deleted { deleted: names })
        }
        Action::Snapshot { name, url } => {
            let client = client.clone().with_deadline(SNAPSHOT_DEADLINE);
            let snapshot = client.collection(name).snapshot(url).await?;
            let proto::Snapshot { url, version, point_count, size_bytes, .. } = snapshot;
            screen.show(&Snapshot { url, version, points: point_count, size_bytes })
        }
        Action::Restore { url, name } => {
            let restored = client.clone().with_deadline(SNAPSHOT_DEADLINE).restore(url, name).await?;
            screen.show(&Collections { collections: vec![restored.into()] })
        }
    }
}
