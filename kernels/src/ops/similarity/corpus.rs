//! Resident rows: the originals in host memory, and a copy on a GPU that each search brings up to date.

use std::{
    any::Any,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{
    arena::Chunk,
    metric::{Metric, Storage},
};
use crate::{DeviceId, Matrix, cpu::f64_sums};

/// The most bytes of rows in a chunk, and at least half of them, unless a single row is larger.
const CHUNK_BYTES: usize = 4 << 20;
/// The most rows in a chunk, so that small dims waste no memory on norms.
const CHUNK_ROWS: usize = 1 << 16;
/// Initial capacity of the first chunk. It doubles from there, so that thousands of small corpora take little memory.
const FIRST_BYTES: usize = 4 << 10;

/// Rows to search. Rows are appended and marked deleted but never changed: a reader sees an immutable prefix.
pub struct Corpus {
    id: u64,
    dim: usize,
    metric: Metric,
    storage: Storage,
    device: RwLock<DeviceId>,
    /// Serialises appends and deletions. Readers do not take it.
    writer: Mutex<()>,
    /// The view of new readers; locked for a few instructions at a time.
    published: RwLock<View>,
    device_copy: Mutex<Option<CorpusCopy>>,
    device_bytes: AtomicU64,
    /// When the device's copy was last used, by a clock that ticks with each use of any copy.
    last_search: AtomicU64,
}

/// A device's copy of a corpus, of a type private to the device's code.
pub type CorpusCopy = Arc<dyn Any + Send + Sync>;

impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, dim, metric, storage, .. } = self;
        write!(f, "Corpus {{ id: {id}, dim: {dim}, metric: {metric:?}, storage: {storage:?}, rows: {} }}", self.len())
    }
}

impl Corpus {
    /// An empty corpus, to be searched on `device`.
    pub fn new(dim: usize, metric: Metric, storage: Storage, device: DeviceId) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Relaxed),
            dim,
            metric,
            storage,
            device: RwLock::new(device),
            writer: Mutex::new(()),
            published: RwLock::new(View::empty(dim)),
            device_copy: Mutex::new(None),
            device_bytes: AtomicU64::new(0),
            last_search: AtomicU64::new(0),
        })
    }

    /// A number unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The number of columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The metric by which rows are compared.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Precision of the GPU's copy.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// The device that searches it.
    pub fn device(&self) -> DeviceId {
        *self.device.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the corpus to another device, after the loss of its own, and drops the old device's copy.
    pub fn set_device(&self, device: DeviceId) {
        *self.device.write().unwrap_or_else(PoisonError::into_inner) = device;
        let old = self.device_slot().take();
        self.set_device_bytes(0);
        drop(old);
    }

    /// Appends finite rows and returns the index of the first.
    ///
    /// # Panics
    /// If the columns differ from the dim, or if the rows would exceed `u32::MAX`; the caller checks both.
    pub fn append(&self, rows: &Matrix) -> u32 {
        assert_eq!(rows.cols(), self.dim, "rows of another dim");
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.view();
        let first = u32::try_from(next.len).expect("rows are counted in u32");
        assert!(u32::try_from(next.len + rows.rows()).is_ok(), "rows are counted in u32");
        next.extend(&rows.as_f32());
        *self.publish() = next;
        first
    }

    /// Deletes rows: searches that start later do not find them. Rows that do not exist are ignored.
    pub fn delete(&self, rows: &[u32]) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.publish().delete(rows);
    }

    /// The number of rows, deleted ones included.
    pub fn len(&self) -> usize {
        self.read().len
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of deleted rows.
    pub fn deleted_count(&self) -> usize {
        self.read().deleted_count
    }

    /// Copies of these rows, in this order.
    ///
    /// # Panics
    /// If a row does not exist.
    pub fn gather(&self, rows: &[u32]) -> Matrix {
        let view = self.view();
        let mut data = Vec::with_capacity(rows.len() * self.dim);
        for &row in rows {
            data.extend_from_slice(view.row(row as usize));
        }
        Matrix::from_vec(rows.len(), self.dim, data).expect("each row has `dim` numbers")
    }

    /// Bytes allocated in host memory.
    pub fn host_bytes(&self) -> u64 {
        let view = self.view();
        let deleted = view.deleted.as_ref().map_or(0, |bits| bits.len() * 4);
        (view.chunks.iter().map(|chunk| chunk.bytes()).sum::<usize>() + deleted) as u64
    }

    /// Bytes that appending `rows` rows allocates in host memory.
    pub fn growth_bytes(&self, rows: usize) -> u64 {
        self.view().growth_bytes(rows) as u64
    }

    /// Bytes allocated on its device.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes.load(Relaxed)
    }

    /// Records the bytes of the device's copy; called by the device's code.
    pub fn set_device_bytes(&self, bytes: u64) {
        self.device_bytes.store(bytes, Relaxed);
    }

    /// When a search last used the device's copy, as a number that grows with time.
    pub fn last_search(&self) -> u64 {
        self.last_search.load(Relaxed)
    }

    /// Records a use of the device's copy; called by the device's code.
    pub(crate) fn record_search(&self) {
        static CLOCK: AtomicU64 = AtomicU64::new(1);
        self.last_search.store(CLOCK.fetch_add(1, Relaxed), Relaxed);
    }

    /// Drops the device's copy, unless a search is using or updating it; the next search copies again. Returns its bytes.
    pub fn evict_device_copy(&self) -> u64 {
        let Ok(mut slot) = self.device_copy.try_lock() else { return 0 };
        if slot.take_if(|copy| Arc::strong_count(copy) == 1).is_none() {
            return 0;
        }
        self.device_bytes.swap(0, Relaxed)
    }

    /// The slot for the device's copy. Searches on a device store their copy here and update it from [`Self::view`]:
    /// rows from the copy's length on are new, and `deleted_version` says whether the deleted bits changed.
    /// [`Self::set_device`] empties the slot, so a copy must know its device; it may be dropped on any thread.
    pub fn device_slot(&self) -> MutexGuard<'_, Option<CorpusCopy>> {
        self.device_copy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A snapshot of the rows and deleted bits.
    pub fn view(&self) -> View {
        self.read().clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, View> {
        self.published.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self) -> RwLockWriteGuard<'_, View> {
        self.published.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot of a corpus: immutable rows, and the bitmap of the deleted ones.
#[derive(Clone)]
pub struct View {
    dim: usize,
    /// Rows of a full chunk, a power of two.
    chunk_rows: usize,
    len: usize,
    chunks: Arc<Vec<Arc<Chunk>>>,
    deleted: Option<Arc<Vec<u32>>>,
    deleted_count: usize,
    deleted_version: u64,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View {{ rows: {}, dim: {}, deleted: {} }}", self.len, self.dim, self.deleted_count)
    }
}

impl View {
    fn empty(dim: usize) -> Self {
        let maximum = (CHUNK_BYTES / size_of::<f32>() / dim.max(1)).clamp(1, CHUNK_ROWS);
        Self {
            dim,
            chunk_rows: 1 << maximum.ilog2(),
            len: 0,
            chunks: Arc::default(),
            deleted: None,
            deleted_count: 0,
            deleted_version: 0,
        }
    }

    /// The number of rows, deleted ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All rows in order, in contiguous chunks aligned to cache lines: the index of the first row, and the rows.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, &[f32])> {
        self.filled().map(|(first, chunk, rows)| (first, chunk.rows(rows)))
    }

    /// The squared norms of the same chunks.
    pub fn norms(&self) -> impl Iterator<Item = (usize, &[f64])> {
        self.filled().map(|(first, chunk, rows)| (first, chunk.norms(rows)))
    }

    /// One row.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn row(&self, row: usize) -> &[f32] {
        let (chunk, rows, index) = self.find(row);
        &chunk.rows(rows)[index * self.dim..][..self.dim]
    }

    /// The squared norm of one row.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn squared_norm(&self, row: usize) -> f64 {
        let (chunk, rows, index) = self.find(row);
        chunk.norms(rows)[index]
    }

    /// Deleted rows as set bits, bit `i % 32` of word `i / 32`; rows past the last word are live. `None` if all are
    /// live.
    pub fn deleted_bits(&self) -> Option<&[u32]> {
        self.deleted.as_deref().map(Vec::as_slice)
    }

    /// The number of deleted rows.
    pub fn deleted_count(&self) -> usize {
        self.deleted_count
    }

    /// Increases with every change of the deleted bits.
    pub fn deleted_version(&self) -> u64 {
        self.deleted_version
    }

    /// Chunks with the index of their first row and their number of rows.
    fn filled(&self) -> impl Iterator<Item = (usize, &Chunk, usize)> {
        self.chunks.iter().enumerate().map(|(index, chunk)| {
            let first = index * self.chunk_rows;
            (first, chunk.as_ref(), self.chunk_rows.min(self.len - first))
        })
    }

    fn find(&self, row: usize) -> (&Chunk, usize, usize) {
        assert!(row < self.len, "row {row} of {}", self.len);
        let chunk = row / self.chunk_rows;
        (&self.chunks[chunk], self.chunk_rows.min(self.len - chunk * self.chunk_rows), row % self.chunk_rows)
    }

    /// Appends rows. Call only under the writer's lock, and on a view that is about to be published.
    fn extend(&mut self, mut rows: &[f32]) {
        while !rows.is_empty() {
            let index = self.len % self.chunk_rows;
            let count = rows.len() / self.dim;
            self.make_room(index, count);
            let chunk = self.chunks.last().expect("make_room pushes a chunk if there is none");
            let taken = (chunk.capacity() - index).min(count);
            let (now, later) = rows.split_at(taken * self.dim);
            // SAFETY: rows from `len` on were never published, and the writer's lock keeps other writers away.
            unsafe { chunk.write(index, now, f64_sums::squared_norm) };
            self.len += taken;
            rows = later;
        }
    }

    /// Makes room for at least one row in the last chunk, of which `index` rows are written; for all `count` rows if it is
    /// the first chunk and they fit.
    fn make_room(&mut self, index: usize, count: usize) {
        let whole = self.chunk_rows;
        if self.len == self.chunks.len() * whole {
            let capacity = if self.chunks.is_empty() { self.first_capacity(count) } else { whole };
            Arc::make_mut(&mut self.chunks).push(Arc::new(Chunk::new(capacity, self.dim)));
        } else if let Some(last) = self.chunks.last().filter(|last| last.capacity() == index) {
            // Earlier views keep the old chunk.
            let grown = last.grown((index + count).next_power_of_two().min(whole), index);
            *Arc::make_mut(&mut self.chunks).last_mut().expect("there is one") = Arc::new(grown);
        }
    }

    /// Rows of the first chunk if it is made for `count` rows.
    fn first_capacity(&self, count: usize) -> usize {
        let least = FIRST_BYTES / size_of::<f32>() / self.dim.max(1);
        least.max(count).max(1).next_power_of_two().min(self.chunk_rows)
    }

    /// Bytes of the chunks that [`Self::extend`] allocates for `count` rows.
    fn growth_bytes(&self, count: usize) -> usize {
        let whole = self.chunk_rows;
        let last = self.chunks.last().map_or(0, |chunk| chunk.capacity());
        let capacity = self.chunks.len().saturating_sub(1) * whole + last;
        let Some(more) = (self.len + count).checked_sub(capacity).filter(|more| *more > 0) else { return 0 };
        // The last chunk is replaced by a larger one unless it is whole; all others are whole from the start.
        let (grown, more) = match last {
            0 => (self.first_capacity(count), more.saturating_sub(whole)),
            last if last < whole => ((last + more).next_power_of_two().min(whole), more.saturating_sub(whole - last)),
            _ => (0, more),
        };
        let bytes = |rows: usize| if rows == 0 { 0 } else { Chunk::bytes_of(rows, self.dim) };
        bytes(grown) + more.div_ceil(whole) * bytes(whole)
    }

    fn delete(&mut self, rows: &[u32]) {
        let is_new =
            |deleted: &[u32], row: u32| deleted.get(row as usize / 32).is_none_or(|word| word >> (row % 32) & 1 == 0);
        let deleted = self.deleted_bits().unwrap_or_default();
        if !rows.iter().any(|&row| (row as usize) < self.len && is_new(deleted, row)) {
            return;
        }
        let deleted = Arc::make_mut(self.deleted.get_or_insert_default());
        deleted.resize(self.len.div_ceil(32), 0);
        for &row in rows {
            if (row as usize) < self.len && is_new(deleted, row) {
                deleted[row as usize / 32] |= 1 << (row % 32);
                self.deleted_count += 1;
            }
        }
        self.deleted_version += 1;
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "copies are compared exactly")]
mod tests {
    use super::*;

    fn corpus(dim: usize) -> Arc<Corpus> {
        Corpus::new(dim, Metric::Dot, Storage::F32, DeviceId::Cpu)
    }

    #[test]
    fn a_small_corpus_takes_little_memory_and_grows_while_it_is_read() {
        let corpus = corpus(2);
        corpus.append(&counting(0, 1, 2));
        assert!(corpus.host_bytes() <= 16 << 10, "{} bytes for a row", corpus.host_bytes());
        let mut views = vec![];
        for row in 1..5_000 {
            views.push(corpus.view());
            corpus.append(&counting(row, 1, 2));
        }
        let last = corpus.view();
        assert!(corpus.host_bytes() <= 8192 * 16 + 64, "{} bytes for 5,000 rows", corpus.host_bytes());
        for (rows, view) in (1..).zip(&views) {
            assert_eq!(view.len(), rows);
            for row in [0, rows / 2, rows - 1] {
                assert_eq!((view.row(row), view.squared_norm(row)), (last.row(row), last.squared_norm(row)));
            }
        }
    }

    #[test]
    fn growth_is_known_before_it_happens() {
        for dim in [1, 3, 256, 2_000_000] {
            let corpus = corpus(dim);
            let counts = if dim > 1_000 { [0, 1, 2, 1] } else { [1, 700, 40_000, 70_000] };
            for rows in counts {
                let before = corpus.host_bytes();
                let growth = corpus.growth_bytes(rows);
                let last = corpus.view().chunks.last().map_or(0, |chunk| chunk.bytes() as u64);
                corpus.append(&counting(corpus.len(), rows, dim));
                let after = corpus.host_bytes();
                assert!([before + growth, before + growth - last].contains(&after), "{rows} rows of {dim}: {after}");
            }
        }
    }

    fn counting(first: usize, rows: usize, dim: usize) -> Matrix {
        let data = (first * dim..(first + rows) * dim).map(|i| i as f32).collect();
        Matrix::from_vec(rows, dim, data).expect("the data was made for this shape")
    }

    #[test]
    fn appended_rows_are_read_back() {
        let corpus = corpus(3);
        let mut rows = 0;
        for more in [0, 1, 31, 32, 33, 65_500, 70_000] {
            assert_eq!(corpus.append(&counting(rows, more, 3)) as usize, rows);
            rows += more;
        }
        let view = corpus.view();
        assert_eq!((view.len(), view.dim(), corpus.len()), (rows, 3, rows));
        let all: Vec<f32> = view.chunks().flat_map(|(_, rows)| rows).copied().collect();
        assert_eq!(all, *counting(0, rows, 3).as_f32());
        for row in [0, 65_535, 65_536, rows - 1] {
            assert_eq!(view.row(row), &all[row * 3..][..3]);
            assert_eq!(view.squared_norm(row), f64_sums::squared_norm(view.row(row)));
        }
        let picked = corpus.gather(&[70_000, 2]);
        assert_eq!(picked.as_f32()[..], [210_000.0, 210_001.0, 210_002.0, 6.0, 7.0, 8.0]);
        assert!(view.chunks().all(|(first, rows)| first % 65_536 == 0 && rows.as_ptr().addr() % 64 == 0));
    }

    #[test]
    fn a_view_is_a_snapshot() {
        let corpus = corpus(2);
        corpus.append(&counting(0, 5, 2));
        let before = corpus.view();
        corpus.append(&counting(5, 5, 2));
        corpus.delete(&[1, 9]);
        assert_eq!((before.len(), before.deleted_bits(), before.deleted_version()), (5, None, 0));
        let after = corpus.view();
        assert_eq!((after.len(), after.deleted_bits(), after.deleted_version()), (10, Some(&[0b10_0000_0010][..]), 1));
        assert_eq!(before.row(4), after.row(4));
    }

    #[test]
    fn a_row_is_deleted_once() {
        let corpus = corpus(1);
        corpus.append(&counting(0, 40, 1));
        corpus.delete(&[3, 3, 39, 40, u32::MAX]);
        assert_eq!((corpus.deleted_count(), corpus.view().deleted_version()), (2, 1));
        corpus.delete(&[39, 40]);
        assert_eq!((corpus.deleted_count(), corpus.view().deleted_version()), (2, 1));
        corpus.append(&counting(40, 40, 1));
        corpus.delete(&[79]);
        assert_eq!((corpus.deleted_count(), corpus.view().deleted_bits().map(<[u32]>::len)), (3, Some(3)));
    }

    #[test]
    fn a_move_drops_the_devices_copy() {
        let corpus = corpus(1);
        let copy = Arc::new(5_u8);
        *corpus.device_slot() = Some(Arc::clone(&copy) as CorpusCopy);
        corpus.set_device_bytes(5);
        corpus.set_device(DeviceId::Cuda(1));
        assert_eq!((corpus.device(), corpus.device_bytes(), Arc::strong_count(&copy)), (DeviceId::Cuda(1), 0, 1));
    }

    #[test]
    fn a_copy_is_evicted_unless_it_is_in_use() {
        let corpus = corpus(1);
        let copy = Arc::new(5_u8);
        *corpus.device_slot() = Some(Arc::clone(&copy) as CorpusCopy);
        corpus.set_device_bytes(5);
        assert_eq!((corpus.evict_device_copy(), corpus.device_bytes()), (0, 5), "a search is using it");
        drop(copy);
        let updating = corpus.device_slot();
        assert_eq!(corpus.evict_device_copy(), 0, "it is being updated");
        drop(updating);
        assert_eq!((corpus.evict_device_copy(), corpus.device_bytes(), corpus.evict_device_copy()), (5, 0, 0));
    }

    #[test]
    fn readers_see_whole_rows_while_a_writer_appends() {
        let corpus = corpus(4);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..50).for_each(|index| _ = corpus.append(&counting(index * 3, 3, 4))));
            for _ in 0..50 {
                let view = corpus.view();
                assert_eq!(view.len() % 3, 0);
                let all: Vec<f32> = view.chunks().flat_map(|(_, rows)| rows).copied().collect();
                assert!(all.iter().enumerate().all(|(i, x)| *x == i as f32));
            }
        });
        assert_eq!(corpus.len(), 150);
    }
}
