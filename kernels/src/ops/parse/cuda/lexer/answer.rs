//! A batch's tokens on the host: all columns, and each source's part of them.

use std::fmt;

use accelerd_parser::lexer::Lexed;
use accelerd_parser::tokens::{Line, Terminal, Tokens as SourceTokens};

use super::Tokens;
use crate::{
    OpError,
    cuda::{Buffer, Worker},
};

/// Why the CPU has to take a source; the bits of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Reason {
    /// The lexer finds an error, or a token that no grammar has.
    Lexical = 1,
    /// A name beyond ASCII.
    Wide = 2,
    /// A line is too long.
    LongLine = 4,
    /// A replacement field goes over several lines.
    FieldLines = 8,
    /// Fields, strings or brackets nest too deep.
    Nesting = 16,
    /// A string is not what it seems without its fields, or the text ends inside one.
    State = 32,
    /// A carriage return alone.
    LoneReturn = 64,
    /// Indentation that is an error, or too deep.
    Indentation = 128,
    /// Brackets do not match.
    Brackets = 256,
    /// The table of names is full, or two names have one hash.
    Names = 512,
    /// A token rule would have to look too far.
    Rules = 1024,
    /// A backslash in an indentation.
    BlankBackslash = 2048,
}

impl Reason {
    /// All of them, by their bits.
    pub const ALL: [Self; 12] = [
        Self::Lexical,
        Self::Wide,
        Self::LongLine,
        Self::FieldLines,
        Self::Nesting,
        Self::State,
        Self::LoneReturn,
        Self::Indentation,
        Self::Brackets,
        Self::Names,
        Self::Rules,
        Self::BlankBackslash,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Wide => "wide_name",
            Self::LongLine => "long_line",
            Self::FieldLines => "field_lines",
            Self::Nesting => "nesting",
            Self::State => "state",
            Self::LoneReturn => "lone_return",
            Self::Indentation => "indentation",
            Self::Brackets => "brackets",
            Self::Names => "names",
            Self::Rules => "rules",
            Self::BlankBackslash => "blank_backslash",
        }
    }

    /// The reasons in a flag.
    pub fn of(flag: u32) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |reason| flag & *reason as u32 != 0)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// All columns of a batch, copied back.
#[derive(Debug)]
pub struct Answer {
    /// Of each source, why the CPU has to take it: bits of [`Reason`], or 0.
    pub flags: Vec<u32>,
    token_bases: Vec<u32>,
    line_bases: Vec<u32>,
    logical_bases: Vec<u32>,
    comment_bases: Vec<u32>,
    name_bases: Vec<u32>,
    kinds: Vec<u8>,
    starts: Vec<u32>,
    ends: Vec<u32>,
    payloads: Vec<u32>,
    line_starts: Vec<u32>,
    logical: [Vec<u32>; 4],
    comments: [Vec<u32>; 2],
    names: [Vec<u32>; 2],
}

impl Answer {
    /// Copies a batch's tokens back.
    pub fn download(tokens: &Tokens, worker: &Worker) -> Result<Self, OpError> {
        let get = |buffer: &Buffer<u32>, count: usize| worker.download(buffer, ..count);
        let bases = |buffer: &Buffer<u32>| worker.download(buffer, ..);
        let (count, logical, comments) = (tokens.token_count, tokens.logical_count, tokens.comment_count);
        Ok(Self {
            flags: bases(&tokens.flags)?,
            token_bases: bases(&tokens.token_bases)?,
            line_bases: bases(&tokens.line_bases)?,
            logical_bases: bases(&tokens.logical_bases)?,
            comment_bases: bases(&tokens.comment_bases)?,
            name_bases: bases(&tokens.name_bases)?,
            kinds: worker.download(&tokens.kinds, ..count)?,
            starts: get(&tokens.starts, count)?,
            ends: get(&tokens.ends, count)?,
            payloads: get(&tokens.payloads, count)?,
            line_starts: get(&tokens.line_starts, tokens.line_count)?,
            logical: [
                get(&tokens.logical_firsts, logical)?,
                get(&tokens.logical_ends, logical)?,
                get(&tokens.logical_columns, logical)?,
                get(&tokens.logical_alternates, logical)?,
            ],
            comments: [get(&tokens.comment_starts, comments)?, get(&tokens.comment_ends, comments)?],
            names: [get(&tokens.name_starts, tokens.name_count)?, get(&tokens.name_ends, tokens.name_count)?],
        })
    }

    /// Where the physical lines of a source start.
    pub fn line_starts(&self, source: usize) -> &[u32] {
        part(&self.line_starts, &self.line_bases, source)
    }

    /// What a source is made of, token rules applied; none if it is the CPU's.
    pub fn lexed(&self, source: usize) -> Option<Lexed> {
        if self.flags[source] != 0 {
            return None;
        }
        let tokens = |column| part(column, &self.token_bases, source).to_vec();
        let kinds = part(&self.kinds, &self.token_bases, source).iter();
        let [firsts, ends, columns, alternates] =
            self.logical.each_ref().map(|column| part(column, &self.logical_bases, source));
        let [comment_starts, comment_ends] =
            self.comments.each_ref().map(|column| part(column, &self.comment_bases, source));
        let [name_starts, name_ends] = self.names.each_ref().map(|column| part(column, &self.name_bases, source));
        Some(Lexed {
            tokens: SourceTokens {
                kinds: kinds.map(|&kind| Terminal::ALL[usize::from(kind)]).collect(),
                starts: tokens(&self.starts),
                ends: tokens(&self.ends),
                payloads: tokens(&self.payloads),
            },
            lines: (0..firsts.len())
                .map(|at| Line { first: firsts[at], end: ends[at], column: columns[at], alternate: alternates[at] })
                .collect(),
            comments: comment_starts.iter().copied().zip(comment_ends.iter().copied()).collect(),
            name_starts: name_starts.to_vec(),
            name_ends: name_ends.to_vec(),
            ..Lexed::default()
        })
    }
}

/// A source's part of a table.
fn part<'a, T>(column: &'a [T], bases: &[u32], source: usize) -> &'a [T] {
    &column[bases[source] as usize..bases[source + 1] as usize]
}
