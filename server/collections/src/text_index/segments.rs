//! The committed rows: a tantivy index in memory.

use std::fmt;

use tantivy::{
    Index, IndexReader, IndexWriter, ReloadPolicy, Searcher, TantivyDocument,
    directory::RamDirectory,
    indexer::{IndexWriterOptions, LogMergePolicy},
    schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{PreTokenizedString, Token},
};

use super::{BUFFER_ROWS, write_buffer::WriteBuffer};

/// The fast field with row numbers.
pub(super) const ROW: &str = "row";

#[derive(Clone, Debug)]
pub(super) struct Fields {
    schema: Schema,
    pub(super) text: Field,
    row: Field,
}

/// An index that is created by its first commit.
pub(super) struct Segments {
    files: RamDirectory,
    fields: Fields,
    opened: Option<Opened>,
}

struct Opened {
    index: Index,
    reader: IndexReader,
    /// Documents whose commit succeeded.
    known: u64,
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segments").field("fields", &self.fields).finish_non_exhaustive()
    }
}

impl Fields {
    pub(super) fn new() -> Self {
        let freqs = TextFieldIndexing::default().set_index_option(IndexRecordOption::WithFreqs);
        let mut schema = Schema::builder();
        let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(freqs));
        let row = schema.add_u64_field(ROW, FAST);
        Self { schema: schema.build(), text, row }
    }

    /// The rows of a write buffer, in order; each document is made when it is taken, since it takes many times the memory.
    pub(super) fn documents<'a>(&'a self, buffer: &'a WriteBuffer) -> impl Iterator<Item = TantivyDocument> + 'a {
        buffer.texts().into_iter().map(|(row, words)| self.document(row, &words))
    }

    /// Positions are not indexed, so the order of the tokens does not matter.
    fn document(&self, row: u32, words: &[(&str, u32)]) -> TantivyDocument {
        let token = |word: &str| Token { text: word.to_owned(), position: 0, ..Token::default() };
        let tokens = words.iter().flat_map(|(word, term_freq)| (0..*term_freq).map(|_| token(word))).collect();
        let mut document = TantivyDocument::new();
        document.add_pre_tokenized_text(self.text, PreTokenizedString { text: String::new(), tokens });
        document.add_u64(self.row, row.into());
        document
    }
}

impl Segments {
    pub(super) fn new(files: RamDirectory, fields: Fields) -> Self {
        Self { files, fields, opened: None }
    }

    /// Commits documents and returns a searcher over all segments. After a failure the caller passes the same documents
    /// again, possibly followed by more; none is indexed twice.
    pub(super) fn add(&mut self, documents: impl Iterator<Item = TantivyDocument>) -> tantivy::Result<Searcher> {
        let opened = match &mut self.opened {
            Some(opened) => opened,
            None => self.opened.insert(Opened::new(&self.files, &self.fields)?),
        };
        // A failed attempt may have committed documents before it failed.
        let there = opened.rows()?.saturating_sub(opened.known);
        opened.write(documents.skip(usize::try_from(there).unwrap_or(usize::MAX)))?;
        opened.known = opened.rows()?;
        Ok(opened.reader.searcher())
    }

    /// An index of texts without row numbers.
    #[cfg(test)]
    pub(super) fn corrupt(text: &str) -> Searcher {
        let mut schema = Schema::builder();
        let field = schema.add_text_field("text", tantivy::schema::TEXT);
        let index = Index::create_in_ram(schema.build());
        let mut writer = index.writer_with_num_threads(1, 15 << 20).expect("there is memory");
        writer.add_document(tantivy::doc!(field => text)).expect("there is memory");
        writer.commit().expect("there is memory");
        index.reader().expect("there is memory").searcher()
    }

    /// A lock that lets nobody else add.
    #[cfg(test)]
    pub(super) fn lock(&mut self) -> IndexWriter {
        let opened = Opened::new(&self.files, &self.fields).expect("there is memory");
        opened.index.writer_with_num_threads(1, 15 << 20).expect("nobody else adds")
    }
}

impl Opened {
    fn new(files: &RamDirectory, fields: &Fields) -> tantivy::Result<Self> {
        let index = Index::open_or_create(files.clone(), fields.schema.clone())?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { index, reader, known: 0 })
    }

    /// Committed documents.
    fn rows(&self) -> tantivy::Result<u64> {
        self.reader.reload()?;
        Ok(self.reader.searcher().num_docs())
    }

    /// A tantivy writer owns threads, so it is dropped after each commit.
    fn write(&self, mut documents: impl Iterator<Item = TantivyDocument>) -> tantivy::Result<()> {
        let Some(first) = documents.next() else { return Ok(()) };
        let options = IndexWriterOptions::builder().num_worker_threads(1).num_merge_threads(1).build();
        let mut writer: IndexWriter = self.index.writer_with_options(options)?;
        let mut merges = LogMergePolicy::default();
        merges.set_min_layer_size(u32::try_from(BUFFER_ROWS).unwrap_or(u32::MAX));
        writer.set_merge_policy(Box::new(merges));
        writer.add_document(first)?;
        for document in documents {
            writer.add_document(document)?;
        }
        writer.commit()?;
        writer.wait_merging_threads()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::write_buffer::TokenScratch, *};

    fn documents(fields: &Fields, rows: std::ops::Range<u32>) -> std::vec::IntoIter<TantivyDocument> {
        let mut buffer = WriteBuffer::default();
        for row in rows {
            buffer.push(row, "open a file", &mut TokenScratch::default());
        }
        fields.documents(&buffer).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn rows_that_an_attempt_added_before_it_failed_are_not_added_again() {
        let fields = Fields::new();
        let mut segments = Segments::new(RamDirectory::create(), fields.clone());
        assert_eq!(segments.add(documents(&fields, 0..3)).expect("there is memory").num_docs(), 3);
        let unheard = segments.opened.as_ref().expect("it was made").write(documents(&fields, 3..5));
        unheard.expect("there is memory");
        assert_eq!(segments.add(documents(&fields, 3..9)).expect("there is memory").num_docs(), 9);
        assert_eq!(segments.add(documents(&fields, 9..10)).expect("there is memory").num_docs(), 10);
    }

    #[test]
    fn what_cannot_be_added_now_can_be_later() {
        let fields = Fields::new();
        let mut segments = Segments::new(RamDirectory::create(), fields.clone());
        let lock = segments.lock();
        let error = segments.add(documents(&fields, 0..3)).expect_err("somebody else adds").to_string();
        assert!(error.contains("lock"), "{error}");
        drop(lock);
        assert_eq!(segments.add(documents(&fields, 0..4)).expect("there is memory").num_docs(), 4);
    }
}
