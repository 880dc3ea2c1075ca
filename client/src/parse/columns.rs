//! The columns of a response, read in place, and each source's slices of them.

use std::ops::Range;

use bytes::Bytes;

use crate::{Error, Result, matrix::aligned, proto};

/// A value per table.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows<T> {
    pub(super) nodes: T,
    pub(super) names: T,
    pub(super) values: T,
    pub(super) extra: T,
    pub(super) lines: T,
    pub(super) tokens: T,
    pub(super) comments: T,
}

/// A column of u32, read in place if it is aligned, else copied.
#[derive(Clone, Debug)]
pub(super) struct Numbers(Bytes);

impl Numbers {
    fn len(&self) -> usize {
        self.0.len() / size_of::<u32>()
    }

    pub(super) fn at(&self, rows: &Range<usize>) -> &[u32] {
        bytemuck::cast_slice(&self.0).get(rows.clone()).unwrap_or_default()
    }
}

/// The columns of all sources, concatenated.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    pub(super) kinds: Bytes,
    pub(super) fields: Bytes,
    pub(super) parents: Numbers,
    pub(super) starts: Numbers,
    pub(super) ends: Numbers,
    pub(super) aux: Numbers,
    pub(super) names: [Numbers; 2],
    pub(super) value_tags: Bytes,
    pub(super) values: [Numbers; 2],
    pub(super) extra: Bytes,
    pub(super) lines: Numbers,
    pub(super) token_kinds: Bytes,
    pub(super) tokens: [Numbers; 2],
    pub(super) comments: [Numbers; 2],
}

/// Slice of a byte column; empty if out of bounds.
pub(super) fn bytes_at<'a>(column: &'a Bytes, rows: &Range<usize>) -> &'a [u8] {
    column.get(rows.clone()).unwrap_or_default()
}

impl Columns {
    pub(super) fn new(response: proto::ParseResponse) -> Result<Self> {
        let nodes = response.nodes.unwrap_or_default();
        let values = response.values.unwrap_or_default();
        let tokens = response.tokens.unwrap_or_default();
        let names = response.names.unwrap_or_default();
        let comments = response.comments.unwrap_or_default();
        Ok(Self {
            kinds: nodes.kinds,
            fields: nodes.fields,
            parents: numbers(nodes.parents, "nodes.parents")?,
            starts: numbers(nodes.starts, "nodes.starts")?,
            ends: numbers(nodes.ends, "nodes.ends")?,
            aux: numbers(nodes.aux, "nodes.aux")?,
            names: [numbers(names.starts, "names.starts")?, numbers(names.ends, "names.ends")?],
            value_tags: values.tags,
            values: [numbers(values.starts, "values.starts")?, numbers(values.ends, "values.ends")?],
            extra: response.extra,
            lines: numbers(response.line_starts, "line_starts")?,
            token_kinds: tokens.kinds,
            tokens: [numbers(tokens.starts, "tokens.starts")?, numbers(tokens.ends, "tokens.ends")?],
            comments: [numbers(comments.starts, "comments.starts")?, numbers(comments.ends, "comments.ends")?],
        })
    }

    /// Checks that each column has the number of rows in the results, so that every slice is in bounds.
    pub(super) fn check(&self, total: &Rows<usize>) -> Result<()> {
        let tables = [
            ("nodes", total.nodes, vec![self.kinds.len(), self.fields.len()]),
            ("nodes", total.nodes, [&self.parents, &self.starts, &self.ends, &self.aux].map(Numbers::len).into()),
            ("names", total.names, self.names.each_ref().map(Numbers::len).into()),
            ("values", total.values, vec![self.value_tags.len()]),
            ("values", total.values, self.values.each_ref().map(Numbers::len).into()),
            ("extra", total.extra, vec![self.extra.len()]),
            ("line_starts", total.lines, vec![self.lines.len()]),
            ("tokens", total.tokens, vec![self.token_kinds.len()]),
            ("tokens", total.tokens, self.tokens.each_ref().map(Numbers::len).into()),
            ("comments", total.comments, self.comments.each_ref().map(Numbers::len).into()),
        ];
        for (name, expected, columns) in tables {
            if let Some(got) = columns.into_iter().find(|rows| *rows != expected) {
                return Err(Error::Malformed(format!("{name}: expected {expected} rows, got {got}")));
            }
        }
        Ok(())
    }
}

fn numbers(data: Bytes, name: &str) -> Result<Numbers> {
    if !data.len().is_multiple_of(size_of::<u32>()) {
        return Err(Error::Malformed(format!("{name}: {} bytes are not a multiple of 4", data.len())));
    }
    Ok(Numbers(aligned::<u32>(data)))
}

/// The rows of a source, which follow those of the preceding sources.
pub(super) fn rows_of(result: &proto::SourceResult, ends: &mut Rows<usize>) -> Rows<Range<usize>> {
    let next = |end: &mut usize, count: u32| {
        let start = *end;
        *end = start.saturating_add(count as usize);
        start..*end
    };
    Rows {
        nodes: next(&mut ends.nodes, result.node_count),
        names: next(&mut ends.names, result.name_count),
        values: next(&mut ends.values, result.value_count),
        extra: next(&mut ends.extra, result.extra_size),
        lines: next(&mut ends.lines, result.line_count),
        tokens: next(&mut ends.tokens, result.token_count),
        comments: next(&mut ends.comments, result.comment_count),
    }
}

/// Ranges from a column of starts and a column of ends.
pub(super) fn spans<'a>(
    columns: &'a [Numbers; 2],
    rows: &Range<usize>,
) -> impl ExactSizeIterator<Item = Range<usize>> + use<'a> {
    let [starts, ends] = columns.each_ref().map(|column| column.at(rows).iter());
    starts.zip(ends).map(|(start, end)| *start as usize..*end as usize)
}
