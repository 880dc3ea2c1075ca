//! Parses on the CPU pool, each source on one thread.

use std::borrow::Cow;

use accelerd_parser::{Parsed, Tree, outline};
use bytes::Bytes;
use rayon::prelude::*;

use super::{BatchColumns, Item, Located, ParseRequest, ParseResponse, SourceResult};

/// Bytes of source below which waking more threads costs more than they save (about 0.1 ms of one core).
const SPREAD_BYTES: usize = 16 << 10;

/// Parses every source of every request on the threads of the pool that runs this.
pub(super) fn run(batch: &[&ParseRequest]) -> Vec<ParseResponse> {
    let bytes: usize = batch.iter().flat_map(|request| &request.sources).map(Bytes::len).sum();
    if bytes < SPREAD_BYTES {
        let one =
            |request: &&ParseRequest| gather(request, request.sources.iter().map(|source| parse(source, request)));
        return batch.iter().map(one).collect();
    }
    let spread = |request: &&ParseRequest| {
        let parsed: Vec<_> = request.sources.par_iter().map(|source| parse(source, request)).collect();
        gather(request, parsed)
    };
    batch.par_iter().map(spread).collect()
}

/// A parsed source, with what is told of it.
pub(super) struct Done<'a> {
    pub(super) parsed: Parsed<'a>,
    pub(super) line_starts: Vec<u32>,
    pub(super) result: SourceResult,
}

/// Parses a source.
pub(super) fn parse<'a>(source: &'a Bytes, request: &ParseRequest) -> Done<'a> {
    let parsed = accelerd_parser::parse(source, &request.options);
    let line_starts = accelerd_parser::lexer::line_starts(&parsed.text);
    let (diagnostic, outline) = {
        let locate = Locate { text: parsed.text.as_bytes(), line_starts: &line_starts };
        match &parsed.outcome {
            Ok(columns) if request.outputs.outline => (None, locate.outline(&Tree::new(locate.text, columns))),
            Ok(_) => (None, vec![]),
            Err(error) => (Some(locate.at(error.clone(), (error.start, error.end))), vec![]),
        }
    };
    let text = match &parsed.text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
    };
    Done { parsed, line_starts, result: SourceResult { diagnostic, text, outline, ..SourceResult::default() } }
}

/// Puts the sources of a request together.
fn gather<'a>(request: &ParseRequest, sources: impl IntoIterator<Item = Done<'a>>) -> ParseResponse {
    let mut columns = BatchColumns::default();
    let add = |Done { parsed, line_starts, result }: Done<'_>| SourceResult {
        counts: columns.push(&parsed, &line_starts, request.outputs),
        ..result
    };
    let results = sources.into_iter().map(add).collect();
    ParseResponse { results, columns }
}

/// Finds lines and characters of a text.
#[derive(Clone, Copy)]
pub(super) struct Locate<'a> {
    pub(super) text: &'a [u8],
    pub(super) line_starts: &'a [u32],
}

impl Locate<'_> {
    pub(super) fn outline(self, tree: &Tree<'_>) -> Vec<Located<Item>> {
        let items = outline::outline(tree).into_iter();
        items
            .map(|item| {
                let place = (item.start, item.end);
                self.at(item, place)
            })
            .collect()
    }

    /// Adds the lines between which something lies.
    fn at<T>(self, what: T, (start, end): (u32, u32)) -> Located<T> {
        let line = self.line(start);
        let begin = self.line_starts[line as usize - 1] as usize;
        let before = self.text.get(begin..start as usize).unwrap_or_default();
        // Bytes that go on with a character do not count.
        let characters = before.iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
        let column = u32::try_from(characters + 1).unwrap_or(u32::MAX);
        Located { what, line, column, end_line: self.line(end) }
    }

    fn line(self, at: u32) -> u32 {
        u32::try_from(self.line_starts.partition_point(|&start| start <= at).max(1)).unwrap_or(u32::MAX)
    }
}
