//! The log files in a collection's folder: their names, and how one is created.

use std::{
    fs,
    hash::{BuildHasher as _, RandomState},
    path::{Path, PathBuf},
};

use crate::{
    StoreError,
    disk::{list, sync_dir, write_file},
    frame::FileHeader,
};

/// The path of a log file.
pub(crate) fn log_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("wal-{first:020}.log"))
}

/// Creates a log file with only its header, durably. It is renamed into place when complete: a crash never leaves a log
/// file without a header.
pub(crate) fn create_log(dir: &Path, first: u64) -> Result<u32, StoreError> {
    let path = log_path(dir, first);
    let staged = path.with_extension("new");
    #[allow(clippy::cast_possible_truncation, reason = "any 32 of the random bits will do")]
    let salt = RandomState::new().hash_one(first) as u32;
    let create = || {
        write_file(&staged, &[FileHeader { first, salt }.encode()])?;
        fs::rename(&staged, &path).map_err(|e| StoreError::io(&path, e))?;
        sync_dir(dir)
    };
    // The older file is still being written, so an incomplete file must not follow it.
    create().map(|()| salt).inspect_err(|_: &StoreError| {
        let _ = fs::remove_file(&staged);
        let _ = fs::remove_file(&path);
    })
}

/// First sequence numbers of the log files in a folder, ascending.
pub(crate) fn list_logs(dir: &Path) -> Result<Vec<u64>, StoreError> {
    let parse = |name: &String| name.strip_prefix("wal-")?.strip_suffix(".log")?.parse().ok();
    Ok(list(dir)?.iter().filter_map(parse).collect())
}
