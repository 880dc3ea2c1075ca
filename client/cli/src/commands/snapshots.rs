//! Lists the snapshots of a collection, and deletes old ones.

use accelerd_client::{Client, proto};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    complete,
    error::Result,
    format,
    output::{Output, Report},
    renderer::{Renderer, Style, Table},
};

/// List the snapshots of a collection, and delete old ones.
///
/// `accelctl collections snapshot` writes one, `accelctl collections restore` creates a collection from one.
#[derive(Debug, Args)]
pub struct SnapshotsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the snapshots of a collection, oldest first. The collection need not exist any more.
    List {
        #[command(flatten)]
        folder: Folder,
    },
    /// Delete the snapshots of a collection but for the newest ones.
    Prune {
        #[command(flatten)]
        folder: Folder,
        /// Number of snapshots to keep.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
        /// Show what would be deleted without deleting anything.
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
struct Folder {
    /// The collection.
    #[arg(add = complete::collections())]
    collection: String,
    /// Folder in an object store (file:///...) [default: the daemon's setting].
    #[arg(long, default_value = "", hide_default_value = true)]
    url: String,
}

#[derive(Serialize)]
struct Snapshot {
    url: String,
    version: u64,
    points: u64,
    size_bytes: u64,
    /// Seconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<i64>,
}

impl From<proto::Snapshot> for Snapshot {
    fn from(snapshot: proto::Snapshot) -> Self {
        let proto::Snapshot { url, version, point_count, size_bytes, create_time } = snapshot;
        Self { url, version, points: point_count, size_bytes, created: create_time.map(|time| time.seconds) }
    }
}

#[derive(Serialize)]
struct Listed {
    snapshots: Vec<Snapshot>,
}

impl Report for Listed {
    fn render(&self, renderer: &mut Renderer) {
        if self.snapshots.is_empty() {
            return renderer.line("no snapshots; `accelctl collections snapshot` writes one");
        }
        let table = table(&self.snapshots, renderer);
        renderer.table(&table);
    }
}

#[derive(Serialize)]
struct Pruned {
    dry_run: bool,
    deleted: Vec<Snapshot>,
}

impl Report for Pruned {
    fn render(&self, renderer: &mut Renderer) {
        let deleted = if self.dry_run { "would delete" } else { "deleted" };
        renderer.line(format!("{deleted} {}", format::plural(self.deleted.len() as u64, "snapshot")));
        let table = table(&self.deleted, renderer);
        renderer.table(&table);
    }
}

fn table(snapshots: &[Snapshot], renderer: &Renderer) -> Table {
    let mut table = Table::new(["version", "points", "size", "<url"]);
    for snapshot in snapshots {
        table.row([
            snapshot.version.to_string(),
            format::count(snapshot.points),
            format::bytes(snapshot.size_bytes),
            renderer.style(Style::Name, &snapshot.url),
        ]);
    }
    table
}

pub async fn run(args: SnapshotsArgs, client: &Client, output: &Output) -> Result {
    match args.action {
        Action::List { folder: Folder { collection, url } } => {
            let listed = client.collection(collection).snapshots(url).await?;
            output.show(&Listed { snapshots: listed.into_iter().map(Into::into).collect() })
        }
        Action::Prune { folder: Folder { collection, url }, keep, dry_run } => {
            let collection = client.collection(collection);
            let deleted = if dry_run {
                let mut listed = collection.snapshots(url).await?;
                listed.truncate(listed.len().saturating_sub(keep as usize));
                listed
            } else {
                collection.prune_snapshots(url, keep).await?
            };
            output.show(&Pruned { dry_run, deleted: deleted.into_iter().map(Into::into).collect() })
        }
    }
}
