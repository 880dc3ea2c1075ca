//! Where a generation's rows are appended and deleted: at once in its corpus, or in the same order on another thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use accelerd_kernels::{Matrix, ops::similarity::Corpus};

/// Changes that may wait: their rows stay in memory.
const QUEUED: usize = 2;

/// Takes the changes of rows in order.
pub(crate) trait RowSink {
    /// Appends rows.
    fn append(&self, rows: &Matrix);
    /// Deletes rows.
    fn delete(&self, rows: &[u32]);
}

impl RowSink for Corpus {
    fn append(&self, rows: &Matrix) {
        Corpus::append(self, rows);
    }

    fn delete(&self, rows: &[u32]) {
        Corpus::delete(self, rows);
    }
}

/// Passes changes to the thread that runs [`RowChanges::apply`]. Until then, the corpus lacks them.
#[derive(Debug)]
pub(crate) struct RowQueue(SyncSender<RowChange>);

/// The changes of a [`RowQueue`].
#[derive(Debug)]
pub(crate) struct RowChanges(Receiver<RowChange>);

#[derive(Debug)]
enum RowChange {
    Append(Matrix),
    Delete(Vec<u32>),
}

impl RowQueue {
    pub(crate) fn new() -> (Self, RowChanges) {
        let (sender, receiver) = sync_channel(QUEUED);
        (Self(sender), RowChanges(receiver))
    }

    fn send(&self, change: RowChange) {
        self.0.send(change).expect("the thread that applies changes has panicked");
    }
}

impl RowSink for RowQueue {
    fn append(&self, rows: &Matrix) {
        self.send(RowChange::Append(rows.clone()));
    }

    fn delete(&self, rows: &[u32]) {
        if !rows.is_empty() {
            self.send(RowChange::Delete(rows.to_vec()));
        }
    }
}

impl RowChanges {
    /// Applies changes until the queue is dropped.
    pub(crate) fn apply(self, corpus: &Corpus) {
        for change in self.0 {
            match change {
                RowChange::Append(rows) => _ = corpus.append(&rows),
                RowChange::Delete(rows) => corpus.delete(&rows),
            }
        }
    }
}
