//! List, read, drop, snapshot and restore collections.

use std::{collections::BTreeMap, time::Duration};

use accelerd_client::{Client, Collection as Stored, Filter, Id, Metric, Payload, ScrollOptions, Value, proto};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    complete,
    error::Result,
    human,
    page::{Page, Paint, Table},
    screen::{Report, Screen, write_json_lines},
};

/// Points read at once.
const SCROLL_PAGE: u32 = 1_000;

/// Writing or reading a large snapshot takes longer than a usual call may.
const SNAPSHOT_DEADLINE: Duration = Duration::from_secs(3600);

/// List, read, count, delete, snapshot and restore collections.
#[derive(Debug, Args)]
pub struct CollectionsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List every collection.
    List,
    /// Count the points of a collection, or those that pass --where.
    Count {
        /// The collection.
        #[arg(add = complete::collections())]
        name: String,
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// Print the points of a collection, one JSON document a line, in ascending order of their ids.
    ///
    /// Points are printed page by page as they come. A point that is there all the while is printed exactly once, whatever is
    /// written meanwhile.
    Scroll {
        /// The collection.
        #[arg(add = complete::collections())]
        name: String,
        #[command(flatten)]
        filter: FilterArgs,
        /// Most points to print; without it all.
        #[arg(long, short = 'n', value_name = "N")]
        limit: Option<u64>,
        /// Print vectors, too.
        #[arg(long)]
        vectors: bool,
        /// Print no payloads.
        #[arg(long)]
        no_payload: bool,
    },
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

/// Which points count.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Only points whose payload field has this value, as in --where language=go or --where start_line=1; may be given several
    /// times. A value in quotes is a text.
    #[arg(long = "where", value_name = "FIELD=VALUE", value_parser = condition)]
    conditions: Vec<(String, Value)>,
}

impl FilterArgs {
    fn filter(&self) -> Option<Filter> {
        let add = |filter: Filter, (field, value): &(String, Value)| filter.equals(field, value.clone());
        (!self.conditions.is_empty()).then(|| self.conditions.iter().fold(Filter::new(), add))
    }
}

/// A field and its value: an integer, a number, `true`, `false`, or else a text.
fn condition(text: &str) -> std::result::Result<(String, Value), String> {
    let (field, value) = text.split_once('=').filter(|(field, _)| !field.is_empty()).ok_or("expected FIELD=VALUE")?;
    let number = || value.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Double);
    let flag = || value.parse().ok().map(Value::Bool);
    let quoted = || value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let plain = value.parse().ok().map(Value::Int).or_else(flag).or_else(number);
    Ok((field.to_owned(), plain.unwrap_or_else(|| Value::from(quoted().unwrap_or(value)))))
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
struct Count {
    collection: String,
    points: u64,
}

impl Report for Count {
    /// The number alone, for scripts.
    fn render(&self, page: &mut Page) {
        page.line(self.points.to_string());
    }
}

/// A point as a line.
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

/// Prints points page by page, up to a limit.
async fn scroll(collection: &Stored, mut options: ScrollOptions, limit: Option<u64>) -> Result {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut after = None;
    while left > 0 {
        options.limit = u32::try_from(left).unwrap_or(u32::MAX).min(SCROLL_PAGE);
        let page = collection.scroll(after.as_ref(), &options).await?;
        let points = page.points;
        write_json_lines((0..points.ids.len()).filter_map(|at| {
            let payload = points.payloads.get(at).filter(|_| !options.no_payload);
            let fields = |payload: &Payload| payload.iter().map(|(name, value)| (name.clone(), json(value))).collect();
            let vector = points.vectors.as_ref().and_then(|vectors| vectors.row(at));
            Some(Point { id: points.ids.get(at)?.into(), payload: payload.map(fields), vector })
        }))?;
        left -= (points.ids.len() as u64).min(left);
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
        Action::Count { name, filter } => {
            let points = client.collection(&name).count(filter.filter()).await?;
            screen.show(&Count { collection: name, points })
        }
        Action::Scroll { name, filter, limit, vectors, no_payload } => {
            let options = ScrollOptions { limit: 0, filter: filter.filter(), no_payload, with_vectors: vectors };
            scroll(&client.collection(name), options, limit).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_conditions_are_what_they_look_like() {
        let value = |text: &str| condition(text).map(|(_, value)| value);
        assert_eq!(value("a=7"), Ok(Value::Int(7)));
        assert_eq!(value("a=0.5"), Ok(Value::Double(0.5)));
        assert_eq!(value("a=true"), Ok(Value::Bool(true)));
        assert_eq!(value("a=b=c"), Ok(Value::from("b=c")));
        assert_eq!((value("a=\"7\""), value("a="), value("a=nan")), (Ok("7".into()), Ok("".into()), Ok("nan".into())));
        assert!(condition("a").is_err() && condition("=a").is_err());
    }
}
