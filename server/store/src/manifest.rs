//! The table of contents of a checkpoint or snapshot, and the seal on JSON files.

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use crate::{CollectionMeta, StoreError, Upsert, meta::check_format, record::Body};

/// Name of the manifest in its folder.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Maximum size of a manifest or collection description: about 30 million chunks.
pub(crate) const MAX_JSON_BYTES: u64 = 4 << 30;

/// One chunk of a checkpoint or snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Name in the folder.
    pub name: String,
    /// Points in it.
    pub point_count: u64,
    /// Its size.
    pub size_bytes: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// The table of contents of a checkpoint or snapshot. It is written last and commits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format version.
    pub format: u32,
    /// Increases with each checkpoint or snapshot.
    pub version: u64,
    /// The collection.
    pub collection: CollectionMeta,
    /// Sequence number of the last included record.
    pub sequence: u64,
    /// Points in it.
    pub point_count: u64,
    /// Size of its chunks.
    pub size_bytes: u64,
    /// Creation time, in milliseconds since 1970.
    pub create_time_ms: u64,
    /// The chunks, in the order of the points.
    pub chunks: Vec<Chunk>,
}

impl Manifest {
    /// The format this version writes, and the newest it reads.
    pub const FORMAT: u32 = 1;

    /// A manifest without chunks.
    pub(crate) fn new(collection: &CollectionMeta, version: u64, sequence: u64) -> Self {
        let collection = collection.with_oldest_format();
        let create_time_ms = now_ms();
        Self {
            format: Self::FORMAT,
            version,
            collection,
            sequence,
            point_count: 0,
            size_bytes: 0,
            create_time_ms,
            chunks: vec![],
        }
    }

    /// Adds the next chunk.
    pub(crate) fn add(&mut self, chunk: Chunk) {
        self.point_count += chunk.point_count;
        self.size_bytes += chunk.size_bytes;
        self.chunks.push(chunk);
    }

    /// The bytes of the manifest's file.
    pub(crate) fn seal(&self) -> Vec<u8> {
        seal(self)
    }

    /// Reads the bytes of a manifest's file.
    pub(crate) fn unseal(file: &str, bytes: &[u8]) -> Result<Self, StoreError> {
        let manifest: Self = unseal(file, bytes, |content| {
            check_format(file, content, Self::FORMAT)?;
            let collection = content.get("collection").unwrap_or(&serde_json::Value::Null);
            check_format(file, collection, CollectionMeta::FORMAT)
        })?;
        let points: u128 = manifest.chunks.iter().map(|chunk| u128::from(chunk.point_count)).sum();
        if points != u128::from(manifest.point_count) {
            let expected = manifest.point_count;
            return Err(StoreError::damaged(file, format!("chunks have {points} points, expected {expected}")));
        }
        Ok(manifest)
    }
}

impl Chunk {
    /// Encodes points as a chunk.
    pub(crate) fn encode(name: String, points: &Upsert) -> Result<(Self, Body), StoreError> {
        let body = points.body()?;
        let point_count = points.ids.len() as u64;
        let size_bytes = u64::from(body.len);
        let mut digest = Sha256::new();
        for part in &body.parts {
            digest.update(part);
        }
        Ok((Self { name, point_count, size_bytes, sha256: hex::encode(digest.finalize()) }, body))
    }

    /// Checks a chunk's bytes and reads them. `file` names it in errors.
    pub(crate) fn open(&self, file: &str, bytes: Bytes, dim: u32) -> Result<Upsert, StoreError> {
        let damaged = |reason: String| StoreError::damaged(file, reason);
        if bytes.len() as u64 != self.size_bytes {
            return Err(damaged(format!("expected {} bytes, got {}", self.size_bytes, bytes.len())));
        }
        if hex::encode(Sha256::digest(&bytes)) != self.sha256 {
            return Err(damaged("its SHA-256 does not match the manifest".into()));
        }
        let points = Upsert::parse(bytes).map_err(damaged)?;
        if points.dim != dim || points.ids.len() as u64 != self.point_count {
            let got = (points.ids.len(), points.dim);
            return Err(damaged(format!("expected {} points of dim {dim}, got {got:?}", self.point_count)));
        }
        Ok(points)
    }
}

#[derive(Serialize, Deserialize)]
struct Sealed<T> {
    sha256: String,
    content: T,
}

/// JSON with the digest of its content.
pub(crate) fn seal<T: Serialize>(content: &T) -> Vec<u8> {
    let plain = serde_json::to_vec(content).expect("plain structs of strings and numbers always serialise");
    let sealed = Sealed { sha256: hex::encode(Sha256::digest(&plain)), content };
    serde_json::to_vec_pretty(&sealed).expect("plain structs of strings and numbers always serialise")
}

/// Reads sealed JSON. `check` runs before the digest is compared, to distinguish newer formats from damage.
pub(crate) fn unseal<T: Serialize + DeserializeOwned>(
    file: &str,
    bytes: &[u8],
    check: impl FnOnce(&serde_json::Value) -> Result<(), StoreError>,
) -> Result<T, StoreError> {
    let damaged = |reason: serde_json::Error| StoreError::damaged(file, reason.to_string());
    let sealed: Sealed<serde_json::Value> = serde_json::from_slice(bytes).map_err(damaged)?;
    check(&sealed.content)?;
    let content: T = serde_json::from_value(sealed.content).map_err(damaged)?;
    let plain = serde_json::to_vec(&content).map_err(damaged)?;
    if hex::encode(Sha256::digest(&plain)) == sealed.sha256 {
        Ok(content)
    } else {
        Err(StoreError::damaged(file, "its content does not match its SHA-256"))
    }
}

/// Milliseconds since 1970; 0 if the clock is earlier.
pub(crate) fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
