//! A generation of a collection: its rows, their points, and the indexes over them.

use std::{
    hash::Hash,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use accelerd_kernels::{Matrix, ledger::Account, ops::similarity::Corpus};
use accelerd_proto::v1::Payload;
use accelerd_store::{Ids, Upsert};
use prost::Message as _;

use super::{
    budget::Budget,
    filter::Filter,
    index::Indexes,
    new_payloads::PayloadSlice,
    order::{IdOrder, Sorted},
    points::{self, IdColumn, IdMap, Points, Upserted},
    row_sink::RowSink,
    text_index::TextIndex,
};

/// Bytes of a row in a chunk besides its vector and payload: its id, and the reference to its payload.
const CHUNK_ROW_BYTES: usize = 48;

/// Bytes of vectors appended per acquisition of the lock, which bounds how long searches wait.
const STEP_BYTES: usize = 4 << 20;

/// The rows between two compactions. A row never changes its point within a generation.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) corpus: Arc<Corpus>,
    text_index: Option<TextIndex>,
    indexes: Indexes,
    order: IdOrder,
    points: RwLock<Points>,
}

impl Generation {
    pub(crate) fn new(corpus: Arc<Corpus>) -> Self {
        let points = RwLock::new(Points::new());
        Self { corpus, text_index: None, indexes: Indexes::default(), order: IdOrder::default(), points }
    }

    /// Adds a text index over a payload field, unless the name is empty. Its commits are charged to `memory`.
    #[must_use]
    pub(crate) fn with_text_index(self, field: &str, memory: &Account) -> Self {
        Self { text_index: (!field.is_empty()).then(|| TextIndex::new(field, memory.clone())), ..self }
    }

    /// The text index, which may have rows that are not published yet.
    pub(crate) fn text_index(&self) -> Option<&TextIndex> {
        self.text_index.as_ref()
    }

    pub(super) fn indexes(&self) -> &Indexes {
        &self.indexes
    }

    /// Locks the points for reading. A panic under the lock leaves them consistent.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Points> {
        points::read(&self.points)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Points> {
        self.points.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends points and then deletes the rows they replace: a concurrent search sees the old row, the new one or
    /// both, but never neither. Ids must be distinct and vectors of the collection's dim.
    pub(crate) fn upsert<'a>(&self, ids: &Ids, vectors: &Matrix, payloads: impl Into<PayloadSlice<'a>>) -> Upserted {
        self.upsert_into(&*self.corpus, ids, vectors, payloads)
    }

    /// As [`Self::upsert`], with the rows in a sink of the corpus.
    pub(crate) fn upsert_into<'a>(
        &self,
        sink: &impl RowSink,
        ids: &Ids,
        vectors: &Matrix,
        payloads: impl Into<PayloadSlice<'a>>,
    ) -> Upserted {
        let payloads = payloads.into();
        let mut sum = Upserted::default();
        let step = (STEP_BYTES / (vectors.cols() * 4).max(1)).max(1);
        for start in (0..ids.len()).step_by(step) {
            let end = (start + step).min(ids.len());
            let vectors = rows_of(vectors, start, end);
            let payloads = payloads.part(start, end);
            let part = match ids {
                Ids::Numbers(ids) => self.upsert_step(sink, IdColumn::numbers, &ids[start..end], &vectors, payloads),
                Ids::Uuids(ids) => self.upsert_step(sink, IdColumn::uuids, &ids[start..end], &vectors, payloads),
            };
            sum.inserted += part.inserted;
            sum.updated += part.updated;
        }
        if !self.read().set_aside.is_empty() {
            self.write().remove_set_aside(ids);
        }
        sum
    }

    /// Sets points aside, whose rows are deleted.
    pub(crate) fn set_aside(&self, sink: &impl RowSink, aside: &Upsert) {
        let mut points = self.write();
        delete_rows(sink, &mut points, &aside.ids);
        Arc::make_mut(&mut points.set_aside).insert(aside);
    }

    /// Has the set-aside points of another generation.
    pub(crate) fn share_set_aside(&self, from: &Self) {
        self.write().set_aside = Arc::clone(&from.read().set_aside);
    }

    fn upsert_step<K: Copy + Eq + Hash>(
        &self,
        sink: &impl RowSink,
        column: fn(&mut IdColumn) -> &mut IdMap<K>,
        ids: &[K],
        vectors: &Matrix,
        payloads: PayloadSlice<'_>,
    ) -> Upserted {
        // The single writer assigns rows, so these stay free; they are not live until they are published below.
        let first = u32::try_from(self.read().rows()).expect("rows of a collection are counted in 32 bits");
        let lengths = self.text_index.as_ref().map(|index| index.add(first, ids.len(), payloads)).unwrap_or_default();
        let mut points = self.write();
        sink.append(vectors);
        let deleted = column(&mut points.ids).insert(ids, first);
        points.payloads.extend(payloads, ids.len());
        points.doc_stats.extend(&lengths);
        points.mark_live(first, ids.len());
        points.mark_deleted(&deleted);
        points.replaced.extend_from_slice(&deleted);
        points.changes += 1;
        sink.delete(&deleted);
        let updated = deleted.len() as u64;
        Upserted { inserted: ids.len() as u64 - updated, updated }
    }

    /// Deletes points and returns the number of those that existed, set-aside ones included.
    pub(crate) fn delete(&self, ids: &Ids) -> u64 {
        self.delete_from(&*self.corpus, ids)
    }

    /// As [`Self::delete`], with the rows in a sink of the corpus.
    pub(crate) fn delete_from(&self, sink: &impl RowSink, ids: &Ids) -> u64 {
        let mut points = self.write();
        points.remove_set_aside(ids) + delete_rows(sink, &mut points, ids)
    }

    /// Rows in the format of the store. They may be deleted; their contents are immutable.
    pub(crate) fn export(&self, rows: &[u32]) -> Upsert {
        let vectors = self.corpus.gather(rows).bytes().clone();
        let points = self.read();
        let payloads = rows.iter().map(|row| points.payloads.get(*row).encode_to_vec().into()).collect();
        let dim = u32::try_from(self.corpus.dim()).expect("a collection's dim is a u32");
        Upsert { ids: points.ids_of(rows), dim, vectors, payloads }
    }

    /// Rows, to be added to another generation.
    pub(crate) fn copy(&self, rows: &[u32]) -> (Ids, Matrix, Vec<Payload>) {
        let vectors = self.corpus.gather(rows);
        let points = self.read();
        (points.ids_of(rows), vectors, rows.iter().map(|row| points.payloads.get(*row)).collect())
    }

    /// Number of leading rows that form a chunk of about `bytes`: all that start below that bound.
    pub(crate) fn chunk_len(&self, rows: &[u32], bytes: usize) -> usize {
        let points = self.read();
        let width = self.corpus.dim() * 4;
        let mut sum = 0;
        let fits = |row: &&u32| {
            let starts_below = sum < bytes;
            sum += CHUNK_ROW_BYTES + width + points.payloads.wire_bytes(**row);
            starts_below
        };
        rows.iter().take_while(fits).count()
    }

    /// Number of points, and of rows including deleted ones.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let points = self.read();
        (points.count(), points.rows())
    }

    /// Bytes of the reallocations for `rows` more rows with `fields` fields in total, besides the vectors themselves.
    pub(crate) fn growth_bytes(&self, rows: usize, fields: usize) -> u64 {
        let vectors = (rows * self.corpus.dim() * size_of::<f32>()) as u64;
        self.corpus.growth_bytes(rows).saturating_sub(vectors) + self.read().growth_bytes(rows, fields)
    }

    /// Bytes of vectors, ids, payloads and the text index in host memory.
    pub(crate) fn row_bytes(&self) -> u64 {
        let text_index = self.text_index.as_ref().map_or(0, TextIndex::host_bytes);
        self.corpus.host_bytes() + text_index + self.read().host_bytes()
    }

    /// Bytes of the indexes of filters and of the order of ids in host memory.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.indexes.host_bytes() + self.order.host_bytes()
    }

    /// Bytes in host memory.
    pub(crate) fn host_bytes(&self) -> u64 {
        self.row_bytes() + self.index_bytes()
    }

    /// Drops the indexes of filters and the order of ids; requests build them again.
    pub(crate) fn evict_indexes(&self) {
        self.indexes.evict();
        self.order.evict();
    }

    /// Creates or extends the indexes that a filter needs, as far as the budget allows; the filter works without them.
    /// Returns whether any changed.
    pub(crate) fn prepare(&self, filter: &Filter, budget: &Arc<Budget>) -> bool {
        let fields = filter.indexed_fields(&self.read());
        self.indexes.prepare(&fields, &self.points, budget)
    }

    /// Returns true if [`Self::prepare`] would create or extend an index.
    pub(crate) fn lacks_index(&self, filter: &Filter) -> bool {
        let fields = filter.indexed_fields(&self.read());
        self.indexes.lacks(&fields, &self.points)
    }

    /// The rows in the order of their ids, except for some of the last ones; without memory in the budget, for all.
    /// Returns whether the order was rebuilt.
    pub(super) fn sorted(&self, budget: &Arc<Budget>) -> (Arc<Sorted>, bool) {
        self.order.sorted(&self.points, budget)
    }
}

fn delete_rows(sink: &impl RowSink, points: &mut Points, ids: &Ids) -> u64 {
    let deleted = points.ids.remove(ids);
    points.mark_deleted(&deleted);
    points.changes += 1;
    sink.delete(&deleted);
    deleted.len() as u64
}

/// Rows `start..end` of a matrix, sharing its memory.
pub(super) fn rows_of(matrix: &Matrix, start: usize, end: usize) -> Matrix {
    let width = matrix.cols() * 4;
    let bytes = matrix.bytes().slice(start * width..end * width);
    Matrix::from_bytes(end - start, matrix.cols(), bytes).expect("the slice has whole rows")
}

#[cfg(test)]
pub(super) mod tests {
    use accelerd_kernels::{
        DeviceId,
        ops::similarity::{Metric, Storage},
    };
    use accelerd_proto::v1::value::Kind;

    use super::{
        super::{PointId, payload::tests::payload},
        *,
    };

    pub(crate) fn generation() -> Generation {
        Generation::new(Corpus::new(2, Metric::Dot, Storage::F32, DeviceId::Cpu))
    }

    /// Writes points whose vector and payload hold the stamp of the write.
    pub(crate) fn write(generation: &Generation, ids: &[u64], stamp: i64) -> Upserted {
        let numbers = ids.iter().flat_map(|id| [*id as f32, stamp as f32]).collect();
        let vectors = Matrix::from_vec(ids.len(), 2, numbers).expect("two numbers an id");
        let payloads: Vec<_> = ids.iter().map(|_| payload(&[("stamp", Kind::IntValue(stamp))])).collect();
        generation.upsert(&Ids::Numbers(ids.to_vec()), &vectors, &payloads)
    }

    /// The id and stamp of each live point; vectors and payloads must agree.
    pub(crate) fn contents(generation: &Generation) -> Vec<(u64, i64)> {
        let points = generation.read();
        let rows: Vec<_> = points.live_rows().collect();
        assert_eq!(rows.len(), points.count());
        let vectors = generation.corpus.gather(&rows);
        let vectors = vectors.as_f32();
        let point = |(i, row): (usize, &u32)| {
            let Some(PointId::Number(id)) = points.id(*row) else { panic!("tests here use numbers") };
            let payload = points.payloads().get(*row);
            let Some(Kind::IntValue(stamp)) = payload.fields["stamp"].kind else { panic!("{payload:?}") };
            assert_eq!(vectors[2 * i..2 * i + 2], [id as f32, stamp as f32]);
            assert_eq!(points.find(&Ids::Numbers(vec![id])), [(0, *row)]);
            (id, stamp)
        };
        rows.iter().enumerate().map(point).collect()
    }

    #[test]
    fn a_replaced_point_has_a_new_row_and_the_deleted_row_keeps_its_id() {
        let generation = generation();
        assert_eq!(write(&generation, &[7, 8, 9], 1), Upserted { inserted: 3, updated: 0 });
        assert_eq!(write(&generation, &[8, 10], 2), Upserted { inserted: 1, updated: 1 });
        assert_eq!(contents(&generation), [(7, 1), (9, 1), (8, 2), (10, 2)]);
        let points = generation.read();
        assert_eq!((points.is_live(1), points.id(1), points.replaced()), (false, Some(PointId::Number(8)), &[1][..]));
        assert_eq!((generation.corpus.len(), generation.corpus.deleted_count()), (5, 1));
    }

    #[test]
    fn deleting_counts_only_ids_that_exist() {
        let generation = generation();
        write(&generation, &[1, 2, 3], 1);
        assert_eq!(generation.delete(&Ids::Numbers(vec![2, 99])), 1);
        assert_eq!(generation.delete(&Ids::Uuids(vec![[0; 16]])), 0);
        assert_eq!(contents(&generation), [(1, 1), (3, 1)]);
        assert_eq!(generation.read().replaced(), [0u32; 0]);
        assert_eq!(write(&generation, &[2], 2), Upserted { inserted: 1, updated: 0 });
    }

    #[test]
    fn a_large_upsert_is_applied_completely_in_steps() {
        let generation = Generation::new(Corpus::new(4096, Metric::Dot, Storage::F32, DeviceId::Cpu));
        let ids: Vec<_> = (0..600).collect();
        let vectors = Matrix::from_vec(600, 4096, (0..600 * 4096).map(|i| (i % 97) as f32).collect());
        let vectors = vectors.expect("the numbers were made for this shape");
        let upserted = generation.upsert(&Ids::Numbers(ids), &vectors, &Vec::<Payload>::new());
        assert_eq!(upserted.inserted, 600);
        assert_eq!(generation.corpus.gather(&(0..600).collect::<Vec<_>>()).bytes(), vectors.bytes());
    }

    #[test]
    fn chunks_are_bounded_by_payloads_as_well_as_by_vectors() {
        let generation = generation();
        let rows = Matrix::from_vec(10, 2, vec![1.0; 20]).expect("ten rows");
        let text = |i: usize| payload(&[("text", Kind::StringValue(i.to_string().repeat(1000)))]);
        generation.upsert(&Ids::Numbers((0..10).collect()), &rows, &(0..10).map(text).collect::<Vec<_>>());
        let rows: Vec<_> = (0..10).collect();
        assert_eq!(generation.chunk_len(&rows, 2500), 3);
        assert_eq!(generation.chunk_len(&rows, 0), 0);
        assert_eq!(generation.chunk_len(&rows, 1), 1);
        assert_eq!(generation.chunk_len(&[], 1), 0);
    }

    #[test]
    fn exported_points_can_be_imported() {
        let (one, two) = (generation(), generation());
        write(&one, &[5, 6, 7], 3);
        write(&one, &[6], 4);
        let rows: Vec<_> = one.read().live_rows().collect();
        let exported = one.export(&rows);
        let vectors = Matrix::from_bytes(3, 2, exported.vectors).expect("three rows");
        let payloads: Vec<_> =
            exported.payloads.into_iter().map(|bytes| Payload::decode(bytes).expect("it was encoded")).collect();
        two.upsert(&exported.ids, &vectors, &payloads);
        assert_eq!(contents(&one), contents(&two));
    }
}
