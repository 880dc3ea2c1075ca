//! Collections on disk: a write-ahead log with checkpoints, and snapshots in object stores.
//!
//! This crate knows no protocol and no computation. It stores [`Record`]s in order, and recovers them after a crash.
//!
//! # Layout
//!
//! ```text
//! <dir>/LOCK                                   locked by the process that uses the folder
//! <dir>/closed.json                            sealed: durable offset of each log when the store was last closed
//! <dir>/collections/<name>/meta.json           sealed CollectionMeta
//! <dir>/collections/<name>/wal-<first>.log     records from sequence number <first> on (20 digits)
//! <dir>/collections/<name>/checkpoint-<v>/     all points as of one sequence number (v: 10 digits)
//! ```
//!
//! A collection is created in a folder whose name starts with `.new-` and dropped by a rename to `.drop-`. Neither is a
//! valid collection name, and both are removed at the next start.
//!
//! # Sealed JSON
//!
//! `meta.json` and `manifest.json` are `{"sha256": "<hex>", "content": {...}}`: the digest is that of the compact
//! JSON of `content`.
//!
//! # Write-ahead log
//!
//! All numbers are little-endian. A file is a 24-byte header and then frames:
//!
//! | header | bytes | | frame | bytes |
//! |---|---|---|---|---|
//! | `ACCLWAL1` | 8 | | `WREC` | 4 |
//! | sequence number of its first frame | 8 | | kind: 1 upsert, 2 delete; then three zeros | 4 |
//! | salt | 4 | | length of the body | 4 |
//! | CRC-32 of the above | 4 | | CRC-32 of the body | 4 |
//! | | | | sequence number | 8 |
//! | | | | durable length: this file was synced up to here before the frame was written | 8 |
//! | | | | CRC-32 of the above, continued from the file's salt | 4 |
//! | | | | the body | |
//!
//! The salt is random, so that no bytes from a client can pass for a frame when a damaged file is searched.
//!
//! A body starts with `u8` id kind (1 integers, 2 UUIDs), `u8` whether payloads follow, two zeros, `u32` count, `u32`
//! dim (0 in a delete), then the ids (8 or 16 bytes each), then f32 `[count, dim]`, then, if there are payloads, a
//! `u32` length of each and their bytes.
//!
//! # What recovery promises
//!
//! An append is acknowledged only after `fdatasync` (with [`Fsync::Never`], after the write). Recovery replays every
//! acknowledged record in order, and possibly records that were written but not acknowledged. If a crash interrupts the
//! last group of frames, the log has a *torn tail*, which recovery truncates. Every other failed check is *corruption*:
//! [`Replayed::damage`] names file, offset and reason, never a silent loss.
//!
//! A collection with corruption is recovered as far as it is whole: a damaged frame or chunk is skipped, and what comes
//! after it is applied in order. Recovery then changes and removes no file of the collection and opens no log for
//! writing, so that the files can be repaired, or copied for an analysis. A file of a later format is not corruption: the
//! collection is refused with both formats.
//!
//! - A chunk is whole if its SHA-256 is that of the manifest. If the manifest itself is damaged, an older checkpoint
//!   serves if there is one; else those chunks are whole whose SHA-256 can be found in the damaged manifest.
//! - The salt of a log file with a damaged header is computed from its first frame, or found in `closed.json`.
//! - Where frames are lost, later ones apply to an older state: a point may have an earlier version of it, or exist
//!   although it was deleted. It never has contents that were not written.
//!
//! An invalid frame is a torn tail only if all of these hold; otherwise it is corruption:
//!
//! - it is in the last file;
//! - it starts at or after the durable offset that `closed.json` records for that file;
//! - no valid frame after it has a durable length that covers its start, which would prove that it had been synced;
//! - it looks unfinished: it extends past the end of the file, or contains a zero sector, which is what file systems
//!   leave where data was not written.
//!
//! A log that is shorter than its offset in `closed.json`, or that lacks a complete header, is always corrupt: a log
//! file is renamed to its name only once its header is durable. After a kill, `closed.json` has no current offset; the
//! daemon then logs up to which file and offset it replayed the collection.
//!
//! Chunks and records are read, checked and decoded on several threads, as far as the caller has memory for them, and
//! applied in order on one.
//!
//! # Threads and descriptors
//!
//! All logs share [`Options::writer_threads`] threads. A log with queued records waits for a free thread, which writes
//! the queue, syncs it once and answers it. At most [`Options::open_logs`] files plus one per thread are open.
//!
//! # Checkpoints and snapshots
//!
//! Both are a folder of chunks with a `manifest.json`, which is written last. A chunk is the body of an upsert of about
//! 8 MiB at most. The manifest lists each chunk's name, points, size and SHA-256. A checkpoint is in the collection's
//! folder and makes older log files removable; a snapshot is in an object store under `v<10 digits>/`.

mod checkpoint;
mod damage;
mod disk;
mod durable_offsets;
mod error;
mod frame;
mod journal;
mod log_files;
mod manifest;
mod meta;
mod open_files;
mod ordered_map;
mod record;
mod recovery;
mod replay;
mod snapshot;
mod store;
mod thread_pool;

pub use checkpoint::CheckpointWriter;
pub use damage::Damage;
pub use error::StoreError;
pub use journal::{Appended, Fsync, Journal, Rotated};
pub use manifest::{Chunk, Manifest};
pub use meta::{CollectionMeta, Metric, Prompt, Prompts, Storage, check_name};
pub use record::{Ids, Record, Upsert};
pub use recovery::{Helper, Progress, Recovered, ReplayHooks, Replayed};
pub use snapshot::{Access, SnapshotReader, SnapshotWriter, Written, delete_snapshot, parse_url, probe, snapshots};
pub use store::{Options, Staged, Store};

/// Target size of a chunk.
pub const CHUNK_BYTES: usize = 8 << 20;
