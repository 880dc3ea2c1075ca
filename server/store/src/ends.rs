//! How far each log was durable when its store was closed. A log that is shorter at the next start has lost records, even
//! where it ends with a whole one: nothing else could tell that from a log that never had them.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    StoreError,
    checkpoint::read_file,
    disk::write_atomic,
    frame::{FILE_HEADER, FileHeader},
    journal::log_path,
    manifest::{MAX_JSON_BYTES, seal, unseal},
};

const ENDS: &str = "closed.json";

/// How far a log is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogEnd {
    /// First sequence number of its last file.
    pub(crate) first: u64,
    /// Salt of that file, which tells it from another one of the same name.
    pub(crate) salt: u32,
    /// Bytes of it.
    pub(crate) len: u64,
}

/// The ends that were written down when a store was last closed, by collection. Where they cannot be read, that is logged.
pub(crate) fn read(dir: &Path) -> BTreeMap<String, LogEnd> {
    let path = dir.join(ENDS);
    let read = read_file(&path, MAX_JSON_BYTES);
    let ends = read.and_then(|bytes| unseal(&path.display().to_string(), &bytes, |_| Ok(())));
    ends.unwrap_or_else(|error| {
        let is_first_start =
            matches!(&error, StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound);
        if !is_first_start {
            let offset = fs::metadata(&path).map_or(0, |data| data.len());
            tracing::warn!(%error, file = %path.display(), offset, "how far the logs were durable is not known");
        }
        BTreeMap::new()
    })
}

/// Writes them down, durably.
pub(crate) fn write(dir: &Path, ends: &BTreeMap<String, LogEnd>) -> Result<(), StoreError> {
    write_atomic(&dir.join(ENDS), &seal(ends))
}

impl LogEnd {
    /// Bytes of a log file that are known to have been durable; an error where it has fewer.
    pub(crate) fn check(&self, dir: &Path, newest: u64) -> Result<u64, StoreError> {
        if newest > self.first {
            // The log went on in a newer file, and what this one had may have been retired.
            return Ok(0);
        }
        let path = log_path(dir, self.first);
        let corrupt = |offset: u64, reason: String| StoreError::Corrupt { file: path.clone(), offset, reason };
        let len = match fs::metadata(&path) {
            Ok(data) => data.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(corrupt(0, format!("it had {} durable bytes and is gone", self.len)));
            }
            Err(error) => return Err(StoreError::io(path, error)),
        };
        let header = read_file(&path, FILE_HEADER as u64)?;
        let header = <&[u8; FILE_HEADER]>::try_from(&header[..]).ok().and_then(FileHeader::parse);
        match header {
            // A collection that was dropped and made anew.
            Some(header) if header.salt != self.salt => Ok(0),
            _ if len < self.len => Err(corrupt(len, format!("it ends here, and had {} durable bytes", self.len))),
            _ => Ok(self.len),
        }
    }
}
