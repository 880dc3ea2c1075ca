//! Selects the lines of a hit that are most relevant to the query.

use std::{fs, path::Path};

use serde::{Serialize, Serializer};

use crate::decode;

/// Stop words.
const COMMON: [&str; 24] = [
    "a", "an", "and", "are", "as", "at", "by", "do", "for", "from", "how", "in", "into", "is", "it", "of", "on", "or",
    "that", "the", "to", "we", "where", "with",
];

/// Minimum length of the common prefix of related words, such as `parse` and `parsing`.
const STEM: usize = 4;

/// The words of a query without stop words.
#[derive(Debug, Default)]
pub struct Words {
    words: Vec<String>,
    /// Pairs of adjacent characters of scripts without spaces between words, by which the daemon finds texts in them.
    pairs: Vec<String>,
}

/// Lines of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Snippet {
    first: usize,
    lines: Vec<String>,
}

impl Serialize for Snippet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.lines.join("\n"))
    }
}

impl Words {
    /// Extracts the words of a query.
    pub fn of(query: &str) -> Self {
        let mut found = Self::default();
        let query = query.to_lowercase();
        for run in query.split(|c: char| !c.is_alphanumeric()) {
            let characters: Vec<_> = run.chars().collect();
            for part in characters.chunk_by(|a, b| is_unspaced(*a) == is_unspaced(*b)) {
                let text = |characters: &[char]| characters.iter().collect::<String>();
                if is_unspaced(part[0]) {
                    found.pairs.extend(part.windows(part.len().min(2)).map(text));
                } else if part.len() > 1 && !COMMON.contains(&text(part).as_str()) {
                    found.words.push(text(part));
                }
            }
        }
        found
    }

    fn relates(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        self.words.iter().any(|own| *own == word || related(own, &word))
    }

    /// Applies `style` to the words of a line that are related to the query.
    pub fn mark(&self, line: &str, style: impl Fn(&str) -> String) -> String {
        let mut marked = String::with_capacity(line.len());
        for piece in pieces(line) {
            if piece.starts_with(is_unspaced) {
                self.mark_pairs(piece, &style, &mut marked);
            } else if self.relates(piece) {
                marked.push_str(&style(piece));
            } else {
                marked.push_str(piece);
            }
        }
        marked
    }

    /// Marks the parts of a run without spaces that pairs of the query cover.
    fn mark_pairs(&self, run: &str, style: &impl Fn(&str) -> String, marked: &mut String) {
        let mut covered = vec![false; run.len()];
        for pair in &self.pairs {
            run.match_indices(pair).for_each(|(at, found)| covered[at..at + found.len()].fill(true));
        }
        let mut start = 0;
        for part in covered.chunk_by(|a, b| a == b) {
            let text = &run[start..start + part.len()];
            start += part.len();
            if part[0] { marked.push_str(&style(text)) } else { marked.push_str(text) }
        }
    }

    /// Bitmap of the first 64 query words that a line contains.
    fn found_in(&self, line: &str) -> u64 {
        let line: Vec<_> = pieces(line).map(str::to_lowercase).collect();
        let has_word = |own: &String| line.iter().any(|word| word == own || related(own, word));
        let has_pair = |own: &String| line.iter().any(|run| run.contains(own));
        let found = self.words.iter().map(has_word).chain(self.pairs.iter().map(has_pair));
        (0..64).zip(found).filter(|(_, is_found)| *is_found).fold(0, |found, (bit, _)| found | 1 << bit)
    }
}

/// Returns true for a letter or digit of a script without spaces between words, and of Korean.
fn is_unspaced(c: char) -> bool {
    let is_in_block = matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    is_in_block && c.is_alphanumeric()
}

/// Returns true if two words have a long common prefix; `common` and `command` do not.
fn related(one: &str, other: &str) -> bool {
    let shared = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let shorter = one.chars().count().min(other.chars().count());
    shared >= STEM && shared * 10 >= shorter * 7
}

/// Splits a line into words and separators; `snake_case` and `camelCase` are several words.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices();
        let (_, first) = chars.next()?;
        let mut before = first;
        let end = chars.find(|(_, c)| {
            let is_other = |is: fn(char) -> bool| is(*c) != is(first);
            let ends =
                is_other(char::is_alphanumeric) || is_other(is_unspaced) || (before.is_lowercase() && c.is_uppercase());
            before = *c;
            ends
        });
        let (piece, left) = rest.split_at(end.map_or(rest.len(), |(index, _)| index));
        rest = left;
        Some(piece)
    })
}

/// Reads the best lines of a chunk; `None` if the file is gone or shorter.
pub fn read(path: &Path, start: i64, end: i64, limit: usize, words: &Words) -> Option<Snippet> {
    let lines = lines(path, start, end)?;
    let first = usize::try_from(start).ok()?;
    best(&lines.iter().map(String::as_str).collect::<Vec<_>>(), first, limit, words)
}

/// Reads a range of lines of a file, counted from 1; `None` if the file or the range is invalid.
pub fn lines(path: &Path, start: i64, end: i64) -> Option<Vec<String>> {
    let bytes = fs::read(path).ok()?;
    let text = decode::decode(&bytes).ok()?;
    let first = usize::try_from(start).ok()?.checked_sub(1)?;
    let count = usize::try_from(end).ok()?.checked_sub(first)?;
    Some(text.lines().skip(first).take(count).map(str::to_owned).collect())
}

/// Returns the window with the most distinct words of the query, then with the most occurrences, that starts with one; the
/// first among equals.
fn best(lines: &[&str], first: usize, limit: usize, words: &Words) -> Option<Snippet> {
    let matches: Vec<_> = lines.iter().map(|line| words.found_in(line)).collect();
    let score = |index: usize| {
        let window = matches[index..].iter().take(limit);
        let (all, sum) = window.fold((0_u64, 0), |(all, sum), line| (all | line, sum + line.count_ones()));
        (matches[index] != 0, all.count_ones(), sum)
    };
    let starts = (0..lines.len()).filter(|index| !lines[*index].trim().is_empty());
    let index = starts.max_by_key(|index| (score(*index), std::cmp::Reverse(*index)))?;
    let mut window: Vec<_> = lines[index..].iter().take(limit).map(|line| line.replace('\t', "    ")).collect();
    while window.last().is_some_and(|line| line.trim().is_empty()) {
        window.pop();
    }
    let indent = window
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start_matches(' ').len())
        .min()
        .unwrap_or(0);
    let lines = window.iter().map(|line| line.get(indent..).unwrap_or_default().trim_end().to_owned()).collect();
    Some(Snippet { first: first + index, lines })
}

impl Snippet {
    /// The lines with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        (self.first..).zip(self.lines.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_with_the_most_related_words_is_shown() {
        let lines = [
            "import os",
            "",
            "def other():",
            "    pass",
            "",
            "    def open_socket(self):",
            "        sock.listen()",
            "",
            "x",
        ];
        let snippet = best(&lines, 10, 3, &Words::of("open a socket and listen")).unwrap();
        let shown: Vec<_> = snippet.numbered().collect();
        assert_eq!(shown, [(15, "def open_socket(self):"), (16, "    sock.listen()")]);
    }

    #[test]
    fn without_related_words_the_beginning_is_shown() {
        let snippet = best(&["", "one", "two"], 1, 1, &Words::of("zebra")).unwrap();
        assert_eq!(snippet.numbered().collect::<Vec<_>>(), [(2, "one")]);
        assert_eq!(best(&["", " "], 1, 4, &Words::of("zebra")), None);
    }

    #[test]
    fn related_words_are_marked_and_common_ones_are_not() {
        let words = Words::of("wait for a TCP connection");
        let mark = |line| words.mark(line, |word| format!("<{word}>"));
        assert_eq!(mark("for tcp in waitConnections:"), "for <tcp> in <wait><Connections>:");
        assert_eq!(mark("tcpip é"), "tcpip é");
        assert!(related("parse", "parsing") && related("connection", "connect"));
        assert!(!related("command", "common") && !related("line", "link"));
    }

    #[test]
    fn parts_of_runs_without_spaces_are_marked_and_shown() {
        let words = Words::of("北京大学 parse 猫");
        let mark = |line| words.mark(line, |word| format!("<{word}>"));
        assert_eq!(mark("我们在北京大学学习parse"), "我们在<北京大学>学习<parse>");
        assert_eq!(mark("北京的大学, 小猫"), "<北京>的<大学>, 小<猫>");
        assert_eq!(mark("학교에서 北"), "학교에서 北");
        let lines = ["# 概要", "我们在北京大学学习", "大学"];
        let snippet = best(&lines, 1, 1, &words).unwrap();
        assert_eq!(snippet.numbered().collect::<Vec<_>>(), [(2, "我们在北京大学学习")]);
    }

    #[test]
    fn a_file_that_is_gone_or_shorter_has_no_snippet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.py");
        assert_eq!(read(&path, 1, 2, 4, &Words::of("x")), None);
        fs::write(&path, "one\n").unwrap();
        assert_eq!(read(&path, 5, 9, 4, &Words::of("x")), None);
        assert_eq!(read(&path, 0, 9, 4, &Words::of("x")), None);
        assert!(read(&path, 1, 9, 4, &Words::of("x")).is_some());
    }
}
