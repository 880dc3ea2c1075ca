//! Which rows have which words, ranked by BM25: an index of tantivy's in memory.
//!
//! Rows are those of a generation: added, never changed, and dead once their point is replaced or deleted. The index is
//! told of no death. Whoever searches says which rows live, and only those count, in its statistics as well, so that an
//! answer depends on what the points are and not on how they came to be so.

use std::{collections::BTreeMap, fmt, sync::Arc};

use accelerd_kernels::ops::similarity::Hit;
use accelerd_models::words;
use accelerd_proto::v1::{Payload, value::Kind};
use tantivy::{
    DocSet as _, Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Searcher, SegmentReader, TERMINATED,
    TantivyDocument, Term,
    columnar::ColumnValues,
    directory::RamDirectory,
    indexer::{IndexWriterOptions, LogMergePolicy},
    query::{Bm25StatisticsProvider, BooleanQuery, BoostQuery, EnableScoring, Occur, Query, TermQuery},
    schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{PreTokenizedString, Token},
};

/// The index's column of row numbers.
const ROW: &str = "row";
/// Segments of fewer rows than this are merged alike, so that a point at a time costs little.
const SMALL_SEGMENT: u32 = 64;
/// An index in memory fails where the machine does: no thread, no memory.
const SOUND: &str = "an index in memory takes and gives what it is asked";

/// The words of a payload field, for all rows.
pub(crate) struct Words {
    /// The payload field.
    of: String,
    files: RamDirectory,
    index: Index,
    reader: IndexReader,
    text: Field,
    row: Field,
}

/// How many words rows have: kept where it is known which of them live.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    rows: Vec<u32>,
    /// Rows that live, and how many words they have together.
    live_rows: u64,
    live_length: u64,
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words").field("of", &self.of).finish_non_exhaustive()
    }
}

impl Words {
    /// No rows yet.
    pub(crate) fn of(field: &str) -> Self {
        let freqs = TextFieldIndexing::default().set_index_option(IndexRecordOption::WithFreqs);
        let mut schema = Schema::builder();
        let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(freqs));
        let row = schema.add_u64_field(ROW, FAST);
        let files = RamDirectory::create();
        let index = Index::create(files.clone(), schema.build(), IndexSettings::default()).expect(SOUND);
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into().expect(SOUND);
        Self { of: field.to_owned(), files, index, reader, text, row }
    }

    /// Adds rows from `first` on, which later searches find. Says how many words each of them has.
    pub(crate) fn add(&self, first: u32, count: usize, payloads: &[Payload]) -> Vec<u32> {
        let texts = (0..count).map(|i| payloads.get(i).map_or("", |payload| self.text_of(payload)));
        self.try_add(first, texts).expect(SOUND)
    }

    fn text_of<'a>(&self, payload: &'a Payload) -> &'a str {
        match payload.fields.get(&self.of).and_then(|value| value.kind.as_ref()) {
            Some(Kind::StringValue(text)) => text,
            _ => "",
        }
    }

    /// A writer has threads, so none outlives the rows that it adds.
    fn try_add<'a>(&self, first: u32, texts: impl Iterator<Item = &'a str>) -> tantivy::Result<Vec<u32>> {
        let options = IndexWriterOptions::builder().num_worker_threads(1).num_merge_threads(1).build();
        let mut writer: IndexWriter = self.index.writer_with_options(options)?;
        let mut merges = LogMergePolicy::default();
        merges.set_min_layer_size(SMALL_SEGMENT);
        writer.set_merge_policy(Box::new(merges));
        let mut lengths = vec![];
        for (row, text) in (u64::from(first)..).zip(texts) {
            let token = |(position, text)| Token { position, text, ..Token::default() };
            let tokens: Vec<_> = lower(text).enumerate().map(token).collect();
            lengths.push(u32::try_from(tokens.len()).unwrap_or(u32::MAX));
            let mut document = TantivyDocument::new();
            document.add_pre_tokenized_text(self.text, PreTokenizedString { text: String::new(), tokens });
            document.add_u64(self.row, row);
            writer.add_document(document)?;
        }
        writer.commit()?;
        writer.wait_merging_threads()?;
        self.reader.reload()?;
        Ok(lengths)
    }

    /// The best `k` rows that live and are to count, best first; of equal scores the lower row. All scores are above 0.
    pub(crate) fn best(
        &self,
        query: &str,
        k: usize,
        lengths: &Lengths,
        is_live: &dyn Fn(u32) -> bool,
        counts: impl Fn(u32) -> bool,
    ) -> Vec<Hit> {
        if lengths.live_rows == 0 {
            return vec![];
        }
        let mut found = vec![];
        let see = |hit: Hit| {
            if counts(hit.row) {
                found.push(hit);
            }
        };
        self.each(query, lengths, is_live, see).expect(SOUND);
        let order = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row));
        if found.len() > k {
            found.select_nth_unstable_by(k, order);
            found.truncate(k);
        }
        found.sort_unstable_by(order);
        found
    }

    /// Every live row with a word of the query, in no order.
    fn each(
        &self,
        query: &str,
        lengths: &Lengths,
        is_live: &dyn Fn(u32) -> bool,
        mut see: impl FnMut(Hit),
    ) -> tantivy::Result<()> {
        let searcher = self.reader.searcher();
        let living = Living { searcher: &searcher, lengths, is_live };
        let weight = self.query(query).weight(EnableScoring::enabled_from_statistics_provider(&living, &searcher))?;
        for segment in searcher.segment_readers() {
            let rows = rows_of(segment)?;
            weight.for_each(segment, &mut |document, score| {
                let row = row_at(&*rows, document);
                if is_live(row) {
                    see(Hit { row, score });
                }
            })?;
        }
        Ok(())
    }

    /// Any of the words, each as often as the query has it.
    fn query(&self, text: &str) -> BooleanQuery {
        let mut times = BTreeMap::<String, f32>::new();
        for word in lower(text) {
            *times.entry(word).or_default() += 1.0;
        }
        let clause = |(word, times): (String, f32)| {
            let term = Term::from_field_text(self.text, &word);
            let one: Box<dyn Query> = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
            (Occur::Should, if times > 1.0 { Box::new(BoostQuery::new(one, times)) } else { one })
        };
        BooleanQuery::new(times.into_iter().map(clause).collect())
    }

    /// Bytes held.
    pub(crate) fn host_bytes(&self) -> u64 {
        self.files.total_mem_usage() as u64
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

/// The statistics of the rows that live.
struct Living<'a> {
    searcher: &'a Searcher,
    lengths: &'a Lengths,
    is_live: &'a dyn Fn(u32) -> bool,
}

impl Bm25StatisticsProvider for Living<'_> {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(self.lengths.live_length)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.lengths.live_rows)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        if self.searcher.num_docs() == self.lengths.live_rows {
            return self.searcher.doc_freq(term);
        }
        let mut count = 0;
        for segment in self.searcher.segment_readers() {
            let (rows, index) = (rows_of(segment)?, segment.inverted_index(term.field())?);
            let Some(mut documents) = index.read_postings(term, IndexRecordOption::Basic)? else { continue };
            while documents.doc() != TERMINATED {
                count += u64::from((self.is_live)(row_at(&*rows, documents.doc())));
                documents.advance();
            }
        }
        Ok(count)
    }
}

/// The row of each document of a segment.
fn rows_of(segment: &SegmentReader) -> tantivy::Result<Arc<dyn ColumnValues<u64>>> {
    Ok(segment.fast_fields().u64(ROW)?.first_or_default_col(u64::MAX))
}

fn row_at(rows: &dyn ColumnValues<u64>, document: u32) -> u32 {
    u32::try_from(rows.get_val(document)).unwrap_or(u32::MAX)
}

/// Words, whatever their case.
fn lower(text: &str) -> impl Iterator<Item = String> {
    words(text).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use accelerd_proto::v1::Value;
    use proptest::prelude::*;

    use super::*;

    /// Rows with these texts.
    fn of(texts: &[&str]) -> (Words, Lengths) {
        let (words, mut lengths) = (Words::of("text"), Lengths::default());
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

    fn all((words, lengths): &(Words, Lengths), query: &str) -> Vec<Hit> {
        words.best(query, 10, lengths, &|_| true, |_| true)
    }

    fn rows(found: &[Hit]) -> Vec<u32> {
        found.iter().map(|hit| hit.row).collect()
    }

    #[test]
    fn scores_are_those_of_the_formula() {
        let words = of(&["open a file", "openFile open", "close"]);
        let rarity = (1.0_f32 + (3.0 - 2.0 + 0.5) / 2.5).ln();
        let share = |count: f32, length: f32| count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / (7.0 / 3.0)));
        let found = all(&words, "OPEN");
        assert_eq!(rows(&found), [1, 0]);
        assert!((found[0].score - rarity * share(2.0, 3.0)).abs() < 1e-6, "{found:?}");
        assert!((found[1].score - rarity * share(1.0, 3.0)).abs() < 1e-6, "{found:?}");
        let twice = all(&words, "open OPEN");
        assert!((twice[0].score - 2.0 * found[0].score).abs() < 1e-6, "{twice:?}");
        assert_eq!(all(&words, "write"), []);
        assert_eq!(all(&words, ""), []);
        assert_eq!(all(&of(&[]), "open"), []);
    }

    #[test]
    fn equal_texts_rank_by_row_and_only_the_best_are_kept() {
        let (words, lengths) = of(&["a b", "a", "a", "b"]);
        assert_eq!(rows(&words.best("a", 2, &lengths, &|_| true, |_| true)), [1, 2]);
        assert_eq!(words.best("a", 9, &lengths, &|_| true, |row| row != 1).len(), 2);
    }

    #[test]
    fn rows_are_found_as_soon_as_they_are_added_and_merged_segments_keep_their_numbers() {
        let (words, mut lengths) = of(&[]);
        for row in 0..40 {
            add(&words, &mut lengths, &[&format!("row number{row}"), "none"]);
            let found = words.best(&format!("{row}"), 1, &lengths, &|_| true, |_| true);
            assert_eq!(rows(&found), [2 * row]);
        }
        assert!(words.reader.searcher().segment_readers().len() < 20);
        assert!(words.host_bytes() > 0 && lengths.host_bytes() >= 320);
    }

    #[test]
    fn words_of_any_length_and_script_are_taken() {
        let long = "x".repeat(100_000);
        let words = of(&["数据 naïve", &long, ""]);
        assert_eq!(rows(&all(&words, "数据")), [0]);
        assert_eq!(all(&words, &long), [], "nobody looks for a word of 100 kB");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn dead_rows_are_as_if_they_had_never_been(
            texts in proptest::collection::vec("[abc ]{0,12}", 1..20),
            dead in proptest::collection::btree_set(0..20_u32, 0..12),
            cut in 0..20_usize,
        ) {
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            let (early, late) = texts.split_at(cut.min(texts.len()));
            let (words, mut lengths) = of(early);
            add(&words, &mut lengths, late);
            let dead: Vec<_> = dead.into_iter().filter(|row| (*row as usize) < texts.len()).collect();
            lengths.forget(&dead);
            let live: Vec<u32> = (0..).take(texts.len()).filter(|row| !dead.contains(row)).collect();
            let fresh = of(&live.iter().map(|row| texts[*row as usize]).collect::<Vec<_>>());
            let found = words.best("a b b", 20, &lengths, &|row| !dead.contains(&row), |_| true);
            let expected = fresh.0.best("a b b", 20, &fresh.1, &|_| true, |_| true);
            let score_of: HashMap<_, _> = expected.iter().map(|hit| (live[hit.row as usize], hit.score)).collect();
            prop_assert_eq!(found.len(), expected.len());
            for Hit { row, score } in found {
                prop_assert!((score - score_of[&row]).abs() < 1e-5, "row {} has {}", row, score);
            }
        }
    }
}
