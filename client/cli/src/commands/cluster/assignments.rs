//! Writes the cluster of each row or point to a file.

use std::{
    collections::HashMap,
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use accelerd_client::{Client, Clusters, Id, Payload, ScrollOptions, Value};
use serde_json::{Map, json};

use crate::{
    error::{CliError, Result},
    npy,
};

/// Points per page.
const PAGE: u32 = 4_096;

/// An output file and its format.
#[derive(Clone, Debug)]
pub struct AssignmentsFile {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    JsonLines,
    Npy,
}

/// Path and lines of a point, from its payload.
#[derive(Debug, Default)]
struct Origin {
    path: String,
    lines: Option<(i64, i64)>,
}

impl AssignmentsFile {
    /// Parses a path; the extension selects the format.
    pub fn new(path: &str) -> Result<Self, String> {
        let path = PathBuf::from(path);
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Format::Csv,
            Some("jsonl" | "ndjson") => Format::JsonLines,
            Some("npy") => Format::Npy,
            _ => return Err("expected a name that ends in .csv, .jsonl or .npy".to_owned()),
        };
        Ok(Self { path, format })
    }

    /// Writes the clusters of rows, or of a collection's points.
    pub async fn write(&self, client: &Client, collection: Option<&str>, clusters: &Clusters) -> Result {
        if self.format == Format::Npy {
            return npy::write_ints(&self.path, clusters.assignments.as_slice());
        }
        let origins = match collection {
            Some(name) => origins(client, name).await?,
            None => HashMap::new(),
        };
        let rows = clusters.assignments.as_slice().iter().enumerate().map(|(number, cluster)| Row {
            number,
            cluster: *cluster,
            id: clusters.ids.as_ref().and_then(|ids| ids.get(number)),
        });
        write_rows(&self.path, self.format, rows, &origins).map_err(CliError::file(&self.path))
    }
}

struct Row {
    number: usize,
    cluster: i32,
    id: Option<Id>,
}

async fn origins(client: &Client, name: &str) -> Result<HashMap<Id, Origin>> {
    let collection = client.collection(name);
    let options = ScrollOptions { limit: PAGE, ..Default::default() };
    let mut origins = HashMap::new();
    let mut after = None;
    loop {
        let page = collection.scroll(after.as_ref(), &options).await?;
        let points = page.points.payloads.iter().enumerate();
        origins.extend(points.filter_map(|(index, payload)| Some((page.points.ids.get(index)?, origin(payload)?))));
        after = page.next;
        if after.is_none() {
            return Ok(origins);
        }
    }
}

fn origin(payload: &Payload) -> Option<Origin> {
    let line = |field: &str| payload.get(field).and_then(Value::as_int);
    let path = payload.get("path").and_then(Value::as_str)?.to_owned();
    Some(Origin { path, lines: line("start_line").zip(line("end_line")) })
}

fn write_rows(
    path: &Path,
    format: Format,
    rows: impl Iterator<Item = Row>,
    origins: &HashMap<Id, Origin>,
) -> io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    let mut rows = rows.peekable();
    let has_ids = rows.peek().is_some_and(|row| row.id.is_some());
    if format == Format::Csv {
        let head = if origins.is_empty() { "" } else { ",path,start_line,end_line" };
        writeln!(file, "{},cluster{head}", if has_ids { "id" } else { "row" })?;
    }
    for row in rows {
        let origin = row.id.as_ref().and_then(|id| origins.get(id));
        match format {
            Format::Csv => csv_line(&mut file, &row, origin, !origins.is_empty())?,
            Format::JsonLines | Format::Npy => json_line(&mut file, &row, origin)?,
        }
    }
    file.flush()
}

fn csv_line(out: &mut impl Write, row: &Row, origin: Option<&Origin>, has_origins: bool) -> io::Result<()> {
    match &row.id {
        Some(id) => write!(out, "{id},{}", row.cluster)?,
        None => write!(out, "{},{}", row.number, row.cluster)?,
    }
    if has_origins {
        let (path, lines) = origin.map_or(("", None), |origin| (origin.path.as_str(), origin.lines));
        let (start, end) = lines.map_or_else(Default::default, |(start, end)| (start.to_string(), end.to_string()));
        write!(out, ",{},{start},{end}", csv_text(path))?;
    }
    writeln!(out)
}

/// Quotes a field by RFC 4180.
fn csv_text(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn json_line(out: &mut impl Write, row: &Row, origin: Option<&Origin>) -> io::Result<()> {
    let mut line = Map::new();
    match &row.id {
        Some(Id::Number(number)) => line.insert("id".into(), json!(number)),
        Some(Id::Uuid(uuid)) => line.insert("id".into(), json!(uuid)),
        None => line.insert("row".into(), json!(row.number)),
    };
    line.insert("cluster".into(), json!(row.cluster));
    if let Some(Origin { path, lines }) = origin {
        line.insert("path".into(), json!(path));
        if let Some((start, end)) = lines {
            line.insert("start_line".into(), json!(start));
            line.insert("end_line".into(), json!(end));
        }
    }
    serde_json::to_writer(&mut *out, &line)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_says_how_it_is_written() {
        assert!(
            AssignmentsFile::new("a.csv").is_ok()
                && AssignmentsFile::new("a.jsonl").is_ok()
                && AssignmentsFile::new("a.npy").is_ok()
        );
        assert!(AssignmentsFile::new("a.txt").is_err() && AssignmentsFile::new("csv").is_err());
    }

    #[test]
    fn texts_with_commas_and_quotes_are_quoted() {
        assert_eq!(csv_text("a/b.py"), "a/b.py");
        assert_eq!(csv_text("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
