//! The working memory of checkpoints, snapshots, restores and recovery: each holds a chunk of points several times, as rows, encoded
//! and in the buffers of a file or an object store.

use std::sync::Arc;

use accelerd_kernels::ledger::{Account, Reservation};
use accelerd_store::CHUNK_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one of them needs.
pub(super) const CHUNK_MEMORY: u64 = 3 * CHUNK_BYTES as u64;

/// Memory for one chunk, which is reserved from the start, so that logs can be folded when memory is short; and memory for more
/// where it is free.
#[derive(Debug)]
pub(super) struct WorkingMemory {
    account: Account,
    first: Arc<Semaphore>,
    _reserved: Reservation,
}

/// Memory for one chunk, until it is dropped.
#[derive(Debug)]
pub(super) enum ChunkMemory {
    /// The reserved one.
    First { _permit: OwnedSemaphorePermit },
    /// Another.
    More { _reservation: Reservation },
}

impl WorkingMemory {
    pub(super) fn new(account: Account) -> Self {
        let mut reserved = account.empty();
        // It is needed whatever the limits are.
        reserved.record(CHUNK_MEMORY);
        Self { account, first: Arc::new(Semaphore::new(1)), _reserved: reserved }
    }

    /// Memory for another chunk if it is free.
    pub(super) fn try_more(&self) -> Option<ChunkMemory> {
        self.account.reserve_unused(CHUNK_MEMORY).map(|reservation| ChunkMemory::More { _reservation: reservation })
    }

    /// Memory for a chunk, as soon as there is some.
    pub(super) async fn chunk(&self) -> ChunkMemory {
        let first = |permit| ChunkMemory::First { _permit: permit };
        if let Ok(permit) = Arc::clone(&self.first).try_acquire_owned() {
            return first(permit);
        }
        if let Some(more) = self.try_more() {
            return more;
        }
        first(Arc::clone(&self.first).acquire_owned().await.expect("the semaphore is never closed"))
    }
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::ledger::{Kind, Ledger, Limit, Place};
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn the_first_chunk_is_always_there_and_others_wait_for_it_where_no_memory_is_free() {
        let ledger = Ledger::new();
        ledger.limit(Place::Host, Limit { bytes: 2 * CHUNK_MEMORY, setting: "memory.host_limit" });
        let memory = WorkingMemory::new(ledger.account(Place::Host, Kind::Writers));
        let rows = ledger.account(Place::Host, Kind::Collections).reserve(1).expect("it fits");
        let held = || ledger.snapshot()[0].held;
        assert_eq!(held(), CHUNK_MEMORY + 1, "the first is reserved from the start");
        let first = memory.chunk().await;
        assert!(memory.try_more().is_none());
        let mut waiting = Box::pin(memory.chunk());
        assert!((&mut waiting).now_or_never().is_none());
        drop(first);
        let _second = waiting.await;
        drop(rows);
        let third = memory.chunk().await;
        assert_eq!(held(), 2 * CHUNK_MEMORY);
        drop(third);
        assert_eq!(held(), CHUNK_MEMORY);
    }
}
