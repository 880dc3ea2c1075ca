//! Rows kept in host memory, the truth, with a copy on a GPU that is brought up to date when it is searched.

use std::sync::Arc;

use super::{Metric, Storage};
use crate::{DeviceId, Matrix};

/// Rows to search. Rows are appended and marked dead, never changed: a reader sees a prefix that no writer touches.
#[derive(Debug)]
pub struct Corpus {
    id: u64,
    dim: usize,
    metric: Metric,
    storage: Storage,
    home: std::sync::RwLock<DeviceId>,
}

impl Corpus {
    /// An empty corpus that will be searched on `home`.
    pub fn new(_dim: usize, _metric: Metric, _storage: Storage, _home: DeviceId) -> Arc<Self> {
        unimplemented!()
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
        *self.home.read().expect("no code panics while it holds this lock")
    }

    /// Moves it, after its device was lost.
    pub fn set_home(&self, _home: DeviceId) {
        unimplemented!()
    }

    /// Appends rows, finite and of this dim; returns the first one's index.
    pub fn append(&self, _rows: &Matrix) -> u32 {
        unimplemented!()
    }

    /// Marks rows dead; searches that start later do not find them.
    pub fn kill(&self, _rows: &[u32]) {
        unimplemented!()
    }

    /// Rows, dead ones included.
    pub fn len(&self) -> usize {
        unimplemented!()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows marked dead.
    pub fn dead(&self) -> usize {
        unimplemented!()
    }

    /// Copies rows out, in the order asked for.
    pub fn gather(&self, _rows: &[u32]) -> Matrix {
        unimplemented!()
    }

    /// Bytes held in host memory.
    pub fn host_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// Bytes held on its device.
    pub fn device_bytes(&self) -> u64 {
        unimplemented!()
    }
}
