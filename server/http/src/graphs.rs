//! Files of graphs in a folder. The name of a file without its extension is that of its model, and a changed file is a new version.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// The extension of the files.
const EXTENSION: &str = "graph";

/// The folder with the graphs, and the versions of those that were read.
#[derive(Debug, Default)]
pub struct Graphs {
    folder: Option<PathBuf>,
    versions: Mutex<BTreeMap<String, (Stamp, u64)>>,
}

/// The properties of a file of which one differs once it changes: inode, size, and time of modification.
type Stamp = (u64, u64, i64, i64);

/// A file.
#[derive(Debug)]
pub(crate) struct GraphFile {
    pub(crate) file: File,
    pub(crate) length: u64,
    pub(crate) version: u64,
}

impl Graphs {
    /// The graphs of a folder; none without one.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, versions: Mutex::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.folder.is_none()
    }

    /// The file of a model; `None` if there is none.
    pub(crate) fn open(&self, name: &str) -> io::Result<Option<GraphFile>> {
        let Some(folder) = self.folder.as_ref().filter(|_| is_plain(name)) else { return Ok(None) };
        let file = match File::open(folder.join(format!("{name}.{EXTENSION}"))) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => {
                return Ok(None);
            }
            file => file?,
        };
        let metadata = file.metadata()?;
        Ok(Some(GraphFile { file, length: metadata.len(), version: self.version(name, &metadata) }))
    }

    /// The names and versions of all models.
    pub(crate) fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let Some(folder) = &self.folder else { return Ok(vec![]) };
        let mut listed = vec![];
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|name| is_plain(name));
            let Some(name) = name.filter(|_| path.extension().is_some_and(|extension| extension == EXTENSION)) else {
                continue;
            };
            // A file may be gone since it was listed.
            if let Ok(metadata) = fs::metadata(&path) {
                listed.push((name.to_owned(), self.version(name, &metadata)));
            }
        }
        Ok(listed)
    }

    /// The version of a file: one more than before if it changed.
    fn version(&self, name: &str, metadata: &fs::Metadata) -> u64 {
        let stamp = (metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec());
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, version) = versions.entry(name.to_owned()).or_insert((stamp, 1));
        if *known != stamp {
            (*known, *version) = (stamp, *version + 1);
        }
        *version
    }
}

/// Returns true if a name is that of a file in the folder itself.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}
