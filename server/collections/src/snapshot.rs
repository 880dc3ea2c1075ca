//! Snapshots of collections in object stores.

use std::sync::Arc;

use accelerd_store::{
    Access, CHUNK_BYTES, CollectionMeta, Damage, Record, SnapshotReader, SnapshotWriter, StoreError, Upsert, Written,
};
use url::Url;

use super::{
    Collection, Collections, Env, NameReservation, blocking,
    generation::Generation,
    meta, stopped,
    writer::{Log, View},
};
use crate::error::CollectionError;

/// A snapshot in an object store.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The argument of [`Collections::restore`].
    pub url: String,
    /// Increases with each snapshot of a collection.
    pub version: u64,
    /// Number of points.
    pub points: u64,
    /// Total size.
    pub bytes: u64,
    /// Creation time, in milliseconds since the Unix epoch.
    pub create_time_ms: u64,
}

impl From<Written> for Snapshot {
    fn from(Written { url, manifest }: Written) -> Self {
        Self {
            url,
            version: manifest.version,
            points: manifest.point_count,
            bytes: manifest.size_bytes,
            create_time_ms: manifest.create_time_ms,
        }
    }
}

/// A snapshot that is open for reading.
#[derive(Debug)]
pub struct OpenSnapshot(SnapshotReader);

impl OpenSnapshot {
    /// The name of the collection that the snapshot was made of.
    pub fn collection(&self) -> &str {
        &self.0.manifest().collection.name
    }

    /// Size of the points, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.manifest().size_bytes
    }
}

impl Collections {
    /// Writes a snapshot into a folder; an empty URL means the collection's subfolder of the configured one.
    pub async fn snapshot(self: &Arc<Self>, name: &str, url: &str) -> Result<Snapshot, CollectionError> {
        let collection = self.get(name)?;
        let (place, access) = self.env.snapshot_url(url, name)?;
        // A task of its own finishes or cleans up even if the caller is cancelled.
        let written = self.env.runtime.spawn(async move { collection.write_snapshot(&place, &access).await });
        let written = written.await.unwrap_or_else(|error| Err(stopped(&error)));
        written.map_err(|error| self.env.hide_if_default(url, error))
    }

    /// The snapshots of a collection in a folder, oldest first; an empty URL means its subfolder of the configured one. The collection
    /// need not exist any more.
    pub async fn snapshots(&self, name: &str, url: &str) -> Result<Vec<Snapshot>, CollectionError> {
        let (listed, _) = self.written(name, url).await?;
        Ok(listed.into_iter().map(Snapshot::from).collect())
    }

    /// Deletes the snapshots of a collection but for the newest `keep`, oldest first. Returns those that were deleted.
    pub async fn prune_snapshots(&self, name: &str, url: &str, keep: usize) -> Result<Vec<Snapshot>, CollectionError> {
        if keep == 0 {
            return Err(CollectionError::invalid("keep_count", "expected at least 1, got 0"));
        }
        let (mut listed, access) = self.written(name, url).await?;
        listed.truncate(listed.len().saturating_sub(keep));
        for snapshot in &listed {
            let deleted = accelerd_store::delete_snapshot(snapshot, &access).await.map_err(CollectionError::from);
            deleted.map_err(|error| self.env.hide_if_default(url, error))?;
            tracing::info!(collection = name, url = snapshot.url, "deleted a snapshot");
        }
        Ok(listed.into_iter().map(Snapshot::from).collect())
    }

    async fn written(&self, name: &str, url: &str) -> Result<(Vec<Written>, Access), CollectionError> {
        accelerd_store::check_name(name)?;
        let (folder, access) = self.env.snapshot_url(url, name)?;
        let listed = accelerd_store::snapshots(&folder, &access, name).await.map_err(CollectionError::from);
        Ok((listed.map_err(|error| self.env.hide_if_default(url, error))?, access))
    }

    /// Restores a collection from a snapshot, or from the newest in a folder. An empty name keeps the snapshot's. The
    /// collection is durable if the snapshot's was and this daemon has a data folder.
    pub async fn restore(self: &Arc<Self>, url: &str, name: &str) -> Result<Arc<Collection>, CollectionError> {
        let snapshot = self.open_snapshot(url).await?;
        self.restore_opened(snapshot, name, "").await
    }

    /// Opens a snapshot, or the newest in a folder, to be restored.
    pub async fn open_snapshot(&self, url: &str) -> Result<OpenSnapshot, CollectionError> {
        let access = self.env.access(url)?;
        Ok(OpenSnapshot(SnapshotReader::open(url, &access).await?))
    }

    /// Restores a collection as [`Self::restore`] does, for a principal.
    pub async fn restore_opened(
        self: &Arc<Self>,
        OpenSnapshot(reader): OpenSnapshot,
        name: &str,
        owner: &str,
    ) -> Result<Arc<Collection>, CollectionError> {
        let mut meta = reader.manifest().collection.clone();
        owner.clone_into(&mut meta.owner);
        if !name.is_empty() {
            name.clone_into(&mut meta.name);
        }
        accelerd_store::check_name(&meta.name)?;
        let max_dimensions = self.env.settings.max_dimensions;
        if !(1..=max_dimensions).contains(&meta.dim) {
            return Err(CollectionError::invalid(
                "url",
                format!("it has vectors of dim {}, expected 1 to {max_dimensions}", meta.dim),
            ));
        }
        meta.durable &= self.env.store.is_some();
        let reserved = self.reserve(&meta.name)?;
        let env = Arc::clone(&self.env);
        let device = self.pick_device();
        let restored = self.env.runtime.spawn(async move {
            let generation = meta::new_generation(&meta, device, &env.budget);
            let restore = Restore { env, meta, generation, reserved };
            restore.run(reader).await
        });
        restored.await.unwrap_or_else(|error| Err(stopped(&error)))
    }
}

impl Collection {
    async fn write_snapshot(&self, url: &str, access: &Access) -> Result<Snapshot, CollectionError> {
        let _one_at_a_time = self.snapshots.lock().await;
        let _memory = self.shared().env.working_memory.chunk().await;
        let view = self.view().await?;
        let tag = uuid::Uuid::new_v4().simple().to_string();
        let mut writer =
            SnapshotWriter::create(url, access, self.shared().current_meta(), view.sequence, &tag[..8]).await?;
        if let Err(error) = push_all(&mut writer, &view).await {
            writer.abort().await;
            return Err(error);
        }
        let written = writer.finish().await?;
        let points = written.manifest.point_count;
        tracing::info!(collection = self.meta().name, url = written.url, points, "snapshot");
        Ok(written.into())
    }
}

async fn push_all(writer: &mut SnapshotWriter, view: &View) -> Result<(), CollectionError> {
    for rows in view.chunks(CHUNK_BYTES) {
        let generation = Arc::clone(&view.generation);
        let rows = rows.to_vec();
        let points = blocking(move || Ok(generation.export(&rows))).await?;
        writer.push(points).await?;
    }
    Ok(())
}

impl Env {
    /// The URL of a collection's snapshots and the access to it.
    fn snapshot_url(&self, given: &str, name: &str) -> Result<(String, Access), CollectionError> {
        let configured = self.settings.snapshot_url.trim_end_matches('/');
        match (given, configured) {
            ("", "") => {
                Err(CollectionError::invalid("url", "expected the URL of a folder, got none, and none is configured"))
            }
            ("", configured) => {
                let url = format!("{configured}/{name}");
                let access = self.access(&url)?;
                Ok((url, access))
            }
            (given, _) => Ok((given.to_owned(), self.access(given)?)),
        }
    }

    /// Access to a URL if it is within a folder that the settings allow.
    fn access(&self, given: &str) -> Result<Access, CollectionError> {
        if given.is_empty() {
            return Err(CollectionError::invalid("url", "expected the URL of a snapshot or of their folder, got none"));
        }
        let url = accelerd_store::parse_url(given)?;
        let offered = self.settings.snapshot_folders.iter().chain([&self.settings.snapshot_url]);
        let mut offered = offered.filter_map(|folder| Url::parse(folder).ok());
        if let Some(folder) = offered.find(|folder| is_within(&url, folder)) {
            let options = self.settings.object_options.clone();
            return Ok(Access { options, within: folder.to_file_path().ok() });
        }
        let reason = "is neither in store.snapshot_url nor in store.snapshot_folders of the daemon's settings";
        Err(CollectionError::Denied(format!("url: {given} {reason}")))
    }

    /// Removes the URL of the configured folder from an error of a caller who did not name it, to whom it is not disclosed.
    fn hide_if_default(&self, given: &str, error: CollectionError) -> CollectionError {
        if given.is_empty() { self.hide_default(error) } else { error }
    }

    /// Removes the URL of the configured folder from an error.
    fn hide_default(&self, error: CollectionError) -> CollectionError {
        let hide =
            |message: String| message.replace(self.settings.snapshot_url.trim_end_matches('/'), "store.snapshot_url");
        match error {
            CollectionError::Unavailable(message) => CollectionError::Unavailable(hide(message)),
            CollectionError::DataLoss(message) => CollectionError::DataLoss(hide(message)),
            CollectionError::Denied(message) => CollectionError::Denied(hide(message)),
            CollectionError::Invalid { field, reason } => CollectionError::Invalid { field, reason: hide(reason) },
            other @ (CollectionError::NotFound { .. }
            | CollectionError::AlreadyExists { .. }
            | CollectionError::Embedder(_)
            | CollectionError::Refused(_)
            | CollectionError::MemoryLimit(_)
            | CollectionError::Exhausted(_)
            | CollectionError::TextIndex(_)
            | CollectionError::Submit(_)) => other,
        }
    }
}

/// Returns true if a URL is a folder or below it. `Url` has resolved dot segments; encoded slashes and dots, which could hide
/// more, are rejected.
fn is_within(url: &Url, folder: &Url) -> bool {
    let segments = |url: &Url| -> Vec<String> {
        url.path_segments().into_iter().flatten().filter(|s| !s.is_empty()).map(str::to_owned).collect()
    };
    let hidden =
        |segment: &String| ["%2f", "%5c", "%2e"].iter().any(|code| segment.to_ascii_lowercase().contains(code));
    let inner = segments(url);
    let outer = segments(folder);
    let same = (url.scheme(), url.host_str(), url.port()) == (folder.scheme(), folder.host_str(), folder.port());
    same && inner.starts_with(&outer) && !inner.iter().any(hidden)
}

/// A restore in progress.
struct Restore {
    env: Arc<Env>,
    meta: CollectionMeta,
    generation: Generation,
    reserved: NameReservation,
}

impl Restore {
    async fn run(self, mut reader: SnapshotReader) -> Result<Arc<Collection>, CollectionError> {
        let Self { env, meta, generation, reserved } = self;
        let meta = Arc::new(meta);
        let generation = Arc::new(generation);
        let _memory = env.working_memory.chunk().await;
        let mut staged = stage(&env, &meta).await?;
        // Released once the started collection has reserved its actual use.
        let mut held = env.budget.empty_reservation();
        while let Some(points) = reader.next().await? {
            held.try_resize(required_bytes(&generation, &points))?;
            let (meta, generation) = (Arc::clone(&meta), Arc::clone(&generation));
            staged = blocking(move || {
                if let Some(staged) = &mut staged {
                    staged.push(&points)?;
                }
                let damaged = |reason| StoreError::Damaged { file: format!("the snapshot of {:?}", meta.name), reason };
                let decoded = meta::decode(&meta, Record::Upsert(points)).map_err(damaged)?;
                generation.replay(&*generation.corpus, decoded).map_err(damaged)?;
                Ok(staged)
            })
            .await?;
        }
        let generation = Arc::into_inner(generation).ok_or(StoreError::Closed)?;
        let meta = Arc::unwrap_or_clone(meta);
        blocking(move || {
            let bytes = generation.corpus.host_bytes();
            let journal = staged.map(accelerd_store::Staged::commit).transpose()?;
            let log = Log { journal, sequence: 0, checkpoint_bytes: bytes };
            let started = reserved.fill(Collection::start(env, meta, generation, log, Damage::default()));
            drop(held);
            Ok(started)
        })
        .await
    }
}

/// Peak bytes of a generation while these points are added.
pub(super) fn required_bytes(generation: &Generation, points: &Upsert) -> u64 {
    let payload: usize = points.payloads.iter().map(bytes::Bytes::len).sum();
    // An encoded field takes at least two bytes.
    let growth = generation.growth_bytes(points.ids.len(), payload / 2);
    generation.row_bytes() + growth + (points.vectors.len() + payload) as u64
}

async fn stage(env: &Arc<Env>, meta: &Arc<CollectionMeta>) -> Result<Option<accelerd_store::Staged>, CollectionError> {
    let (env, meta) = (Arc::clone(env), Arc::clone(meta));
    blocking(move || match &env.store {
        Some(store) if meta.durable => Ok(Some(store.stage(&meta)?)),
        Some(_) | None => Ok(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_below_a_folder_are_within_it() {
        let within =
            |url: &str, folder: &str| is_within(&Url::parse(url).expect("a URL"), &Url::parse(folder).expect("a URL"));
        for url in ["file:///snapshots", "file:///snapshots/", "file:///snapshots/a/v1", "file:///x/../snapshots/a"] {
            assert!(within(url, "file:///snapshots"), "{url}");
        }
        for url in [
            "file:///",
            "file:///snapshots-of-others",
            "file:///snapshots/../etc",
            "file:///snapshots/%2e%2e/etc",
            "file:///snapshots/..%2fetc",
            "file:///snapshots/a%2F..%2F..%2Fetc",
            "s3://snapshots/a",
        ] {
            assert!(!within(url, "file:///snapshots"), "{url}");
        }
        assert!(within("s3://bucket/a/b", "s3://bucket/a/"));
        assert!(!within("s3://other/a/b", "s3://bucket/a"));
    }
}
