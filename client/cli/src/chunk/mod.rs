//! Cuts a text file into overlapping windows of lines, or by its functions and classes.

mod grammar;
mod items;
mod python;

use std::{borrow::Cow, num::NonZeroUsize};

pub use self::{
    grammar::{Grammar, cut as cut_by_grammar},
    python::cut as cut_python,
};

/// Most bytes of a chunk that the model gets to see: a minified file has no lines to cut at.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// How to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    lines: NonZeroUsize,
    overlap: usize,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// First line, counted from 1.
    pub start_line: usize,
    /// Last line.
    pub end_line: usize,
    /// Of a function or class: its name behind those of the classes around it.
    pub name: Option<String>,
    /// Whether it says itself that only tests use it.
    pub is_test: bool,
    /// The lines, or those of them that say what it is.
    pub text: Cow<'a, str>,
}

impl Windows {
    /// Windows of so many lines that share so many with the next.
    pub fn new(lines: usize, overlap: usize) -> Result<Self, String> {
        match NonZeroUsize::new(lines) {
            Some(lines) if overlap < lines.get() => Ok(Self { lines, overlap }),
            _ => Err(format!("windows of {lines} lines cannot overlap by {overlap}: expected 0 <= overlap < lines")),
        }
    }

    /// Names these windows; chunks cut by others differ.
    pub fn tag(self) -> String {
        format!("{}:{}", self.lines, self.overlap)
    }

    /// Most lines of what stays whole.
    fn most_lines(self) -> usize {
        self.lines.get() + self.overlap.max(self.lines.get() / 4)
    }

    /// Cuts a text. The last window takes the rest where a window of its own would bring little that is new: a file a
    /// little longer than a window stays whole. Windows without a visible character are left out.
    pub fn cut(self, text: &str) -> Vec<Chunk<'_>> {
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

/// Where each line starts; a final newline starts no line.
fn line_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(after_newlines).filter(|start| *start < text.len())
}

/// The first so many bytes, fewer where that would split a character.
fn head(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The words of a path that may help a search: its last components without their punctuation.
pub fn path_words(path: &str) -> String {
    let stem = path.rsplit_once('.').filter(|(stem, end)| !stem.is_empty() && !end.contains('/')).map_or(path, |p| p.0);
    words_of(stem)
}

fn words_of(name: &str) -> String {
    let words: Vec<_> = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// What the model gets to see of a chunk.
pub fn model_text(path_words: &str, chunk: &Chunk<'_>) -> String {
    match &chunk.name {
        // Twice: what a function is called says more about it than any of its lines.
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
        windows.cut(&numbered(lines)).iter().map(|c| (c.start_line, c.end_line)).collect()
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
        let chunk = &forty().cut(&text)[1];
        assert!(chunk.text.starts_with("line 31\n") && chunk.text.ends_with("line 60"), "{:?}", chunk.text);
    }

    #[test]
    fn nothing_visible_makes_no_chunk() {
        assert!(forty().cut("").is_empty());
        assert!(forty().cut(&"\n".repeat(200)).is_empty());
        let gap = format!("a\n{}b\n", "\n".repeat(200));
        let starts: Vec<_> = forty().cut(&gap).iter().map(|c| c.start_line).collect();
        assert_eq!(starts, [1, 181]);
    }

    #[test]
    fn endless_lines_are_cut_between_characters() {
        let text = "é".repeat(MAX_TEXT_BYTES);
        let chunks = forty().cut(&text);
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
