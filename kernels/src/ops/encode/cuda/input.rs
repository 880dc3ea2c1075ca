//! A batch in a GPU's memory, and how attention parts it among blocks.

use super::weights::fit;
use crate::{
    OpError,
    cuda::{Buffer, Shape, Worker},
    ops::encode::Batch,
};

/// Queries a block of attention takes of one text.
const QUERIES: usize = 128;
/// Texts up to this length have a block for each head; up to the next ones, two and four heads share one.
const WHOLE_TEXT: usize = 64;
const MIDDLE_TEXT: usize = 32;
const SHORT_TEXT: usize = 16;

/// Rows that a recorded pass has at most: beyond, kernels take longer than their launches.
const MOST_ROWS: usize = 1024;
/// Rows of the tiles that products of few rows are made of.
const ROWS: usize = 64;

/// What is uploaded of a batch: items of attention, ids, types, starts of texts, in one buffer.
#[derive(Debug)]
pub(super) struct Input {
    buffer: Buffer<u32>,
    pub(super) items: Counts,
    pub(super) rows: usize,
    pub(super) texts: usize,
    typed: bool,
}

/// Texts and first queries of what blocks of attention do: of long texts, then of whole, of middle and of short ones.
#[derive(Debug, Default, PartialEq, Eq)]
struct Items {
    kinds: [Vec<[u32; 2]>; 4],
}

/// How many items there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) long: usize,
    pub(super) whole: usize,
    pub(super) middle: usize,
    pub(super) short: usize,
}

/// The kind of the items of a text, where it has any.
fn kind_of(length: usize) -> Option<usize> {
    let most = [usize::MAX, WHOLE_TEXT, MIDDLE_TEXT, SHORT_TEXT];
    (length > 0).then(|| most.iter().rposition(|most| length <= *most).unwrap_or(0))
}

impl Items {
    fn new(starts: &[u32]) -> Result<Self, OpError> {
        let mut kinds = <[Vec<[u32; 2]>; 4]>::default();
        for (text, ends) in starts.windows(2).enumerate() {
            let length = (ends[1] - ends[0]) as usize;
            let Some(kind) = kind_of(length) else { continue };
            for query in (0..length).step_by(if kind == 0 { QUERIES } else { WHOLE_TEXT }) {
                kinds[kind].push([fit(text)?, fit(query)?]);
            }
        }
        Ok(Self { kinds })
    }

    fn counts(&self) -> Counts {
        let [long, whole, middle, short] = [0, 1, 2, 3].map(|kind| self.kinds[kind].len());
        Counts { long, whole, middle, short }
    }

    /// The same for texts that stand behind an empty one, with items of that one up to so many of each kind.
    fn padded(mut self, to: Counts) -> Self {
        for (items, count) in self.kinds.iter_mut().zip([to.long, to.whole, to.middle, to.short]) {
            for item in items.iter_mut() {
                item[0] += 1;
            }
            items.resize(count, [0, 0]);
        }
        self
    }

    fn words(&self) -> Vec<u32> {
        self.kinds.concat().concat()
    }
}

impl Counts {
    /// Blocks for so many heads: of texts that are not long, and of long ones.
    pub(super) fn blocks(&self, heads: usize) -> [usize; 2] {
        let few = self.whole * heads + self.middle * heads.div_ceil(2) + self.short * heads.div_ceil(4);
        [few, self.long * heads]
    }

    fn words(&self) -> usize {
        2 * (self.long + self.whole + self.middle + self.short)
    }
}

/// Room for all batches that are alike: so many rows and texts or fewer, and only some kinds of items. What a batch does
/// not fill is an empty text before its texts, which the items too many are of, more of them behind, and then a text
/// of all rows too many. Its own rows come first, so no sum of them is another than without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    rows: usize,
    texts: usize,
    /// Which kinds of items there may be: long, whole, middle, short.
    kinds: [bool; 4],
    typed: bool,
}

impl Room {
    /// The room that a batch takes, where it is small, and rows too many are no more than positions of a text.
    pub(super) fn of(batch: &Batch, max_tokens: usize) -> Option<Self> {
        let (rows, texts) = (batch.ids.len(), batch.starts.len().checked_sub(1)?.next_power_of_two());
        let room = if rows <= ROWS {
            rows.next_power_of_two().max(16)
        } else {
            rows.next_multiple_of(ROWS.max(rows.next_power_of_two() / 8))
        };
        let mut kinds = [false; 4];
        for ends in batch.starts.windows(2) {
            if let Some(kind) = kind_of((ends[1] - ends[0]) as usize) {
                kinds[kind] = true;
            }
        }
        let small = rows > 0 && room <= MOST_ROWS && texts <= MOST_ROWS && room - rows <= max_tokens;
        small.then_some(Self { rows: room, texts, kinds, typed: !batch.types.is_empty() })
    }

    /// What tells it from others.
    pub(super) fn shape(self) -> Result<Shape, OpError> {
        let kinds = self.kinds.iter().fold(0, |kinds, kind| 2 * kinds + u32::from(*kind));
        Ok([fit(self.rows)?, fit(self.texts)?, kinds, self.typed.into()])
    }

    /// Items of the batch that has most of them, of each kind.
    fn items(self) -> Counts {
        // A long text has an item for each 64 of its tokens or fewer, and but one that is not full.
        let long = (self.rows / WHOLE_TEXT).min((self.rows + (QUERIES - 1) * self.texts) / QUERIES);
        let shorter = |kind: usize, above: usize| {
            if self.kinds[kind] { self.texts.min(self.rows / (above + 1)) } else { 0 }
        };
        Counts {
            long: if self.kinds[0] { long } else { 0 },
            whole: shorter(1, MIDDLE_TEXT),
            middle: shorter(2, SHORT_TEXT),
            short: shorter(3, 0),
        }
    }
}

impl Input {
    /// A batch in memory of its own.
    pub(super) fn new(batch: &Batch, worker: &Worker) -> Result<Self, OpError> {
        let items = Items::new(&batch.starts)?;
        let (counts, words) = (items.counts(), items.words());
        let parts = [&words[..], &batch.ids, &batch.types, &batch.starts];
        let buffer = worker.alloc(parts.iter().map(|part| part.len()).sum())?;
        worker.upload_parts(parts.into_iter(), &buffer, 0)?;
        let (rows, texts) = (batch.ids.len(), batch.starts.len().saturating_sub(1));
        Ok(Self { buffer, items: counts, rows, texts, typed: !batch.types.is_empty() })
    }

    /// Memory for batches of a room, with anything in it.
    pub(super) fn with_room(room: Room, worker: &Worker) -> Result<Self, OpError> {
        let (items, rows, texts, typed) = (room.items(), room.rows, room.texts + 2, room.typed);
        let words = items.words() + rows * (1 + usize::from(typed)) + texts + 1;
        Ok(Self { buffer: worker.alloc(words)?, items, rows, texts, typed })
    }

    /// Uploads a batch that takes the room this was made with.
    pub(super) fn fill(&self, batch: &Batch, worker: &Worker) -> Result<(), OpError> {
        let items = Items::new(&batch.starts)?.padded(self.items).words();
        let unused = vec![0; self.rows - batch.ids.len()];
        let unused_types = if self.typed { &unused[..] } else { &[] };
        let starts = self.padded_starts(&batch.starts)?;
        let parts = [&items[..], &batch.ids, &unused, &batch.types, unused_types, &starts];
        worker.upload_parts(parts.into_iter(), &self.buffer, 0).map(drop)
    }

    fn padded_starts(&self, starts: &[u32]) -> Result<Vec<u32>, OpError> {
        let end = starts.last().copied().unwrap_or(0);
        let mut padded = [&[0], starts].concat();
        padded.resize(self.texts, end);
        padded.push(fit(self.rows)?);
        Ok(padded)
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.buffer.size_bytes()
    }

    /// Where word `at` lies.
    pub(super) fn address(&self, at: usize) -> u64 {
        self.buffer.ptr_at(at).address()
    }

    pub(super) fn ids(&self) -> usize {
        self.items.words()
    }

    pub(super) fn types(&self) -> u64 {
        if self.typed { self.address(self.ids() + self.rows) } else { 0 }
    }

    pub(super) fn starts(&self) -> u64 {
        self.address(self.ids() + self.rows * if self.typed { 2 } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lengths: &[u32]) -> Batch {
        let starts: Vec<u32> = [0]
            .into_iter()
            .chain(lengths.iter().scan(0, |end, length| {
                *end += length;
                Some(*end)
            }))
            .collect();
        Batch { ids: vec![7; lengths.iter().sum::<u32>() as usize], starts, ..Batch::default() }
    }

    #[test]
    fn texts_are_cut_into_items_by_their_length() {
        let items = Items::new(&[0, 16, 16, 48, 177, 178, 242]).expect("few");
        assert_eq!(items.words(), [3, 0, 3, 128, 5, 0, 2, 0, 0, 0, 4, 0]);
        assert_eq!(items.counts().blocks(5), [5 + 3 + 2 * 2, 2 * 5]);
        assert_eq!(Items::new(&[]).expect("none").counts().blocks(12), [0, 0]);
    }

    #[test]
    fn a_room_is_the_same_for_batches_that_are_alike() {
        let room = |lengths: &[u32]| Room::of(&batch(lengths), 64);
        let rows = |length| room(&[length]).map(|room| room.rows);
        assert_eq!([1, 16, 17, 33, 65, 500].map(rows), [16, 16, 32, 64, 128, 512].map(Some));
        assert_eq!(rows(0).or(rows(1025)), None, "nothing, and too much");
        assert_eq!(rows(513), None, "more rows too many than a text has positions");
        assert_eq!(room(&[30, 30, 30]), room(&[20, 0, 32, 17]));
        assert_ne!(room(&[30, 30]), room(&[30, 20, 10]), "a short text among them");
    }

    #[test]
    fn every_batch_fits_in_its_room() {
        let lengths = [1, 16, 17, 32, 33, 64, 65, 128, 129, 192, 256, 257];
        let batches = lengths.iter().flat_map(|a| lengths.iter().map(|b| vec![*a, 0, *b, *a]));
        for lengths in
            batches.chain(lengths.map(|length| vec![length])).chain([vec![129; 7], vec![65; 15], vec![1; 1000]])
        {
            let batch = batch(&lengths);
            let Some(room) = Room::of(&batch, 512) else { panic!("{lengths:?}") };
            let (items, most) = (Items::new(&batch.starts).expect("few"), room.items());
            let counts = items.counts();
            assert!(counts.long <= most.long && counts.whole <= most.whole, "{lengths:?}");
            assert!(counts.middle <= most.middle && counts.short <= most.short, "{lengths:?}");
            assert_eq!(items.padded(most).counts(), most);
        }
    }

    #[test]
    fn what_a_batch_does_not_fill_is_of_texts_around_its_own() {
        let input = Input {
            buffer: Buffer::empty(),
            items: Counts { long: 1, short: 3, ..Counts::default() },
            rows: 16,
            texts: 6,
            typed: false,
        };
        assert_eq!(input.padded_starts(&[0, 3, 12]).expect("few"), [0, 0, 3, 12, 12, 12, 16]);
        assert_eq!(input.padded_starts(&[0, 3, 4, 5, 12]).expect("few"), [0, 0, 3, 4, 5, 12, 16]);
        let items = Items::new(&[0, 3, 12]).expect("few").padded(input.items);
        assert_eq!(items.words(), [0, 0, 1, 0, 2, 0, 0, 0]);
    }
}
