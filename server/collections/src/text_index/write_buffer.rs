//! The write buffer: an inverted index of the rows that are not committed yet.

use std::collections::HashMap;

use tantivy::{fieldnorm::FieldNormReader, tokenizer::MAX_TOKEN_LEN};

use super::analysis::{Analyzer, Grams};

/// Memory of a term besides its bytes: its entry in the table, and the list of its postings.
const TERM_BYTES: usize = 88;

/// Rows in order of arrival.
#[derive(Debug, Default)]
pub(super) struct WriteBuffer {
    rows: Vec<Row>,
    /// Term ordinals.
    terms: HashMap<Box<str>, u32>,
    /// By term ordinal, ascending by row.
    postings: Vec<Vec<Posting>>,
    bytes: usize,
    /// Terms of all rows, repetitions included.
    tokens: usize,
}

/// A row, and its length in the encoding of a field norm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) number: u32,
    pub(super) norm: u8,
}

/// An occurrence of a term in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting {
    /// Index in the list of rows.
    pub(super) doc: u32,
    pub(super) term_freq: u32,
}

/// Allocations reused for every row.
#[derive(Debug, Default)]
pub(super) struct TokenScratch {
    analyzer: Analyzer,
    ordinals: Vec<u32>,
}

impl WriteBuffer {
    /// Adds a row with the terms of a text. Returns their number, which includes those that are too long to be indexed.
    pub(super) fn push(&mut self, number: u32, text: &str, scratch: &mut TokenScratch) -> u32 {
        let doc = u32::try_from(self.rows.len()).expect("rows of a collection are counted in 32 bits");
        let TokenScratch { analyzer, ordinals } = scratch;
        ordinals.clear();
        let mut length = 0_u32;
        analyzer.each_term(text, Grams::OfDocument, |term| {
            length = length.saturating_add(1);
            if term.len() <= MAX_TOKEN_LEN {
                ordinals.push(self.ordinal(term));
            }
        });
        ordinals.sort_unstable();
        for same in ordinals.chunk_by(|a, b| a == b) {
            let term_freq = u32::try_from(same.len()).unwrap_or(u32::MAX);
            self.postings[same[0] as usize].push(Posting { doc, term_freq });
            self.bytes += size_of::<Posting>();
        }
        self.tokens += ordinals.len();
        let kept = u32::try_from(ordinals.len()).unwrap_or(u32::MAX);
        self.rows.push(Row { number, norm: FieldNormReader::fieldnorm_to_id(kept) });
        self.bytes += size_of::<Row>();
        length
    }

    fn ordinal(&mut self, word: &str) -> u32 {
        if let Some(number) = self.terms.get(word) {
            return *number;
        }
        let number = u32::try_from(self.postings.len()).expect("4 billion terms do not fit in memory");
        self.terms.insert(word.into(), number);
        self.postings.push(vec![]);
        self.bytes += TERM_BYTES + word.len();
        number
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Terms of all rows, repetitions included.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Approximate bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(super) fn postings(&self, word: &str) -> &[Posting] {
        self.terms.get(word).map_or(&[][..], |number| &self.postings[*number as usize][..])
    }

    /// Every row with its terms and their frequencies.
    pub(super) fn texts(&self) -> Vec<(u32, Vec<(&str, u32)>)> {
        let mut texts: Vec<_> = self.rows.iter().map(|row| (row.number, vec![])).collect();
        for (word, number) in &self.terms {
            for of in &self.postings[*number as usize] {
                texts[of.doc as usize].1.push((&**word, of.term_freq));
            }
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const N: usize>(rows: [(u32, &str); N]) -> WriteBuffer {
        let mut buffer = WriteBuffer::default();
        let mut scratch = TokenScratch::default();
        for (row, text) in rows {
            buffer.push(row, text, &mut scratch);
        }
        buffer
    }

    /// Row, norm and term_freq of each match.
    fn matches(buffer: &WriteBuffer, word: &str) -> Vec<(u32, u8, u32)> {
        let row = |of: &Posting| buffer.rows()[of.doc as usize];
        buffer.postings(word).iter().map(|of| (row(of).number, row(of).norm, of.term_freq)).collect()
    }

    #[test]
    fn rows_are_found_by_their_words_and_come_out_with_all_of_them() {
        let buffer = of([(7, "Open openFile"), (8, ""), (9, "file ÄRGER")]);
        let norm = FieldNormReader::fieldnorm_to_id;
        assert_eq!(matches(&buffer, "open"), [(7, norm(3), 2)]);
        assert_eq!(matches(&buffer, "file"), [(7, norm(3), 1), (9, norm(2), 1)]);
        assert_eq!(matches(&buffer, "ärger"), [(9, norm(2), 1)]);
        assert_eq!(matches(&buffer, "close"), []);
        let mut texts = buffer.texts();
        for (_, words) in &mut texts {
            words.sort_unstable();
        }
        let expected = [(7, vec![("file", 1), ("open", 2)]), (8, vec![]), (9, vec![("file", 1), ("ärger", 1)])];
        assert_eq!(texts, expected);
        assert!(buffer.bytes() > 3 * TERM_BYTES);
    }

    #[test]
    fn a_word_that_no_index_takes_counts_in_the_length_alone() {
        let mut buffer = WriteBuffer::default();
        let mut scratch = TokenScratch::default();
        let length = buffer.push(0, &format!("a {}", "x".repeat(MAX_TOKEN_LEN + 1)), &mut scratch);
        assert_eq!((length, buffer.rows()[0].norm, buffer.terms.len()), (2, 1, 1));
    }
}
