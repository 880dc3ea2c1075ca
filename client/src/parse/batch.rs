//! The sources of one call and what became of each: its diagnostic, and its part of every column.

use std::{fmt, ops::Range};

use bytes::Bytes;

use super::{DumpOptions, Lines, OutlineItem, ParseOptions, tree::Tree};
use crate::{
    Error, Result,
    matrix::aligned,
    proto::{self, DiagnosticClass, ParseOutput, TokenKind},
    timing::Timings,
};

/// What became of the sources of one call, in their order.
#[derive(Clone, Debug)]
pub struct ParsedBatch {
    sources: Vec<Source>,
    columns: Columns,
    options: ParseOptions,
    /// Where the time went.
    pub timings: Timings,
}

#[derive(Clone, Debug)]
struct Source {
    text: Bytes,
    diagnostic: Option<Diagnostic>,
    outline: Vec<OutlineItem>,
    rows: Rows<Range<usize>>,
}

/// Something of each table.
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

/// Numbers read in place, or copied where they are not aligned.
#[derive(Clone, Debug)]
pub(super) struct Numbers(Bytes);

impl Numbers {
    fn len(&self) -> usize {
        self.0.len() / size_of::<u32>()
    }

    pub(super) fn part(&self, rows: &Range<usize>) -> &[u32] {
        bytemuck::cast_slice(&self.0).get(rows.clone()).unwrap_or_default()
    }
}

/// The columns of all sources.
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
    lines: Numbers,
    token_kinds: Bytes,
    tokens: [Numbers; 2],
    comments: [Numbers; 2],
}

/// A part of a column of bytes.
pub(super) fn part<'a>(column: &'a Bytes, rows: &Range<usize>) -> &'a [u8] {
    column.get(rows.clone()).unwrap_or_default()
}

impl Columns {
    fn new(response: proto::ParseResponse) -> Result<Self> {
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

    /// Whether each column has as many rows as the results say, so that every part lies inside.
    fn check(&self, total: &Rows<usize>) -> Result<()> {
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
                return Err(Error::Malformed(format!("{name}: {got} rows, the results say {expected}")));
            }
        }
        Ok(())
    }
}

fn numbers(data: Bytes, name: &str) -> Result<Numbers> {
    if !data.len().is_multiple_of(size_of::<u32>()) {
        return Err(Error::Malformed(format!("{name}: {} bytes are no numbers of 32 bits", data.len())));
    }
    Ok(Numbers(aligned::<u32>(data)))
}

/// The rows of a source, which start where those before it end.
fn rows_of(result: &proto::SourceResult, ends: &mut Rows<usize>) -> Rows<Range<usize>> {
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

impl ParsedBatch {
    /// Takes an answer to some sources.
    pub(super) fn new(
        mut response: proto::ParseResponse,
        sources: Vec<Bytes>,
        options: &ParseOptions,
        timings: Timings,
    ) -> Result<Self> {
        let results = std::mem::take(&mut response.results);
        if results.len() != sources.len() {
            return Err(Error::Malformed(format!("{} results of {} sources", results.len(), sources.len())));
        }
        let mut ends = Rows::default();
        let source = |(sent, result): (Bytes, proto::SourceResult)| Source {
            rows: rows_of(&result, &mut ends),
            text: result.text.unwrap_or(sent),
            diagnostic: result.diagnostic.map(Diagnostic::new),
            outline: (0..).zip(result.outline).map(|(at, item)| OutlineItem::new(at, item)).collect(),
        };
        let sources = sources.into_iter().zip(results).map(source).collect();
        let columns = Columns::new(response)?;
        columns.check(&ends)?;
        Ok(Self { sources, columns, options: options.clone(), timings })
    }

    /// How many sources there are.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// One source; `None` past the last.
    pub fn get(&self, at: usize) -> Option<Parsed<'_>> {
        self.sources.get(at).map(|source| Parsed { batch: self, source })
    }

    /// Each source, in the order given.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Parsed<'_>> {
        self.sources.iter().map(|source| Parsed { batch: self, source })
    }
}

impl<'a> IntoIterator for &'a ParsedBatch {
    type Item = Parsed<'a>;
    type IntoIter = Box<dyn ExactSizeIterator<Item = Parsed<'a>> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

/// What became of one source.
#[derive(Clone, Copy)]
pub struct Parsed<'a> {
    batch: &'a ParsedBatch,
    source: &'a Source,
}

impl fmt::Debug for Parsed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = &self.source.rows;
        let mut shown = out.debug_struct("Parsed");
        shown.field("bytes", &self.source.text.len()).field("nodes", &rows.nodes.len());
        shown.field("diagnostic", &self.source.diagnostic).finish_non_exhaustive()
    }
}

impl<'a> Parsed<'a> {
    /// Whether it is Python.
    pub fn is_valid(&self) -> bool {
        self.source.diagnostic.is_none()
    }

    /// Why it is not Python.
    pub fn diagnostic(&self) -> Option<&'a Diagnostic> {
        self.source.diagnostic.as_ref()
    }

    /// The source as UTF-8, which all places are in.
    pub fn text(&self) -> &'a [u8] {
        &self.source.text
    }

    /// A part of the text; empty where it lies outside.
    pub fn slice(&self, span: Range<usize>) -> &'a [u8] {
        part(&self.source.text, &span)
    }

    /// Its tree; `None` where it is not Python, or where trees were not asked for.
    pub fn tree(&self) -> Option<Tree<'a>> {
        let asked = self.batch.options.has(ParseOutput::Tree);
        let Source { text, rows, .. } = self.source;
        (asked && self.is_valid()).then(|| Tree::new(text, &self.batch.columns, rows, self.lines()))
    }

    /// Its tree as `ast.dump` writes it.
    pub fn dump(&self, options: &DumpOptions) -> Option<String> {
        self.tree().map(|tree| tree.dump(options))
    }

    /// Functions, classes and imports, in the order of the source.
    pub fn outline(&self) -> &'a [OutlineItem] {
        &self.source.outline
    }

    /// Its lines: as the daemon found them, or found here where that was not asked for.
    pub fn lines(&self) -> Lines<'a> {
        let known = self.batch.columns.lines.part(&self.source.rows.lines);
        if known.is_empty() { Lines::of(&self.source.text) } else { Lines::known(known, &self.source.text) }
    }

    /// Tokens that are neither comment nor newline nor indentation; of a source with an error those before it.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = Token<'a>> + use<'a> {
        let (columns, rows, text) = (&self.batch.columns, &self.source.rows.tokens, self.text());
        let kinds = part(&columns.token_kinds, rows).iter();
        kinds.zip(spans(&columns.tokens, rows)).map(|(kind, span)| Token {
            kind: TokenKind::try_from(i32::from(*kind)).unwrap_or_default(),
            text: text.get(span.clone()).unwrap_or_default(),
            span,
        })
    }

    /// Comments, from `#` to the end of the line.
    pub fn comments(&self) -> impl ExactSizeIterator<Item = Comment<'a>> + use<'a> {
        let text = self.text();
        let spans = spans(&self.batch.columns.comments, &self.source.rows.comments);
        spans.map(|span| Comment { text: text.get(span.clone()).unwrap_or_default(), span })
    }
}

/// Pairs of a column of starts and one of ends.
fn spans<'a>(columns: &'a [Numbers; 2], rows: &Range<usize>) -> impl ExactSizeIterator<Item = Range<usize>> + use<'a> {
    let [starts, ends] = columns.each_ref().map(|column| column.part(rows).iter());
    starts.zip(ends).map(|(start, end)| *start as usize..*end as usize)
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is to the grammar.
    pub kind: TokenKind,
    /// Bytes of the source.
    pub span: Range<usize>,
    /// What stands there.
    pub text: &'a [u8],
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment<'a> {
    /// Bytes of the source.
    pub span: Range<usize>,
    /// What stands there, `#` included.
    pub text: &'a [u8],
}

/// The first error of a source, as CPython reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The exception.
    pub class: DiagnosticClass,
    /// In CPython's words.
    pub message: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Bytes of the text.
    pub span: Range<usize>,
}

impl Diagnostic {
    fn new(diagnostic: proto::Diagnostic) -> Self {
        Self {
            class: diagnostic.class(),
            line: diagnostic.line,
            column: diagnostic.column,
            span: diagnostic.start as usize..diagnostic.end as usize,
            message: diagnostic.message,
        }
    }

    /// The name of the exception's class.
    pub fn class_name(&self) -> &'static str {
        match self.class {
            DiagnosticClass::IndentationError => "IndentationError",
            DiagnosticClass::TabError => "TabError",
            DiagnosticClass::ValueError => "ValueError",
            DiagnosticClass::UnicodeDecodeError => "UnicodeDecodeError",
            DiagnosticClass::UnicodeEncodeError => "UnicodeEncodeError",
            DiagnosticClass::SyntaxError | DiagnosticClass::Unspecified => "SyntaxError",
        }
    }
}

/// As in `3:7: invalid syntax`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.line, self.column, self.message)
    }
}
