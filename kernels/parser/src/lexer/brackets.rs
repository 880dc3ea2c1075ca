//! Brackets that are open, replacement fields among them.

/// CPython keeps at most so many.
pub(super) const MOST_BRACKETS: usize = 200;

/// What opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Paren,
    Bracket,
    Brace,
    /// The brace of a replacement field: whether the field is part of a format specification.
    Field {
        in_spec: bool,
    },
}

impl Opening {
    pub(super) fn of(byte: u8) -> Self {
        match byte {
            b'(' => Self::Paren,
            b'[' => Self::Bracket,
            _ => Self::Brace,
        }
    }

    /// As it is written.
    pub(super) fn written(self) -> char {
        match self {
            Self::Paren => '(',
            Self::Bracket => '[',
            Self::Brace | Self::Field { .. } => '{',
        }
    }

    pub(super) fn closes(self) -> u8 {
        match self {
            Self::Paren => b')',
            Self::Bracket => b']',
            Self::Brace | Self::Field { .. } => b'}',
        }
    }
}

/// The open brackets, innermost last, with their places.
#[derive(Default)]
pub(super) struct Brackets {
    open: Vec<(Opening, u32)>,
}

impl Brackets {
    #[inline]
    pub(super) fn push(&mut self, opening: Opening, at: u32) {
        self.open.push((opening, at));
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Opening, u32)> {
        self.open.pop()
    }

    pub(super) fn last(&self) -> Option<(Opening, u32)> {
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

    /// The innermost bracket is a replacement field's.
    #[inline]
    pub(super) fn in_field(&self) -> bool {
        matches!(self.open.last(), Some((Opening::Field { .. }, _)))
    }

    /// How many replacement fields are open above a height.
    pub(super) fn fields_above(&self, height: usize) -> usize {
        self.open.iter().skip(height).filter(|(opening, _)| matches!(opening, Opening::Field { .. })).count()
    }

    /// Makes fields above a height ordinary braces: their string ended before they did.
    pub(super) fn forget_fields(&mut self, height: usize) {
        for (opening, _) in self.open.iter_mut().skip(height) {
            if matches!(opening, Opening::Field { .. }) {
                *opening = Opening::Brace;
            }
        }
    }
}
