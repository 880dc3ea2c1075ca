//! The words of the rows that came last, counted, and not in the index yet.

use std::collections::HashMap;

use tantivy::{fieldnorm::FieldNormReader, tokenizer::MAX_TOKEN_LEN};

use super::lower;

/// What a word costs beside its letters: its place in the table, and the list of its rows.
const WORD_BYTES: usize = 72;

/// Rows in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Tail {
    rows: Vec<Row>,
    /// Word to the rows that have it, ascending.
    words: HashMap<String, Vec<Times>>,
    bytes: usize,
}

/// A row, and what the index would remember of its length.
#[derive(Clone, Copy, Debug)]
struct Row {
    number: u32,
    norm: u8,
}

/// How often a row has a word.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// Its place in the list of rows.
    place: u32,
    times: u32,
}

/// A text's words, counted.
pub(super) struct Counted {
    words: HashMap<String, u32>,
    /// How many words there are, those among them that are too long for the index included.
    pub(super) length: u32,
    norm: u8,
}

/// A row with a word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Match {
    pub(super) row: u32,
    pub(super) norm: u8,
    pub(super) times: u32,
}

/// Counts the words of a text.
pub(super) fn count(text: &str) -> Counted {
    let (mut words, mut length, mut kept) = (HashMap::<String, u32>::new(), 0_u32, 0_u32);
    for word in lower(text) {
        length = length.saturating_add(1);
        if word.len() <= MAX_TOKEN_LEN {
            kept = kept.saturating_add(1);
            *words.entry(word).or_default() += 1;
        }
    }
    Counted { words, length, norm: FieldNormReader::fieldnorm_to_id(kept) }
}

impl Tail {
    /// Adds a row.
    pub(super) fn push(&mut self, number: u32, counted: Counted) {
        let place = u32::try_from(self.rows.len()).expect("rows of a collection are counted in 32 bits");
        self.rows.push(Row { number, norm: counted.norm });
        self.bytes += size_of::<Row>() + counted.words.len() * size_of::<Times>();
        for (word, times) in counted.words {
            let length = word.len();
            let rows = self.words.entry(word).or_default();
            if rows.is_empty() {
                self.bytes += WORD_BYTES + length;
            }
            rows.push(Times { place, times });
        }
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes held, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows that have a word.
    pub(super) fn with(&self, word: &str) -> Vec<Match> {
        let found = |of: &Times| {
            let row = self.rows[of.place as usize];
            Match { row: row.number, norm: row.norm, times: of.times }
        };
        self.words.get(word).map(|rows| rows.iter().map(found).collect()).unwrap_or_default()
    }

    /// Every row with its words, each as often as the row has it.
    pub(super) fn texts(&self) -> Vec<(u32, Vec<(&str, u32)>)> {
        let mut texts: Vec<_> = self.rows.iter().map(|row| (row.number, vec![])).collect();
        for (word, rows) in &self.words {
            for of in rows {
                texts[of.place as usize].1.push((word.as_str(), of.times));
            }
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_words_and_come_out_with_all_of_them() {
        let mut tail = Tail::default();
        for (row, text) in [(7, "Open openFile"), (8, ""), (9, "file")] {
            tail.push(row, count(text));
        }
        let norm = FieldNormReader::fieldnorm_to_id;
        assert_eq!(tail.with("open"), [Match { row: 7, norm: norm(3), times: 2 }]);
        assert_eq!(tail.with("file").iter().map(|found| found.row).collect::<Vec<_>>(), [7, 9]);
        assert_eq!(tail.with("close"), []);
        let mut texts = tail.texts();
        texts[0].1.sort_unstable();
        assert_eq!(texts, [(7, vec![("file", 1), ("open", 2)]), (8, vec![]), (9, vec![("file", 1)])]);
        assert!(tail.bytes() > 2 * WORD_BYTES);
    }

    #[test]
    fn a_word_that_no_index_takes_counts_in_the_length_alone() {
        let counted = count(&format!("a {}", "x".repeat(MAX_TOKEN_LEN + 1)));
        assert_eq!((counted.length, counted.norm, counted.words.len()), (2, 1, 1));
    }
}
