//! Collections on disk: a write-ahead log with checkpoints beside it, and snapshots in object stores.
//!
//! This crate knows no protocol and no computation. It keeps [`Record`]s in order, and gives them back after a crash.
//!
//! # Layout
//!
//! ```text
//! <dir>/LOCK                                   held by the one process that uses the folder
//! <dir>/closed.json                            sealed: how far each log was durable when the store was last closed
//! <dir>/collections/<name>/meta.json           sealed CollectionMeta
//! <dir>/collections/<name>/wal-<first>.log     records from sequence number <first> on (20 digits)
//! <dir>/collections/<name>/checkpoint-<v>/     all points as of one sequence number (v: 10 digits)
//! ```
//!
//! A collection is made in a folder whose name starts with `.new-` and dropped by a rename to `.drop-`; neither is a
//! legal collection name, and both are removed at the next start.
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
//! The salt is random, so that no bytes a client sends can pass for a frame when a damaged file is searched.
//!
//! A body starts with `u8` id kind (1 numbers, 2 UUIDs), `u8` whether payloads follow, two zeros, `u32` count, `u32`
//! dim (0 in a delete), then the ids (8 or 16 bytes each), then f32 `[count, dim]`, then, if there are payloads, a
//! `u32` length of each and their bytes.
//!
//! # What recovery promises
//!
//! An append is answered only after `fdatasync` (or, with [`Fsync::Never`], after the write). Recovery gives back every answered record, in order, and perhaps some
//! that were written and not answered. A last group of frames that the crash cut short is a *torn tail* and is cut
//! off. Everything else that does not check is *corruption*: an error that names file and offset, never a silent loss.
//! A broken frame is a torn tail only in the last file, only if no later frame attests (by its durable length) that
//! the broken one had been synced, and only if it looks unfinished: it runs past the end of the file, or a sector of it
//! reads as zeros, which is what a file system leaves where data never arrived. A log that is shorter than `closed.json`
//! says, or has no whole header, is corrupt in any case: a log file gets its name when its header is durable. After a kill,
//! of which `closed.json` knows nothing, the log says up to which offset of which file a collection was read back.
//!
//! # Threads and descriptors
//!
//! All logs share [`Options::writer_threads`] threads. A log with records to write waits for a free one, which writes what
//! has queued up, syncs it once and answers it. At most [`Options::open_logs`] files, and one a thread, are open.
//!
//! # Checkpoints and snapshots
//!
//! Both are a folder of chunks and a `manifest.json`, written last. A chunk is the body of an upsert of at most about
//! 8 MiB. The manifest lists each chunk's name, points, size and SHA-256. A checkpoint lies beside the log and lets
//! older log files go; a snapshot lies in an object store under `v<10 digits>/`.

mod checkpoint;
mod disk;
mod ends;
mod error;
mod files;
mod frame;
mod journal;
mod manifest;
mod meta;
mod record;
mod replay;
mod snapshot;
mod store;
mod threads;

pub use checkpoint::CheckpointWriter;
pub use error::StoreError;
pub use journal::{Appended, Fsync, Journal, Rotated};
pub use manifest::{Chunk, Manifest};
pub use meta::{CollectionMeta, Metric, Storage, check_name};
pub use record::{Ids, Record, Upsert};
pub use snapshot::{Access, SnapshotReader, SnapshotWriter, Written, check_url, probe};
pub use store::{Options, Recovered, Replayed, Staged, Store};

/// Bytes of points that a writer should put into one chunk.
pub const CHUNK_BYTES: usize = 8 << 20;
