//! Parsing Python: sources to the columns of their trees.
//!
//! A source's result depends on the source, the feature version and the outputs alone, and is the same on both backends,
//! bit for bit: the GPU is tested against `accelerd-parser`, which also parses the sources that fall back to the CPU.

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

/// The outputs of each source, besides its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent output")]
pub struct Outputs {
    /// Nodes, names, values and line starts.
    pub tree: bool,
    /// Tokens.
    pub tokens: bool,
    /// Comments.
    pub comments: bool,
    /// Functions, classes and imports.
    pub outline: bool,
    /// Start offsets of lines.
    pub line_starts: bool,
}

/// Sources to parse in one request.
#[derive(Clone, Debug)]
pub struct ParseRequest {
    /// The files' bytes.
    pub sources: Vec<Bytes>,
    /// Options of all sources.
    pub options: Options,
    /// The type of each source; missing ones are of the options' type.
    pub types: Vec<SourceType>,
    /// The wanted outputs.
    pub outputs: Outputs,
}

impl ParseRequest {
    /// A request with sources of the options' type.
    pub fn new(sources: Vec<Bytes>, options: Options, outputs: Outputs) -> Self {
        Self { sources, options, types: vec![], outputs }
    }

    /// The options of source number `source`.
    pub fn options_of(&self, source: usize) -> Options {
        let source_type = self.types.get(source).copied().unwrap_or(self.options.source_type);
        Options { source_type, ..self.options }
    }
}

/// The parsed sources of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseResponse {
    /// By source.
    pub results: Vec<SourceResult>,
    /// The columns of all sources, concatenated.
    pub columns: BatchColumns,
}

/// The result of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceResult {
    /// The syntax error, if it has one.
    pub diagnostic: Option<Diagnostic>,
    /// The number of its rows in each table.
    pub counts: Counts,
    /// Its text as UTF-8, if its bytes differ.
    pub text: Option<Bytes>,
    /// Its outline.
    pub outline: Vec<Located<Item>>,
}

/// An item with its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The item.
    pub item: T,
    /// Its first line, counted from 1.
    pub line: u32,
    /// Its last line, counted from 1.
    pub end_line: u32,
}

/// The operation.
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
        size_of(bytes as u64, request.sources.len() as u64)
    }

    /// Bytes of source.
    fn cost(request: &ParseRequest) -> u64 {
        (request.sources.iter().map(Bytes::len).sum::<usize>() as u64).max(1)
    }

    fn run(batch: &[&ParseRequest], on: &mut Backend) -> Result<Vec<ParseResponse>, OpError> {
        match on {
            Backend::Cpu(worker) => cpu::run(batch, worker),
            Backend::Cuda(worker) => cuda::run(batch, worker),
        }
    }
}

/// Memory per byte of ordinary source: text, tokens and nodes.
const BYTES_PER_BYTE: u64 = 8;

/// Memory per source.
const BYTES_PER_SOURCE: u64 = 256;

/// The size of a request of `sources` sources with `source_bytes` bytes together.
pub fn size_of(source_bytes: u64, sources: u64) -> Size {
    Size { items: sources.max(1), bytes: source_bytes * BYTES_PER_BYTE + sources * BYTES_PER_SOURCE }
}
