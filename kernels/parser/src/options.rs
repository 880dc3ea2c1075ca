//! How a source is to be read.

/// The newest version of the grammar, 3.14.
pub const NEWEST: u8 = 14;

/// How to parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The minor version of Python 3 whose grammar is asked for: 8 to [`NEWEST`].
    pub feature_version: u8,
    /// What the bytes of the source are.
    pub source_type: SourceType,
    /// What the source has to be.
    pub mode: Mode,
}

impl Default for Options {
    fn default() -> Self {
        Self { feature_version: NEWEST, source_type: SourceType::File, mode: Mode::Exec }
    }
}

impl Options {
    /// The bytes of a file with a module of some version.
    pub const fn version(feature_version: u8) -> Self {
        Self { feature_version, source_type: SourceType::File, mode: Mode::Exec }
    }
}

/// What the bytes of a source are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SourceType {
    /// A file's: its byte order mark or PEP 263 cookie names the encoding. `ast.parse(bytes)`.
    #[default]
    File,
    /// Text that is decoded already, as UTF-8: `ast.parse(str)`.
    Text,
}

/// What a source has to be, as the `mode` of `ast.parse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A module.
    #[default]
    Exec,
    /// An expression. Its root is a row in the field `body` without a parent.
    Eval,
    /// One interactive statement.
    Single,
}
