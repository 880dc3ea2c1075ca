//! Tokens as columns, and the logical lines that they form.

pub use crate::terminals::Terminal;

/// The tokens of a source, without comments, newlines and indentation.
///
/// The columns have equal lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The terminal of each token.
    pub kinds: Vec<Terminal>,
    /// Its first byte in the text.
    pub starts: Vec<u32>,
    /// The byte after it.
    pub ends: Vec<u32>,
    /// For `Name` and the soft keywords `Match`, `Case` and `Type` the number of the name; for `Augmented`,
    /// `Comparison`, `Shift` and `Multiplicative` the [`Operator`](crate::Operator); for `String`, `FStringStart`,
    /// `TStringStart` and `FStringMiddle` the flags of [`string`]; else 0.
    pub payloads: Vec<u32>,
}

/// Flags in the payload of string tokens.
///
/// A `String` has all but [`SPEC`](string::SPEC); the start of an f- or t-string [`RAW`](string::RAW),
/// [`TRIPLE`](string::TRIPLE) and the prefix; text between fields [`RAW`](string::RAW), [`CHANGED`](string::CHANGED)
/// and [`SPEC`](string::SPEC).
pub mod string {
    /// Backslashes stand for themselves.
    pub const RAW: u32 = 1;
    /// The prefix has a `b`.
    pub const BYTES: u32 = 2;
    /// The prefix is a lower-case `u`.
    pub const UNICODE: u32 = 4;
    /// Three quotes on either side.
    pub const TRIPLE: u32 = 8;
    /// The value may differ from the source: there is an escape, a carriage return or a doubled brace.
    pub const CHANGED: u32 = 16;
    /// Part of a format specification: braces are not doubled there.
    pub const SPEC: u32 = 32;
    /// The shift of the prefix's length.
    pub const PREFIX_SHIFT: u32 = 8;
}

/// A logical line: the tokens of one physical line, or of several that brackets, strings or backslashes join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its first token.
    pub first: u32,
    /// The token after its last one; greater than `first`.
    pub end: u32,
    /// Its indentation, a tab counting to the next multiple of 8.
    pub column: u32,
    /// Its indentation, a tab counting 1: where the two disagree about which of two lines is deeper, tabs and spaces
    /// are mixed.
    pub alternate: u32,
}
