//! Compiled kernels on disk, shared between processes: written whole or not at all, bounded, and safe to lose.

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
    modules::Module,
    nvrtc::{self, Target},
};

/// How entries begin; changes with their layout.
const MAGIC: &[u8; 8] = b"accelk01";
const SUM_BYTES: usize = 32;
const SUFFIX: &str = "kernels";

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// Most bytes of all entries; 0 for no bound.
    limit: u64,
}

/// What an entry depends on, hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key(String);

impl Key {
    /// Everything that shapes the code: source, headers, options (the architecture is one) and the compiler's version.
    pub(super) fn new(module: &Module, target: Target, version: &str) -> Self {
        let mut hash = Sha256::new();
        let headers = module.headers.iter().flat_map(|(name, text)| [*name, *text]);
        let options = nvrtc::options(&target.name());
        let parts = [module.name, module.source, version].into_iter().chain(headers);
        for part in parts.chain(options.iter().map(String::as_str)) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(format!("{}-{}-{:x}.{SUFFIX}", module.name, target.name(), hash.finalize()))
    }
}

impl Cache {
    pub(super) fn new(folder: &Path, limit: u64) -> Self {
        Self { folder: folder.to_owned(), limit }
    }

    /// Makes the folder, and says whether it can be written.
    pub(super) fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let probe = self.unfinished();
        fs::write(&probe, "").and_then(|()| fs::remove_file(&probe))
    }

    /// A name that no other writer uses.
    fn unfinished(&self) -> PathBuf {
        static TURN: AtomicU64 = AtomicU64::new(0);
        self.folder.join(format!(".{}-{}.unfinished", process::id(), TURN.fetch_add(1, Relaxed)))
    }

    /// An entry, if it is there and whole. Being used makes it young again.
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

    /// Writes an entry beside the others and then into place, and evicts the oldest beyond the bound.
    pub(super) fn put(&self, key: &Key, image: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let unfinished = self.unfinished();
        let entry = [MAGIC, &Sha256::digest(image)[..], image].concat();
        let path = self.folder.join(&key.0);
        let written = fs::write(&unfinished, entry).and_then(|()| fs::rename(&unfinished, &path));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        } else if self.limit != 0 {
            self.evict(&path);
        }
        written
    }

    /// Removes the oldest entries until the rest fits the bound; `newest` stays in any case.
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
    use super::{super::arch::Arch, *};

    fn key(source: &'static str) -> Key {
        let module = Module { name: "m", source, headers: &[], kernels: &[] };
        Key::new(&module, Target::Machine(Arch::new(9, 0)), "13.0")
    }

    #[test]
    fn what_was_put_is_got_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::new(&folder.path().join("not/yet/there"), 0);
        assert_eq!(cache.get(&key("a")), None);
        cache.put(&key("a"), b"machine code").expect("written");
        assert_eq!(cache.get(&key("a")).as_deref(), Some(&b"machine code"[..]));
        assert_eq!(cache.get(&key("b")), None);
    }

    #[test]
    fn a_damaged_entry_is_dropped() {
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
    fn the_oldest_entries_leave_when_the_bound_is_passed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::new(folder.path(), 250);
        for (age, source) in [(30, "a"), (20, "b"), (10, "c")] {
            cache.put(&key(source), &[0; 60]).expect("written");
            let file = fs::File::options().append(true).open(folder.path().join(&key(source).0)).expect("there");
            let then = SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(then).expect("set");
        }
        assert!(cache.get(&key("b")).is_some(), "and is young again");
        cache.put(&key("d"), &[0; 60]).expect("written");
        let left = ["a", "b", "c", "d"].map(|source| cache.get(&key(source)).is_some());
        assert_eq!(left, [false, true, false, true]);
        cache.put(&key("e"), &[0; 600]).expect("written");
        let left = ["b", "d", "e"].map(|source| cache.get(&key(source)).is_some());
        assert_eq!(left, [false, false, true], "one larger than the bound stands alone");
    }

    #[test]
    fn keys_differ_with_all_they_depend_on() {
        let module = |source, headers| Module { name: "m", source, headers, kernels: &[] };
        let machine = Target::Machine(Arch::new(9, 0));
        let keys = [
            Key::new(&module("a", &[]), machine, "13.0"),
            Key::new(&module("b", &[]), machine, "13.0"),
            Key::new(&module("a", &[("h", "")]), machine, "13.0"),
            Key::new(&module("a", &[("", "h")]), machine, "13.0"),
            Key::new(&module("a", &[]), machine, "13.1"),
            Key::new(&module("a", &[]), Target::Machine(Arch::new(8, 0)), "13.0"),
            Key::new(&module("a", &[]), Target::Ptx(Arch::new(9, 0)), "13.0"),
        ];
        for (i, one) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|other| other != one), "{i}");
        }
    }
}
