//! Lists, creates, reads, deletes, snapshots and restores collections.

use std::{collections::BTreeMap, time::Duration};

use accelerd_client::{Client, Collection as Stored, Id, Metric, Payload, ScrollOptions, Value, proto};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::{conditions::FilterArgs, prompts::CollectionPrompts};
use crate::{
    complete,
    error::Result,
    format,
    output::{Output, Report, write_json_lines},
    renderer::{Renderer, Style, Table},
};

mod create;
mod reembed;

/// Points per page.
const SCROLL_PAGE: u32 = 1_000;

/// Snapshots may take longer than the global timeout.
const SNAPSHOT_DEADLINE: Duration = Duration::from_secs(3600);

/// List, create, read, count, delete, snapshot and restore collections.
#[derive(Debug, Args)]
pub struct CollectionsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all collections.
    List,
    Create(create::CreateArgs),
    /// Count the points of a collection, or those that match --where.
    Count {
        /// The collection.
        #[arg(add = complete::collections())]
        name: String,
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// Print the points of a collection in ascending order of id, one JSON document per line.
    ///
    /// Points are read in pages. A point that exists throughout the command is printed exactly once, even if other points are
    /// written meanwhile.
    Scroll {
        /// The collection.
        #[arg(add = complete::collections())]
        name: String,
        #[command(flatten)]
        filter: FilterArgs,
        /// Maximum number of points [default: all].
        #[arg(long, short = 'n', value_name = "N")]
        limit: Option<u64>,
        /// Print vectors as well.
        #[arg(long)]
        vectors: bool,
        /// Omit payloads.
        #[arg(long)]
        no_payload: bool,
    },
    /// Delete collections, their logs and their local snapshots.
    Delete {
        /// Names of the collections.
        #[arg(required = true, add = complete::collections())]
        names: Vec<String>,
    },
    /// Embed the texts of a collection again into a new collection, with the model that is now loaded under the name of
    /// its model.
    ///
    /// The texts are those of a payload field. The new collection has the options of the old one, which stays as it is:
    /// delete it once the new one serves. If the command fails, delete the new collection and run it again.
    Reembed {
        /// The collection to read.
        #[arg(add = complete::collections())]
        name: String,
        /// Name of the new collection.
        new_name: String,
        /// Payload field of the texts [default: that of the full-text index].
        #[arg(long, value_name = "FIELD")]
        field: Option<String>,
        /// Model of the new collection [default: that of the old one].
        #[arg(long, value_name = "MODEL", add = complete::models())]
        model: Option<String>,
        #[command(flatten)]
        prompts: CollectionPrompts,
    },
    /// Write a snapshot to an object store.
    Snapshot {
        /// The collection.
        #[arg(add = complete::collections())]
        name: String,
        /// Folder in an object store (file:///...) [default: the daemon's setting].
        #[arg(long, default_value = "", hide_default_value = true)]
        url: String,
    },
    /// Create a collection from a snapshot.
    Restore {
        /// URL of a snapshot, or of its folder for the newest version.
        url: String,
        /// Name of the new collection [default: the original's].
        #[arg(long, default_value = "", hide_default_value = true)]
        name: String,
    },
}

#[derive(Serialize)]
struct Collections {
    collections: Vec<Collection>,
}

#[derive(Serialize)]
struct Collection {
    name: String,
    points: u64,
    dimensions: u32,
    metric: &'static str,
    storage: String,
    model: String,
    model_digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    query_prompt: Option<String>,
    durable: bool,
    device: String,
    host_memory_bytes: u64,
    device_memory_bytes: u64,
    tombstones: u64,
    read_only: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damage: Vec<String>,
    set_aside: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    set_aside_ids: Vec<IdText>,
}

impl From<proto::Collection> for Collection {
    fn from(collection: proto::Collection) -> Self {
        let metric = match collection.metric() {
            Metric::Unspecified | Metric::Cosine => "cosine",
            Metric::Dot => "dot",
            Metric::SquaredL2 => "squared_l2",
        };
        let storage = collection.storage().as_str_name().trim_start_matches("DTYPE_").to_ascii_lowercase();
        let set_aside_ids = collection.set_aside_ids.unwrap_or_default();
        let uuids = set_aside_ids.uuids.into_iter().map(IdText::Uuid);
        let set_aside_ids = set_aside_ids.numbers.into_iter().map(IdText::Number).chain(uuids).collect();
        Self {
            points: collection.point_count,
            dimensions: collection.dimensions,
            metric,
            storage,
            durable: collection.durable,
            host_memory_bytes: collection.host_memory_bytes,
            device_memory_bytes: collection.device_memory_bytes,
            tombstones: collection.tombstone_count,
            name: collection.name,
            model: collection.model,
            model_digest: collection.model_digest,
            document_prompt: collection.document_prompt,
            query_prompt: collection.query_prompt,
            device: collection.device,
            read_only: collection.read_only,
            damage: collection.damage,
            set_aside: collection.set_aside_count,
            set_aside_ids,
        }
    }
}

impl Collection {
    /// A line with its prompts, if it has any.
    fn prompts(&self) -> Option<String> {
        let (Some(document), Some(query)) = (&self.document_prompt, &self.query_prompt) else { return None };
        Some(format!("{}: prompts {document:?} for documents, {query:?} for queries", self.name))
    }

    /// Lines about collections that are not served or cannot be changed.
    fn warnings(&self) -> impl Iterator<Item = String> {
        let damage = self.damage.iter().map(|place| format!("{} is read-only: {place}", self.name));
        let ids: Vec<_> = self.set_aside_ids.iter().take(10).map(ToString::to_string).collect();
        let more = if self.set_aside > ids.len() as u64 { ", ..." } else { "" };
        let set_aside = format!(
            "{}: {} set aside, because the stored vectors have NaN or infinity; write them again: {}{more}",
            self.name,
            format::plural(self.set_aside, "point"),
            ids.join(", "),
        );
        damage.chain((self.set_aside > 0).then_some(set_aside))
    }
}

impl Report for Collections {
    fn render(&self, renderer: &mut Renderer) {
        if self.collections.is_empty() {
            renderer.line("no collections; `accelctl index PATH --collection NAME` creates one");
        }
        let heads = ["<collection", "points", "dim", "<metric", "<storage", "<model", "<durable", "<device", "memory"];
        let mut table = Table::new(heads);
        for collection in &self.collections {
            table.row([
                renderer.style(Style::Name, &collection.name),
                format::count(collection.points),
                collection.dimensions.to_string(),
                collection.metric.to_owned(),
                collection.storage.clone(),
                if collection.model.is_empty() { "-".to_owned() } else { collection.model.clone() },
                if collection.durable { "yes" } else { "no" }.to_owned(),
                collection.device.clone(),
                format::bytes(collection.host_memory_bytes + collection.device_memory_bytes),
            ]);
        }
        renderer.table(&table);
        for prompts in self.collections.iter().filter_map(Collection::prompts) {
            renderer.line(prompts);
        }
        for warning in self.collections.iter().flat_map(Collection::warnings) {
            renderer.line(warning);
        }
    }
}

#[derive(Serialize)]
struct Count {
    collection: String,
    points: u64,
}

impl Report for Count {
    /// Renders only the number, for scripts.
    fn render(&self, renderer: &mut Renderer) {
        renderer.line(self.points.to_string());
    }
}

/// A point of `scroll`.
#[derive(Serialize)]
struct Point<'a> {
    id: IdText,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<BTreeMap<String, serde_json::Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<&'a [f32]>,
}

/// A number, or a UUID as text.
#[derive(Serialize)]
#[serde(untagged)]
enum IdText {
    Number(u64),
    Uuid(String),
}

impl std::fmt::Display for IdText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Uuid(uuid) => uuid.fmt(f),
        }
    }
}

impl From<Id> for IdText {
    fn from(id: Id) -> Self {
        match id {
            Id::Number(number) => Self::Number(number),
            Id::Uuid(uuid) => Self::Uuid(uuid),
        }
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Text(text) => text.as_str().into(),
        Value::Int(int) => (*int).into(),
        Value::Double(double) => (*double).into(),
        Value::Bool(bool) => (*bool).into(),
    }
}

/// Prints points in pages, up to a limit.
async fn scroll(collection: &Stored, mut options: ScrollOptions, limit: Option<u64>) -> Result {
    let mut remaining = limit.unwrap_or(u64::MAX);
    let mut after = None;
    while remaining > 0 {
        options.limit = u32::try_from(remaining).unwrap_or(u32::MAX).min(SCROLL_PAGE);
        let page = collection.scroll(after.as_ref(), &options).await?;
        let points = page.points;
        write_json_lines((0..points.ids.len()).filter_map(|index| {
            let payload = points.payloads.get(index).filter(|_| !options.no_payload);
            let fields = |payload: &Payload| payload.iter().map(|(name, value)| (name.clone(), json(value))).collect();
            let vector = points.vectors.as_ref().and_then(|vectors| vectors.row(index));
            Some(Point { id: points.ids.get(index)?.into(), payload: payload.map(fields), vector })
        }))?;
        remaining -= (points.ids.len() as u64).min(remaining);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Deleted {
    deleted: Vec<String>,
}

impl Report for Deleted {
    fn render(&self, renderer: &mut Renderer) {
        for name in &self.deleted {
            renderer.line(format!("deleted {}", renderer.style(Style::Name, name)));
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
    fn render(&self, renderer: &mut Renderer) {
        let points = format::plural(self.points, "point");
        let size = format::bytes(self.size_bytes);
        renderer.line(renderer.style(Style::Name, &self.url));
        renderer.line(format!("  version {}, {points}, {size}", self.version));
    }
}

pub async fn run(args: CollectionsArgs, client: &Client, output: &Output) -> Result {
    match args.action {
        Action::List => {
            let collections = client.collections().await?.into_iter().map(Into::into).collect();
            output.show(&Collections { collections })
        }
        Action::Create(args) => {
            let created = create::run(args, client).await?;
            output.show(&Collections { collections: vec![created.into()] })
        }
        Action::Count { name, filter } => {
            let points = client.collection(&name).count(filter.filter()).await?;
            output.show(&Count { collection: name, points })
        }
        Action::Scroll { name, filter, limit, vectors, no_payload } => {
            let options = ScrollOptions { limit: 0, filter: filter.filter(), no_payload, with_vectors: vectors };
            scroll(&client.collection(name), options, limit).await
        }
        Action::Delete { names } => {
            for name in &names {
                client.collection(name).delete().await?;
            }
            output.show(&Deleted { deleted: names })
        }
        Action::Reembed { name, new_name, field, model, prompts } => {
            let created = reembed::run(client, &name, &new_name, field, model, &prompts).await?;
            output.show(&Collections { collections: vec![created.into()] })
        }
        Action::Snapshot { name, url } => {
            let client = client.clone().with_deadline(SNAPSHOT_DEADLINE);
            let snapshot = client.collection(name).snapshot(url).await?;
            let proto::Snapshot { url, version, point_count, size_bytes, .. } = snapshot;
            output.show(&Snapshot { url, version, points: point_count, size_bytes })
        }
        Action::Restore { url, name } => {
            let restored = client.clone().with_deadline(SNAPSHOT_DEADLINE).restore(url, name).await?;
            output.show(&Collections { collections: vec![restored.into()] })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_and_set_aside_points_are_named() {
        let numbers = (0..12).collect();
        let described = proto::Collection {
            name: "c".into(),
            read_only: true,
            damage: vec!["c/wal.log is corrupt at offset 7: torn".into()],
            set_aside_count: 40,
            set_aside_ids: Some(proto::PointIds { numbers, ..Default::default() }),
            ..Default::default()
        };
        let warnings: Vec<_> = Collection::from(described).warnings().collect();
        assert_eq!(warnings[0], "c is read-only: c/wal.log is corrupt at offset 7: torn");
        assert!(warnings[1].starts_with("c: 40 points set aside, "), "{warnings:?}");
        assert!(warnings[1].ends_with(": 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."), "{warnings:?}");
        assert_eq!(Collection::from(proto::Collection::default()).warnings().count(), 0);
    }
}
