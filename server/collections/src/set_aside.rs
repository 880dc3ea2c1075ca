//! Points that recovery does not serve, because their vectors have NaN or infinity: earlier versions stored such vectors.
//!
//! A set-aside point is in no search, count or page. It stays in the log and in checkpoints as it was written, until its id
//! is written or deleted.

use std::collections::BTreeMap;

use accelerd_store::{Ids, Upsert};
use bytes::Bytes;

use super::PointId;

/// Host memory of a point besides its vector and payload.
const POINT_BYTES: usize = 128;

/// The set-aside points of a collection, all with ids of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetAside {
    points: BTreeMap<PointId, Stored>,
    bytes: usize,
}

/// A point as it was written.
#[derive(Clone, Debug)]
struct Stored {
    vector: Bytes,
    payload: Bytes,
}

impl Stored {
    fn bytes(&self) -> usize {
        self.vector.len() + self.payload.len() + POINT_BYTES
    }
}

impl SetAside {
    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Bytes in host memory.
    pub(crate) fn host_bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Up to `limit` ids, ascending.
    pub(crate) fn ids(&self, limit: usize) -> Ids {
        ids_of(self.points.keys().take(limit))
    }

    /// The kind of the ids, as an empty list of that kind; `None` without points.
    pub(crate) fn kind(&self) -> Option<Ids> {
        self.points.keys().next().map(|id| match id {
            PointId::Number(_) => Ids::Numbers(vec![]),
            PointId::Uuid(_) => Ids::Uuids(vec![]),
        })
    }

    /// Adds points, or replaces those of the same ids.
    pub(crate) fn insert(&mut self, points: &Upsert) {
        let width = points.dim as usize * size_of::<f32>();
        for (i, id) in point_ids(&points.ids).enumerate() {
            // Copies, which do not keep the whole record in memory.
            let vector = Bytes::copy_from_slice(&points.vectors[i * width..(i + 1) * width]);
            let payload = points.payloads.get(i).map_or(Bytes::new(), |payload| Bytes::copy_from_slice(payload));
            let stored = Stored { vector, payload };
            self.bytes += stored.bytes();
            self.bytes -= self.points.insert(id, stored).map_or(0, |old| old.bytes());
        }
    }

    /// Removes the points of these ids and returns their number.
    pub(crate) fn remove(&mut self, ids: &Ids) -> u64 {
        let mut removed = 0;
        for stored in point_ids(ids).filter_map(|id| self.points.remove(&id)) {
            self.bytes -= stored.bytes();
            removed += 1;
        }
        removed
    }

    /// Those of the points that are set aside, in the order of the ids.
    pub(crate) fn get(&self, ids: &Ids, dim: u32) -> Upsert {
        upsert(dim, point_ids(ids).filter_map(|id| Some((id, self.points.get(&id)?))))
    }

    /// The points as they were written, in chunks of about `bytes`.
    pub(crate) fn chunks(&self, dim: u32, bytes: usize) -> impl Iterator<Item = Upsert> {
        let mut rest = self.points.iter().peekable();
        std::iter::from_fn(move || {
            rest.peek()?;
            let mut sum = 0;
            let chunk = std::iter::from_fn(|| {
                let (id, stored) = (sum < bytes).then(|| rest.next())??;
                sum += stored.bytes();
                Some((*id, stored))
            });
            Some(upsert(dim, chunk))
        })
    }
}

fn upsert<'a>(dim: u32, points: impl Iterator<Item = (PointId, &'a Stored)>) -> Upsert {
    let mut ids = vec![];
    let mut vectors = vec![];
    let mut payloads = vec![];
    for (id, stored) in points {
        ids.push(id);
        vectors.extend_from_slice(&stored.vector);
        payloads.push(stored.payload.clone());
    }
    Upsert { ids: ids_of(ids.iter()), dim, vectors: vectors.into(), payloads }
}

fn point_ids(ids: &Ids) -> impl Iterator<Item = PointId> {
    let (numbers, uuids) = match ids {
        Ids::Numbers(numbers) => (&numbers[..], &[][..]),
        Ids::Uuids(uuids) => (&[][..], &uuids[..]),
    };
    numbers.iter().copied().map(PointId::Number).chain(uuids.iter().copied().map(PointId::Uuid))
}

/// The ids, which are all of one kind.
fn ids_of<'a>(ids: impl Iterator<Item = &'a PointId>) -> Ids {
    let (mut numbers, mut uuids) = (vec![], vec![]);
    for id in ids {
        match id {
            PointId::Number(number) => numbers.push(*number),
            PointId::Uuid(uuid) => uuids.push(*uuid),
        }
    }
    if uuids.is_empty() { Ids::Numbers(numbers) } else { Ids::Uuids(uuids) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upsert(ids: &[u64], fill: u8) -> Upsert {
        let payloads = ids.iter().map(|id| Bytes::from(vec![fill; usize::try_from(*id).expect("small")])).collect();
        Upsert { ids: Ids::Numbers(ids.to_vec()), dim: 2, vectors: vec![fill; ids.len() * 8].into(), payloads }
    }

    #[test]
    fn points_are_replaced_removed_and_exported_as_they_were_written() {
        let mut aside = SetAside::default();
        assert!(aside.kind().is_none());
        aside.insert(&upsert(&[1, 2, 3], 7));
        aside.insert(&upsert(&[2, 9], 8));
        assert_eq!((aside.len(), aside.ids(2)), (4, Ids::Numbers(vec![1, 2])));
        assert_eq!(aside.remove(&Ids::Numbers(vec![1, 1, 77])), 1);
        assert_eq!(aside.remove(&Ids::Uuids(vec![[0; 16]])), 0);
        let all: Vec<_> = aside.chunks(2, usize::MAX).collect();
        let expected = Upsert {
            ids: Ids::Numbers(vec![2, 3, 9]),
            vectors: [[8u8; 8], [7; 8], [8; 8]].concat().into(),
            payloads: vec![vec![8; 2].into(), vec![7; 3].into(), vec![8; 9].into()],
            dim: 2,
        };
        assert_eq!(all, [expected]);
        assert_eq!(aside.chunks(2, 1).map(|chunk| chunk.ids.len()).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(aside.kind(), Some(Ids::Numbers(vec![])));
        assert_eq!(aside.remove(&Ids::Numbers(vec![2, 3, 9])), 3);
        assert_eq!((aside.host_bytes(), aside.chunks(2, 1).count()), (0, 0));
    }
}
