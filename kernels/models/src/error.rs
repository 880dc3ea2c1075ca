//! Errors of table models.

/// An error in a table model's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The magic is missing.
    #[error("file does not start with \"ACCTABLE\"")]
    Magic,
    /// The format version is not supported.
    #[error("format version is {expected}, got {got}")]
    Version {
        /// The supported version.
        expected: u32,
        /// The version of the file.
        got: u32,
    },
    /// The file is truncated.
    #[error("{part} needs {expected} bytes, {got} are left")]
    Truncated {
        /// The part being read.
        part: &'static str,
        /// Bytes it needs.
        expected: u64,
        /// Bytes left.
        got: u64,
    },
    /// Data follows the end.
    #[error("{0} bytes follow the values")]
    Trailing(usize),
    /// The checksum differs.
    #[error("checksum does not match the content")]
    Checksum,
    /// The table has no rows or no columns.
    #[error("table of [{rows}, {dim}] is empty")]
    Empty {
        /// Rows.
        rows: u32,
        /// Columns.
        dim: u32,
    },
    /// The offered dimensions do not decrease from the number of columns.
    #[error("expected offered dimensions that decrease from {dim}, got {got:?}")]
    Dimensions {
        /// Columns of the table.
        dim: u32,
        /// Dimensions offered.
        got: Vec<u32>,
    },
    /// The vocabulary or the character map is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
    /// The vocabulary's size is not the table's number of rows.
    #[error("vocabulary has {got} pieces, the table {expected} rows")]
    VocabularySize {
        /// Rows of the table.
        expected: usize,
        /// Pieces of the vocabulary.
        got: usize,
    },
    /// A piece is empty or has a character other than a lower-case letter or a digit.
    #[error("piece {0:?} is not of lower-case letters and digits")]
    BadPiece(String),
    /// A piece occurs twice.
    #[error("piece {0:?} occurs twice")]
    DuplicatePiece(String),
    /// A letter or digit is not a piece, so some words have none.
    #[error("vocabulary has {got} of {expected} single letters and digits")]
    MissingLetters {
        /// Letters and digits.
        expected: usize,
        /// Those in the vocabulary.
        got: usize,
    },
    /// An entry of the character map is not a character outside ASCII and at most three letters or digits.
    #[error("character map entry {0:?} is not a character and its replacement")]
    BadCharacter(String),
    /// The character map has too many pages.
    #[error("character map has characters of more than 255 pages")]
    TooManyCharacters,
    /// A scale is not a finite number.
    #[error("scale of row {0} is not finite")]
    Scale(usize),
}
