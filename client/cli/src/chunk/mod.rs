//! Splits a text file into overlapping windows of lines, or by its functions and classes.

mod grammar;
mod items;
mod python;

use std::{borrow::Cow, num::NonZeroUsize};

pub use self::{
    grammar::{Grammar, split as split_by_grammar},
    python::split as split_python,
};

/// Maximum bytes of a chunk's text: a minified file has no lines to split at.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Size and overlap of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    lines: NonZeroUsize,
    overlap: usize,
}

/// A chunk of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// First line, counted from 1.
    pub start_line: usize,
    /// Last line.
    pub end_line: usize,
    /// Qualified name of a function or class.
    pub name: Option<String>,
    /// True if it is marked as test code.
    pub is_test: bool,
    /// The lines; of a long class a subset.
    pub text: Cow<'a, str>,
}

impl Windows {
    /// Windows of a number of lines with an overlap.
    pub fn new(lines: usize, overlap: usize) -> Result<Self, String> {
        match NonZeroUsize::new(lines) {
            Some(lines) if overlap < lines.get() => Ok(Self { lines, overlap }),
            _ => Err(format!("windows of {lines} lines cannot overlap by {overlap}: expected 0 <= overlap < lines")),
        }
    }

    /// Identifies the options in hashes of files.
    pub fn tag(self) -> String {
        format!("{}:{}", self.lines, self.overlap)
    }

    /// Maximum lines of a chunk that is not split.
    fn most_lines(self) -> usize {
        self.lines.get() + self.overlap.max(self.lines.get() / 4)
    }

    /// Splits a text. A short rest is added to the last window, so a file a little longer than a window stays whole. Blank
    /// windows are omitted.
    pub fn split(self, text: &str) -> Vec<Chunk<'_>> {
        let starts: Vec<usize> = line_starts(text).collect();
        let line_count = starts.len();
        let at = |line: usize| starts.get(line).copied().unwrap_or(text.len());
        let mut chunks = vec![];
        let mut first = 0;
        while first < line_count {
            let last = if first + self.most_lines() >= line_count { line_count } else { first + self.lines.get() };
            let text = text[at(first)..at(last)].trim_end();
            if !text.trim_start().is_empty() {
                let text = head(text, MAX_TEXT_BYTES).into();
                chunks.push(Chunk { start_line: first + 1, end_line: last, name: None, is_test: false, text });
            }
            if last == line_count {
                break;
            }
            first = last - self.overlap;
        }
        chunks
    }
}

/// Starts of the lines; a final newline does not start a line.
fn line_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    let after_newlines = text.match_indices('\n').map(|(index, _)| index + 1);
    std::iter::once(0).chain(after_newlines).filter(|start| *start < text.len())
}

/// Truncates a text to a number of bytes at a character boundary.
fn head(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The words of a path without its extension and punctuation.
pub fn path_words(path: &str) -> String {
    let stem = path.rsplit_once('.').filter(|(stem, end)| !stem.is_empty() && !end.contains('/')).map_or(path, |p| p.0);
    words_of(stem)
}

fn words_of(name: &str) -> String {
    let words: Vec<_> = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// The text of a chunk that is embedded.
pub fn model_text(path_words: &str, chunk: &Chunk<'_>) -> String {
    match &chunk.name {
        // The name appears twice: it says more about a function than any of its lines.
        Some(name) => format!("{path_words} {0}\n{0}\n{1}", words_of(name), chunk.text),
        None => format!("{path_words}\n{}", chunk.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(lines: usize) -> String {
        use std::fmt::Write;
        (1..=lines).fold(String::new(), |mut text, n| {
            writeln!(text, "line {n}").expect("a string takes text");
            text
        })
    }

    fn spans(lines: usize, windows: Windows) -> Vec<(usize, usize)> {
        windows.split(&numbered(lines)).iter().map(|c| (c.start_line, c.end_line)).collect()
    }

    fn forty() -> Windows {
        Windows::new(40, 10).unwrap()
    }

    #[test]
    fn windows_overlap_and_cover_every_line() {
        assert_eq!(spans(100, forty()), [(1, 40), (31, 70), (61, 100)]);
        for lines in 1..400 {
            let spans = spans(lines, forty());
            assert_eq!((spans[0].0, spans[spans.len() - 1].1), (1, lines));
            for pair in spans.windows(2) {
                assert_eq!(pair[1].0, pair[0].1 + 1 - 10, "{lines} lines");
            }
        }
    }

    #[test]
    fn a_file_a_little_longer_than_a_window_stays_whole() {
        assert_eq!(spans(1, forty()), [(1, 1)]);
        assert_eq!(spans(50, forty()), [(1, 50)]);
        assert_eq!(spans(51, forty()), [(1, 40), (31, 51)]);
    }

    #[test]
    fn the_text_of_a_chunk_is_its_lines() {
        let text = numbered(60);
        let chunk = &forty().split(&text)[1];
        assert!(chunk.text.starts_with("line 31\n") && chunk.text.ends_with("line 60"), "{:?}", chunk.text);
    }

    #[test]
    fn nothing_visible_makes_no_chunk() {
        assert!(forty().split("").is_empty());
        assert!(forty().split(&"\n".repeat(200)).is_empty());
        let gap = format!("a\n{}b\n", "\n".repeat(200));
        let starts: Vec<_> = forty().split(&gap).iter().map(|c| c.start_line).collect();
        assert_eq!(starts, [1, 181]);
    }

    #[test]
    fn endless_lines_are_cut_between_characters() {
        let text = "é".repeat(MAX_TEXT_BYTES);
        let chunks = forty().split(&text);
        assert_eq!((chunks.len(), chunks[0].text.len()), (1, MAX_TEXT_BYTES));
        assert_eq!(head("aé", 2), "a");
    }

    #[test]
    fn windows_that_would_never_end_are_refused() {
        assert!(Windows::new(0, 0).is_err());
        assert!(Windows::new(10, 10).is_err());
        assert!(Windows::new(1, 0).is_ok());
    }

    #[test]
    fn paths_become_words() {
        assert_eq!(path_words("email/mime/text_part.py"), "email mime text part");
        assert_eq!(path_words("Makefile"), "Makefile");
        assert_eq!(path_words(".github/run"), "github run");
    }
}
