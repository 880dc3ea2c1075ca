//! The words of the rows that came last, counted, and not in the index yet.

use std::collections::HashMap;

use accelerd_models::words;
use tantivy::{fieldnorm::FieldNormReader, tokenizer::MAX_TOKEN_LEN};

/// What a word costs beside its letters: its place in the table, and the list of its rows.
const WORD_BYTES: usize = 88;

/// Rows in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Tail {
    rows: Vec<Row>,
    /// Word to its number.
    numbers: HashMap<Box<str>, u32>,
    /// By the number of the word: the rows that have it, ascending.
    postings: Vec<Vec<Times>>,
    bytes: usize,
}

/// A row, and what the index would remember of its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) number: u32,
    pub(super) norm: u8,
}

/// How often a row has a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Its place in the list of rows.
    pub(super) place: u32,
    pub(super) times: u32,
}

/// Memory that is used again for every row.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    word: String,
    numbers: Vec<u32>,
}

impl Tail {
    /// Adds a row with the words of a text, and says how many they are, those among them that are too long for the index
    /// included.
    pub(super) fn push(&mut self, number: u32, text: &str, scratch: &mut Scratch) -> u32 {
        let place = u32::try_from(self.rows.len()).expect("rows of a collection are counted in 32 bits");
        let Scratch { word, numbers } = scratch;
        numbers.clear();
        let mut length = 0_u32;
        for cased in words(text) {
            length = length.saturating_add(1);
            lower_into(cased, word);
            if word.len() <= MAX_TOKEN_LEN {
                numbers.push(self.number(word));
            }
        }
        numbers.sort_unstable();
        for same in numbers.chunk_by(|a, b| a == b) {
            let times = u32::try_from(same.len()).unwrap_or(u32::MAX);
            self.postings[same[0] as usize].push(Times { place, times });
            self.bytes += size_of::<Times>();
        }
        let kept = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        self.rows.push(Row { number, norm: FieldNormReader::fieldnorm_to_id(kept) });
        self.bytes += size_of::<Row>();
        length
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = u32::try_from(self.postings.len()).expect("4 billion words do not fit in memory");
        self.numbers.insert(word.into(), number);
        self.postings.push(vec![]);
        self.bytes += WORD_BYTES + word.len();
        number
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes held, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows that have a word.
    pub(super) fn with(&self, word: &str) -> &[Times] {
        self.numbers.get(word).map_or(&[][..], |number| &self.postings[*number as usize][..])
    }

    /// Every row with its words, each with how often the row has it.
    pub(super) fn texts(&self) -> Vec<(u32, Vec<(&str, u32)>)> {
        let mut texts: Vec<_> = self.rows.iter().map(|row| (row.number, vec![])).collect();
        for (word, number) in &self.numbers {
            for of in &self.postings[*number as usize] {
                texts[of.place as usize].1.push((&**word, of.times));
            }
        }
        texts
    }
}

/// The word in lower case, in the place of what was there.
fn lower_into(word: &str, to: &mut String) {
    to.clear();
    if word.is_ascii() {
        to.push_str(word);
        to.make_ascii_lowercase();
    } else {
        to.push_str(&word.to_lowercase());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const N: usize>(rows: [(u32, &str); N]) -> Tail {
        let (mut tail, mut scratch) = (Tail::default(), Scratch::default());
        for (row, text) in rows {
            tail.push(row, text, &mut scratch);
        }
        tail
    }

    /// Row, norm and times of each match.
    fn matches(tail: &Tail, word: &str) -> Vec<(u32, u8, u32)> {
        let row = |of: &Times| tail.rows()[of.place as usize];
        tail.with(word).iter().map(|of| (row(of).number, row(of).norm, of.times)).collect()
    }

    #[test]
    fn rows_are_found_by_their_words_and_come_out_with_all_of_them() {
        let tail = of([(7, "Open openFile"), (8, ""), (9, "file ÄRGER")]);
        let norm = FieldNormReader::fieldnorm_to_id;
        assert_eq!(matches(&tail, "open"), [(7, norm(3), 2)]);
        assert_eq!(matches(&tail, "file"), [(7, norm(3), 1), (9, norm(2), 1)]);
        assert_eq!(matches(&tail, "ärger"), [(9, norm(2), 1)]);
        assert_eq!(matches(&tail, "close"), []);
        let mut texts = tail.texts();
        for (_, words) in &mut texts {
            words.sort_unstable();
        }
        let expected = [(7, vec![("file", 1), ("open", 2)]), (8, vec![]), (9, vec![("file", 1), ("ärger", 1)])];
        assert_eq!(texts, expected);
        assert!(tail.bytes() > 3 * WORD_BYTES);
    }

    #[test]
    fn a_word_that_no_index_takes_counts_in_the_length_alone() {
        let (mut tail, mut scratch) = (Tail::default(), Scratch::default());
        let length = tail.push(0, &format!("a {}", "x".repeat(MAX_TOKEN_LEN + 1)), &mut scratch);
        assert_eq!((length, tail.rows()[0].norm, tail.numbers.len()), (2, 1, 1));
    }
}
