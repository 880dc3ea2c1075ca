//! Snapshots: all points of a collection in an object store, for other replicas and for later.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt as _;
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt as _, ObjectStoreScheme, PutMode, PutOptions, PutPayload,
    RetryConfig, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder, gcp::GoogleCloudStorageBuilder,
    local::LocalFileSystem, path::Path,
};
use url::Url;

use crate::{
    Chunk, CollectionMeta, Manifest, StoreError, Upsert,
    disk::list,
    manifest::{MANIFEST, MAX_JSON_BYTES},
};

/// Schemes of object stores, and whether their URLs name a bucket or container.
const SCHEMES: [(&str, bool); 4] = [("file", false), ("s3", true), ("gs", true), ("az", true)];

/// How long a request to an object store is tried again, and a connection to it may take.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a folder in an object store is reached.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The object stores' own options, by lower-case names (`aws_region`, ...). Each takes those it knows.
    pub options: Vec<(String, String)>,
    /// In the file system, a folder that nothing may lead out of, not even a symbolic link.
    pub within: Option<PathBuf>,
}

/// A folder in an object store.
#[derive(Clone, Debug)]
struct Folder {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// As given, without a slash at the end.
    url: String,
    local: Option<Local>,
}

/// A folder of the file system.
#[derive(Clone, Debug)]
struct Local {
    path: PathBuf,
    within: Option<PathBuf>,
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
    pub async fn create(
        url: &str,
        access: &Access,
        meta: CollectionMeta,
        sequence: u64,
        tag: &str,
    ) -> Result<Self, StoreError> {
        let parent = Folder::open(url, access)?;
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
    pub async fn open(url: &str, access: &Access) -> Result<Self, StoreError> {
        let given = Folder::open(url, access)?;
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

/// Refuses what can never be a folder of snapshots: what is no URL, unknown schemes, and URLs without the bucket they need.
pub fn check_url(url: &str) -> Result<(), StoreError> {
    parse(url).map(drop)
}

fn parse(url: &str) -> Result<(ObjectStoreScheme, Path), StoreError> {
    let bad = |reason: String| StoreError::Url { url: url.into(), reason };
    let parsed = Url::parse(url).map_err(|e| bad(e.to_string()))?;
    check_scheme(&parsed).map_err(|error| error.unwrap_or_else(|| bad("it names no bucket or container".into())))?;
    ObjectStoreScheme::parse(&parsed).map_err(|error| match parsed.scheme() {
        "file" => bad("a file URL has three slashes and an absolute path".into()),
        _ => bad(error.to_string()),
    })
}

/// Asks whether a folder can be reached and listed. A folder that is not there yet is fine; a bucket that is not is not.
pub async fn probe(url: &str, access: &Access) -> Result<(), StoreError> {
    let folder = Folder::open(url, access)?;
    if folder.local.is_some() {
        return folder.versions().await.map(drop);
    }
    match folder.store.list(Some(&folder.path)).next().await {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(folder.error(error)),
    }
}

impl Folder {
    fn open(url: &str, access: &Access) -> Result<Self, StoreError> {
        let bad = |reason: String| StoreError::Url { url: url.into(), reason };
        let (scheme, path) = parse(url)?;
        let mut local = None;
        let store: Arc<dyn ObjectStore> = if scheme == ObjectStoreScheme::Local {
            let files = LocalFileSystem::new().with_fsync(true);
            let folder = files.path_to_filesystem(&path).map_err(|e| bad(e.to_string()))?;
            local = Some(Local { path: folder, within: access.within.clone() });
            Arc::new(files)
        } else {
            remote(&scheme, url, &access.options).map_err(|e| bad(e.to_string()))?
        };
        Ok(Self { store, path, url: url.trim_end_matches('/').into(), local })
    }

    fn child(&self, name: &str) -> Self {
        let local = self.local.clone().map(|local| Local { path: local.path.join(name), ..local });
        let (store, path) = (Arc::clone(&self.store), self.path.clone().join(name));
        Self { store, path, url: format!("{}/{name}", self.url), local }
    }

    /// Refuses a name that leads out of where callers may go.
    async fn confine(&self, name: &str) -> Result<(), StoreError> {
        let Some(Local { path, within: Some(within) }) = self.local.clone() else { return Ok(()) };
        let (path, url) = (path.join(name), self.url.clone());
        blocking(move || match (resolved(&path), resolved(&within)) {
            (Ok(path), Ok(within)) if path.starts_with(&within) => Ok(()),
            // What does not resolve and what may not be seen look alike.
            _ => Err(StoreError::Outside(url)),
        })
        .await
    }

    fn error(&self, source: object_store::Error) -> StoreError {
        StoreError::Object { url: self.url.clone(), source: Arc::new(source) }
    }

    async fn put(&self, name: &str, payload: PutPayload, mode: PutMode) -> Result<(), StoreError> {
        self.confine(name).await?;
        let options = PutOptions { mode, ..PutOptions::default() };
        let path = self.path.clone().join(name);
        self.store.put_opts(&path, payload, options).await.map_err(|e| self.error(e))?;
        Ok(())
    }

    /// An object of at most `limit` bytes, if it is there.
    async fn get(&self, name: &str, limit: u64) -> Result<Option<Bytes>, StoreError> {
        self.confine(name).await?;
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
        match &self.local {
            Some(local) => self.local_versions(local.path.clone()).await,
            None => self.remote_versions().await,
        }
    }

    /// Names alone: a listing of objects would follow symbolic links, wherever they lead.
    async fn local_versions(&self, folder: PathBuf) -> Result<Vec<u64>, StoreError> {
        self.confine("").await?;
        let names = blocking(move || match list(&folder) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(vec![]),
            listed => listed,
        });
        let versions: BTreeSet<_> = names.await?.iter().filter_map(|name| parse_version(name)).collect();
        Ok(versions.into_iter().collect())
    }

    async fn remote_versions(&self) -> Result<Vec<u64>, StoreError> {
        // Listed as a stream and cut at the version's folder: a listing with delimiters would need the same requests.
        let mut objects = self.store.list(Some(&self.path));
        let mut versions = BTreeSet::new();
        while let Some(object) = objects.next().await {
            let location = object.map_err(|error| self.error(error))?.location;
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

/// Refuses unknown schemes, and known ones without the bucket that they need (`None`).
fn check_scheme(url: &Url) -> Result<(), Option<StoreError>> {
    let scheme = url.scheme();
    match SCHEMES.iter().find(|(known, _)| *known == scheme) {
        Some((_, has_bucket)) if *has_bucket && url.host_str().is_none_or(str::is_empty) => Err(None),
        Some(_) => Ok(()),
        None => {
            let known = SCHEMES.map(|(scheme, _)| format!("{scheme}://")).join(", ");
            Err(Some(StoreError::Scheme { scheme: scheme.into(), known }))
        }
    }
}

/// A store over the network. Requests are tried again for a while, and not for as long as a caller would ever wait.
fn remote(
    scheme: &ObjectStoreScheme,
    url: &str,
    options: &[(String, String)],
) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
    // Another user of the process may have installed one already, which is as good.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig { max_retries: 4, retry_timeout: RETRY_TIMEOUT, backoff: BackoffConfig::default() };
    let client = ClientOptions::new().with_connect_timeout(CONNECT_TIMEOUT);
    /// Builds a store with the options that it knows.
    macro_rules! build {
        ($builder:ty) => {{
            let mut builder = <$builder>::new().with_client_options(client).with_retry(retry).with_url(url);
            for (name, value) in options {
                if let Ok(name) = name.parse() {
                    builder = builder.with_config(name, value);
                }
            }
            Ok(Arc::new(builder.build()?))
        }};
    }
    if *scheme == ObjectStoreScheme::AmazonS3 {
        build!(AmazonS3Builder)
    } else if *scheme == ObjectStoreScheme::GoogleCloudStorage {
        build!(GoogleCloudStorageBuilder)
    } else {
        build!(MicrosoftAzureBuilder)
    }
}

/// A path without symbolic links, as far as it exists; what does not exist below that has none.
fn resolved(path: &FilePath) -> io::Result<PathBuf> {
    for ancestor in path.ancestors() {
        if fs::symlink_metadata(ancestor).is_ok() {
            let rest = path.strip_prefix(ancestor).unwrap_or(FilePath::new(""));
            let real = ancestor.canonicalize()?;
            return Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Closed))
}
