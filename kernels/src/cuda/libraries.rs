//! Preloads NVIDIA's libraries from folders that the loader does not search, such as those of Python wheels.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// In dependency order.
const LIBRARIES: [&str; 3] = ["libnvrtc-builtins.so", "libnvrtc.so", "libcublasLt.so"];

/// Loads the libraries found in the folders into the global scope, so that a later `dlopen` by name finds them. That
/// `dlopen` reports libraries that are missing or fail to load.
pub(super) fn preload(folders: &[PathBuf]) {
    static OPENED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = opened.get_or_insert_default();
    for prefix in LIBRARIES {
        for path in folders.iter().filter_map(|folder| newest(folder, prefix)) {
            if !opened.contains(&path) && open(&path) {
                opened.insert(path);
            }
        }
    }
}

/// Absolute path of the file in a folder with the highest version after `prefix`.
fn newest(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let names = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let best = names.filter_map(|name| Some((version(name.strip_prefix(prefix)?)?, name))).max()?;
    fs::canonicalize(folder).ok().map(|folder| folder.join(best.1))
}

/// Parses `.13.0` to its numbers; an empty suffix has none, and anything else is `None`.
fn version(suffix: &str) -> Option<Vec<u32>> {
    match suffix {
        "" => Some(vec![]),
        _ => suffix.strip_prefix('.')?.split('.').map(|part| part.parse().ok()).collect(),
    }
}

#[cfg(unix)]
fn open(path: &Path) -> bool {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: the administrator named the folder as one of NVIDIA's libraries, whose initialisers may run at any time.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    library.map(std::mem::forget).is_ok()
}

#[cfg(not(unix))]
fn open(path: &Path) -> bool {
    // SAFETY: the administrator named the folder as one of NVIDIA's libraries, whose initialisers may run at any time.
    let library = unsafe { libloading::Library::new(path) };
    library.map(std::mem::forget).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_is_chosen_and_variants_are_ignored() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["libnvrtc.so.9", "libnvrtc.so.13", "libnvrtc.so", "libnvrtc.alt.so.14", "libnvrtc.so.x"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        let found = newest(folder.path(), "libnvrtc.so").expect("a library");
        assert!(found.is_absolute() && found.ends_with("libnvrtc.so.13"), "{found:?}");
        assert_eq!(newest(folder.path(), "libcublasLt.so"), None);
    }

    #[test]
    fn missing_folders_and_broken_libraries_are_skipped() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("libcublasLt.so.13"), "no library").expect("a file");
        preload(&[folder.path().to_owned(), folder.path().join("none")]);
    }
}
