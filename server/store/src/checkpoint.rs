//! Checkpoints: all points of a collection in local files, so that older log files can be removed.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::{
    CHUNK_BYTES, Chunk, CollectionMeta, Damage, Manifest, StoreError, Upsert,
    disk::{list, remove, sync_dir, write_atomic, write_file},
    manifest::{MANIFEST, MAX_JSON_BYTES},
};

const PREFIX: &str = "checkpoint-";
const CHUNK_PREFIX: &str = "chunk-";

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
    pub(crate) fn create(dir: &Path, meta: &CollectionMeta, sequence: u64) -> Result<Self, StoreError> {
        let version = versions(dir)?.last().map_or(1, |version| version + 1);
        let folder = folder(dir, version);
        fs::create_dir(&folder).map_err(|e| StoreError::io(&folder, e))?;
        Ok(Self { dir: dir.into(), folder, manifest: Manifest::new(meta, version, sequence), committed: false })
    }

    /// Adds a chunk of points.
    pub fn push(&mut self, points: &Upsert) -> Result<(), StoreError> {
        let name = format!("{CHUNK_PREFIX}{:08}", self.manifest.chunks.len());
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

/// A checkpoint to be read.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    /// `None` if there is no committed checkpoint.
    pub(crate) version: Option<u64>,
    /// Sequence number of the last record that it includes; 0 for none. `None` if its manifest is damaged.
    pub(crate) covered: Option<u64>,
    folder: PathBuf,
    contents: Contents,
}

/// Description of the chunks of a checkpoint.
#[derive(Debug)]
enum Contents {
    Manifest(Box<Manifest>),
    /// Chunks whose SHA-256 is in a damaged manifest.
    Salvaged(Vec<String>),
}

impl Default for Contents {
    fn default() -> Self {
        Self::Salvaged(vec![])
    }
}

impl Checkpoint {
    /// The newest committed checkpoint with a whole manifest, or else what is left of the newest one with a damaged
    /// manifest.
    pub(crate) fn newest(dir: &Path, damage: &mut Damage) -> Result<Self, StoreError> {
        let mut salvaged = None;
        for version in versions(dir)?.into_iter().rev() {
            let folder = folder(dir, version);
            let version = Some(version);
            let path = folder.join(MANIFEST);
            if !path.exists() {
                continue;
            }
            let bytes = read_file(&path, MAX_JSON_BYTES);
            let manifest = bytes.clone().and_then(|bytes| Manifest::unseal(&path.display().to_string(), &bytes));
            match manifest {
                Ok(manifest) => {
                    let covered = Some(manifest.sequence);
                    let contents = Contents::Manifest(Box::new(manifest));
                    return Ok(Self { version, covered, folder, contents });
                }
                Err(error) if error.is_unreadable() || matches!(error, StoreError::Damaged { .. }) => {
                    damage.add(error);
                    salvaged = salvaged.or(Some((version, folder, bytes.unwrap_or_default())));
                }
                Err(error) => return Err(error),
            }
        }
        let Some((version, folder, manifest)) = salvaged else {
            return Ok(Self { covered: Some(0), ..Self::default() });
        };
        let contents = Contents::Salvaged(salvage(&folder, &manifest)?);
        Ok(Self { version, covered: None, folder, contents })
    }

    /// Fails if it describes another collection.
    pub(crate) fn check_same(&self, meta: &CollectionMeta) -> Result<(), StoreError> {
        match &self.contents {
            Contents::Manifest(manifest) if !manifest.collection.is_same(meta) => {
                let name = format!("checkpoint {} of {}", manifest.version, meta.name);
                Err(StoreError::damaged(name, "it describes another collection"))
            }
            Contents::Manifest(_) | Contents::Salvaged(_) => Ok(()),
        }
    }

    pub(crate) fn chunk_count(&self) -> usize {
        match &self.contents {
            Contents::Manifest(manifest) => manifest.chunks.len(),
            Contents::Salvaged(names) => names.len(),
        }
    }

    /// Bytes of all chunks.
    pub(crate) fn size_bytes(&self) -> u64 {
        match &self.contents {
            Contents::Manifest(manifest) => manifest.size_bytes,
            Contents::Salvaged(_) => 0,
        }
    }

    /// Bytes of a chunk.
    pub(crate) fn bytes_of(&self, index: usize) -> usize {
        match &self.contents {
            Contents::Manifest(manifest) => usize::try_from(manifest.chunks[index].size_bytes).unwrap_or(usize::MAX),
            Contents::Salvaged(_) => CHUNK_BYTES,
        }
    }

    fn path(&self, index: usize) -> PathBuf {
        match &self.contents {
            Contents::Manifest(manifest) => self.folder.join(&manifest.chunks[index].name),
            Contents::Salvaged(names) => self.folder.join(&names[index]),
        }
    }

    /// Reads and checks a chunk.
    pub(crate) fn read(&self, index: usize, dim: u32) -> Result<Upsert, StoreError> {
        let path = self.path(index);
        let file = path.display().to_string();
        match &self.contents {
            Contents::Manifest(manifest) => {
                let chunk = &manifest.chunks[index];
                // One byte more than expected detects a file that is too long.
                let bytes = read_file(&path, chunk.size_bytes.saturating_add(1))?;
                chunk.open(&file, bytes.into(), dim)
            }
            Contents::Salvaged(_) => {
                let points = Upsert::parse(read_file(&path, MAX_JSON_BYTES)?.into());
                let points = points.and_then(|points| match points.dim {
                    found if found == dim => Ok(points),
                    found => Err(format!("expected points of dim {dim}, got {found}")),
                });
                points.map_err(|reason| StoreError::damaged(file, reason))
            }
        }
    }

    /// The error of a chunk whose contents are invalid.
    pub(crate) fn damaged(&self, index: usize, reason: String) -> StoreError {
        StoreError::damaged(self.path(index).display().to_string(), reason)
    }
}

/// The chunks in a folder whose SHA-256 occurs in a damaged manifest: they are what it listed, whatever else it said.
fn salvage(folder: &Path, manifest: &[u8]) -> Result<Vec<String>, StoreError> {
    let text = String::from_utf8_lossy(manifest);
    let is_listed = |name: &String| {
        let bytes = read_file(&folder.join(name), MAX_JSON_BYTES)?;
        Ok(text.contains(&hex::encode(Sha256::digest(&bytes))))
    };
    let names = list(folder)?.into_iter().filter(|name| name.starts_with(CHUNK_PREFIX));
    let listed = names.map(|name| Ok(is_listed(&name)?.then_some(name)));
    listed.filter_map(Result::transpose).collect()
}

/// Bytes of the chunks in a collection's folder.
pub(crate) fn size_bytes(dir: &Path) -> Result<u64, StoreError> {
    let folders = versions(dir)?.into_iter().map(|version| folder(dir, version));
    let bytes = |folder: PathBuf| -> Result<u64, StoreError> {
        let len = |name: String| fs::metadata(folder.join(name)).map_or(0, |data| data.len());
        Ok(list(&folder)?.into_iter().map(len).sum())
    };
    folders.map(bytes).sum()
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
