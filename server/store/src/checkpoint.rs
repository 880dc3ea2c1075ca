//! Checkpoints: all points of a collection in local files, so that older log files can be removed.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use crate::{
    Chunk, CollectionMeta, Manifest, StoreError, Upsert,
    disk::{list, remove, sync_dir, write_atomic, write_file},
    manifest::{MANIFEST, MAX_JSON_BYTES},
};

const PREFIX: &str = "checkpoint-";

/// Writes a checkpoint; blocking. Dropping it before [`finish`](Self::finish) removes its files.
#[derive(Debug)]
pub struct CheckpointWriter {
    dir: PathBuf,
    folder: PathBuf,
    manifest: Manifest,
    committed: bool,
}

impl CheckpointWriter {
    /// Starts the next checkpoint of the collection in `dir`, covering all records up to `sequence`.
    pub(crate) fn create(dir: &Path, meta: CollectionMeta, sequence: u64) -> Result<Self, StoreError> {
        let version = versions(dir)?.last().map_or(1, |version| version + 1);
        let folder = folder(dir, version);
        fs::create_dir(&folder).map_err(|e| StoreError::io(&folder, e))?;
        Ok(Self { dir: dir.into(), folder, manifest: Manifest::new(meta, version, sequence), committed: false })
    }

    /// Adds a chunk of points.
    pub fn push(&mut self, points: &Upsert) -> Result<(), StoreError> {
        let name = format!("chunk-{:08}", self.manifest.chunks.len());
        let path = self.folder.join(&name);
        let (chunk, body) = Chunk::encode(name, points)?;
        write_file(&path, &body.parts)?;
        self.manifest.add(chunk);
        Ok(())
    }

    /// Commits the checkpoint. Each step is durable before the next begins.
    pub fn finish(mut self) -> Result<Manifest, StoreError> {
        // From here on the checkpoint may be committed, whatever fails.
        self.committed = true;
        write_atomic(&self.folder.join(MANIFEST), &self.manifest.seal())?;
        sync_dir(&self.dir)?;
        Ok(self.manifest.clone())
    }
}

impl Drop for CheckpointWriter {
    /// Frees the disk space of an unfinished checkpoint, which matters most when the disk is full.
    fn drop(&mut self) {
        if !self.committed
            && let Err(error) = remove(&self.folder)
        {
            tracing::warn!(%error, "cannot remove an unfinished checkpoint");
        }
    }
}

fn folder(dir: &Path, version: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{version:010}"))
}

/// The versions in a folder, complete or not, ascending.
fn versions(dir: &Path) -> Result<Vec<u64>, StoreError> {
    Ok(list(dir)?.iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect())
}

/// The newest committed checkpoint.
pub(crate) fn newest(dir: &Path) -> Result<Option<Manifest>, StoreError> {
    let complete = versions(dir)?.into_iter().rev().find(|version| folder(dir, *version).join(MANIFEST).exists());
    let Some(version) = complete else { return Ok(None) };
    let path = folder(dir, version).join(MANIFEST);
    let bytes = read_file(&path, MAX_JSON_BYTES)?;
    Manifest::unseal(&path.display().to_string(), &bytes).map(Some)
}

/// Iterates over a checkpoint's chunks.
pub(crate) fn chunks<'a>(
    dir: &Path,
    manifest: &'a Manifest,
) -> impl Iterator<Item = Result<Upsert, StoreError>> + use<'a> {
    let folder = folder(dir, manifest.version);
    manifest.chunks.iter().map(move |chunk| {
        let path = folder.join(&chunk.name);
        // One byte more than expected detects a file that is too long.
        let bytes = read_file(&path, chunk.size_bytes + 1)?;
        chunk.open(&path.display().to_string(), bytes.into(), manifest.collection.dim)
    })
}

/// Removes all checkpoints except one.
pub(crate) fn remove_others(dir: &Path, keep: Option<u64>) -> Result<(), StoreError> {
    let others = versions(dir)?.into_iter().filter(|version| Some(*version) != keep);
    others.map(|version| folder(dir, version)).try_for_each(|folder| {
        // Without its manifest a checkpoint is not committed, whatever other files a crash leaves.
        remove(&folder.join(MANIFEST))?;
        remove(&folder)
    })
}

/// Reads a file up to a limit.
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![];
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    read.map_err(|e| StoreError::io(path, e))?;
    Ok(bytes)
}
