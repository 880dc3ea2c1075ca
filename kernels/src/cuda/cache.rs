//! On-disk cache of compiled kernels, shared between processes: atomic writes, a size bound, and checksummed entries.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::SystemTime,
};

use sha2::{Digest, Sha256};

use super::{
    module::TranslationUnit,
    nvrtc::{self, Target},
};

/// Magic bytes of an entry; they change with its layout.
const MAGIC: &[u8; 8] = b"accelk01";
const SUM_BYTES: usize = 32;
const SUFFIX: &str = "kernels";

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// Maximum total size of the entries; 0 means unlimited.
    limit: u64,
}

/// File name of an entry: a hash of everything that the code depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(String);

/// The version in the keys of entries that serve every version of the compiler: machine code does not depend on what has compiled it.
pub(super) const ANY_VERSION: &str = "any";

impl Key {
    /// Hashes source, headers, options (including architecture and macros) and the compiler's version.
    pub(super) fn new(unit: &TranslationUnit<'_>, target: Target, version: &str) -> Self {
        let mut hash = Sha256::new();
        let headers = unit.headers.iter().flat_map(|header| [header.path, header.text]);
        let options = nvrtc::options(unit, &target.name());
        let parts = [unit.name, version, unit.path.as_str(), unit.text].into_iter().chain(headers);
        for part in parts.chain(options.iter().map(String::as_str)) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(format!("{}-{}-{:x}.{SUFFIX}", unit.name, target.name(), hash.finalize()))
    }
}

impl Cache {
    pub(super) fn new(folder: &Path, limit: u64) -> Self {
        Self { folder: folder.to_owned(), limit }
    }

    /// Creates the folder and checks that it is writable.
    pub(super) fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let probe = self.temporary_path();
        fs::write(&probe, "").and_then(|()| fs::remove_file(&probe))
    }

    /// A path that no other writer uses.
    fn temporary_path(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        self.folder.join(format!(".{}-{}.unfinished", process::id(), NEXT.fetch_add(1, Relaxed)))
    }

    /// Returns an entry if it is present and intact, and updates its modification time for LRU eviction.
    pub(super) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.folder.join(&key.0);
        let entry = fs::read(&path).ok()?;
        let (sum, image) = entry.strip_prefix(MAGIC)?.split_at_checked(SUM_BYTES)?;
        if Sha256::digest(image)[..] != *sum {
            let _ = fs::remove_file(&path);
            return None;
        }
        if let Ok(file) = fs::File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(image.to_vec())
    }

    /// Writes an entry to a temporary file, renames it into place, and evicts the least recently used beyond the bound.
    pub(super) fn put(&self, key: &Key, image: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let temporary = self.temporary_path();
        let entry = [MAGIC, &Sha256::digest(image)[..], image].concat();
        let path = self.folder.join(&key.0);
        let written = fs::write(&temporary, entry).and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        } else if self.limit != 0 {
            self.evict(&path);
        }
        written
    }

    /// Removes the least recently used entries until the rest fits the bound; `newest` always stays.
    fn evict(&self, newest: &Path) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        let mut entries: Vec<_> = files
            .filter_map(|file| {
                let (path, meta) = file.ok().map(|file| (file.path(), file.metadata()))?;
                let ours = path.extension() == Some(OsStr::new(SUFFIX));
                let meta = meta.ok().filter(|_| ours)?;
                Some((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), path, meta.len()))
            })
            .collect();
        entries.sort();
        let mut total: u64 = entries.iter().map(|entry| entry.2).sum();
        for (_, path, bytes) in entries {
            if total > self.limit && path != newest && fs::remove_file(&path).is_ok() {
                total -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            arch::Arch,
            module::{Module, Source},
        },
        *,
    };

    fn key(source: &'static str) -> Key {
        let source = Source { path: "m.cu", text: source };
        let module = Module { name: "m", source, headers: &[], defines: &[], kernels: &[] };
        Key::new(&module.unit(), Target::Machine(Arch::new(9, 0)), "13.0")
    }

    #[test]
    fn an_entry_is_found_by_its_key_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::new(&folder.path().join("not/yet/there"), 0);
        assert_eq!(cache.get(&key("a")), None);
        cache.put(&key("a"), b"machine code").expect("written");
        assert_eq!(cache.get(&key("a")).as_deref(), Some(&b"machine code"[..]));
        assert_eq!(cache.get(&key("b")), None);
    }

    #[test]
    fn a_damaged_entry_is_ignored() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::new(folder.path(), 0);
        let path = folder.path().join(&key("a").0);
        for damage in [&b""[..], b"accel", b"accelk01short", b"another file altogether, longer than the sum is"] {
            fs::write(&path, damage).expect("written");
            assert_eq!(cache.get(&key("a")), None, "{damage:?}");
        }
        cache.put(&key("a"), b"machine code").expect("written");
        let mut bytes = fs::read(&path).expect("there");
        *bytes.last_mut().expect("not empty") ^= 1;
        fs::write(&path, bytes).expect("written");
        assert_eq!(cache.get(&key("a")), None);
    }

    #[test]
    fn the_least_recently_used_entries_are_evicted_beyond_the_bound() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::new(folder.path(), 250);
        for (age, source) in [(30, "a"), (20, "b"), (10, "c")] {
            cache.put(&key(source), &[0; 60]).expect("written");
            let file = fs::File::options().append(true).open(folder.path().join(&key(source).0)).expect("there");
            let then = SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(then).expect("set");
        }
        assert!(cache.get(&key("b")).is_some(), "a hit refreshes the entry");
        cache.put(&key("d"), &[0; 60]).expect("written");
        let left = ["a", "b", "c", "d"].map(|source| cache.get(&key(source)).is_some());
        assert_eq!(left, [false, true, false, true]);
        cache.put(&key("e"), &[0; 600]).expect("written");
        let left = ["b", "d", "e"].map(|source| cache.get(&key(source)).is_some());
        assert_eq!(left, [false, false, true], "an entry larger than the bound is kept alone");
    }

    #[test]
    fn the_key_depends_on_every_input() {
        const HEADER: Source = Source { path: "h", text: "" };
        const OTHER: Source = Source { path: "", text: "h" };
        let module = |text, headers, defines| {
            let source = Source { path: "m.cu", text };
            Module { name: "m", source, headers, defines, kernels: &[] }
        };
        let machine = Target::Machine(Arch::new(9, 0));
        let keys = [
            Key::new(&module("a", &[], &[]).unit(), machine, "13.0"),
            Key::new(&module("b", &[], &[]).unit(), machine, "13.0"),
            Key::new(&module("a", &[HEADER], &[]).unit(), machine, "13.0"),
            Key::new(&module("a", &[OTHER], &[]).unit(), machine, "13.0"),
            Key::new(&module("a", &[], &["A"]).unit(), machine, "13.0"),
            Key::new(&module("a", &[], &[]).unit(), machine, "13.1"),
            Key::new(&module("a", &[], &[]).unit(), Target::Machine(Arch::new(8, 0)), "13.0"),
            Key::new(&module("a", &[], &[]).unit(), Target::Ptx(Arch::new(9, 0)), "13.0"),
        ];
        for (i, key) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|other| other != key), "{i}");
        }
    }
}
