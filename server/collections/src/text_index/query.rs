//! Evaluates a query over the committed segments and the write buffer.

use std::{collections::BTreeMap, sync::Arc};

use accelerd_kernels::ops::similarity::Hit;
use tantivy::{
    DocSet as _, Searcher, SegmentReader, TERMINATED, Term,
    columnar::ColumnValues,
    query::{Bm25StatisticsProvider, Bm25Weight, BooleanQuery, BoostQuery, EnableScoring, Occur, Query, TermQuery},
    schema::{Field, IndexRecordOption},
};

use super::{
    DocStats, SegmentsAndBuffer,
    analysis::{Analyzer, Grams},
    segments::ROW,
    write_buffer::{Posting, WriteBuffer},
};

/// The terms of a query, over one state of the index.
pub(super) struct TextQuery<'a> {
    text: Field,
    searcher: Option<&'a Searcher>,
    buffer: &'a WriteBuffer,
    /// All documents, including deleted ones and ones that are not live yet.
    known: u64,
    terms: BTreeMap<String, QueryTerm<'a>>,
}

struct QueryTerm<'a> {
    /// Occurrences in the query.
    frequency: f32,
    /// Its postings in the write buffer.
    postings: &'a [Posting],
}

impl<'a> TextQuery<'a> {
    pub(super) fn new(text: Field, query: &str, state: &'a SegmentsAndBuffer) -> Self {
        let mut by_term = BTreeMap::<String, QueryTerm<'a>>::new();
        Analyzer::default().each_term(query, Grams::OfQuery, |term| {
            if let Some(asked) = by_term.get_mut(term) {
                asked.frequency += 1.0;
            } else {
                let postings = state.buffer.postings(term);
                by_term.insert(term.to_owned(), QueryTerm { frequency: 1.0, postings });
            }
        });
        let searcher = state.searcher.as_ref();
        let known = searcher.map_or(0, Searcher::num_docs) + state.buffer.len() as u64;
        Self { text, searcher, buffer: &state.buffer, known, terms: by_term }
    }

    /// Scores every live row that has one of the terms, in no particular order.
    pub(super) fn each(
        &self,
        doc_stats: &DocStats,
        is_live: &dyn Fn(u32) -> bool,
        mut collect: impl FnMut(Hit),
    ) -> tantivy::Result<()> {
        let stats = LiveStats { query: self, doc_stats, is_live };
        if let Some(searcher) = self.searcher {
            self.each_indexed(searcher, &stats, &mut collect)?;
        }
        self.each_buffered(&stats, &mut collect)
    }

    fn each_indexed(
        &self,
        searcher: &Searcher,
        stats: &LiveStats<'_>,
        collect: &mut impl FnMut(Hit),
    ) -> tantivy::Result<()> {
        let weight = self.query().weight(EnableScoring::enabled_from_statistics_provider(stats, searcher))?;
        for segment in searcher.segment_readers() {
            let rows = rows_of(segment)?;
            weight.for_each(segment, &mut |document, score| {
                let row = row_at(&*rows, document);
                if (stats.is_live)(row) {
                    collect(Hit { row, score });
                }
            })?;
        }
        Ok(())
    }

    /// A disjunction of the terms, each boosted by its frequency.
    fn query(&self) -> BooleanQuery {
        let clause = |(word, asked): (&String, &QueryTerm<'_>)| {
            let term_query: Box<dyn Query> = Box::new(TermQuery::new(self.term(word), IndexRecordOption::WithFreqs));
            (
                Occur::Should,
                if asked.frequency > 1.0 { Box::new(BoostQuery::new(term_query, asked.frequency)) } else { term_query },
            )
        };
        BooleanQuery::new(self.terms.iter().map(clause).collect())
    }

    /// Scores the buffer with tantivy's BM25. Scores of terms are above 0, so a row with none of them keeps 0.
    fn each_buffered(&self, stats: &LiveStats<'_>, collect: &mut impl FnMut(Hit)) -> tantivy::Result<()> {
        let asked: Vec<_> = self.terms.iter().filter(|(_, asked)| !asked.postings.is_empty()).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let rows = self.buffer.rows();
        let mut scores = vec![0.0_f32; rows.len()];
        for (word, asked) in asked {
            let weight = Bm25Weight::for_terms(stats, &[self.term(word)])?;
            for found in asked.postings {
                let doc = found.doc as usize;
                scores[doc] += weight.score(rows[doc].norm, found.term_freq) * asked.frequency;
            }
        }
        for (row, score) in rows.iter().zip(scores) {
            if score != 0.0 && (stats.is_live)(row.number) {
                collect(Hit { row: row.number, score });
            }
        }
        Ok(())
    }

    fn term(&self, word: &str) -> Term {
        Term::from_field_text(self.text, word)
    }
}

/// Statistics over the live rows.
struct LiveStats<'a> {
    query: &'a TextQuery<'a>,
    doc_stats: &'a DocStats,
    is_live: &'a dyn Fn(u32) -> bool,
}

impl Bm25StatisticsProvider for LiveStats<'_> {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(self.doc_stats.live_length)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.doc_stats.live_rows)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let word = term.value().as_str().and_then(|word| self.query.terms.get(word));
        let in_buffer = word.map_or(&[][..], |asked| asked.postings);
        // Liveness is not checked where all documents are live.
        let all_live = self.query.known == self.doc_stats.live_rows;
        let rows = self.query.buffer.rows();
        let is_live = |found: &&Posting| all_live || (self.is_live)(rows[found.doc as usize].number);
        let in_buffer = in_buffer.iter().filter(is_live).count() as u64;
        let in_index = match self.query.searcher {
            None => 0,
            Some(searcher) if all_live => searcher.doc_freq(term)?,
            Some(searcher) => self.live_doc_freq(searcher, term)?,
        };
        Ok(in_buffer + in_index)
    }
}

impl LiveStats<'_> {
    /// The live rows of the segments that have a term.
    fn live_doc_freq(&self, searcher: &Searcher, term: &Term) -> tantivy::Result<u64> {
        let mut count = 0;
        for segment in searcher.segment_readers() {
            let rows = rows_of(segment)?;
            let index = segment.inverted_index(term.field())?;
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
