//! Results of the sources of one call: diagnostics, and slices of the columns.

use std::{fmt, ops::Range};

use bytes::Bytes;

use super::{
    DumpOptions, Lines, OutlineItem, ParseOptions,
    columns::{Columns, Rows, bytes_at, rows_of, spans},
    tree::Tree,
};
use crate::{
    Error, Result,
    proto::{self, DiagnosticClass, ParseOutput, TokenKind},
    timing::Timings,
};

/// Results of the sources of one call, in order.
#[derive(Clone, Debug)]
pub struct ParsedBatch {
    sources: Vec<Source>,
    columns: Columns,
    options: ParseOptions,
    /// Server-side timings.
    pub timings: Timings,
}

#[derive(Clone, Debug)]
struct Source {
    text: Bytes,
    diagnostic: Option<Diagnostic>,
    outline: Vec<OutlineItem>,
    rows: Rows<Range<usize>>,
}

impl ParsedBatch {
    pub(super) fn new(
        mut response: proto::ParseResponse,
        sources: Vec<Bytes>,
        options: &ParseOptions,
        timings: Timings,
    ) -> Result<Self> {
        let results = std::mem::take(&mut response.results);
        if results.len() != sources.len() {
            return Err(Error::Malformed(format!("{} results for {} sources", results.len(), sources.len())));
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

    /// Number of sources.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns true if there are no sources.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Result of a source; `None` if the index is out of bounds.
    pub fn get(&self, index: usize) -> Option<Parsed<'_>> {
        self.sources.get(index).map(|source| Parsed { batch: self, source })
    }

    /// Results in the order of the sources.
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

/// Result of one source.
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
    /// Returns true if the source is valid Python.
    pub fn is_valid(&self) -> bool {
        self.source.diagnostic.is_none()
    }

    /// The first error, if the source is invalid.
    pub fn diagnostic(&self) -> Option<&'a Diagnostic> {
        self.source.diagnostic.as_ref()
    }

    /// The source as UTF-8, to which all positions refer.
    pub fn text(&self) -> &'a [u8] {
        &self.source.text
    }

    /// Slice of the text; empty if out of bounds.
    pub fn slice(&self, span: Range<usize>) -> &'a [u8] {
        bytes_at(&self.source.text, &span)
    }

    /// The tree; `None` if the source is invalid or trees were not requested.
    pub fn tree(&self) -> Option<Tree<'a>> {
        let requested = self.batch.options.has(ParseOutput::Tree);
        let Source { text, rows, .. } = self.source;
        (requested && self.is_valid()).then(|| Tree::new(text, &self.batch.columns, rows, self.lines()))
    }

    /// The tree as `ast.dump` writes it.
    pub fn dump(&self, options: &DumpOptions) -> Option<String> {
        self.tree().map(|tree| tree.dump(options))
    }

    /// Functions, classes and imports, in source order.
    pub fn outline(&self) -> &'a [OutlineItem] {
        &self.source.outline
    }

    /// The lines: the daemon's, or computed here if they were not requested.
    pub fn lines(&self) -> Lines<'a> {
        let known = self.batch.columns.lines.at(&self.source.rows.lines);
        if known.is_empty() { Lines::of(&self.source.text) } else { Lines::known(known, &self.source.text) }
    }

    /// Tokens without comments, newlines and indentation. An invalid source has those before its error.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = Token<'a>> + use<'a> {
        let columns = &self.batch.columns;
        let rows = &self.source.rows.tokens;
        let text = self.text();
        let kinds = bytes_at(&columns.token_kinds, rows).iter();
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

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Terminal of the grammar.
    pub kind: TokenKind,
    /// Range of bytes in the text.
    pub span: Range<usize>,
    /// The text of the token.
    pub text: &'a [u8],
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment<'a> {
    /// Range of bytes in the text.
    pub span: Range<usize>,
    /// The text of the comment, `#` included.
    pub text: &'a [u8],
}

/// The first error of a source, as CPython reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Class of the exception.
    pub class: DiagnosticClass,
    /// CPython's message.
    pub message: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Range of bytes in the text.
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

    /// Name of the exception's class.
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

/// Formats like `3:7: invalid syntax`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.line, self.column, self.message)
    }
}
