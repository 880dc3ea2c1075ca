//! Parse options.

/// The newest supported minor version, 3.14.
pub const NEWEST: u8 = 14;

/// Parse options, as those of `ast.parse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The minor version of Python 3 whose grammar applies: 8 to [`NEWEST`].
    pub feature_version: u8,
    /// Encoded file or decoded text.
    pub source_type: SourceType,
    /// Module, expression or statement.
    pub mode: Mode,
}

impl Default for Options {
    fn default() -> Self {
        Self { feature_version: NEWEST, source_type: SourceType::File, mode: Mode::Exec }
    }
}

impl Options {
    /// A module in a file, of a version.
    pub const fn version(feature_version: u8) -> Self {
        Self { feature_version, source_type: SourceType::File, mode: Mode::Exec }
    }
}

/// Encoding of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SourceType {
    /// A file, whose byte order mark or PEP 263 cookie names its encoding: `ast.parse(bytes)`.
    #[default]
    File,
    /// Decoded text, as UTF-8: `ast.parse(str)`.
    Text,
}

/// The `mode` of `ast.parse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A module.
    #[default]
    Exec,
    /// An expression, whose root is a row in the field `body` without a parent.
    Eval,
    /// One interactive statement.
    Single,
}
