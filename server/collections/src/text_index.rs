//! A full-text index over one payload field, ranked by BM25.
//!
//! Documents are the rows of a generation: added, never changed, and deleted once their point is replaced or deleted.
//! Deletions are recorded nowhere in the index; a search filters by the live bitmap, and [`DocStats`] counts only live rows.
//! So scores depend on the current points and not on their history.
//!
//! Rows first go to a write buffer, an inverted index in plain tables. Thousands of rows at a time are committed from there
//! to tantivy, since a commit starts threads and takes tens of milliseconds, and tantivy's segments take less memory. A
//! search reads both. Rows whose commit fails stay in the buffer, are found as before, and are committed later.

use std::{
    fmt,
    sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use accelerd_kernels::{ledger::Account, ops::similarity::Hit};
use tantivy::{Searcher, TantivyError, directory::RamDirectory};

mod analysis;
mod query;
mod segments;
mod write_buffer;

use super::new_payloads::PayloadSlice;
use query::TextQuery;
use segments::{Fields, Segments};
use write_buffer::{TokenScratch, WriteBuffer};

/// The buffer is committed at this many rows.
const BUFFER_ROWS: usize = 16 << 10;
/// The buffer is committed at this many bytes.
const BUFFER_BYTES: usize = 16 << 20;
/// The buffer is committed at this many bytes even in the middle of a large upsert.
const MAX_BUFFER_BYTES: usize = 64 << 20;
/// Memory of a commit besides its documents: tantivy's arena, and the buffers of its threads.
const COMMIT_BYTES: u64 = 24 << 20;
/// Memory of a term of a document on its way from the buffer to the arena.
const TOKEN_BYTES: u64 = 96;
/// Rows added per hold of the lock, which bounds how long searches wait.
const STEP_ROWS: usize = 64;

#[derive(Debug)]
pub(crate) struct TextIndex {
    field: String,
    fields: Fields,
    files: RamDirectory,
    /// Where the working memory of commits is charged.
    memory: Account,
    threshold: Threshold,
    /// Locked by the writer while it adds rows.
    committer: Mutex<Committer>,
    state: RwLock<SegmentsAndBuffer>,
}

/// The committed segments, and the size of the next commit, which doubles after a failure.
#[derive(Debug)]
struct Committer {
    segments: Segments,
    threshold: Threshold,
}

/// The size of the buffer at which it is committed: in rows or in bytes.
#[derive(Clone, Copy, Debug)]
struct Threshold {
    rows: usize,
    bytes: usize,
}

/// Every row is in exactly one of the two.
#[derive(Default)]
struct SegmentsAndBuffer {
    /// The committed segments; `None` before the first commit.
    searcher: Option<Searcher>,
    buffer: WriteBuffer,
    /// True while the last commit was postponed.
    is_postponed: bool,
}

/// A read of the index failed.
#[derive(Debug, thiserror::Error)]
#[error("the text index failed: {0}")]
pub(crate) struct TextIndexError(#[from] TantivyError);

/// Document lengths in terms, and their totals over the live rows.
#[derive(Debug, Default)]
pub(crate) struct DocStats {
    rows: Vec<u32>,
    live_rows: u64,
    live_length: u64,
}

impl fmt::Debug for SegmentsAndBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentsAndBuffer").field("buffered", &self.buffer.len()).finish_non_exhaustive()
    }
}

impl TextIndex {
    pub(crate) fn new(field: &str, memory: Account) -> Self {
        Self::with_threshold(field, memory, Threshold { rows: BUFFER_ROWS, bytes: BUFFER_BYTES })
    }

    fn with_threshold(field: &str, memory: Account, threshold: Threshold) -> Self {
        let fields = Fields::new();
        let files = RamDirectory::create();
        let committer = Mutex::new(Committer { segments: Segments::new(files.clone(), fields.clone()), threshold });
        Self { field: field.to_owned(), fields, files, memory, threshold, committer, state: RwLock::default() }
    }

    /// Adds rows from `first` on; later searches find them. Returns the number of terms of each.
    pub(crate) fn add<'a>(&self, first: u32, count: usize, payloads: impl Into<PayloadSlice<'a>>) -> Vec<u32> {
        let payloads = payloads.into();
        let mut committer = self.committer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lengths = Vec::with_capacity(count);
        let mut scratch = TokenScratch::default();
        for start in (0..count).step_by(STEP_ROWS) {
            let mut state = self.write();
            for (row, i) in (first..).skip(start).zip(start..count.min(start + STEP_ROWS)) {
                lengths.push(state.buffer.push(row, payloads.text(i, &self.field), &mut scratch));
            }
            let is_full = state.buffer.bytes() >= MAX_BUFFER_BYTES.max(committer.threshold.bytes);
            drop(state);
            if is_full {
                self.commit(&mut committer);
            }
        }
        self.commit_when_full(&mut committer);
        lengths
    }

    fn commit_when_full(&self, committer: &mut Committer) {
        let (rows, bytes) = {
            let buffer = &self.read().buffer;
            (buffer.len(), buffer.bytes())
        };
        if rows >= committer.threshold.rows || bytes >= committer.threshold.bytes {
            self.commit(committer);
        }
    }

    /// Commits the buffer to the segments. If that fails or there is no memory for it, the rows stay in the buffer, and the next
    /// attempt is made at twice the size, so that repeated failures have an amortised constant cost per row.
    fn commit(&self, committer: &mut Committer) {
        let _memory = match self.memory.reserve(self.commit_bytes()) {
            Ok(reserved) => reserved,
            Err(refusal) => {
                tracing::debug!(field = self.field, %refusal, "a commit to a text index waits for memory");
                return self.postpone(committer);
            }
        };
        // Only the committer writes, so searches go on while the buffer is read.
        let added = committer.segments.add(self.fields.documents(&self.read().buffer));
        match added {
            Ok(searcher) => {
                *self.write() = SegmentsAndBuffer { searcher: Some(searcher), ..SegmentsAndBuffer::default() };
                committer.threshold = self.threshold;
            }
            Err(error) => {
                let field = &self.field;
                let rows = self.read().buffer.len();
                tracing::error!(field, rows, %error, "a commit to a text index failed; its rows stay in the write buffer");
                self.postpone(committer);
            }
        }
    }

    fn postpone(&self, committer: &mut Committer) {
        let mut state = self.write();
        state.is_postponed = true;
        committer.threshold = Threshold { rows: 2 * state.buffer.len(), bytes: 2 * state.buffer.bytes() };
    }

    /// True while rows wait in the buffer because the last commit failed, or had no memory.
    pub(crate) fn is_postponed(&self) -> bool {
        self.read().is_postponed
    }

    /// Working memory of a commit: its documents, and a copy of the segments, which may be merged.
    fn commit_bytes(&self) -> u64 {
        COMMIT_BYTES + self.read().buffer.tokens() as u64 * TOKEN_BYTES + self.files.total_mem_usage() as u64
    }

    /// The `k` best live rows that pass, best first; of equal scores the lower row. All scores are above 0.
    pub(crate) fn search(
        &self,
        query: &str,
        k: usize,
        doc_stats: &DocStats,
        is_live: &dyn Fn(u32) -> bool,
        passes: impl Fn(u32) -> bool,
    ) -> Result<Vec<Hit>, TextIndexError> {
        if doc_stats.live_rows == 0 {
            return Ok(vec![]);
        }
        let mut hits = vec![];
        let collect = |hit: Hit| {
            if passes(hit.row) {
                hits.push(hit);
            }
        };
        let state = self.read();
        let query = TextQuery::new(self.fields.text, query, &state);
        query.each(doc_stats, is_live, collect)?;
        let order = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row));
        if hits.len() > k {
            hits.select_nth_unstable_by(k, order);
            hits.truncate(k);
        }
        hits.sort_unstable_by(order);
        Ok(hits)
    }

    pub(crate) fn host_bytes(&self) -> u64 {
        (self.files.total_mem_usage() + self.read().buffer.bytes()) as u64
    }

    fn read(&self) -> RwLockReadGuard<'_, SegmentsAndBuffer> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SegmentsAndBuffer> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the segments by some that cannot be read.
    #[cfg(test)]
    pub(crate) fn corrupt(&self) {
        self.write().searcher = Some(Segments::corrupt("open a file"));
    }
}

impl DocStats {
    pub(crate) fn extend(&mut self, lengths: &[u32]) {
        self.rows.extend_from_slice(lengths);
        self.live_rows += lengths.len() as u64;
        self.live_length += lengths.iter().copied().map(u64::from).sum::<u64>();
    }

    /// Subtracts rows that were deleted, each once.
    pub(crate) fn remove(&mut self, rows: &[u32]) {
        for length in rows.iter().filter_map(|row| self.rows.get(*row as usize)) {
            self.live_rows -= 1;
            self.live_length -= u64::from(*length);
        }
    }

    pub(crate) fn host_bytes(&self) -> u64 {
        4 * self.rows.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use accelerd_kernels::ledger::{self, Ledger, Limit, Place};
    use accelerd_proto::v1::{Payload, Value, value::Kind};
    use proptest::prelude::*;

    use super::*;

    fn unlimited() -> Account {
        Account::standalone(ledger::Kind::Writers, Limit::NONE)
    }

    /// Segments and buffer with these texts.
    fn of(texts: &[&str]) -> (TextIndex, DocStats) {
        with(TextIndex::new("text", unlimited()), texts)
    }

    /// The same, committed at every `rows` rows.
    fn indexed(rows: usize, texts: &[&str]) -> (TextIndex, DocStats) {
        with(TextIndex::with_threshold("text", unlimited(), Threshold { rows, bytes: usize::MAX }), texts)
    }

    fn with(index: TextIndex, texts: &[&str]) -> (TextIndex, DocStats) {
        let mut stats = DocStats::default();
        add(&index, &mut stats, texts);
        (index, stats)
    }

    fn add(index: &TextIndex, stats: &mut DocStats, texts: &[&str]) {
        let first = u32::try_from(stats.rows.len()).expect("few rows");
        let payload = |text: &&str| {
            let text = Value { kind: Some(Kind::StringValue((*text).to_owned())) };
            Payload { fields: BTreeMap::from([("text".to_owned(), text)]) }
        };
        let payloads: Vec<_> = texts.iter().map(payload).collect();
        stats.extend(&index.add(first, texts.len(), &payloads));
    }

    fn best(index: &TextIndex, query: &str, k: usize, stats: &DocStats, is_live: &dyn Fn(u32) -> bool) -> Vec<Hit> {
        index.search(query, k, stats, is_live, |_| true).expect("the index can be read")
    }

    fn all((index, stats): &(TextIndex, DocStats), query: &str) -> Vec<Hit> {
        all_of(index, stats, query)
    }

    fn all_of(index: &TextIndex, stats: &DocStats, query: &str) -> Vec<Hit> {
        best(index, query, 10, stats, &|_| true)
    }

    fn segments(index: &TextIndex) -> usize {
        index.read().searcher.as_ref().map_or(0, |searcher| searcher.segment_readers().len())
    }

    fn rows(found: &[Hit]) -> Vec<u32> {
        found.iter().map(|hit| hit.row).collect()
    }

    #[test]
    fn scores_are_those_of_the_formula() {
        let texts = ["open a file", "openFile open", "close"];
        let rarity = (1.0_f32 + (3.0 - 2.0 + 0.5) / 2.5).ln();
        let share = |count: f32, length: f32| count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / (7.0 / 3.0)));
        for index in [of(&texts), indexed(1, &texts), indexed(2, &texts)] {
            let found = all(&index, "OPEN");
            assert_eq!(rows(&found), [1, 0]);
            assert!((found[0].score - rarity * share(2.0, 3.0)).abs() < 1e-6, "{found:?}");
            assert!((found[1].score - rarity * share(1.0, 3.0)).abs() < 1e-6, "{found:?}");
            let twice = all(&index, "open OPEN");
            assert!((twice[0].score - 2.0 * found[0].score).abs() < 1e-6, "{twice:?}");
            assert_eq!(all(&index, "write"), []);
            assert_eq!(all(&index, ""), []);
        }
        assert_eq!(all(&of(&[]), "open"), []);
    }

    #[test]
    fn equal_texts_rank_by_row_and_only_the_best_are_kept() {
        for (index, stats) in [of(&["a b", "a", "a", "b"]), indexed(3, &["a b", "a", "a", "b"])] {
            assert_eq!(rows(&best(&index, "a", 2, &stats, &|_| true)), [1, 2]);
            let found = index.search("a", 9, &stats, &|_| true, |row| row != 1).expect("the index can be read");
            assert_eq!(found.len(), 2);
        }
    }

    #[test]
    fn rows_are_found_as_soon_as_they_are_added_and_merged_segments_keep_their_numbers() {
        for threshold in [1, 3, BUFFER_ROWS] {
            let (index, mut stats) = indexed(threshold, &[]);
            for row in 0..40 {
                add(&index, &mut stats, &[&format!("row number{row}"), "none"]);
                let found = best(&index, &format!("{row}"), 1, &stats, &|_| true);
                assert_eq!(rows(&found), [2 * row], "an index that grows with every {threshold} rows");
            }
            assert!(segments(&index) < 20);
            assert!(index.host_bytes() > 0 && stats.host_bytes() >= 320);
        }
    }

    #[test]
    fn rows_stay_in_the_buffer_until_a_commit_is_worth_it() {
        let (index, mut stats) = of(&[]);
        let mut last = 0;
        for row in 1..BUFFER_ROWS {
            add(&index, &mut stats, &[&format!("row {row}")]);
            assert_eq!(segments(&index), 0, "row {row}");
            assert!(index.host_bytes() > std::mem::replace(&mut last, index.host_bytes()));
        }
        add(&index, &mut stats, &["the last one"]);
        assert_eq!((segments(&index), index.read().buffer.len()), (1, 0));
        let many: Vec<_> = (0..BUFFER_ROWS + BUFFER_ROWS / 4).map(|row| format!("many {row}")).collect();
        add(&index, &mut stats, &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((segments(&index), index.read().buffer.len()), (2, 0), "many at once are one segment");
        let letter = |at: usize| char::from(b"abcdefghij"[at % 10]);
        let long =
            |row: usize| ["x".repeat(4200), [1000, 100, 10, 1].map(|of| letter(row / of)).iter().collect()].concat();
        let long: Vec<_> = (0..BUFFER_ROWS / 4).map(long).collect();
        add(&index, &mut stats, &long.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(index.read().buffer.len(), 0, "few with many bytes are worth it, too");
    }

    #[test]
    fn a_failed_commit_loses_no_row_and_is_retried_later() {
        let (index, mut stats) = indexed(2, &["first", "second"]);
        let lock = index.committer.lock().expect("nobody panicked").segments.lock();
        for row in 2..9 {
            add(&index, &mut stats, &[&format!("number {row}")]);
            assert_eq!(rows(&best(&index, &row.to_string(), 9, &stats, &|_| true)), [row]);
            assert_eq!(rows(&best(&index, "second", 9, &stats, &|_| true)), [1]);
        }
        assert_eq!(index.read().buffer.len(), 7);
        assert!(index.committer.lock().expect("nobody panicked").threshold.rows >= 8, "it is not tried with every row");
        drop(lock);
        for row in 9..40 {
            add(&index, &mut stats, &[&format!("number {row}")]);
        }
        assert!(index.read().buffer.len() < 2, "it grows with every two rows again");
        assert_eq!(rows(&best(&index, "number", 99, &stats, &|_| true)), (2..40).collect::<Vec<_>>());
    }

    #[test]
    fn a_commit_is_charged_and_waits_for_memory_without_losing_rows() {
        let ledger = Ledger::new();
        let memory = ledger.account(Place::Host, ledger::Kind::Writers);
        let (index, mut stats) =
            with(TextIndex::with_threshold("text", memory, Threshold { rows: 2, bytes: 1 << 30 }), &[]);
        ledger.limit(Place::Host, Limit { bytes: COMMIT_BYTES, setting: "memory.host_limit" });
        add(&index, &mut stats, &["first", "second"]);
        assert_eq!((segments(&index), index.read().buffer.len()), (0, 2), "the documents need more than the limit");
        assert!(index.is_postponed());
        assert_eq!(rows(&all_of(&index, &stats, "second")), [1]);
        ledger.limit(Place::Host, Limit { bytes: 2 * COMMIT_BYTES, setting: "memory.host_limit" });
        add(&index, &mut stats, &["third", "fourth"]);
        assert_eq!((segments(&index), index.read().buffer.len(), index.is_postponed()), (1, 0, false));
        assert_eq!(rows(&all_of(&index, &stats, "second")), [1]);
        assert_eq!(ledger.snapshot()[0].held, 0, "a commit that is over holds nothing");
    }

    #[test]
    fn a_failed_read_is_an_error_with_its_cause() {
        let (index, stats) = of(&["open a file"]);
        index.corrupt();
        let error = index.search("open", 9, &stats, &|_| true, |_| true).expect_err("it has no rows").to_string();
        assert!(error.starts_with("the text index failed: "), "{error}");
    }

    #[test]
    fn terms_of_any_length_and_script_are_indexed() {
        let long = "x".repeat(100_000);
        for index in [of(&["数据 naïve", &long, ""]), indexed(1, &["数据 naïve", &long, ""])] {
            assert_eq!(rows(&all(&index, "数据")), [0]);
            assert_eq!(all(&index, &long), [], "nobody looks for a word of 100 kB");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn deleted_rows_do_not_change_the_scores_of_others(
            texts in proptest::collection::vec("[abc ]{0,12}", 1..20),
            deleted in proptest::collection::btree_set(0..20_u32, 0..12),
            cut in 0..20_usize,
            threshold in 1..24_usize,
        ) {
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            let (early, late) = texts.split_at(cut.min(texts.len()));
            let (index, mut stats) = indexed(threshold, early);
            add(&index, &mut stats, late);
            let deleted: Vec<_> = deleted.into_iter().filter(|row| (*row as usize) < texts.len()).collect();
            stats.remove(&deleted);
            let live: Vec<u32> = (0..).take(texts.len()).filter(|row| !deleted.contains(row)).collect();
            let fresh = of(&live.iter().map(|row| texts[*row as usize]).collect::<Vec<_>>());
            let found = best(&index, "a b b", 20, &stats, &|row| !deleted.contains(&row));
            let expected = best(&fresh.0, "a b b", 20, &fresh.1, &|_| true);
            let score_of: HashMap<_, _> = expected.iter().map(|hit| (live[hit.row as usize], hit.score)).collect();
            prop_assert_eq!(found.len(), expected.len());
            for Hit { row, score } in found {
                prop_assert!((score - score_of[&row]).abs() < 1e-5, "row {} has {}", row, score);
            }
        }
    }
}
