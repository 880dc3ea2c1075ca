//! The stack of open brackets, replacement fields included.

/// CPython's MAXLEVEL.
pub(super) const MAX_BRACKETS: usize = 200;

/// An open bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    Round,
    Square,
    Curly,
    /// The brace of a replacement field, and whether the field is in a format specification.
    Field {
        in_spec: bool,
    },
}

impl Bracket {
    pub(super) fn of(byte: u8) -> Self {
        match byte {
            b'(' => Self::Round,
            b'[' => Self::Square,
            _ => Self::Curly,
        }
    }

    pub(super) fn as_char(self) -> char {
        match self {
            Self::Round => '(',
            Self::Square => '[',
            Self::Curly | Self::Field { .. } => '{',
        }
    }

    pub(super) fn closes(self) -> u8 {
        match self {
            Self::Round => b')',
            Self::Square => b']',
            Self::Curly | Self::Field { .. } => b'}',
        }
    }
}

/// Open brackets with their offsets, innermost last.
#[derive(Default)]
pub(super) struct Brackets {
    open: Vec<(Bracket, u32)>,
}

impl Brackets {
    #[inline]
    pub(super) fn push(&mut self, bracket: Bracket, offset: u32) {
        self.open.push((bracket, offset));
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Bracket, u32)> {
        self.open.pop()
    }

    pub(super) fn last(&self) -> Option<(Bracket, u32)> {
        self.open.last().copied()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns true if the innermost bracket is a replacement field.
    #[inline]
    pub(super) fn in_field(&self) -> bool {
        matches!(self.open.last(), Some((Bracket::Field { .. }, _)))
    }

    /// Replacement fields above a height of the stack.
    pub(super) fn fields_above(&self, height: usize) -> usize {
        self.open.iter().skip(height).filter(|(bracket, _)| matches!(bracket, Bracket::Field { .. })).count()
    }

    /// Makes fields above a height ordinary braces: their string ended first.
    pub(super) fn demote_fields(&mut self, height: usize) {
        for (bracket, _) in self.open.iter_mut().skip(height) {
            if matches!(bracket, Bracket::Field { .. }) {
                *bracket = Bracket::Curly;
            }
        }
    }
}
