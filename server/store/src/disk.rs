//! File operations whose order makes writes crash-safe.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use crate::StoreError;

/// A log file as its writer sees it; tests put a failing one in its place.
pub(crate) trait Disk: Send + 'static {
    /// Appends.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes all writes durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Truncates the file durably.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// Makes creations, renames and removals in a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| StoreError::io(dir, e))
}

/// Writes a file durably; the caller syncs its folder.
pub(crate) fn write_file(path: &Path, parts: &[impl AsRef<[u8]>]) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        parts.iter().try_for_each(|part| file.write_all(part.as_ref()))?;
        file.sync_all()
    };
    write().map_err(|e| StoreError::io(path, e))
}

/// Writes a temporary file and renames it, so that the file is complete or absent.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let staged = path.with_extension("tmp");
    write_file(&staged, &[bytes])?;
    fs::rename(&staged, path).map_err(|e| StoreError::io(path, e))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Sorted names in a folder, without those that are not UTF-8, which the store never creates.
pub(crate) fn list(dir: &Path) -> Result<Vec<String>, StoreError> {
    let read = || -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    };
    let mut names = read().map_err(|e| StoreError::io(dir, e))?;
    names.sort();
    Ok(names)
}

/// Removes a file or folder if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    let result = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match result {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path, e)),
        _ => Ok(()),
    }
}
