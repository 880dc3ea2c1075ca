//! Snapshots: all points of a collection in an object store, for replication and backup.

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
use url::{ParseError, Url};

use crate::{
    Chunk, CollectionMeta, Manifest, StoreError, Upsert,
    disk::list,
    manifest::{MANIFEST, MAX_JSON_BYTES},
};

/// Supported URL schemes, and whether their URLs name a bucket or container.
const SCHEMES: [(&str, bool); 4] = [("file", false), ("s3", true), ("gs", true), ("az", true)];

/// Time that a failing request to an object store is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of access to an object store.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Options of the object stores by lower-case name (`aws_region`, ...). Each store ignores those it does not know.
    pub options: Vec<(String, String)>,
    /// Confines `file://` URLs to this folder, symbolic links resolved.
    pub within: Option<PathBuf>,
}

/// A folder in an object store.
#[derive(Clone, Debug)]
struct Folder {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// As given, without a trailing slash.
    url: String,
    local: Option<Local>,
}

/// A folder in the local file system.
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
    /// Suffix of the chunk names, unique among writers of one version.
    tag: String,
}

/// A committed snapshot.
#[derive(Clone, Debug)]
pub struct Written {
    /// URL of the snapshot.
    pub url: String,
    /// The table of contents.
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
    /// Starts the next snapshot in a folder, covering all records up to `sequence`. `tag` must be unique among
    /// concurrent writers.
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
            let found = newest.collection.name;
            let expected = meta.name;
            return Err(StoreError::OtherCollection { url: parent.url, found, expected });
        }
        let version = versions.last().map_or(1, |version| version + 1);
        let folder = parent.child(&version_name(version));
        Ok(Self { folder, manifest: Manifest::new(&meta, version, sequence), tag: tag.into() })
    }

    /// Adds a chunk of points.
    pub async fn push(&mut self, points: Upsert) -> Result<(), StoreError> {
        let name = format!("chunk-{:08}-{}", self.manifest.chunks.len(), self.tag);
        // Hashing would block an async worker thread for too long.
        let (chunk, body) = blocking(move || Chunk::encode(name, &points)).await?;
        self.folder.put(&chunk.name, PutPayload::from_iter(body.parts), PutMode::Overwrite).await?;
        self.manifest.add(chunk);
        Ok(())
    }

    /// Commits the snapshot by writing its manifest.
    pub async fn finish(self) -> Result<Written, StoreError> {
        let payload = PutPayload::from(self.manifest.seal());
        // The manifest is created, never overwritten: of two writers of one version, the second fails.
        self.folder.put(MANIFEST, payload, PutMode::Create).await?;
        Ok(Written { url: self.folder.url, manifest: self.manifest })
    }

    /// Removes the chunks written so far, ignoring failures.
    pub async fn abort(self) {
        for chunk in &self.manifest.chunks {
            let _ = self.folder.store.delete(&self.folder.path.clone().join(chunk.name.as_str())).await;
        }
    }
}

impl SnapshotReader {
    /// Opens the snapshot at the URL, or the newest one in that folder.
    pub async fn open(url: &str, access: &Access) -> Result<Self, StoreError> {
        let given = Folder::open(url, access)?;
        if let Some(manifest) = given.manifest().await? {
            return Ok(Self { folder: given, manifest, next: 0 });
        }
        let versions = given.versions().await?;
        let newest = given.newest(&versions).await?.ok_or_else(|| StoreError::NoSnapshot(url.into()))?;
        Ok(Self { folder: given.child(&version_name(newest.version)), manifest: newest, next: 0 })
    }

    /// The table of contents.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads and verifies the next chunk of points.
    pub async fn next(&mut self) -> Result<Option<Upsert>, StoreError> {
        let Some(chunk) = self.manifest.chunks.get(self.next).cloned() else { return Ok(None) };
        self.next += 1;
        let file = format!("{}/{}", self.folder.url, chunk.name);
        let bytes = self.folder.get(&chunk.name, chunk.size_bytes).await?;
        let bytes = bytes.ok_or_else(|| StoreError::damaged(&file, "the chunk does not exist"))?;
        let dim = self.manifest.collection.dim;
        blocking(move || chunk.open(&file, bytes, dim).map(Some)).await
    }
}

/// The committed snapshots of a collection in a folder, oldest first.
pub async fn snapshots(url: &str, access: &Access, collection: &str) -> Result<Vec<Written>, StoreError> {
    let parent = Folder::open(url, access)?;
    let mut found = vec![];
    for version in parent.versions().await? {
        let folder = parent.child(&version_name(version));
        let Some(manifest) = folder.manifest().await? else { continue };
        if manifest.collection.name != collection {
            let (found, expected) = (manifest.collection.name, collection.to_owned());
            return Err(StoreError::OtherCollection { url: parent.url, found, expected });
        }
        found.push(Written { url: folder.url, manifest });
    }
    Ok(found)
}

/// Deletes a committed snapshot: its manifest first, without which the chunks are no snapshot.
pub async fn delete_snapshot(snapshot: &Written, access: &Access) -> Result<(), StoreError> {
    let folder = Folder::open(&snapshot.url, access)?;
    folder.delete(MANIFEST).await?;
    for chunk in &snapshot.manifest.chunks {
        folder.delete(&chunk.name).await?;
    }
    if let Some(local) = folder.local {
        // It stays if a writer that failed has left something there.
        let _left = blocking(move || Ok(fs::remove_dir(&local.path))).await;
    }
    Ok(())
}

/// Parses a URL. Invalid ones, unsupported schemes, and URLs that lack a required bucket are errors.
pub fn parse_url(url: &str) -> Result<Url, StoreError> {
    parse(url).map(|(parsed, ..)| parsed)
}

fn parse(url: &str) -> Result<(Url, ObjectStoreScheme, Path), StoreError> {
    let bad = |reason: String| StoreError::Url { url: url.into(), reason };
    let parsed = Url::parse(url).map_err(|error| {
        let has_scheme = error != ParseError::RelativeUrlWithoutBase;
        bad(if has_scheme { error.to_string() } else { "it has no scheme, such as file://".into() })
    })?;
    check_scheme(&parsed).map_err(|error| error.unwrap_or_else(|| bad("a bucket or container is required".into())))?;
    let (scheme, path) = ObjectStoreScheme::parse(&parsed).map_err(|error| match parsed.scheme() {
        "file" => bad("expected file:/// and an absolute path".into()),
        _ => bad(error.to_string()),
    })?;
    Ok((parsed, scheme, path))
}

/// Checks that a folder can be listed. The folder may be missing, its bucket must exist.
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
        let (_, scheme, path) = parse(url)?;
        let mut local = None;
        let store: Arc<dyn ObjectStore> = if scheme == ObjectStoreScheme::Local {
            let files = LocalFileSystem::new().with_fsync(true);
            let folder = files.path_to_filesystem(&path).map_err(|e| bad(e.to_string()))?;
            local = Some(Local { path: folder, within: access.within.clone() });
            Arc::new(files)
        } else {
            check_endpoint(&scheme, &access.options).map_err(bad)?;
            remote(&scheme, url, &access.options).map_err(|e| bad(e.to_string()))?
        };
        Ok(Self { store, path, url: url.trim_end_matches('/').into(), local })
    }

    fn child(&self, name: &str) -> Self {
        let local = self.local.clone().map(|local| Local { path: local.path.join(name), ..local });
        let store = Arc::clone(&self.store);
        let path = self.path.clone().join(name);
        Self { store, path, url: format!("{}/{name}", self.url), local }
    }

    /// Rejects a name that resolves to a path outside `Access::within`.
    async fn confine(&self, name: &str) -> Result<(), StoreError> {
        let Some(Local { path, within: Some(within) }) = self.local.clone() else { return Ok(()) };
        let path = path.join(name);
        let url = self.url.clone();
        blocking(move || match (resolved(&path), resolved(&within)) {
            (Ok(path), Ok(within)) if path.starts_with(&within) => Ok(()),
            // A path that does not resolve gets the same error, so that callers cannot probe for files.
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

    /// Deletes an object, if it exists.
    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.confine(name).await?;
        match self.store.delete(&self.path.clone().join(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Reads an object of at most `limit` bytes; `None` if it does not exist.
    async fn get(&self, name: &str, limit: u64) -> Result<Option<Bytes>, StoreError> {
        self.confine(name).await?;
        let got = match self.store.get(&self.path.clone().join(name)).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            got => got.map_err(|e| self.error(e))?,
        };
        if got.meta.size > limit {
            let reason = format!("it has {} bytes, expected at most {limit}", got.meta.size);
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

    /// Reads the folder's names only: a listing by the object store's client would follow symbolic links.
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
        // Streams all objects and keeps the version from each path: a listing with a delimiter needs as many requests.
        let mut objects = self.store.list(Some(&self.path));
        let mut versions = BTreeSet::new();
        while let Some(object) = objects.next().await {
            let location = object.map_err(|error| self.error(error))?.location;
            let child = location.prefix_match(&self.path).and_then(|mut rest| rest.next());
            versions.extend(child.and_then(|child| parse_version(child.as_ref())));
        }
        Ok(versions.into_iter().collect())
    }

    /// The newest committed version.
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

/// Rejects unsupported schemes, and URLs that lack a required bucket (`None`).
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

/// Options of endpoints, and the option without which the client of their object store refuses http.
const ENDPOINTS: [(&str, &str); 5] = [
    ("aws_endpoint_url_s3", "aws_allow_http"),
    ("aws_endpoint_url", "aws_allow_http"),
    ("aws_endpoint", "aws_allow_http"),
    ("azure_storage_endpoint", "azure_allow_http"),
    ("azure_endpoint", "azure_allow_http"),
];

/// Rejects an endpoint that is not encrypted, unless the options allow it. The client of the object store would fail at the first
/// request, without the reason.
fn check_endpoint(scheme: &ObjectStoreScheme, options: &[(String, String)]) -> Result<(), String> {
    let prefixes = [(ObjectStoreScheme::AmazonS3, "aws_"), (ObjectStoreScheme::MicrosoftAzure, "azure_")];
    let Some((_, prefix)) = prefixes.into_iter().find(|(of, _)| of == scheme) else { return Ok(()) };
    let value = |wanted: &str| options.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let is_allowed = |option: &str| {
        let given = value(option).unwrap_or_default();
        ["true", "1", "yes", "on", "t", "y"].iter().any(|yes| given.eq_ignore_ascii_case(yes))
    };
    for (endpoint, allow) in ENDPOINTS.into_iter().filter(|(endpoint, _)| endpoint.starts_with(prefix)) {
        let is_plain = |given: &&str| given.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
        if let Some(given) = value(endpoint).filter(is_plain).filter(|_| !is_allowed(allow)) {
            let (endpoint, allow) = (endpoint.to_ascii_uppercase(), allow.to_ascii_uppercase());
            return Err(format!(
                "{endpoint} is {given}, over which data is not encrypted: set {allow}=true in the environment of the daemon \
                 to allow that, or use an https:// endpoint"
            ));
        }
    }
    Ok(())
}

/// A client of a remote object store, which retries failed requests within `RETRY_TIMEOUT`.
fn remote(
    scheme: &ObjectStoreScheme,
    url: &str,
    options: &[(String, String)],
) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
    // Fails if the process has installed a provider already, which serves as well.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig { max_retries: 4, retry_timeout: RETRY_TIMEOUT, backoff: BackoffConfig::default() };
    let client = ClientOptions::new().with_connect_timeout(CONNECT_TIMEOUT);
    /// Builds a client with the options that it knows.
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

/// Resolves the symbolic links of a path's existing part; components that do not exist have none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_without_encryption_names_the_variable_that_allows_it() {
        let access = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Access { options, within: None }
        };
        for (url, endpoint, allow) in [
            ("s3://bucket/a", "aws_endpoint_url", "AWS_ALLOW_HTTP=true"),
            ("s3://bucket/a", "aws_endpoint_url_s3", "AWS_ALLOW_HTTP=true"),
            ("az://container/a", "azure_storage_endpoint", "AZURE_ALLOW_HTTP=true"),
        ] {
            let plain = [(endpoint, "HTTP://minio:9000")];
            let refused = Folder::open(url, &access(&plain)).expect_err("it is not encrypted").to_string();
            assert!(refused.contains(allow) && refused.contains(&endpoint.to_ascii_uppercase()), "{refused}");
            let (allow, _) = allow.split_once('=').expect("a variable and its value");
            // Which Azure needs.
            let account = ("azure_storage_account_name", "account");
            let allowed = access(&[plain[0], account, (&allow.to_ascii_lowercase(), "true")]);
            let encrypted = access(&[(endpoint, "https://minio:9000"), account]);
            for fine in [allowed, encrypted] {
                assert!(Folder::open(url, &fine).is_ok_and(|folder| folder.local.is_none()), "{fine:?}");
            }
            assert!(Folder::open("file:///a", &access(&plain)).is_ok(), "the option of another store");
        }
        let forbidden = access(&[("aws_endpoint", "http://a"), ("aws_allow_http", "false")]);
        assert!(Folder::open("s3://bucket/a", &forbidden).is_err());
    }
}
