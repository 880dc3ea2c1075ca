//! Rows kept in host memory, the truth, with a copy on a GPU that is brought up to date when it is searched.

use std::{
    any::Any,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{Metric, Storage, arena::Chunk};
use crate::{DeviceId, Matrix, cpu::exact};

/// Bytes of rows in a chunk: half of this to all of it, unless a single row is larger.
const CHUNK_BYTES: usize = 4 << 20;
/// Most rows in a chunk, so that small dims waste no memory on norms.
const CHUNK_ROWS: usize = 1 << 16;
/// Bytes of rows for which a corpus has room from its first row on. Its first chunk doubles from there, so that thousands of
/// small corpora take little.
const FIRST_BYTES: usize = 4 << 10;

/// Rows to search. Rows are appended and marked dead, never changed: a reader sees a prefix that no writer touches.
pub struct Corpus {
    id: u64,
    dim: usize,
    metric: Metric,
    storage: Storage,
    home: RwLock<DeviceId>,
    /// Held by the one that appends or kills. Readers do not take it.
    writer: Mutex<()>,
    /// What readers see; locked for a few instructions at a time.
    published: RwLock<View>,
    mirror: Mutex<Option<Mirror>>,
    device_bytes: AtomicU64,
}

/// A device's copy of a corpus, in the device code's own type.
pub type Mirror = Arc<dyn Any + Send + Sync>;

impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, dim, metric, storage, .. } = self;
        write!(f, "Corpus {{ id: {id}, dim: {dim}, metric: {metric:?}, storage: {storage:?}, rows: {} }}", self.len())
    }
}

impl Corpus {
    /// An empty corpus that will be searched on `home`.
    pub fn new(dim: usize, metric: Metric, storage: Storage, home: DeviceId) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Relaxed),
            dim,
            metric,
            storage,
            home: RwLock::new(home),
            writer: Mutex::new(()),
            published: RwLock::new(View::empty(dim)),
            mirror: Mutex::new(None),
            device_bytes: AtomicU64::new(0),
        })
    }

    /// Tells corpora apart; unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How rows are compared.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Precision of the GPU's copy.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Where it is searched.
    pub fn home(&self) -> DeviceId {
        *self.home.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves it, after its device was lost, and lets go of the old device's copy.
    pub fn set_home(&self, home: DeviceId) {
        *self.home.write().unwrap_or_else(PoisonError::into_inner) = home;
        let left = self.device_slot().take();
        self.set_device_bytes(0);
        drop(left);
    }

    /// Appends rows, finite and of this dim; returns the first one's index.
    ///
    /// # Panics
    /// Where the columns differ from the dim, or where there would be more rows than a u32 counts: both are for the
    /// caller to refuse.
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

    /// Marks rows dead; searches that start later do not find them. Rows that are not there are passed over.
    pub fn kill(&self, rows: &[u32]) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.publish().kill(rows);
    }

    /// Rows, dead ones included.
    pub fn len(&self) -> usize {
        self.read().len
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows marked dead.
    pub fn dead(&self) -> usize {
        self.read().dead_count
    }

    /// Copies rows out, in the order asked for.
    ///
    /// # Panics
    /// Where a row is not there.
    pub fn gather(&self, rows: &[u32]) -> Matrix {
        let view = self.view();
        let mut data = Vec::with_capacity(rows.len() * self.dim);
        for &row in rows {
            data.extend_from_slice(view.row(row as usize));
        }
        Matrix::from_vec(rows.len(), self.dim, data).expect("each row has `dim` numbers")
    }

    /// Bytes held in host memory.
    pub fn host_bytes(&self) -> u64 {
        let view = self.view();
        let dead = view.dead.as_ref().map_or(0, |bits| bits.len() * 4);
        (view.chunks.iter().map(|chunk| chunk.bytes()).sum::<usize>() + dead) as u64
    }

    /// Bytes held on its device.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes.load(Relaxed)
    }

    /// Says how many bytes the copy on the device takes. For the code that keeps it.
    pub fn set_device_bytes(&self, bytes: u64) {
        self.device_bytes.store(bytes, Relaxed);
    }

    /// The place of the device's copy. A search on a device keeps its mirror here and brings it up to date from
    /// [`Self::view`]: rows from its own length on are new, and `dead_version` tells whether the dead bits changed.
    /// [`Self::set_home`] empties it, so what is kept must know its device; it may be dropped on any thread.
    pub fn device_slot(&self) -> MutexGuard<'_, Option<Mirror>> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows and dead bits as they are now. What is appended or killed later does not show in it.
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

/// A corpus at one moment: rows that no writer touches any more, and which of them are dead.
#[derive(Clone)]
pub struct View {
    dim: usize,
    /// Rows of a full chunk: a power of two.
    chunk_rows: usize,
    len: usize,
    chunks: Arc<Vec<Arc<Chunk>>>,
    dead: Option<Arc<Vec<u32>>>,
    dead_count: usize,
    dead_version: u64,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View {{ rows: {}, dim: {}, dead: {} }}", self.len, self.dim, self.dead_count)
    }
}

impl View {
    fn empty(dim: usize) -> Self {
        let most = (CHUNK_BYTES / size_of::<f32>() / dim.max(1)).clamp(1, CHUNK_ROWS);
        Self {
            dim,
            chunk_rows: 1 << most.ilog2(),
            len: 0,
            chunks: Arc::default(),
            dead: None,
            dead_count: 0,
            dead_version: 0,
        }
    }

    /// Rows, dead ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All rows in order, in contiguous pieces that begin on a cache line: index of the first row, and the rows.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, &[f32])> {
        self.pieces().map(|(first, chunk, rows)| (first, chunk.rows(rows)))
    }

    /// The squared norms of the same pieces.
    pub fn norms(&self) -> impl Iterator<Item = (usize, &[f64])> {
        self.pieces().map(|(first, chunk, rows)| (first, chunk.norms(rows)))
    }

    /// One row.
    ///
    /// # Panics
    /// Where it is not there.
    pub fn row(&self, row: usize) -> &[f32] {
        let (chunk, rows, at) = self.find(row);
        &chunk.rows(rows)[at * self.dim..][..self.dim]
    }

    /// Squared norm of one row.
    ///
    /// # Panics
    /// Where it is not there.
    pub fn squared_norm(&self, row: usize) -> f64 {
        let (chunk, rows, at) = self.find(row);
        chunk.norms(rows)[at]
    }

    /// Dead rows as set bits, bit `i % 32` of word `i / 32`; rows past the last word are alive. `None`: all are alive.
    pub fn dead_bits(&self) -> Option<&[u32]> {
        self.dead.as_deref().map(Vec::as_slice)
    }

    /// Rows marked dead.
    pub fn dead(&self) -> usize {
        self.dead_count
    }

    /// Grows with every change of the dead bits.
    pub fn dead_version(&self) -> u64 {
        self.dead_version
    }

    fn pieces(&self) -> impl Iterator<Item = (usize, &Chunk, usize)> {
        self.chunks.iter().enumerate().map(|(at, chunk)| {
            let first = at * self.chunk_rows;
            (first, chunk.as_ref(), self.chunk_rows.min(self.len - first))
        })
    }

    fn find(&self, row: usize) -> (&Chunk, usize, usize) {
        assert!(row < self.len, "row {row} of {}", self.len);
        let chunk = row / self.chunk_rows;
        (&self.chunks[chunk], self.chunk_rows.min(self.len - chunk * self.chunk_rows), row % self.chunk_rows)
    }

    /// Only under the writer's lock, and on a view that is about to be published: the rows go behind `len`.
    fn extend(&mut self, mut rows: &[f32]) {
        while !rows.is_empty() {
            let (at, count) = (self.len % self.chunk_rows, rows.len() / self.dim);
            self.make_room(at, count);
            let chunk = self.chunks.last().expect("one was pushed if there was none");
            let taken = (chunk.capacity() - at).min(count);
            let (now, later) = rows.split_at(taken * self.dim);
            // SAFETY: rows from `len` on were never published, and the writer's lock keeps other writers away.
            unsafe { chunk.write(at, now, exact::squared_norm) };
            self.len += taken;
            rows = later;
        }
    }

    /// Room for a row or more in the last chunk, of which `at` rows are written; for all `count` where it is the first one.
    fn make_room(&mut self, at: usize, count: usize) {
        let whole = self.chunk_rows;
        if self.len == self.chunks.len() * whole {
            let first = (FIRST_BYTES / size_of::<f32>() / self.dim.max(1)).max(count).max(1).next_power_of_two();
            let capacity = if self.chunks.is_empty() { first.min(whole) } else { whole };
            Arc::make_mut(&mut self.chunks).push(Arc::new(Chunk::new(capacity, self.dim)));
        } else if let Some(last) = self.chunks.last().filter(|last| last.capacity() == at) {
            // Views that were taken before keep the old chunk.
            let grown = last.grown((at + count).next_power_of_two().min(whole), at);
            *Arc::make_mut(&mut self.chunks).last_mut().expect("there is one") = Arc::new(grown);
        }
    }

    fn kill(&mut self, rows: &[u32]) {
        let is_new =
            |dead: &[u32], row: u32| dead.get(row as usize / 32).is_none_or(|word| word >> (row % 32) & 1 == 0);
        let dead = self.dead_bits().unwrap_or_default();
        if !rows.iter().any(|&row| (row as usize) < self.len && is_new(dead, row)) {
            return;
        }
        let dead = Arc::make_mut(self.dead.get_or_insert_default());
        dead.resize(self.len.div_ceil(32), 0);
        for &row in rows {
            if (row as usize) < self.len && is_new(dead, row) {
                dead[row as usize / 32] |= 1 << (row % 32);
                self.dead_count += 1;
            }
        }
        self.dead_version += 1;
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "what is copied is compared exactly")]
mod tests {
    use super::*;

    fn corpus(dim: usize) -> Arc<Corpus> {
        Corpus::new(dim, Metric::Dot, Storage::F32, DeviceId::Cpu)
    }

    #[test]
    fn a_small_corpus_takes_little_and_grows_under_the_eyes_of_its_readers() {
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

    fn counting(first: usize, rows: usize, dim: usize) -> Matrix {
        let data = (first * dim..(first + rows) * dim).map(|i| i as f32).collect();
        Matrix::from_vec(rows, dim, data).expect("the data was made for this shape")
    }

    #[test]
    fn rows_come_back_as_they_were_appended() {
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
            assert_eq!(view.squared_norm(row), exact::squared_norm(view.row(row)));
        }
        let picked = corpus.gather(&[70_000, 2]);
        assert_eq!(picked.as_f32()[..], [210_000.0, 210_001.0, 210_002.0, 6.0, 7.0, 8.0]);
        assert!(view.chunks().all(|(first, rows)| first % 65_536 == 0 && rows.as_ptr().addr() % 64 == 0));
    }

    #[test]
    fn a_view_does_not_change() {
        let corpus = corpus(2);
        corpus.append(&counting(0, 5, 2));
        let before = corpus.view();
        corpus.append(&counting(5, 5, 2));
        corpus.kill(&[1, 9]);
        assert_eq!((before.len(), before.dead_bits(), before.dead_version()), (5, None, 0));
        let after = corpus.view();
        assert_eq!((after.len(), after.dead_bits(), after.dead_version()), (10, Some(&[0b10_0000_0010][..]), 1));
        assert_eq!(before.row(4), after.row(4));
    }

    #[test]
    fn a_row_dies_once() {
        let corpus = corpus(1);
        corpus.append(&counting(0, 40, 1));
        corpus.kill(&[3, 3, 39, 40, u32::MAX]);
        assert_eq!((corpus.dead(), corpus.view().dead_version()), (2, 1));
        corpus.kill(&[39, 40]);
        assert_eq!((corpus.dead(), corpus.view().dead_version()), (2, 1));
        corpus.append(&counting(40, 40, 1));
        corpus.kill(&[79]);
        assert_eq!((corpus.dead(), corpus.view().dead_bits().map(<[u32]>::len)), (3, Some(3)));
    }

    #[test]
    fn moving_lets_go_of_the_devices_copy() {
        let corpus = corpus(1);
        let mirror = Arc::new(5_u8);
        *corpus.device_slot() = Some(Arc::clone(&mirror) as Mirror);
        corpus.set_device_bytes(5);
        corpus.set_home(DeviceId::Cuda(1));
        assert_eq!((corpus.home(), corpus.device_bytes(), Arc::strong_count(&mirror)), (DeviceId::Cuda(1), 0, 1));
    }

    #[test]
    fn readers_see_whole_rows_while_a_writer_appends() {
        let corpus = corpus(4);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..50).for_each(|at| _ = corpus.append(&counting(at * 3, 3, 4))));
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
