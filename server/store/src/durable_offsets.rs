//! The durable offset of each log when its store was closed. A log that is shorter at the next start has lost records,
//! even if it ends with a complete one; nothing else distinguishes it from a log that never had them.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    StoreError,
    checkpoint::read_file,
    disk::write_atomic,
    frame::{FILE_HEADER, FileHeader},
    log_files::log_path,
    manifest::{MAX_JSON_BYTES, seal, unseal},
};

const FILE_NAME: &str = "closed.json";

/// The offset up to which a log is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DurableOffset {
    /// First sequence number of its last file.
    pub(crate) first: u64,
    /// Salt of that file, which distinguishes it from another one of the same name.
    pub(crate) salt: u32,
    /// Durable bytes of that file.
    pub(crate) len: u64,
}

/// The offsets recorded when the store was last closed, by collection. A failure to read them is logged.
pub(crate) fn read(dir: &Path) -> BTreeMap<String, DurableOffset> {
    let path = dir.join(FILE_NAME);
    let read = read_file(&path, MAX_JSON_BYTES);
    let offsets = read.and_then(|bytes| unseal(&path.display().to_string(), &bytes, |_| Ok(())));
    offsets.unwrap_or_else(|error| {
        let is_first_start =
            matches!(&error, StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound);
        if !is_first_start {
            let offset = fs::metadata(&path).map_or(0, |data| data.len());
            tracing::warn!(%error, file = %path.display(), offset, "the durable offsets of the logs are not known");
        }
        BTreeMap::new()
    })
}

/// Records the offsets durably.
pub(crate) fn write(dir: &Path, offsets: &BTreeMap<String, DurableOffset>) -> Result<(), StoreError> {
    write_atomic(&dir.join(FILE_NAME), &seal(offsets))
}

impl DurableOffset {
    /// Bytes of a log file that are known to have been durable, and the damage if it has fewer.
    pub(crate) fn check(&self, dir: &Path, newest: u64) -> Result<(u64, Option<StoreError>), StoreError> {
        if newest > self.first {
            // The log continued in a newer file, and a checkpoint may have retired this one.
            return Ok((0, None));
        }
        let path = log_path(dir, self.first);
        let corrupt = |offset: u64, reason: String| StoreError::Corrupt { file: path.clone(), offset, reason };
        let len = match fs::metadata(&path) {
            Ok(data) => data.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let missing = corrupt(0, format!("the file is missing; it had {} durable bytes", self.len));
                return Ok((0, Some(missing)));
            }
            Err(error) => return Err(StoreError::io(path, error)),
        };
        let header = read_file(&path, FILE_HEADER as u64)?;
        let header = <&[u8; FILE_HEADER]>::try_from(&header[..]).ok().and_then(FileHeader::parse);
        match header {
            // The collection was dropped and recreated.
            Some(header) if header.salt != self.salt => Ok((0, None)),
            _ if len < self.len => {
                let short = corrupt(len, format!("the file ends here; it had {} durable bytes", self.len));
                Ok((self.len, Some(short)))
            }
            _ => Ok((self.len, None)),
        }
    }
}
