//! The points of a generation: ids, payloads, the live bitmap, and document statistics of the text index.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use accelerd_store::Ids;

use super::{
    ids::PointId,
    payload::{Payloads, realloc_bytes},
    set_aside::SetAside,
    text_index::DocStats,
};

/// Data of the rows other than their vectors.
#[derive(Debug)]
pub(crate) struct Points {
    pub(super) ids: IdColumn,
    pub(super) payloads: Payloads,
    pub(super) doc_stats: DocStats,
    /// Bit `i % 32` of word `i / 32` is set if row i is a point's current row.
    live: Vec<u32>,
    /// Rows of replaced points, in the order of replacement.
    pub(super) replaced: Vec<u32>,
    /// Number of applied changes.
    pub(super) changes: u64,
    /// Points that have no row. Views share it.
    pub(super) set_aside: Arc<SetAside>,
}

/// The mapping between rows and ids, which are all of one kind.
#[derive(Debug)]
pub(super) enum IdColumn {
    /// No point has been written.
    Empty,
    Numbers(IdMap<u64>),
    Uuids(IdMap<[u8; 16]>),
}

#[derive(Debug)]
pub(super) struct IdMap<K> {
    ids: Vec<K>,
    rows: HashMap<K, u32>,
}

/// Numbers of points that an upsert inserted and replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upserted {
    /// New points.
    pub inserted: u64,
    /// Replaced points.
    pub updated: u64,
}

/// Locks points for reading. A panic under the lock leaves them consistent.
pub(super) fn read(points: &RwLock<Points>) -> RwLockReadGuard<'_, Points> {
    points.read().unwrap_or_else(PoisonError::into_inner)
}

impl Points {
    pub(super) fn new() -> Self {
        Self {
            ids: IdColumn::Empty,
            payloads: Payloads::new(),
            doc_stats: DocStats::default(),
            live: vec![],
            replaced: vec![],
            changes: 0,
            set_aside: Arc::default(),
        }
    }

    /// Number of points.
    pub(crate) fn count(&self) -> usize {
        match &self.ids {
            IdColumn::Empty => 0,
            IdColumn::Numbers(map) => map.rows.len(),
            IdColumn::Uuids(map) => map.rows.len(),
        }
    }

    /// Number of rows, including deleted ones.
    pub(crate) fn rows(&self) -> usize {
        match &self.ids {
            IdColumn::Empty => 0,
            IdColumn::Numbers(map) => map.ids.len(),
            IdColumn::Uuids(map) => map.ids.len(),
        }
    }

    pub(crate) fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    pub(crate) fn doc_stats(&self) -> &DocStats {
        &self.doc_stats
    }

    /// A version number, which every change increments.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Rows of replaced points, oldest first. The list only grows.
    pub(crate) fn replaced(&self) -> &[u32] {
        &self.replaced
    }

    /// Returns true if a row is a point's current row.
    pub(crate) fn is_live(&self, row: u32) -> bool {
        self.live.get(row as usize / 32).is_some_and(|word| word >> (row % 32) & 1 == 1)
    }

    /// The bits of [`Self::is_live`]: bit `i % 32` of word `i / 32` is row i's.
    pub(crate) fn live(&self) -> &[u32] {
        &self.live
    }

    /// Live rows, ascending.
    pub(crate) fn live_rows(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.live).flat_map(|(i, word)| Bits(*word).map(move |bit| i * 32 + bit))
    }

    /// The id of the point in a row, which may be deleted.
    pub(crate) fn id(&self, row: u32) -> Option<PointId> {
        let row = row as usize;
        match &self.ids {
            IdColumn::Empty => None,
            IdColumn::Numbers(map) => map.ids.get(row).copied().map(PointId::Number),
            IdColumn::Uuids(map) => map.ids.get(row).copied().map(PointId::Uuid),
        }
    }

    /// The live row of each id that exists, with the index of the id in the list.
    pub(crate) fn find(&self, ids: &Ids) -> Vec<(usize, u32)> {
        match (&self.ids, ids) {
            (IdColumn::Numbers(map), Ids::Numbers(ids)) => map.find(ids),
            (IdColumn::Uuids(map), Ids::Uuids(ids)) => map.find(ids),
            _ => vec![],
        }
    }

    /// The ids of rows, which may be deleted.
    pub(crate) fn ids_of(&self, rows: &[u32]) -> Ids {
        match &self.ids {
            IdColumn::Empty => Ids::Numbers(vec![]),
            IdColumn::Numbers(map) => Ids::Numbers(rows.iter().map(|row| map.ids[*row as usize]).collect()),
            IdColumn::Uuids(map) => Ids::Uuids(rows.iter().map(|row| map.ids[*row as usize]).collect()),
        }
    }

    /// The kind of the ids, as an empty list of that kind; `None` before the first point.
    pub(crate) fn kind(&self) -> Option<Ids> {
        match &self.ids {
            IdColumn::Empty => self.set_aside.kind(),
            IdColumn::Numbers(_) => Some(Ids::Numbers(vec![])),
            IdColumn::Uuids(_) => Some(Ids::Uuids(vec![])),
        }
    }

    pub(super) fn growth_bytes(&self, rows: usize, fields: usize) -> u64 {
        let ids = match &self.ids {
            IdColumn::Empty => 0,
            IdColumn::Numbers(map) => map.growth_bytes(rows),
            IdColumn::Uuids(map) => map.growth_bytes(rows),
        };
        ids + self.payloads.growth_bytes(rows, fields)
    }

    pub(super) fn host_bytes(&self) -> u64 {
        let ids = match &self.ids {
            IdColumn::Empty => 0,
            IdColumn::Numbers(map) => map.host_bytes(),
            IdColumn::Uuids(map) => map.host_bytes(),
        };
        ids + self.doc_stats.host_bytes()
            + self.set_aside.host_bytes()
            + self.payloads.host_bytes()
            + 4 * (self.live.capacity() + self.replaced.capacity()) as u64
    }

    /// Forgets the set-aside points of these ids and returns their number.
    pub(super) fn remove_set_aside(&mut self, ids: &Ids) -> u64 {
        if self.set_aside.is_empty() { 0 } else { Arc::make_mut(&mut self.set_aside).remove(ids) }
    }

    pub(super) fn mark_live(&mut self, first: u32, count: usize) {
        let end = first as usize + count;
        self.live.resize(end.div_ceil(32), 0);
        for row in first as usize..end {
            self.live[row / 32] |= 1 << (row % 32);
        }
    }

    pub(super) fn mark_deleted(&mut self, rows: &[u32]) {
        for row in rows {
            self.live[*row as usize / 32] &= !(1 << (row % 32));
        }
        self.doc_stats.remove(rows);
    }
}

impl IdColumn {
    /// The numeric ids. All ids of a collection are of one kind, which the writer has checked.
    pub(super) fn numbers(&mut self) -> &mut IdMap<u64> {
        if !matches!(self, Self::Numbers(_)) {
            *self = Self::Numbers(IdMap { ids: vec![], rows: HashMap::new() });
        }
        match self {
            Self::Numbers(map) => map,
            Self::Empty | Self::Uuids(_) => unreachable!("assigned above"),
        }
    }

    pub(super) fn uuids(&mut self) -> &mut IdMap<[u8; 16]> {
        if !matches!(self, Self::Uuids(_)) {
            *self = Self::Uuids(IdMap { ids: vec![], rows: HashMap::new() });
        }
        match self {
            Self::Uuids(map) => map,
            Self::Empty | Self::Numbers(_) => unreachable!("assigned above"),
        }
    }

    pub(super) fn remove(&mut self, ids: &Ids) -> Vec<u32> {
        match (self, ids) {
            (Self::Numbers(map), Ids::Numbers(ids)) => map.remove(ids),
            (Self::Uuids(map), Ids::Uuids(ids)) => map.remove(ids),
            _ => vec![],
        }
    }
}

impl<K: Copy + Eq + Hash> IdMap<K> {
    /// Assigns rows from `first` to ids and returns the rows that they replace.
    pub(super) fn insert(&mut self, ids: &[K], first: u32) -> Vec<u32> {
        let mut replaced = vec![];
        self.ids.extend_from_slice(ids);
        for (row, id) in (first..).zip(ids) {
            match self.rows.entry(*id) {
                Entry::Occupied(mut entry) => replaced.push(entry.insert(row)),
                Entry::Vacant(entry) => _ = entry.insert(row),
            }
        }
        replaced
    }

    pub(super) fn remove(&mut self, ids: &[K]) -> Vec<u32> {
        ids.iter().filter_map(|id| self.rows.remove(id)).collect()
    }

    fn find(&self, ids: &[K]) -> Vec<(usize, u32)> {
        ids.iter().enumerate().filter_map(|(i, id)| Some((i, *self.rows.get(id)?))).collect()
    }

    pub(super) fn growth_bytes(&self, rows: usize) -> u64 {
        let slots = realloc_bytes(self.rows.len(), self.rows.capacity(), rows, size_of::<(K, u32)>() + 1) * 8 / 7;
        realloc_bytes(self.ids.len(), self.ids.capacity(), rows, size_of::<K>()) + slots
    }

    pub(super) fn host_bytes(&self) -> u64 {
        // hashbrown stores a control byte per slot and keeps an eighth of the slots free.
        let slots = self.rows.capacity() * 8 / 7;
        (self.ids.capacity() * size_of::<K>() + slots * (size_of::<(K, u32)>() + 1)) as u64
    }
}

/// Iterates over the indices of set bits, ascending.
pub(super) struct Bits(pub(super) u32);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = (self.0 != 0).then(|| self.0.trailing_zeros())?;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}
