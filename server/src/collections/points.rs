//! One generation of a collection: its rows, and which point each row is.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use accelerd_kernels::{Matrix, ops::similarity::Corpus};
use accelerd_proto::v1::Payload;
use accelerd_store::{Ids, Upsert};
use prost::Message as _;

use super::{
    payload::Payloads,
    words::{Lengths, Words},
};

/// Bytes of vectors that one hold of the lock appends, so that searches never wait long for it.
const STEP_BYTES: usize = 4 << 20;

/// Rows between two compactions. Which point a row is never changes within a generation.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) corpus: Arc<Corpus>,
    /// Words of the text field, where there is one.
    words: Option<Words>,
    points: RwLock<Points>,
}

/// What is known of the rows beside their vectors.
#[derive(Debug)]
pub(crate) struct Points {
    ids: Column,
    payloads: Payloads,
    /// How many words each row has, where that is known.
    lengths: Lengths,
    /// Bit `i % 32` of word `i / 32`: row i is a point's current row.
    live: Vec<u32>,
    /// Rows that died because their point was replaced, in that order.
    replaced: Vec<u32>,
    /// Changes that were applied.
    changes: u64,
}

/// One id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PointId {
    /// A number.
    Number(u64),
    /// A UUID, in the byte order of RFC 9562.
    Uuid([u8; 16]),
}

/// Row to id and back, for ids of one kind.
#[derive(Debug)]
enum Column {
    /// No point was ever written.
    Empty,
    Numbers(Keyed<u64>),
    Uuids(Keyed<[u8; 16]>),
}

#[derive(Debug)]
struct Keyed<K> {
    ids: Vec<K>,
    rows: HashMap<K, u32>,
}

/// How many points an upsert found new and how many it replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upserted {
    /// New ones.
    pub inserted: u64,
    /// Replaced ones.
    pub updated: u64,
}

impl Generation {
    pub(crate) fn new(corpus: Arc<Corpus>) -> Self {
        let points = Points {
            ids: Column::Empty,
            payloads: Payloads::new(),
            lengths: Lengths::default(),
            live: vec![],
            replaced: vec![],
            changes: 0,
        };
        Self { corpus, words: None, points: RwLock::new(points) }
    }

    /// That knows the words of a payload field, too; of none where it is empty.
    #[must_use]
    pub(crate) fn with_words(self, field: &str) -> Self {
        Self { words: (!field.is_empty()).then(|| Words::of(field)), ..self }
    }

    /// The words of the text field, where there is one. They may know rows that are yet to be entered.
    pub(crate) fn words(&self) -> Option<&Words> {
        self.words.as_ref()
    }

    /// The rows, for reading. A panic elsewhere leaves them as usable as they were.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Points> {
        self.points.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Points> {
        self.points.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends points and kills the rows they replace, in that order: a search that runs meanwhile sees the old row,
    /// the new one or both, but never neither. Ids are distinct, vectors of the collection's dim.
    pub(crate) fn upsert(&self, ids: &Ids, vectors: &Matrix, payloads: &[Payload]) -> Upserted {
        let mut sum = Upserted::default();
        let step = (STEP_BYTES / (vectors.cols() * 4).max(1)).max(1);
        for start in (0..ids.len()).step_by(step) {
            let end = (start + step).min(ids.len());
            let vectors = rows_of(vectors, start, end);
            let payloads = payloads.get(start..end).unwrap_or_default();
            let part = match ids {
                Ids::Numbers(ids) => self.upsert_step(Column::numbers, &ids[start..end], &vectors, payloads),
                Ids::Uuids(ids) => self.upsert_step(Column::uuids, &ids[start..end], &vectors, payloads),
            };
            sum.inserted += part.inserted;
            sum.updated += part.updated;
        }
        sum
    }

    fn upsert_step<K: Copy + Eq + Hash>(
        &self,
        column: fn(&mut Column) -> &mut Keyed<K>,
        ids: &[K],
        vectors: &Matrix,
        payloads: &[Payload],
    ) -> Upserted {
        // One changes a generation at a time, so nobody else enters these rows. Until they are, they do not live.
        let next = u32::try_from(self.read().rows()).expect("rows of a collection are counted in 32 bits");
        let lengths = self.words.as_ref().map(|words| words.add(next, ids.len(), payloads)).unwrap_or_default();
        let mut points = self.write();
        let first = self.corpus.append(vectors);
        let dead = column(&mut points.ids).insert(ids, first);
        for i in 0..ids.len() {
            points.payloads.push(payloads.get(i).unwrap_or(&Payload::default()));
        }
        points.lengths.extend(&lengths);
        points.mark_live(first, ids.len());
        points.mark_dead(&dead);
        points.replaced.extend_from_slice(&dead);
        points.changes += 1;
        self.corpus.kill(&dead);
        let updated = dead.len() as u64;
        Upserted { inserted: ids.len() as u64 - updated, updated }
    }

    /// Deletes points; those that are not there do not count.
    pub(crate) fn delete(&self, ids: &Ids) -> u64 {
        let mut points = self.write();
        let dead = points.ids.remove(ids);
        points.mark_dead(&dead);
        points.changes += 1;
        self.corpus.kill(&dead);
        dead.len() as u64
    }

    /// Points by row, in the form of the store. Rows may have died since; their contents have not changed.
    pub(crate) fn export(&self, rows: &[u32]) -> Upsert {
        let vectors = self.corpus.gather(rows).bytes().clone();
        let points = self.read();
        let payloads = rows.iter().map(|row| points.payloads.get(*row).encode_to_vec().into()).collect();
        let dim = u32::try_from(self.corpus.dim()).expect("a collection's dim is a u32");
        Upsert { ids: points.ids_of(rows), dim, vectors, payloads }
    }

    /// Points by row, to be added to another generation.
    pub(crate) fn copy(&self, rows: &[u32]) -> (Ids, Matrix, Vec<Payload>) {
        let vectors = self.corpus.gather(rows);
        let points = self.read();
        (points.ids_of(rows), vectors, rows.iter().map(|row| points.payloads.get(*row)).collect())
    }

    /// How many of the first rows have about so many bytes together: all that start below the bound.
    pub(crate) fn fitting(&self, rows: &[u32], bytes: usize) -> usize {
        let (points, width) = (self.read(), self.corpus.dim() * 4);
        let mut sum = 0;
        let fits = |row: &&u32| {
            let starts_below = sum < bytes;
            sum += width + points.payloads.wire_bytes(**row);
            starts_below
        };
        rows.iter().take_while(fits).count()
    }

    /// Points, and rows with the dead ones.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let points = self.read();
        (points.count(), points.rows())
    }

    /// Bytes held in host memory.
    pub(crate) fn host_bytes(&self) -> u64 {
        let words = self.words.as_ref().map_or(0, Words::host_bytes);
        self.corpus.host_bytes() + words + self.read().host_bytes()
    }
}

impl Points {
    /// How many points there are.
    pub(crate) fn count(&self) -> usize {
        match &self.ids {
            Column::Empty => 0,
            Column::Numbers(keyed) => keyed.rows.len(),
            Column::Uuids(keyed) => keyed.rows.len(),
        }
    }

    /// How many rows there are, dead ones included.
    pub(crate) fn rows(&self) -> usize {
        match &self.ids {
            Column::Empty => 0,
            Column::Numbers(keyed) => keyed.ids.len(),
            Column::Uuids(keyed) => keyed.ids.len(),
        }
    }

    /// The payloads.
    pub(crate) fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    /// How many words the rows have, where that is known.
    pub(crate) fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    /// A number that is another after every change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Rows whose points were replaced, oldest first. It only grows.
    pub(crate) fn replaced(&self) -> &[u32] {
        &self.replaced
    }

    /// Whether a row is a point's current row.
    pub(crate) fn is_live(&self, row: u32) -> bool {
        self.live.get(row as usize / 32).is_some_and(|word| word >> (row % 32) & 1 == 1)
    }

    /// Current rows, ascending.
    pub(crate) fn live_rows(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.live).flat_map(|(i, word)| Bits(*word).map(move |bit| i * 32 + bit))
    }

    /// Which point a row is, dead rows included.
    pub(crate) fn id(&self, row: u32) -> Option<PointId> {
        let row = row as usize;
        match &self.ids {
            Column::Empty => None,
            Column::Numbers(keyed) => keyed.ids.get(row).copied().map(PointId::Number),
            Column::Uuids(keyed) => keyed.ids.get(row).copied().map(PointId::Uuid),
        }
    }

    /// The current row of each id that is there, with its place in the list.
    pub(crate) fn find(&self, ids: &Ids) -> Vec<(usize, u32)> {
        match (&self.ids, ids) {
            (Column::Numbers(keyed), Ids::Numbers(ids)) => keyed.find(ids),
            (Column::Uuids(keyed), Ids::Uuids(ids)) => keyed.find(ids),
            _ => vec![],
        }
    }

    /// Ids by row, dead rows included.
    pub(crate) fn ids_of(&self, rows: &[u32]) -> Ids {
        match &self.ids {
            Column::Empty => Ids::Numbers(vec![]),
            Column::Numbers(keyed) => Ids::Numbers(rows.iter().map(|row| keyed.ids[*row as usize]).collect()),
            Column::Uuids(keyed) => Ids::Uuids(rows.iter().map(|row| keyed.ids[*row as usize]).collect()),
        }
    }

    /// The kind of the ids, as soon as there was one: an empty list of it.
    pub(crate) fn kind(&self) -> Option<Ids> {
        match &self.ids {
            Column::Empty => None,
            Column::Numbers(_) => Some(Ids::Numbers(vec![])),
            Column::Uuids(_) => Some(Ids::Uuids(vec![])),
        }
    }

    fn host_bytes(&self) -> u64 {
        let ids = match &self.ids {
            Column::Empty => 0,
            Column::Numbers(keyed) => keyed.host_bytes(),
            Column::Uuids(keyed) => keyed.host_bytes(),
        };
        ids + self.lengths.host_bytes()
            + self.payloads.host_bytes()
            + 4 * (self.live.capacity() + self.replaced.capacity()) as u64
    }

    fn mark_live(&mut self, first: u32, count: usize) {
        let end = first as usize + count;
        self.live.resize(end.div_ceil(32), 0);
        for row in first as usize..end {
            self.live[row / 32] |= 1 << (row % 32);
        }
    }

    fn mark_dead(&mut self, rows: &[u32]) {
        for row in rows {
            self.live[*row as usize / 32] &= !(1 << (row % 32));
        }
        self.lengths.forget(rows);
    }
}

impl Column {
    /// The numbers. A collection's ids are all of one kind; whoever writes has checked that.
    fn numbers(&mut self) -> &mut Keyed<u64> {
        if !matches!(self, Self::Numbers(_)) {
            *self = Self::Numbers(Keyed { ids: vec![], rows: HashMap::new() });
        }
        match self {
            Self::Numbers(keyed) => keyed,
            Self::Empty | Self::Uuids(_) => unreachable!("it was made just now"),
        }
    }

    /// The UUIDs, likewise.
    fn uuids(&mut self) -> &mut Keyed<[u8; 16]> {
        if !matches!(self, Self::Uuids(_)) {
            *self = Self::Uuids(Keyed { ids: vec![], rows: HashMap::new() });
        }
        match self {
            Self::Uuids(keyed) => keyed,
            Self::Empty | Self::Numbers(_) => unreachable!("it was made just now"),
        }
    }

    fn remove(&mut self, ids: &Ids) -> Vec<u32> {
        match (self, ids) {
            (Self::Numbers(keyed), Ids::Numbers(ids)) => keyed.remove(ids),
            (Self::Uuids(keyed), Ids::Uuids(ids)) => keyed.remove(ids),
            _ => vec![],
        }
    }
}

impl<K: Copy + Eq + Hash> Keyed<K> {
    /// Gives new rows to ids, and returns the rows they had.
    fn insert(&mut self, ids: &[K], first: u32) -> Vec<u32> {
        let mut dead = vec![];
        self.ids.extend_from_slice(ids);
        for (row, id) in (first..).zip(ids) {
            match self.rows.entry(*id) {
                Entry::Occupied(mut entry) => dead.push(entry.insert(row)),
                Entry::Vacant(entry) => _ = entry.insert(row),
            }
        }
        dead
    }

    fn remove(&mut self, ids: &[K]) -> Vec<u32> {
        ids.iter().filter_map(|id| self.rows.remove(id)).collect()
    }

    fn find(&self, ids: &[K]) -> Vec<(usize, u32)> {
        ids.iter().enumerate().filter_map(|(i, id)| Some((i, *self.rows.get(id)?))).collect()
    }

    fn host_bytes(&self) -> u64 {
        // A hash table keeps a byte beside each slot, and an eighth of the slots free.
        let slots = self.rows.capacity() * 8 / 7;
        (self.ids.capacity() * size_of::<K>() + slots * (size_of::<(K, u32)>() + 1)) as u64
    }
}

/// Indices of the bits that are set, ascending.
struct Bits(u32);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = (self.0 != 0).then(|| self.0.trailing_zeros())?;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

/// Some rows of a matrix, shared.
fn rows_of(matrix: &Matrix, start: usize, end: usize) -> Matrix {
    let width = matrix.cols() * 4;
    let bytes = matrix.bytes().slice(start * width..end * width);
    Matrix::from_bytes(end - start, matrix.cols(), bytes).expect("whole rows were cut out")
}

#[cfg(test)]
pub(super) mod tests {
    use accelerd_kernels::{
        DeviceId,
        ops::similarity::{Metric, Storage},
    };
    use accelerd_proto::v1::value::Kind;

    use super::{super::payload::tests::payload, *};

    pub(crate) fn generation() -> Generation {
        Generation::new(Corpus::new(2, Metric::Dot, Storage::F32, DeviceId::Cpu))
    }

    /// Points whose vector and payload say which write they came from.
    pub(crate) fn write(generation: &Generation, ids: &[u64], stamp: i64) -> Upserted {
        let numbers = ids.iter().flat_map(|id| [*id as f32, stamp as f32]).collect();
        let vectors = Matrix::from_vec(ids.len(), 2, numbers).expect("two numbers an id");
        let payloads: Vec<_> = ids.iter().map(|_| payload(&[("stamp", Kind::IntValue(stamp))])).collect();
        generation.upsert(&Ids::Numbers(ids.to_vec()), &vectors, &payloads)
    }

    /// Id to stamp, from ids and payloads; the vectors must say the same.
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
    fn a_replaced_point_has_a_new_row_and_the_old_one_is_dead_but_known() {
        let generation = generation();
        assert_eq!(write(&generation, &[7, 8, 9], 1), Upserted { inserted: 3, updated: 0 });
        assert_eq!(write(&generation, &[8, 10], 2), Upserted { inserted: 1, updated: 1 });
        assert_eq!(contents(&generation), [(7, 1), (9, 1), (8, 2), (10, 2)]);
        let points = generation.read();
        assert_eq!((points.is_live(1), points.id(1), points.replaced()), (false, Some(PointId::Number(8)), &[1][..]));
        assert_eq!((generation.corpus.len(), generation.corpus.dead()), (5, 1));
    }

    #[test]
    fn a_deleted_point_is_gone_and_unknown_ids_do_not_count() {
        let generation = generation();
        write(&generation, &[1, 2, 3], 1);
        assert_eq!(generation.delete(&Ids::Numbers(vec![2, 99])), 1);
        assert_eq!(generation.delete(&Ids::Uuids(vec![[0; 16]])), 0);
        assert_eq!(contents(&generation), [(1, 1), (3, 1)]);
        assert_eq!(generation.read().replaced(), [0u32; 0]);
        assert_eq!(write(&generation, &[2], 2), Upserted { inserted: 1, updated: 0 });
    }

    #[test]
    fn a_large_upsert_is_applied_in_steps_that_together_are_all_of_it() {
        let generation = Generation::new(Corpus::new(4096, Metric::Dot, Storage::F32, DeviceId::Cpu));
        let ids: Vec<_> = (0..600).collect();
        let vectors = Matrix::from_vec(600, 4096, (0..600 * 4096).map(|i| (i % 97) as f32).collect());
        let vectors = vectors.expect("the numbers were made for this shape");
        let upserted = generation.upsert(&Ids::Numbers(ids), &vectors, &[]);
        assert_eq!(upserted.inserted, 600);
        assert_eq!(generation.corpus.gather(&(0..600).collect::<Vec<_>>()).bytes(), vectors.bytes());
    }

    #[test]
    fn pieces_are_bounded_by_payloads_as_well_as_by_vectors() {
        let generation = generation();
        let rows = Matrix::from_vec(10, 2, vec![1.0; 20]).expect("ten rows");
        let text = |i: usize| payload(&[("text", Kind::StringValue(i.to_string().repeat(1000)))]);
        generation.upsert(&Ids::Numbers((0..10).collect()), &rows, &(0..10).map(text).collect::<Vec<_>>());
        let rows: Vec<_> = (0..10).collect();
        assert_eq!(generation.fitting(&rows, 2500), 3);
        assert_eq!(generation.fitting(&rows, 0), 0);
        assert_eq!(generation.fitting(&rows, 1), 1);
        assert_eq!(generation.fitting(&[], 1), 0);
    }

    #[test]
    fn exported_points_read_back_as_the_same() {
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
