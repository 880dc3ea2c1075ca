//! Which rows have which words, ranked by BM25. (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009.)
//!
//! Rows are those of a generation: added, never changed, and dead once their point is replaced or deleted. Only live rows
//! count, so that an answer depends on what the points are and not on how they came to be so.

use std::collections::{BTreeMap, HashMap};

use accelerd_models::words;

/// How fast more of a word counts less.
const K1: f64 = 1.2;
/// How much a long text's words count less.
const B: f64 = 0.75;

/// The words of all rows.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Rows with a word, ascending.
    postings: HashMap<Box<str>, Vec<Posting>>,
    /// Words of each row.
    lengths: Vec<u32>,
    /// Rows that live, and how many words they have together.
    live_rows: u64,
    live_length: u64,
    posting_count: usize,
    word_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Posting {
    row: u32,
    /// How often the row has the word.
    count: u32,
}

impl Words {
    /// Adds the next row.
    pub(crate) fn push(&mut self, Counted { counts, length }: Counted) {
        let row = u32::try_from(self.lengths.len()).expect("rows of a collection are counted in 32 bits");
        for (word, count) in counts {
            self.posting_count += 1;
            if let Some(postings) = self.postings.get_mut(word.as_str()) {
                postings.push(Posting { row, count });
            } else {
                self.word_bytes += word.len();
                self.postings.insert(word.into(), vec![Posting { row, count }]);
            }
        }
        self.lengths.push(length);
        self.live_rows += 1;
        self.live_length += u64::from(length);
    }

    /// Rows have died, each for the first time.
    pub(crate) fn forget(&mut self, rows: &[u32]) {
        for row in rows {
            self.live_rows -= 1;
            self.live_length -= u64::from(self.lengths[*row as usize]);
        }
    }

    /// The best `k` rows that are to count, best first; of equal scores the lower row. All scores are above 0.
    pub(crate) fn best(
        &self,
        query: &str,
        k: usize,
        is_live: impl Fn(u32) -> bool,
        counts: impl Fn(u32) -> bool,
    ) -> Vec<(u32, f64)> {
        let mean = (self.live_length as f64 / self.live_rows.max(1) as f64).max(1.0);
        let mut scores = HashMap::<u32, f64>::new();
        for (word, times) in Counted::of(query).counts {
            let postings = self.postings.get(word.as_str()).map_or(&[][..], Vec::as_slice);
            let live = || postings.iter().filter(|posting| is_live(posting.row));
            let holding = live().count() as f64;
            let rarity = (1.0 + (self.live_rows as f64 - holding + 0.5) / (holding + 0.5)).ln();
            for posting in live().filter(|posting| counts(posting.row)) {
                let length = f64::from(self.lengths[posting.row as usize]);
                let count = f64::from(posting.count);
                let share = count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / mean));
                *scores.entry(posting.row).or_default() += f64::from(times) * rarity * share;
            }
        }
        let mut ranked: Vec<_> = scores.into_iter().collect();
        let order = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if ranked.len() > k {
            ranked.select_nth_unstable_by(k, order);
            ranked.truncate(k);
        }
        ranked.sort_unstable_by(order);
        ranked
    }

    /// Bytes held.
    pub(crate) fn host_bytes(&self) -> u64 {
        let slots = self.postings.capacity() * (size_of::<(Box<str>, Vec<Posting>)>() + 1);
        // A list that grows has up to twice the room it needs.
        let postings = self.posting_count * size_of::<Posting>() * 3 / 2;
        (slots + self.word_bytes + postings + 4 * self.lengths.capacity()) as u64
    }
}

/// How often a text has each word.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// In alphabetical order, so that sums are made in one order.
    counts: BTreeMap<String, u32>,
    /// Words it has.
    length: u32,
}

impl Counted {
    /// Counts words, whatever their case.
    pub(crate) fn of(text: &str) -> Self {
        let mut counted = Self::default();
        for word in words(text) {
            *counted.counts.entry(word.to_lowercase()).or_default() += 1;
            counted.length = counted.length.saturating_add(1);
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(texts: &[&str]) -> Words {
        let mut words = Words::default();
        for text in texts {
            words.push(Counted::of(text));
        }
        words
    }

    fn all(words: &Words, query: &str) -> Vec<(u32, f64)> {
        words.best(query, 10, |_| true, |_| true)
    }

    #[test]
    fn scores_are_those_of_the_formula() {
        let words = of(&["open a file", "openFile open", "close"]);
        let rarity = (1.0_f64 + (3.0 - 2.0 + 0.5) / 2.5).ln();
        let share = |count: f64, length: f64| count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / (7.0 / 3.0)));
        let found = all(&words, "OPEN");
        assert_eq!(found.iter().map(|hit| hit.0).collect::<Vec<_>>(), [1, 0]);
        assert!((found[0].1 - rarity * share(2.0, 3.0)).abs() < 1e-12, "{found:?}");
        assert!((found[1].1 - rarity * share(1.0, 3.0)).abs() < 1e-12, "{found:?}");
        assert_eq!(all(&words, "write"), []);
        assert_eq!(all(&words, ""), []);
    }

    #[test]
    fn equal_texts_rank_by_row_and_only_the_best_are_kept() {
        let words = of(&["a b", "a", "a", "b"]);
        let best = words.best("a", 2, |_| true, |_| true);
        assert_eq!(best.iter().map(|hit| hit.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(words.best("a", 9, |_| true, |row| row != 1).len(), 2);
    }

    proptest! {
        #[test]
        fn dead_rows_are_as_if_they_had_never_been(
            texts in proptest::collection::vec("[abc ]{0,12}", 1..20),
            dead in proptest::collection::btree_set(0..20_u32, 0..12),
        ) {
            let mut words = of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            let dead: Vec<_> = dead.into_iter().filter(|row| (*row as usize) < texts.len()).collect();
            words.forget(&dead);
            let live: Vec<u32> = (0..).take(texts.len()).filter(|row| !dead.contains(row)).collect();
            let fresh = of(&live.iter().map(|row| texts[*row as usize].as_str()).collect::<Vec<_>>());
            let found = words.best("a b b", 7, |row| !dead.contains(&row), |_| true);
            let expected = all_of(&fresh).into_iter().map(|(row, score)| (live[row as usize], score));
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }

    fn all_of(words: &Words) -> Vec<(u32, f64)> {
        words.best("a b b", 7, |_| true, |_| true)
    }
}
