//! Why a source falls back to the CPU: the bits that the kernels and the host set, and their labels in metrics.

use std::fmt;

/// The lexer's bits are above the tree's.
const LEXER_SHIFT: u32 = 8;

/// The tree's bits, as `FallbackReason` in `cu/parse/tree.cuh`; its first bit only says that the lexer has a reason.
const TREE_REASONS: [(u32, &str); 5] =
    [(2, "syntax"), (REASON_LIMIT, "limit"), (8, "block"), (16, "check"), (REASON_LITERAL, "literal")];
/// A line has too many tokens or nests too deep.
pub(super) const REASON_LIMIT: u32 = 4;
/// A literal is invalid, or only the CPU decodes it.
pub(super) const REASON_LITERAL: u32 = 32;
/// The mode is not `Mode::Exec`. The host's own: kernels do not know it.
pub(super) const REASON_MODE: u32 = 64;

/// One name for a source's reasons: the first that was found, so that counts add up to the sources. No reason means that
/// the source cannot be decoded.
pub(super) fn name(reasons: u32) -> &'static str {
    if let Some(reason) = LexerReason::of(reasons >> LEXER_SHIFT).next() {
        return reason.name();
    }
    if reasons & REASON_MODE != 0 {
        return "mode";
    }
    TREE_REASONS.iter().find(|(bit, _)| reasons & bit != 0).map_or("encoding", |&(_, name)| name)
}

/// Why the lexer makes a source fall back to the CPU; the bits of its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum LexerReason {
    /// A lexical error.
    Lexical = 1,
    /// A non-ASCII name.
    NonAsciiName = 2,
    /// A physical line is too long.
    LongLine = 4,
    /// A replacement field spans lines.
    MultilineField = 8,
    /// Fields, strings or brackets nest too deep.
    Nesting = 16,
    /// A line's predicted start state was wrong, because of quotes in replacement fields, or the text ends inside a string.
    LineState = 32,
    /// A carriage return without a line feed.
    LoneCarriageReturn = 64,
    /// Invalid or too deep indentation.
    Indentation = 128,
    /// Brackets do not match.
    Brackets = 256,
    /// The name table is full, or two names share a hash.
    NameTable = 512,
    /// A `with (` needs too much lookahead.
    Lookahead = 1024,
    /// A backslash in indentation.
    IndentationBackslash = 2048,
}

impl LexerReason {
    /// All reasons, by their bits.
    pub const ALL: [Self; 12] = [
        Self::Lexical,
        Self::NonAsciiName,
        Self::LongLine,
        Self::MultilineField,
        Self::Nesting,
        Self::LineState,
        Self::LoneCarriageReturn,
        Self::Indentation,
        Self::Brackets,
        Self::NameTable,
        Self::Lookahead,
        Self::IndentationBackslash,
    ];

    /// The label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::NonAsciiName => "non_ascii_name",
            Self::LongLine => "long_line",
            Self::MultilineField => "multiline_field",
            Self::Nesting => "nesting",
            Self::LineState => "line_state",
            Self::LoneCarriageReturn => "lone_carriage_return",
            Self::Indentation => "indentation",
            Self::Brackets => "brackets",
            Self::NameTable => "name_table",
            Self::Lookahead => "lookahead",
            Self::IndentationBackslash => "indentation_backslash",
        }
    }

    /// The reasons in a flag's bits.
    pub fn of(flag: u32) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |reason| flag & *reason as u32 != 0)
    }
}

impl fmt::Display for LexerReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_and_the_first_found_counts() {
        let lexers = LexerReason::ALL.map(|reason| name(1 | (reason as u32) << LEXER_SHIFT));
        let trees = TREE_REASONS.map(|(bit, _)| name(bit));
        let mut names: Vec<_> = lexers.into_iter().chain(trees).chain([name(0), name(REASON_MODE)]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 19);
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
        assert_eq!(name(2 | 16), "syntax");
        let long_line_and_names = (LexerReason::LongLine as u32 | LexerReason::NameTable as u32) << LEXER_SHIFT;
        assert_eq!(name(long_line_and_names | 1 | 4), "long_line");
    }

    #[test]
    fn bits_equal_those_of_the_kernels() {
        let header = crate::cuda::cu!("parse/tree.cuh").text;
        for (bit, name) in TREE_REASONS {
            let line = format!("REASON_{} = {bit},", name.to_uppercase());
            assert!(header.contains(&line), "{line}");
        }
        assert!(header.contains(&format!("#define LEXER_SHIFT {LEXER_SHIFT}\n")));
    }
}
