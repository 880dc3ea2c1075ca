//! What the lexer hands to the parser: tokens as columns, and the logical lines they form.

pub use crate::terminals::Terminal;

/// The tokens of a source, without comments, newlines and indentation.
///
/// The columns have equal lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// What each token is.
    pub kinds: Vec<Terminal>,
    /// Byte of the text where it starts.
    pub starts: Vec<u32>,
    /// Byte of the text behind it.
    pub ends: Vec<u32>,
    /// Of a `Name` (and of `Match`, `Case` and `Type`, which were names) the number of its name in the table of names; of
    /// `Augmented`, `Comparison`, `Shift` and `Multiplicative` the [`Operator`](crate::Operator); of `String`,
    /// `FStringStart`, `TStringStart` and `FStringMiddle` what [`string`] says; else 0.
    pub payloads: Vec<u32>,
}

/// What the payload of a string's token is made of.
///
/// A `String` has all but [`SPEC`](string::SPEC); the start of an f- or t-string [`RAW`](string::RAW),
/// [`TRIPLE`](string::TRIPLE) and the prefix; text between fields [`RAW`](string::RAW), [`CHANGED`](string::CHANGED) and
/// [`SPEC`](string::SPEC).
pub mod string {
    /// Backslashes stand for themselves.
    pub const RAW: u32 = 1;
    /// The prefix has a `b`.
    pub const BYTES: u32 = 2;
    /// The prefix is a lower-case `u`.
    pub const UNICODE: u32 = 4;
    /// Three quotes on either side.
    pub const TRIPLE: u32 = 8;
    /// The text may differ from what it means: there is an escape, a carriage return or a doubled brace.
    pub const CHANGED: u32 = 16;
    /// Part of a format specification: braces are not doubled there.
    pub const SPEC: u32 = 32;
    /// How far left the length of the prefix stands.
    pub const PREFIX_SHIFT: u32 = 8;
}

/// A logical line: the tokens of one physical line, or of several that brackets, strings or backslashes join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its first token.
    pub first: u32,
    /// The token behind its last one; never equal to `first`.
    pub end: u32,
    /// Its indentation, a tab counting to the next multiple of 8.
    pub column: u32,
    /// Its indentation, a tab counting 1: where the two disagree about which of two lines is deeper, tabs and spaces are mixed.
    pub alternate: u32,
}
