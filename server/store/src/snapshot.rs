//! Snapshots: all points of a collection in an object store, for other replicas and for later.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, local::LocalFileSystem, path::Path,
};
use url::Url;

use crate::{
    Chunk, CollectionMeta, Manifest, StoreError, Upsert,
    manifest::{MANIFEST, MAX_JSON_BYTES},
};

/// Schemes by the feature that builds them in.
const SCHEMES: [(&str, bool); 4] =
    [("file", true), ("s3", cfg!(feature = "s3")), ("gs", cfg!(feature = "gs")), ("az", cfg!(feature = "az"))];

/// A folder in an object store.
#[derive(Clone, Debug)]
struct Folder {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// As given, without a slash at the end.
    url: String,
}

/// Writes a snapshot, chunk by chunk.
#[derive(Debug)]
pub struct SnapshotWriter {
    folder: Folder,
    manifest: Manifest,
    /// Makes this writer's chunk names its own, should two write one version at once.
    tag: String,
}

/// A snapshot that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its URL.
    pub url: String,
    /// Its table of contents.
    pub manifest: Manifest,
}

/// Reads a snapshot, chunk by chunk.
#[derive(Debug)]
pub struct SnapshotReader {
    folder: Folder,
    manifest: Manifest,
    next: usize,
}

impl SnapshotWriter {
    /// Starts the next snapshot in a folder, with all records up to `sequence`. `tag` tells writers apart.
    ///
    /// Options are the object store's own (`aws_region`, ...).
    pub async fn create(
        url: &str,
        options: &[(String, String)],
        meta: CollectionMeta,
        sequence: u64,
        tag: &str,
    ) -> Result<Self, StoreError> {
        let parent = Folder::open(url, options)?;
        let versions = parent.versions().await?;
        if let Some(newest) = parent.newest(&versions).await?
            && newest.collection.name != meta.name
        {
            let (found, expected) = (newest.collection.name, meta.name);
            return Err(StoreError::OtherCollection { url: parent.url, found, expected });
        }
        let version = versions.last().map_or(1, |version| version + 1);
        let folder = parent.child(&version_name(version));
        Ok(Self { folder, manifest: Manifest::new(meta, version, sequence), tag: tag.into() })
    }

    /// Adds a chunk of points.
    pub async fn push(&mut self, points: Upsert) -> Result<(), StoreError> {
        let name = format!("chunk-{:08}-{}", self.manifest.chunks.len(), self.tag);
        // Hashing takes long enough to be felt on a reactor thread.
        let (chunk, body) = blocking(move || Chunk::encode(name, &points)).await?;
        self.folder.put(&chunk.name, PutPayload::from_iter(body.parts), PutMode::Overwrite).await?;
        self.manifest.add(chunk);
        Ok(())
    }

    /// Makes it count.
    pub async fn finish(self) -> Result<Written, StoreError> {
        let payload = PutPayload::from(self.manifest.seal());
        // Created, not overwritten: of two writers of one version one fails, and the other's snapshot is whole.
        self.folder.put(MANIFEST, payload, PutMode::Create).await?;
        Ok(Written { url: self.folder.url, manifest: self.manifest })
    }

    /// Removes what was written, as far as that works.
    pub async fn abort(self) {
        for chunk in &self.manifest.chunks {
            let _ = self.folder.store.delete(&self.folder.path.clone().join(chunk.name.as_str())).await;
        }
    }
}

impl SnapshotReader {
    /// Opens a snapshot, or the newest in a folder of them.
    pub async fn open(url: &str, options: &[(String, String)]) -> Result<Self, StoreError> {
        let given = Folder::open(url, options)?;
        if let Some(manifest) = given.manifest().await? {
            return Ok(Self { folder: given, manifest, next: 0 });
        }
        let versions = given.versions().await?;
        let newest = given.newest(&versions).await?.ok_or_else(|| StoreError::NoSnapshot(url.into()))?;
        Ok(Self { folder: given.child(&version_name(newest.version)), manifest: newest, next: 0 })
    }

    /// Its table of contents.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The next chunk of points, checked.
    pub async fn next(&mut self) -> Result<Option<Upsert>, StoreError> {
        let Some(chunk) = self.manifest.chunks.get(self.next).cloned() else { return Ok(None) };
        self.next += 1;
        let file = format!("{}/{}", self.folder.url, chunk.name);
        let bytes = self.folder.get(&chunk.name, chunk.size_bytes).await?;
        let bytes = bytes.ok_or_else(|| StoreError::damaged(&file, "the chunk is not there"))?;
        let dim = self.manifest.collection.dim;
        blocking(move || chunk.open(&file, bytes, dim).map(Some)).await
    }
}

impl Folder {
    fn open(url: &str, options: &[(String, String)]) -> Result<Self, StoreError> {
        let bad = |reason: String| StoreError::Url { url: url.into(), reason };
        let parsed = Url::parse(url).map_err(|e| bad(e.to_string()))?;
        check_scheme(parsed.scheme())?;
        let options = options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let (store, path) = object_store::parse_url_opts(&parsed, options).map_err(|e| bad(e.to_string()))?;
        let store: Arc<dyn ObjectStore> = if parsed.scheme() == "file" {
            if parsed.host_str().is_some_and(|host| !host.is_empty()) {
                return Err(bad("a file URL has three slashes and an absolute path".into()));
            }
            Arc::new(LocalFileSystem::new().with_fsync(true))
        } else {
            store.into()
        };
        Ok(Self { store, path, url: url.trim_end_matches('/').into() })
    }

    fn child(&self, name: &str) -> Self {
        Self { store: Arc::clone(&self.store), path: self.path.clone().join(name), url: format!("{}/{name}", self.url) }
    }

    fn error(&self, source: object_store::Error) -> StoreError {
        StoreError::Object { url: self.url.clone(), source: Arc::new(source) }
    }

    async fn put(&self, name: &str, payload: PutPayload, mode: PutMode) -> Result<(), StoreError> {
        let options = PutOptions { mode, ..PutOptions::default() };
        let path = self.path.clone().join(name);
        self.store.put_opts(&path, payload, options).await.map_err(|e| self.error(e))?;
        Ok(())
    }

    /// An object of at most `limit` bytes, if it is there.
    async fn get(&self, name: &str, limit: u64) -> Result<Option<Bytes>, StoreError> {
        let got = match self.store.get(&self.path.clone().join(name)).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            got => got.map_err(|e| self.error(e))?,
        };
        if got.meta.size > limit {
            let reason = format!("it has {} bytes, at most {limit} were expected", got.meta.size);
            return Err(StoreError::damaged(format!("{}/{name}", self.url), reason));
        }
        got.bytes().await.map(Some).map_err(|e| self.error(e))
    }

    async fn manifest(&self) -> Result<Option<Manifest>, StoreError> {
        let bytes = self.get(MANIFEST, MAX_JSON_BYTES).await?;
        bytes.map(|bytes| Manifest::unseal(&format!("{}/{MANIFEST}", self.url), &bytes)).transpose()
    }

    /// Versions in the folder, complete or not, ascending.
    async fn versions(&self) -> Result<Vec<u64>, StoreError> {
        // Listed as a stream and cut at the version's folder: a listing with delimiters would need the same requests.
        let mut objects = self.store.list(Some(&self.path));
        let mut versions = std::collections::BTreeSet::new();
        while let Some(object) = objects.next().await {
            let location = match object {
                Ok(object) => object.location,
                Err(object_store::Error::NotFound { .. }) => break,
                Err(e) => return Err(self.error(e)),
            };
            let child = location.prefix_match(&self.path).and_then(|mut rest| rest.next());
            versions.extend(child.and_then(|child| parse_version(child.as_ref())));
        }
        Ok(versions.into_iter().collect())
    }

    /// The newest version that is complete.
    async fn newest(&self, versions: &[u64]) -> Result<Option<Manifest>, StoreError> {
        for version in versions.iter().rev() {
            if let Some(manifest) = self.child(&version_name(*version)).manifest().await? {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }
}

fn version_name(version: u64) -> String {
    format!("v{version:010}")
}

fn parse_version(name: &str) -> Option<u64> {
    name.strip_prefix('v').filter(|digits| digits.len() >= 10)?.parse().ok()
}

fn check_scheme(scheme: &str) -> Result<(), StoreError> {
    let known: Vec<_> = SCHEMES.iter().filter(|(_, built_in)| *built_in).map(|(scheme, _)| *scheme).collect();
    if known.contains(&scheme) {
        return Ok(());
    }
    let known = known.iter().map(|scheme| format!("{scheme}://")).collect::<Vec<_>>().join(", ");
    Err(StoreError::Scheme { scheme: scheme.into(), known })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Closed))
}
