//! Parsing Python: sources to the columns of their trees.
//!
//! A source's result depends on the source, the feature version and the outputs alone, and is the same on both backends,
//! bit for bit: `accelerd-parser` is what a GPU is compared with, and what finishes the sources that a GPU hands back.

pub use accelerd_parser::{Class, Diagnostic, Mode, Options, Position, SourceType, outline::Item};
use bytes::Bytes;

use crate::{Backend, Op, OpError, Size};

mod column;
mod columns;
mod cpu;
pub mod cuda;
mod gather;

pub use column::Column;
pub use columns::{BatchColumns, Columns, Counts};

/// What to return of each source, besides its verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column or not")]
pub struct Outputs {
    /// Nodes, names, values.
    pub tree: bool,
    /// Tokens.
    pub tokens: bool,
    /// Comments.
    pub comments: bool,
    /// Functions, classes and imports.
    pub outline: bool,
    /// Where lines start.
    pub line_starts: bool,
}

/// Sources to parse.
#[derive(Clone, Debug)]
pub struct ParseRequest {
    /// One a file.
    pub sources: Vec<Bytes>,
    /// How to read them.
    pub options: Options,
    /// The type of each source; where it has none here, that of the options.
    pub types: Vec<SourceType>,
    /// What to return.
    pub outputs: Outputs,
}

impl ParseRequest {
    /// Sources of the type that the options name.
    pub fn new(sources: Vec<Bytes>, options: Options, outputs: Outputs) -> Self {
        Self { sources, options, types: vec![], outputs }
    }

    /// How to read a source, by its number.
    pub fn options_of(&self, source: usize) -> Options {
        let source_type = self.types.get(source).copied().unwrap_or(self.options.source_type);
        Options { source_type, ..self.options }
    }
}

/// The parsed sources of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseResponse {
    /// One a source.
    pub results: Vec<SourceResult>,
    /// The columns of all, one source after the other.
    pub columns: BatchColumns,
}

/// What became of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceResult {
    /// Why it is not Python, and where.
    pub diagnostic: Option<Diagnostic>,
    /// How much of each column is its own.
    pub counts: Counts,
    /// It as UTF-8, where its bytes are not.
    pub text: Option<Bytes>,
    /// Its outline.
    pub outline: Vec<Located<Item>>,
}

/// Something with its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// What it is.
    pub what: T,
    /// The line where it starts, from 1.
    pub line: u32,
    /// The line where it ends, from 1.
    pub end_line: u32,
}

/// Parsing.
#[derive(Debug)]
pub struct Parse;

impl Op for Parse {
    const NAME: &'static str = "parse";
    type Request = ParseRequest;
    type Response = ParseResponse;
    /// Sources of all callers share a launch.
    type Key = ();

    fn key(_: &ParseRequest) {}

    fn size(request: &ParseRequest) -> Size {
        let bytes: usize = request.sources.iter().map(Bytes::len).sum();
        let count = request.sources.len() as u64;
        Size { items: count.max(1), bytes: bytes as u64 * BYTES_PER_BYTE + count * BYTES_PER_SOURCE }
    }

    fn run(batch: &[&ParseRequest], on: &mut Backend) -> Result<Vec<ParseResponse>, OpError> {
        match on {
            Backend::Cpu(worker) => Ok(cpu::run(batch, worker.pool())),
            Backend::Cuda(worker) => cuda::run(batch, worker),
        }
    }
}

/// Memory that a byte of source takes at most in ordinary code: itself, its tokens, its nodes.
const BYTES_PER_BYTE: u64 = 8;

/// Memory that a source takes besides.
const BYTES_PER_SOURCE: u64 = 256;
