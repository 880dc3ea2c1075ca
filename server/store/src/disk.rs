//! The few file operations whose order makes writes survive a crash.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use crate::StoreError;

/// A log file as its writer sees it; tests put a failing one in its place.
pub(crate) trait Disk: Send + 'static {
    /// Writes at the end.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Waits until everything written is durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file off, and makes that durable.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// Makes what was created, renamed or removed in a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| StoreError::io(dir, e))
}

/// Writes a whole file durably; the folder still has to be synced.
pub(crate) fn write_file(path: &Path, parts: &[impl AsRef<[u8]>]) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        parts.iter().try_for_each(|part| file.write_all(part.as_ref()))?;
        file.sync_all()
    };
    write().map_err(|e| StoreError::io(path, e))
}

/// Writes a file under another name and renames it, so that it is there whole or not at all.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let staged = path.with_extension("tmp");
    write_file(&staged, &[bytes])?;
    fs::rename(&staged, path).map_err(|e| StoreError::io(path, e))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Names in a folder, sorted; names that are not UTF-8 are not ours and are left out.
pub(crate) fn list(dir: &Path) -> Result<Vec<String>, StoreError> {
    let read = || -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    };
    let mut names = read().map_err(|e| StoreError::io(dir, e))?;
    names.sort();
    Ok(names)
}

/// Removes a file or folder; one that is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    let result = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match result {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path, e)),
        _ => Ok(()),
    }
}
