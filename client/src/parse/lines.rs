//! Converts byte offsets to lines and columns.

use std::borrow::Cow;

/// CPython's columns do not count a byte order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A position as in CPython's `ast`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 0.
    pub column: usize,
}

/// Starts of the lines of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines<'a> {
    starts: Cow<'a, [u32]>,
    /// Length of the byte order mark.
    mark: usize,
}

impl<'a> Lines<'a> {
    /// Lines with known starts.
    pub(super) fn known(starts: &'a [u32], text: &[u8]) -> Self {
        Self { starts: starts.into(), mark: mark(text) }
    }

    /// Finds the lines of a text.
    pub fn of(text: &[u8]) -> Self {
        let ends = (0..text.len()).filter(|at| ends_line(text, *at));
        let starts = std::iter::once(0).chain(ends.map(|at| u32::try_from(at + 1).unwrap_or(u32::MAX)));
        Self { starts: starts.collect(), mark: mark(text) }
    }

    /// Number of lines. The text after the last newline counts, even if it is empty.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Always false: an empty text has one line.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Line and column of a byte offset.
    pub fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start as usize <= offset).max(1);
        Position { line, column: offset.saturating_sub(self.start(line)) }
    }

    /// Byte offset of a line, counted from 1; that of the last line if out of bounds.
    pub fn start(&self, line: usize) -> usize {
        let start = self.starts.get(line.saturating_sub(1)).or(self.starts.last()).copied().unwrap_or(0) as usize;
        if line <= 1 { start.max(self.mark) } else { start }
    }
}

fn mark(text: &[u8]) -> usize {
    if text.starts_with(MARK) { MARK.len() } else { 0 }
}

/// Returns true if a line ends after this byte: `\n`, or `\r` without a following `\n`.
fn ends_line(text: &[u8], offset: usize) -> bool {
    match text[offset] {
        b'\n' => true,
        b'\r' => text.get(offset + 1) != Some(&b'\n'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_any_of_three_ways() {
        let lines = Lines::of(b"a\r\nb\rc\nd");
        assert_eq!(lines.starts.as_ref(), [0, 3, 5, 7]);
        assert_eq!(lines.position(3), Position { line: 2, column: 0 });
        assert_eq!(lines.position(4), Position { line: 2, column: 1 });
        assert_eq!(lines.position(8), Position { line: 4, column: 1 });
        assert_eq!((lines.start(1), lines.start(4), lines.start(9)), (0, 7, 7));
        assert_eq!(Lines::of(b"").position(0), Position { line: 1, column: 0 });
    }

    #[test]
    fn a_byte_order_mark_takes_no_column() {
        let text = b"\xef\xbb\xbfx\ny";
        for lines in [Lines::of(text), Lines::known(&[0, 5], text), Lines::known(&[3, 5], text)] {
            assert_eq!(lines.position(3), Position { line: 1, column: 0 });
            assert_eq!(lines.position(5), Position { line: 2, column: 0 });
        }
    }
}
