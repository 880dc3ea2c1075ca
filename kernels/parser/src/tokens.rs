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
    /// `Augmented`, `Comparison`, `Shift` and `Multiplicative` the [`Operator`](crate::Operator); else 0.
    pub payloads: Vec<u32>,
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
