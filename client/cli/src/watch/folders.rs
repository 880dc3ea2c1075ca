//! Watches folders by inotify.
//!
//! Only the folders that a walk lists are watched, so ignored ones cost nothing. The crate `notify` is not used: version 8 also
//! reports that files are opened, so that each pass would report its own reads, and it watches ignored folders.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::StreamExt;
use inotify::{Event, EventMask, EventStream, Inotify, WatchDescriptor, WatchMask, Watches};
use tokio::task::JoinHandle;

use super::Pending;
use crate::{
    error::{CliError, Result},
    walk::Scope,
};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// EMFILE.
const TOO_MANY_FILES: i32 = 24;

/// Files that change which other files a walk lists.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// The folders that are watched.
pub struct Folders {
    state: Arc<Mutex<State>>,
    reader: JoinHandle<io::Error>,
}

struct State {
    /// The paths of the trees; a tree that is deleted may be made again.
    roots: Vec<PathBuf>,
    watches: Watches,
    by_path: BTreeMap<PathBuf, WatchDescriptor>,
    paths: HashMap<WatchDescriptor, PathBuf>,
}

impl Folders {
    /// Watches nothing yet.
    pub fn new(roots: Vec<PathBuf>, pending: Arc<Pending>) -> Result<Self> {
        let inotify = Inotify::init().map_err(|error| instance_error(&error))?;
        let watches = inotify.watches();
        let stream = inotify.into_event_stream(vec![0; BUFFER_BYTES]).map_err(|error| failure(&error))?;
        let state = State { roots, watches, by_path: BTreeMap::new(), paths: HashMap::new() };
        let state = Arc::new(Mutex::new(state));
        let reader = tokio::spawn(read(stream, Arc::clone(&state), pending));
        Ok(Self { state, reader })
    }

    /// Completes if no more changes can be received.
    pub async fn failed(&mut self) -> CliError {
        match (&mut self.reader).await {
            Ok(error) => failure(&error),
            Err(error) => failure(&io::Error::other(error)),
        }
    }

    /// Watches the folder above each root, where a root is renamed or made again, or the nearest one that exists.
    pub fn watch_above(&mut self) -> Result {
        let mut state = lock(&self.state);
        for root in state.roots.clone() {
            for above in root.ancestors().skip(1) {
                if state.watch(above)? || state.by_path.contains_key(above) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Watches folders. Returns true if one was not watched before.
    pub fn watch(&mut self, folders: &[PathBuf]) -> Result<bool> {
        let mut state = lock(&self.state);
        let mut is_new = false;
        for folder in folders {
            is_new |= state.watch(folder)?;
        }
        Ok(is_new)
    }

    /// Watches no more the folders of a scope that are not among `folders`, because they were removed or are ignored now.
    pub fn keep(&mut self, scope: &Scope, folders: &[PathBuf]) {
        let mut state = lock(&self.state);
        let folders: HashSet<_> = folders.iter().collect();
        let is_in_tree = |path: &Path| state.roots.iter().any(|root| path.starts_with(root));
        let is_left = |path: &&PathBuf| is_in_tree(path) && scope.contains(path) && !folders.contains(path);
        for path in state.by_path.keys().filter(is_left).cloned().collect::<Vec<_>>() {
            state.unwatch(&path);
        }
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl State {
    /// Watches a folder. Returns false if it is watched already, or cannot be, as one that was removed or cannot be read.
    fn watch(&mut self, folder: &Path) -> Result<bool> {
        if self.by_path.contains_key(folder) {
            return Ok(false);
        }
        match self.watches.add(folder, mask()) {
            Ok(descriptor) => {
                // A folder that was renamed keeps its descriptor.
                if let Some(former) = self.paths.insert(descriptor.clone(), folder.to_owned()) {
                    self.by_path.remove(&former);
                }
                self.by_path.insert(folder.to_owned(), descriptor);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(watch_limit()),
            Err(_) => Ok(false),
        }
    }

    /// Watches a folder and those below it no more.
    fn unwatch(&mut self, folder: &Path) {
        let below = self.by_path.range(folder.to_owned()..).take_while(|(path, _)| path.starts_with(folder));
        for path in below.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            if let Some(descriptor) = self.by_path.remove(&path) {
                self.paths.remove(&descriptor);
                // The system has removed it already if the folder does not exist any more.
                let _removed = self.watches.remove(descriptor);
            }
        }
    }

    /// The part of the trees that an event changes.
    fn changed(&mut self, event: &Event<std::ffi::OsString>) -> Scope {
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            return Scope::all();
        }
        let Some(folder) = self.paths.get(&event.wd).cloned() else { return Scope::default() };
        let path = event.name.as_ref().map_or_else(|| folder.clone(), |name| folder.join(name));
        if event.mask.contains(EventMask::IGNORED)
            || (event.mask.contains(EventMask::ISDIR) && event.mask.contains(EventMask::MOVED_FROM))
        {
            self.unwatch(&path);
        }
        let mut scope = Scope::default();
        for root in &self.roots {
            if path.starts_with(root) {
                let is_ignore_file =
                    event.name.as_ref().is_some_and(|name| IGNORE_FILES.iter().any(|file| name == file));
                scope.add(if is_ignore_file { folder.clone() } else { path.clone() });
            } else if root.starts_with(&path) && !event.mask.contains(EventMask::ATTRIB) {
                scope.add(root.clone());
            }
        }
        scope
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read(mut events: EventStream<Vec<u8>>, state: Arc<Mutex<State>>, pending: Arc<Pending>) -> io::Error {
    loop {
        match events.next().await {
            Some(Ok(event)) => {
                let scope = lock(&state).changed(&event);
                if !scope.is_empty() {
                    pending.extend(scope);
                }
            }
            Some(Err(error)) => return error,
            None => return io::ErrorKind::UnexpectedEof.into(),
        }
    }
}

fn mask() -> WatchMask {
    WatchMask::CREATE
        | WatchMask::DELETE
        | WatchMask::MODIFY
        | WatchMask::CLOSE_WRITE
        | WatchMask::ATTRIB
        | WatchMask::MOVE
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF
        | WatchMask::ONLYDIR
        | WatchMask::EXCL_UNLINK
}

fn failure(error: &io::Error) -> CliError {
    CliError::Watch(format!("cannot watch files: {error}"))
}

fn limit(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).unwrap_or_default().trim().to_owned()
}

fn watch_limit() -> CliError {
    let limit = limit("max_user_watches");
    CliError::Watch(format!(
        "cannot watch all folders: fs.inotify.max_user_watches allows {limit}; raise it with `sysctl \
         fs.inotify.max_user_watches=N`, exclude folders with --exclude, or add --poll 5s"
    ))
}

fn instance_error(error: &io::Error) -> CliError {
    if error.raw_os_error() != Some(TOO_MANY_FILES) {
        return failure(error);
    }
    let limit = limit("max_user_instances");
    CliError::Watch(format!(
        "cannot watch files: fs.inotify.max_user_instances allows {limit}, or `ulimit -n` too few open files; raise them, or add --poll 5s"
    ))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// The part of a tree `src` that an event of a watched folder changes.
    fn changed(base: &Path, folder: &str, mask: EventMask, name: Option<&str>) -> Scope {
        let watches = Inotify::init().unwrap().watches();
        let roots = vec![base.join("src")];
        let mut state = State { roots, watches, by_path: BTreeMap::new(), paths: HashMap::new() };
        let folder = base.join(folder);
        assert!(state.watch(&folder).unwrap());
        let wd = state.by_path[&folder].clone();
        let scope = state.changed(&Event { wd, mask, cookie: 0, name: name.map(OsString::from) });
        assert_eq!(state.by_path.contains_key(&folder), !mask.contains(EventMask::IGNORED));
        scope
    }

    #[test]
    fn events_change_the_part_of_the_tree_that_they_name() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("src/a")).unwrap();
        let has = |scope: &Scope, path: &str| scope.contains(&base.path().join(path));
        let changed = |folder: &str, mask, name| changed(base.path(), folder, mask, name);
        let edit = changed("src/a", EventMask::MODIFY, Some("b.py"));
        assert!(has(&edit, "src/a/b.py") && !has(&edit, "src/a/c.py"));
        let ignored = changed("src/a", EventMask::CLOSE_WRITE, Some(".gitignore"));
        assert!(has(&ignored, "src/a/c.py") && !has(&ignored, "src/c.py"));
        assert!(has(&changed("src/a", EventMask::IGNORED, None), "src/a/c.py"));
        // An overflow of the queue may have lost any event.
        assert!(has(&changed("src/a", EventMask::Q_OVERFLOW, None), "src/c.py"));
        assert!(has(&changed("", EventMask::DELETE | EventMask::ISDIR, Some("src")), "src/c.py"));
        assert!(changed("", EventMask::MODIFY, Some("other.py")).is_empty());
        assert!(changed("", EventMask::ATTRIB | EventMask::ISDIR, None).is_empty());
    }
}
