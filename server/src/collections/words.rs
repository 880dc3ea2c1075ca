//! Which rows have which words, ranked by BM25.
//!
//! Rows are those of a generation: added, never changed, and dead once their point is replaced or deleted. The index is
//! told of no death. Whoever searches says which rows live, and only those count, in its statistics as well, so that an
//! answer depends on what the points are and not on how they came to be so.
//!
//! Rows come to a tail, a table of their words, and thousands at a time from there to an index, since to grow an index
//! takes tens of milliseconds and threads, and the index takes less memory. A search reads both. So a row that an index does not take stays in the tail, found as
//! before, and is offered again later.

use std::{
    fmt,
    sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use accelerd_kernels::ops::similarity::Hit;
use accelerd_models::words;
use tantivy::{Searcher, TantivyError, directory::RamDirectory};

mod ask;
mod segments;
mod tail;

use super::given::Slice;
use ask::Question;
use segments::{Fields, Segments};
use tail::{Scratch, Tail};

/// Rows of a tail that are worth growing the index for.
const TAIL_ROWS: usize = 16 << 10;
/// Bytes of a tail that are, too.
const TAIL_BYTES: usize = 16 << 20;
/// Bytes that no tail grows much beyond, however many rows come at once.
const MOST_TAIL_BYTES: usize = 64 << 20;
/// Rows that come to the tail under one hold of its lock, so that searches never wait long for it.
const STEP_ROWS: usize = 64;

/// The words of a payload field, for all rows.
#[derive(Debug)]
pub(crate) struct Words {
    /// The payload field.
    of: String,
    fields: Fields,
    files: RamDirectory,
    due: Due,
    /// Held by whoever adds rows.
    growing: Mutex<Growing>,
    rows: RwLock<Rows>,
}

/// The index, and when it is to grow next: later after it failed.
#[derive(Debug)]
struct Growing {
    segments: Segments,
    due: Due,
}

/// A tail worth growing the index for: of so many rows, or bytes.
#[derive(Clone, Copy, Debug)]
struct Due {
    rows: usize,
    bytes: usize,
}

/// Where all rows are, each once.
#[derive(Default)]
struct Rows {
    /// `None`: all are in the tail.
    index: Option<Searcher>,
    tail: Tail,
}

/// An index that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the index of words failed: {0}")]
pub(crate) struct WordsError(#[from] TantivyError);

/// How many words rows have: kept where it is known which of them live.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    rows: Vec<u32>,
    /// Rows that live, and how many words they have together.
    live_rows: u64,
    live_length: u64,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("tail", &self.tail.len()).finish_non_exhaustive()
    }
}

impl Words {
    /// No rows yet.
    pub(crate) fn of(field: &str) -> Self {
        Self::that_grows(field, Due { rows: TAIL_ROWS, bytes: TAIL_BYTES })
    }

    fn that_grows(field: &str, due: Due) -> Self {
        let (fields, files) = (Fields::new(), RamDirectory::create());
        let growing = Mutex::new(Growing { segments: Segments::new(files.clone(), fields.clone()), due });
        Self { of: field.to_owned(), fields, files, due, growing, rows: RwLock::default() }
    }

    /// Adds rows from `first` on, which later searches find. Says how many words each of them has.
    pub(crate) fn add<'a>(&self, first: u32, count: usize, payloads: impl Into<Slice<'a>>) -> Vec<u32> {
        let payloads = payloads.into();
        let mut growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lengths = Vec::with_capacity(count);
        let mut scratch = Scratch::default();
        for start in (0..count).step_by(STEP_ROWS) {
            let mut rows = self.write();
            for (row, i) in (first..).skip(start).zip(start..count.min(start + STEP_ROWS)) {
                lengths.push(rows.tail.push(row, payloads.text(i, &self.of), &mut scratch));
            }
            let is_full = rows.tail.bytes() >= MOST_TAIL_BYTES.max(growing.due.bytes);
            drop(rows);
            if is_full {
                self.grow(&mut growing);
            }
        }
        self.grow_when_due(&mut growing);
        lengths
    }

    fn grow_when_due(&self, growing: &mut Growing) {
        let (rows, bytes) = {
            let tail = &self.read().tail;
            (tail.len(), tail.bytes())
        };
        if rows >= growing.due.rows || bytes >= growing.due.bytes {
            self.grow(growing);
        }
    }

    /// Moves the tail into the index. Where that fails, nothing is lost, and it is tried again with a tail of twice the
    /// size, so that an index that never grows costs each row little.
    fn grow(&self, growing: &mut Growing) {
        let documents = self.fields.documents(&self.read().tail);
        match growing.segments.add(documents) {
            Ok(index) => {
                *self.write() = Rows { index: Some(index), tail: Tail::default() };
                growing.due = self.due;
            }
            Err(error) => {
                let tail = &self.read().tail;
                growing.due = Due { rows: 2 * tail.len(), bytes: 2 * tail.bytes() };
                let (field, rows) = (&self.of, tail.len());
                tracing::error!(field, rows, %error, "an index of words could not grow; its rows are kept beside it");
            }
        }
    }

    /// The best `k` rows that live and are to count, best first; of equal scores the lower row. All scores are above 0.
    pub(crate) fn best(
        &self,
        query: &str,
        k: usize,
        lengths: &Lengths,
        is_live: &dyn Fn(u32) -> bool,
        counts: impl Fn(u32) -> bool,
    ) -> Result<Vec<Hit>, WordsError> {
        if lengths.live_rows == 0 {
            return Ok(vec![]);
        }
        let mut found = vec![];
        let see = |hit: Hit| {
            if counts(hit.row) {
                found.push(hit);
            }
        };
        let rows = self.read();
        let question = Question::new(self.fields.text, query, &rows);
        question.each(lengths, is_live, see)?;
        let order = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row));
        if found.len() > k {
            found.select_nth_unstable_by(k, order);
            found.truncate(k);
        }
        found.sort_unstable_by(order);
        Ok(found)
    }

    /// Bytes held.
    pub(crate) fn host_bytes(&self) -> u64 {
        (self.files.total_mem_usage() + self.read().tail.bytes()) as u64
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// An index that cannot be read, in the place of the one that is there.
    #[cfg(test)]
    pub(crate) fn damage(&self) {
        self.write().index = Some(Segments::damaged("open a file"));
    }
}

impl Lengths {
    /// Adds the next rows.
    pub(crate) fn extend(&mut self, lengths: &[u32]) {
        self.rows.extend_from_slice(lengths);
        self.live_rows += lengths.len() as u64;
        self.live_length += lengths.iter().copied().map(u64::from).sum::<u64>();
    }

    /// Rows have died, each for the first time.
    pub(crate) fn forget(&mut self, rows: &[u32]) {
        for length in rows.iter().filter_map(|row| self.rows.get(*row as usize)) {
            self.live_rows -= 1;
            self.live_length -= u64::from(*length);
        }
    }

    /// Bytes held.
    pub(crate) fn host_bytes(&self) -> u64 {
        4 * self.rows.capacity() as u64
    }
}

/// Words, whatever their case.
fn lower(text: &str) -> impl Iterator<Item = String> {
    words(text).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use accelerd_proto::v1::{Payload, Value, value::Kind};
    use proptest::prelude::*;

    use super::*;

    /// Rows with these texts.
    fn of(texts: &[&str]) -> (Words, Lengths) {
        with(Words::of("text"), texts)
    }

    /// The same, in an index that grows with every so many rows.
    fn indexed(rows: usize, texts: &[&str]) -> (Words, Lengths) {
        with(Words::that_grows("text", Due { rows, bytes: usize::MAX }), texts)
    }

    fn with(words: Words, texts: &[&str]) -> (Words, Lengths) {
        let mut lengths = Lengths::default();
        add(&words, &mut lengths, texts);
        (words, lengths)
    }

    fn add(words: &Words, lengths: &mut Lengths, texts: &[&str]) {
        let first = u32::try_from(lengths.rows.len()).expect("few rows");
        let payload = |text: &&str| {
            let text = Value { kind: Some(Kind::StringValue((*text).to_owned())) };
            Payload { fields: BTreeMap::from([("text".to_owned(), text)]) }
        };
        let payloads: Vec<_> = texts.iter().map(payload).collect();
        lengths.extend(&words.add(first, texts.len(), &payloads));
    }

    fn best(words: &Words, query: &str, k: usize, lengths: &Lengths, is_live: &dyn Fn(u32) -> bool) -> Vec<Hit> {
        words.best(query, k, lengths, is_live, |_| true).expect("the index can be read")
    }

    fn all((words, lengths): &(Words, Lengths), query: &str) -> Vec<Hit> {
        best(words, query, 10, lengths, &|_| true)
    }

    fn segments(words: &Words) -> usize {
        words.read().index.as_ref().map_or(0, |index| index.segment_readers().len())
    }

    fn rows(found: &[Hit]) -> Vec<u32> {
        found.iter().map(|hit| hit.row).collect()
    }

    #[test]
    fn scores_are_those_of_the_formula() {
        let texts = ["open a file", "openFile open", "close"];
        let rarity = (1.0_f32 + (3.0 - 2.0 + 0.5) / 2.5).ln();
        let share = |count: f32, length: f32| count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / (7.0 / 3.0)));
        for words in [of(&texts), indexed(1, &texts), indexed(2, &texts)] {
            let found = all(&words, "OPEN");
            assert_eq!(rows(&found), [1, 0]);
            assert!((found[0].score - rarity * share(2.0, 3.0)).abs() < 1e-6, "{found:?}");
            assert!((found[1].score - rarity * share(1.0, 3.0)).abs() < 1e-6, "{found:?}");
            let twice = all(&words, "open OPEN");
            assert!((twice[0].score - 2.0 * found[0].score).abs() < 1e-6, "{twice:?}");
            assert_eq!(all(&words, "write"), []);
            assert_eq!(all(&words, ""), []);
        }
        assert_eq!(all(&of(&[]), "open"), []);
    }

    #[test]
    fn equal_texts_rank_by_row_and_only_the_best_are_kept() {
        for (words, lengths) in [of(&["a b", "a", "a", "b"]), indexed(3, &["a b", "a", "a", "b"])] {
            assert_eq!(rows(&best(&words, "a", 2, &lengths, &|_| true)), [1, 2]);
            let found = words.best("a", 9, &lengths, &|_| true, |row| row != 1).expect("the index can be read");
            assert_eq!(found.len(), 2);
        }
    }

    #[test]
    fn rows_are_found_as_soon_as_they_are_added_and_merged_segments_keep_their_numbers() {
        for due in [1, 3, TAIL_ROWS] {
            let (words, mut lengths) = indexed(due, &[]);
            for row in 0..40 {
                add(&words, &mut lengths, &[&format!("row number{row}"), "none"]);
                let found = best(&words, &format!("{row}"), 1, &lengths, &|_| true);
                assert_eq!(rows(&found), [2 * row], "an index that grows with every {due} rows");
            }
            assert!(segments(&words) < 20);
            assert!(words.host_bytes() > 0 && lengths.host_bytes() >= 320);
        }
    }

    #[test]
    fn a_row_alone_waits_in_the_tail_until_the_index_is_worth_growing() {
        let (words, mut lengths) = of(&[]);
        let mut last = 0;
        for row in 1..TAIL_ROWS {
            add(&words, &mut lengths, &[&format!("row {row}")]);
            assert_eq!(segments(&words), 0, "row {row}");
            assert!(words.host_bytes() > std::mem::replace(&mut last, words.host_bytes()));
        }
        add(&words, &mut lengths, &["the last one"]);
        assert_eq!((segments(&words), words.read().tail.len()), (1, 0));
        let many: Vec<_> = (0..TAIL_ROWS + TAIL_ROWS / 4).map(|row| format!("many {row}")).collect();
        add(&words, &mut lengths, &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((segments(&words), words.read().tail.len()), (2, 0), "many at once are one segment");
        let letter = |at: usize| char::from(b"abcdefghij"[at % 10]);
        let long =
            |row: usize| ["x".repeat(4200), [1000, 100, 10, 1].map(|of| letter(row / of)).iter().collect()].concat();
        let long: Vec<_> = (0..TAIL_ROWS / 4).map(long).collect();
        add(&words, &mut lengths, &long.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(words.read().tail.len(), 0, "few with many bytes are worth it, too");
    }

    #[test]
    fn an_index_that_cannot_grow_loses_no_row_and_grows_later() {
        let (words, mut lengths) = indexed(2, &["first", "second"]);
        let lock = words.growing.lock().expect("nobody panicked").segments.lock();
        for row in 2..9 {
            add(&words, &mut lengths, &[&format!("number {row}")]);
            assert_eq!(rows(&best(&words, &row.to_string(), 9, &lengths, &|_| true)), [row]);
            assert_eq!(rows(&best(&words, "second", 9, &lengths, &|_| true)), [1]);
        }
        assert_eq!(words.read().tail.len(), 7);
        assert!(words.growing.lock().expect("nobody panicked").due.rows >= 8, "it is not tried with every row");
        drop(lock);
        for row in 9..40 {
            add(&words, &mut lengths, &[&format!("number {row}")]);
        }
        assert!(words.read().tail.len() < 2, "it grows with every two rows again");
        assert_eq!(rows(&best(&words, "number", 99, &lengths, &|_| true)), (2..40).collect::<Vec<_>>());
    }

    #[test]
    fn an_index_that_cannot_be_read_is_an_error_that_says_why() {
        let (words, lengths) = of(&["open a file"]);
        words.damage();
        let error = words.best("open", 9, &lengths, &|_| true, |_| true).expect_err("it has no rows").to_string();
        assert!(error.starts_with("the index of words failed: "), "{error}");
    }

    #[test]
    fn words_of_any_length_and_script_are_taken() {
        let long = "x".repeat(100_000);
        for words in [of(&["数据 naïve", &long, ""]), indexed(1, &["数据 naïve", &long, ""])] {
            assert_eq!(rows(&all(&words, "数据")), [0]);
            assert_eq!(all(&words, &long), [], "nobody looks for a word of 100 kB");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn dead_rows_are_as_if_they_had_never_been(
            texts in proptest::collection::vec("[abc ]{0,12}", 1..20),
            dead in proptest::collection::btree_set(0..20_u32, 0..12),
            cut in 0..20_usize,
            due in 1..24_usize,
        ) {
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            let (early, late) = texts.split_at(cut.min(texts.len()));
            let (words, mut lengths) = indexed(due, early);
            add(&words, &mut lengths, late);
            let dead: Vec<_> = dead.into_iter().filter(|row| (*row as usize) < texts.len()).collect();
            lengths.forget(&dead);
            let live: Vec<u32> = (0..).take(texts.len()).filter(|row| !dead.contains(row)).collect();
            let fresh = of(&live.iter().map(|row| texts[*row as usize]).collect::<Vec<_>>());
            let found = best(&words, "a b b", 20, &lengths, &|row| !dead.contains(&row));
            let expected = best(&fresh.0, "a b b", 20, &fresh.1, &|_| true);
            let score_of: HashMap<_, _> = expected.iter().map(|hit| (live[hit.row as usize], hit.score)).collect();
            prop_assert_eq!(found.len(), expected.len());
            for Hit { row, score } in found {
                prop_assert!((score - score_of[&row]).abs() < 1e-5, "row {} has {}", row, score);
            }
        }
    }
}
