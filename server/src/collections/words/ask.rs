//! What a query finds, in the index and in the tail, as of one moment.

use std::{collections::BTreeMap, sync::Arc};

use accelerd_kernels::ops::similarity::Hit;
use tantivy::{
    DocSet as _, Searcher, SegmentReader, TERMINATED, Term,
    columnar::ColumnValues,
    query::{Bm25StatisticsProvider, Bm25Weight, BooleanQuery, BoostQuery, EnableScoring, Occur, Query, TermQuery},
    schema::{Field, IndexRecordOption},
};

use super::{
    Lengths, Rows, lower,
    segments::ROW,
    tail::{Tail, Times},
};

/// The words of a query, and where they are.
pub(super) struct Question<'a> {
    text: Field,
    index: Option<&'a Searcher>,
    tail: &'a Tail,
    /// Rows that are known, dead ones and ones that do not live yet included.
    known: u64,
    words: BTreeMap<String, Asked<'a>>,
}

/// A word of the query.
struct Asked<'a> {
    /// How often the query has it.
    times: f32,
    /// The rows of the tail that have it.
    tail: &'a [Times],
}

impl<'a> Question<'a> {
    pub(super) fn new(text: Field, query: &str, rows: &'a Rows) -> Self {
        let mut words = BTreeMap::<String, Asked<'a>>::new();
        for word in lower(query) {
            let tail = rows.tail.with(&word);
            words.entry(word).or_insert(Asked { times: 0.0, tail }).times += 1.0;
        }
        let index = rows.index.as_ref();
        let known = index.map_or(0, Searcher::num_docs) + rows.tail.len() as u64;
        Self { text, index, tail: &rows.tail, known, words }
    }

    /// Every live row with one of the words, in no order.
    pub(super) fn each(
        &self,
        lengths: &Lengths,
        is_live: &dyn Fn(u32) -> bool,
        mut see: impl FnMut(Hit),
    ) -> tantivy::Result<()> {
        let living = Living { question: self, lengths, is_live };
        if let Some(index) = self.index {
            self.each_indexed(index, &living, &mut see)?;
        }
        self.each_of_tail(&living, &mut see)
    }

    fn each_indexed(&self, index: &Searcher, living: &Living<'_>, see: &mut impl FnMut(Hit)) -> tantivy::Result<()> {
        let weight = self.query().weight(EnableScoring::enabled_from_statistics_provider(living, index))?;
        for segment in index.segment_readers() {
            let rows = rows_of(segment)?;
            weight.for_each(segment, &mut |document, score| {
                let row = row_at(&*rows, document);
                if (living.is_live)(row) {
                    see(Hit { row, score });
                }
            })?;
        }
        Ok(())
    }

    /// Any of the words, each as often as the query has it.
    fn query(&self) -> BooleanQuery {
        let clause = |(word, asked): (&String, &Asked<'_>)| {
            let one: Box<dyn Query> = Box::new(TermQuery::new(self.term(word), IndexRecordOption::WithFreqs));
            (Occur::Should, if asked.times > 1.0 { Box::new(BoostQuery::new(one, asked.times)) } else { one })
        };
        BooleanQuery::new(self.words.iter().map(clause).collect())
    }

    /// By the index's own formula. All scores of words are above 0, so a row that has none of them keeps 0.
    fn each_of_tail(&self, living: &Living<'_>, see: &mut impl FnMut(Hit)) -> tantivy::Result<()> {
        let asked: Vec<_> = self.words.iter().filter(|(_, asked)| !asked.tail.is_empty()).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let rows = self.tail.rows();
        let mut scores = vec![0.0_f32; rows.len()];
        for (word, asked) in asked {
            let weight = Bm25Weight::for_terms(living, &[self.term(word)])?;
            for found in asked.tail {
                let at = found.place as usize;
                scores[at] += weight.score(rows[at].norm, found.times) * asked.times;
            }
        }
        for (row, score) in rows.iter().zip(scores) {
            if score != 0.0 && (living.is_live)(row.number) {
                see(Hit { row: row.number, score });
            }
        }
        Ok(())
    }

    fn term(&self, word: &str) -> Term {
        Term::from_field_text(self.text, word)
    }
}

/// The statistics of the rows that live.
struct Living<'a> {
    question: &'a Question<'a>,
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
        let word = term.value().as_str().and_then(|word| self.question.words.get(word));
        let in_tail = word.map_or(&[][..], |asked| asked.tail);
        // Where all that is known lives, nobody has to be asked.
        let all_live = self.question.known == self.lengths.live_rows;
        let rows = self.question.tail.rows();
        let is_live = |found: &&Times| all_live || (self.is_live)(rows[found.place as usize].number);
        let in_tail = in_tail.iter().filter(is_live).count() as u64;
        let in_index = match self.question.index {
            None => 0,
            Some(index) if all_live => index.doc_freq(term)?,
            Some(index) => self.living(index, term)?,
        };
        Ok(in_tail + in_index)
    }
}

impl Living<'_> {
    /// How many rows of the index that have a word live.
    fn living(&self, index: &Searcher, term: &Term) -> tantivy::Result<u64> {
        let mut count = 0;
        for segment in index.segment_readers() {
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
