//! A batch in a GPU's memory, and how attention divides it among blocks.

use super::{gemm::SKINNY_ROWS, launch::fit};
use crate::{
    OpError,
    cuda::{Buffer, Shape, Worker, launch_structs},
    ops::encode::Batch,
};

launch_structs! {
    pub(super) header WORK_ITEMS_LAUNCH = "launch/work_items.cuh";

    /// Queries of a long work item.
    const LONG_QUERIES: usize = 128;
    /// The longest sequences whose work items cover one, two and four heads.
    const WHOLE_SEQUENCE: usize = 64;
    const MIDDLE_SEQUENCE: usize = 32;
    const SHORT_SEQUENCE: usize = 16;
}

/// The most rows of a captured pass: with more, kernels take longer than their launches.
const MAX_ROWS: usize = 1024;

/// One buffer with the work items, ids, token type ids, position rows and cumulative sequence lengths of a batch.
#[derive(Debug)]
pub(super) struct DeviceBatch {
    buffer: Buffer<u32>,
    pub(super) items: WorkItemCounts,
    pub(super) rows: usize,
    pub(super) sequences: usize,
    columns: OptionalColumns,
}

/// Which optional numbers a batch has for each token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OptionalColumns {
    token_types: bool,
    position_rows: bool,
}

impl OptionalColumns {
    fn of(batch: &Batch) -> Self {
        Self { token_types: !batch.token_type_ids.is_empty(), position_rows: !batch.position_rows.is_empty() }
    }

    fn count(self) -> usize {
        usize::from(self.token_types) + usize::from(self.position_rows)
    }

    fn code(self) -> u32 {
        u32::from(self.token_types) + 2 * u32::from(self.position_rows)
    }
}

/// The work items of attention, a sequence and its first query each: long, whole, middle and short.
#[derive(Debug, Default, PartialEq, Eq)]
struct WorkItems {
    classes: [Vec<[u32; 2]>; 4],
}

/// The number of work items of each length class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkItemCounts {
    pub(super) long: usize,
    pub(super) whole: usize,
    pub(super) middle: usize,
    pub(super) short: usize,
}

/// The length class of a sequence; none for an empty one.
fn length_class(length: usize) -> Option<usize> {
    let limits = [usize::MAX, WHOLE_SEQUENCE, MIDDLE_SEQUENCE, SHORT_SEQUENCE];
    (length > 0).then(|| limits.iter().rposition(|limit| length <= *limit).unwrap_or(0))
}

impl WorkItems {
    fn new(cu_seqlens: &[u32]) -> Result<Self, OpError> {
        let mut classes = <[Vec<[u32; 2]>; 4]>::default();
        for (sequence, ends) in cu_seqlens.windows(2).enumerate() {
            let length = (ends[1] - ends[0]) as usize;
            let Some(class) = length_class(length) else { continue };
            for query in (0..length).step_by(if class == 0 { LONG_QUERIES } else { WHOLE_SEQUENCE }) {
                classes[class].push([fit(sequence)?, fit(query)?]);
            }
        }
        Ok(Self { classes })
    }

    fn counts(&self) -> WorkItemCounts {
        let [long, whole, middle, short] = [0, 1, 2, 3].map(|class| self.classes[class].len());
        WorkItemCounts { long, whole, middle, short }
    }

    /// Shifts the items by one leading empty sequence and pads each class with items of that sequence.
    fn padded(mut self, to: WorkItemCounts) -> Self {
        for (items, count) in self.classes.iter_mut().zip([to.long, to.whole, to.middle, to.short]) {
            for item in items.iter_mut() {
                item[0] += 1;
            }
            items.resize(count, [0, 0]);
        }
        self
    }

    fn data(&self) -> Vec<u32> {
        self.classes.concat().concat()
    }
}

impl WorkItemCounts {
    /// Blocks for `heads` heads: of all but the long sequences, and of the long ones.
    pub(super) fn blocks(&self, heads: usize) -> [usize; 2] {
        let few = self.whole * heads + self.middle * heads.div_ceil(2) + self.short * heads.div_ceil(4);
        [few, self.long * heads]
    }

    fn data(&self) -> usize {
        2 * (self.long + self.whole + self.middle + self.short)
    }
}

/// A shape for which one CUDA graph serves many batches: upper bounds of rows and sequences, and the length classes in use. A
/// batch is padded with a leading empty sequence, which owns the surplus work items, trailing empty ones, and a last
/// sequence of all surplus rows. The batch's own rows come first, so padding does not affect their sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeBucket {
    rows: usize,
    sequences: usize,
    /// Length classes in use: long, whole, middle, short.
    classes: [bool; 4],
    columns: OptionalColumns,
}

impl ShapeBucket {
    /// The bucket of a small batch. Surplus rows must fit one sequence.
    pub(super) fn of(batch: &Batch, max_tokens: usize) -> Option<Self> {
        let rows = batch.ids.len();
        let sequences = batch.cu_seqlens.len().checked_sub(1)?.next_power_of_two();
        let bucket = if rows <= SKINNY_ROWS {
            rows.next_power_of_two().max(16)
        } else {
            rows.next_multiple_of(SKINNY_ROWS.max(rows.next_power_of_two() / 8))
        };
        let mut classes = [false; 4];
        for ends in batch.cu_seqlens.windows(2) {
            if let Some(class) = length_class((ends[1] - ends[0]) as usize) {
                classes[class] = true;
            }
        }
        let small = rows > 0 && bucket <= MAX_ROWS && sequences <= MAX_ROWS && bucket - rows <= max_tokens;
        small.then_some(Self { rows: bucket, sequences, classes, columns: OptionalColumns::of(batch) })
    }

    /// The cache key.
    pub(super) fn shape(self) -> Result<Shape, OpError> {
        let classes = self.classes.iter().fold(0, |classes, class| 2 * classes + u32::from(*class));
        Ok([fit(self.rows)?, fit(self.sequences)?, classes, self.columns.code()])
    }

    /// The most work items that a batch of this bucket can have.
    fn items(self) -> WorkItemCounts {
        // A long sequence has at most one item per 64 tokens, and all but its last item are full.
        let long = (self.rows / WHOLE_SEQUENCE).min((self.rows + (LONG_QUERIES - 1) * self.sequences) / LONG_QUERIES);
        let shorter = |class: usize, above: usize| {
            if self.classes[class] { self.sequences.min(self.rows / (above + 1)) } else { 0 }
        };
        WorkItemCounts {
            long: if self.classes[0] { long } else { 0 },
            whole: shorter(1, MIDDLE_SEQUENCE),
            middle: shorter(2, SHORT_SEQUENCE),
            short: shorter(3, 0),
        }
    }
}

impl DeviceBatch {
    /// Uploads a batch into a new buffer.
    pub(super) fn new(batch: &Batch, worker: &Worker) -> Result<Self, OpError> {
        let items = WorkItems::new(&batch.cu_seqlens)?;
        let counts = items.counts();
        let data = items.data();
        let parts = [&data[..], &batch.ids, &batch.token_type_ids, &batch.position_rows, &batch.cu_seqlens];
        let buffer = worker.alloc(parts.iter().map(|part| part.len()).sum())?;
        worker.upload_parts(parts.into_iter(), &buffer, 0)?;
        let rows = batch.ids.len();
        let sequences = batch.cu_seqlens.len().saturating_sub(1);
        Ok(Self { buffer, items: counts, rows, sequences, columns: OptionalColumns::of(batch) })
    }

    /// An uninitialised buffer for the batches of a bucket.
    pub(super) fn for_bucket(bucket: ShapeBucket, worker: &Worker) -> Result<Self, OpError> {
        let items = bucket.items();
        let rows = bucket.rows;
        let sequences = bucket.sequences + 2;
        let columns = bucket.columns;
        let data = items.data() + rows * (1 + columns.count()) + sequences + 1;
        Ok(Self { buffer: worker.alloc(data)?, items, rows, sequences, columns })
    }

    /// Uploads a padded batch of the bucket this buffer was made for.
    pub(super) fn upload(&self, batch: &Batch, worker: &Worker) -> Result<(), OpError> {
        let items = WorkItems::new(&batch.cu_seqlens)?.padded(self.items).data();
        let padding = vec![0; self.rows - batch.ids.len()];
        let padding_if = |is_there: bool| if is_there { &padding[..] } else { &[] };
        let cu_seqlens = self.padded_cu_seqlens(&batch.cu_seqlens)?;
        let parts = [
            &items[..],
            &batch.ids,
            &padding,
            &batch.token_type_ids,
            padding_if(self.columns.token_types),
            &batch.position_rows,
            padding_if(self.columns.position_rows),
            &cu_seqlens,
        ];
        worker.upload_parts(parts.into_iter(), &self.buffer, 0).map(drop)
    }

    fn padded_cu_seqlens(&self, cu_seqlens: &[u32]) -> Result<Vec<u32>, OpError> {
        let end = cu_seqlens.last().copied().unwrap_or(0);
        let mut padded = [&[0], cu_seqlens].concat();
        padded.resize(self.sequences, end);
        padded.push(fit(self.rows)?);
        Ok(padded)
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffer.size_bytes()
    }

    /// The device address of word `index`.
    pub(super) fn address(&self, index: usize) -> u64 {
        self.buffer.ptr_at(index).address()
    }

    pub(super) fn ids(&self) -> usize {
        self.items.data()
    }

    pub(super) fn token_type_ids(&self) -> u64 {
        if self.columns.token_types { self.address(self.ids() + self.rows) } else { 0 }
    }

    pub(super) fn position_rows(&self) -> u64 {
        let before = self.rows * (1 + usize::from(self.columns.token_types));
        if self.columns.position_rows { self.address(self.ids() + before) } else { 0 }
    }

    pub(super) fn cu_seqlens(&self) -> u64 {
        self.address(self.ids() + self.rows * (1 + self.columns.count()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lengths: &[u32]) -> Batch {
        let cu_seqlens: Vec<u32> = [0]
            .into_iter()
            .chain(lengths.iter().scan(0, |end, length| {
                *end += length;
                Some(*end)
            }))
            .collect();
        Batch { ids: vec![7; lengths.iter().sum::<u32>() as usize], cu_seqlens, ..Batch::default() }
    }

    #[test]
    fn sequences_are_split_into_work_items_by_length() {
        let items = WorkItems::new(&[0, 16, 16, 48, 177, 178, 242]).expect("few");
        assert_eq!(items.data(), [3, 0, 3, 128, 5, 0, 2, 0, 0, 0, 4, 0]);
        assert_eq!(items.counts().blocks(5), [5 + 3 + 2 * 2, 2 * 5]);
        assert_eq!(WorkItems::new(&[]).expect("none").counts().blocks(12), [0, 0]);
    }

    #[test]
    fn batches_of_similar_shape_share_a_bucket() {
        let bucket = |lengths: &[u32]| ShapeBucket::of(&batch(lengths), 64);
        let rows = |length| bucket(&[length]).map(|bucket| bucket.rows);
        assert_eq!([1, 16, 17, 33, 65, 500].map(rows), [16, 16, 32, 64, 128, 512].map(Some));
        assert_eq!(rows(0).or(rows(1025)), None, "nothing, and too much");
        assert_eq!(rows(513), None, "more surplus rows than a sequence has positions");
        assert_eq!(bucket(&[30, 30, 30]), bucket(&[20, 0, 32, 17]));
        assert_ne!(bucket(&[30, 30]), bucket(&[30, 20, 10]), "a short sequence among them");
    }

    #[test]
    fn every_batch_fits_its_bucket() {
        let lengths = [1, 16, 17, 32, 33, 64, 65, 128, 129, 192, 256, 257];
        let batches = lengths.iter().flat_map(|a| lengths.iter().map(|b| vec![*a, 0, *b, *a]));
        for lengths in
            batches.chain(lengths.map(|length| vec![length])).chain([vec![129; 7], vec![65; 15], vec![1; 1000]])
        {
            let batch = batch(&lengths);
            let Some(bucket) = ShapeBucket::of(&batch, 512) else { panic!("{lengths:?}") };
            let items = WorkItems::new(&batch.cu_seqlens).expect("few");
            let limit = bucket.items();
            let counts = items.counts();
            assert!(counts.long <= limit.long && counts.whole <= limit.whole, "{lengths:?}");
            assert!(counts.middle <= limit.middle && counts.short <= limit.short, "{lengths:?}");
            assert_eq!(items.padded(limit).counts(), limit);
        }
    }

    #[test]
    fn padding_belongs_to_sequences_around_the_batch() {
        let input = DeviceBatch {
            buffer: Buffer::empty(),
            items: WorkItemCounts { long: 1, short: 3, ..WorkItemCounts::default() },
            rows: 16,
            sequences: 6,
            columns: OptionalColumns::default(),
        };
        assert_eq!(input.padded_cu_seqlens(&[0, 3, 12]).expect("few"), [0, 0, 3, 12, 12, 12, 16]);
        assert_eq!(input.padded_cu_seqlens(&[0, 3, 4, 5, 12]).expect("few"), [0, 0, 3, 4, 5, 12, 16]);
        let items = WorkItems::new(&[0, 3, 12]).expect("few").padded(input.items);
        assert_eq!(items.data(), [0, 0, 1, 0, 2, 0, 0, 0]);
    }
}
