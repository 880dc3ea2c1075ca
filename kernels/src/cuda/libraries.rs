//! Finds NVIDIA's libraries in folders that the loader does not search: those of the settings, of Python wheels in the executable's
//! environment, and of the CUDA toolkit.

use std::{
    collections::HashSet,
    env,
    ffi::{CStr, OsStr, c_void},
    fs, iter,
    mem::MaybeUninit,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use cudarc::{cublaslt, nvrtc};
use libloading::{Library, Symbol};

/// NVRTC, and the part of it that is a library of its own and has to be opened first.
const NVRTC: [&str; 2] = ["libnvrtc-builtins.so", "libnvrtc.so"];

const CUBLAS_LT: [&str; 1] = ["libcublasLt.so"];

/// The files of a library, and a function that returns true if the loader finds it by name.
type Search = (&'static [&'static str], unsafe fn() -> bool);

const LIBRARIES: [Search; 2] = [(&NVRTC, nvrtc::sys::is_culib_present), (&CUBLAS_LT, cublaslt::sys::is_culib_present)];

/// Loads the libraries into the global scope, so that a later `dlopen` by name finds them. That `dlopen` reports libraries that are missing
/// or fail to load. Each is taken from the first place that has it: `folders`, the wheels of the environment that the executable is
/// installed in, the loader's search path, the CUDA toolkit.
pub(super) fn preload(folders: &[PathBuf]) {
    static OPENED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = opened.get_or_insert_default();
    let wheels = env::current_exe().map(|executable| wheel_folders(&executable)).unwrap_or_default();
    for (library, is_present) in LIBRARIES {
        let in_folders = folders.iter().chain(&wheels).any(|folder| open_all(library, folder, opened));
        // SAFETY: opening a library by name runs NVIDIA's initialisers, which is intended.
        if !in_folders && !unsafe { is_present() } {
            toolkit_folders().iter().any(|folder| open_all(library, folder, opened));
        }
    }
}

/// Folders of the libraries in NVIDIA's wheels, which pip installs into the environment of an executable: `bin/accelerd` and
/// `lib/python3.12/site-packages/nvidia/cu13/lib`.
fn wheel_folders(executable: &Path) -> Vec<PathBuf> {
    let Some(prefix) = executable.parent().and_then(Path::parent) else { return vec![] };
    let pythons = folders_in(&prefix.join("lib")).into_iter().filter(|folder| {
        let name = folder.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with("python3"))
    });
    // Debian's Python installs into dist-packages.
    let packages =
        pythons.flat_map(|python| ["site-packages/nvidia", "dist-packages/nvidia"].map(|path| python.join(path)));
    packages
        .flat_map(|nvidia| folders_in(&nvidia))
        .map(|wheel| wheel.join("lib"))
        .filter(|folder| folder.is_dir())
        .collect()
}

/// Folders of the libraries in CUDA toolkits, the default one first.
fn toolkit_folders() -> Vec<PathBuf> {
    let mut toolkits = folders_in(Path::new("/usr/local"));
    toolkits.retain(|folder| folder.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("cuda-")));
    let default = PathBuf::from("/usr/local/cuda");
    iter::once(default).chain(toolkits).map(|toolkit| toolkit.join("lib64")).collect()
}

/// The folders in a folder, the greatest names first.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut folders: Vec<_> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    folders.sort_unstable_by(|a, b| b.cmp(a));
    folders
}

/// Opens the files of a library that a folder has. Returns true if the last one, the library itself, is open.
fn open_all(files: &[&str], folder: &Path, opened: &mut HashSet<PathBuf>) -> bool {
    let mut is_open = false;
    for prefix in files {
        is_open =
            newest(folder, prefix).is_some_and(|path| opened.contains(&path) || open(&path) && opened.insert(path));
    }
    is_open
}

/// Paths of NVRTC and cuBLASLt, as far as there are such libraries: the loader may prefer others to those that were preloaded.
pub fn loaded() -> Vec<PathBuf> {
    let mut paths = vec![];
    // SAFETY: opening a library by name runs NVIDIA's initialisers, which is intended.
    unsafe {
        if nvrtc::sys::is_culib_present() {
            paths.extend(path_of(nvrtc::sys::culib(), c"nvrtcVersion"));
        }
        if cublaslt::sys::is_culib_present() {
            paths.extend(path_of(cublaslt::sys::culib(), c"cublasLtCreate"));
        }
    }
    paths
}

/// Path of the file that has a function of a library.
fn path_of(library: &Library, function: &CStr) -> Option<PathBuf> {
    // SAFETY: the address is only looked up.
    let address = unsafe {
        let symbol: Symbol<'_, *const c_void> = library.get(function.to_bytes_with_nul()).ok()?;
        symbol.try_as_raw_ptr()?
    };
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: writes the description of the object at the address, if there is one; its name stays valid while it is loaded.
    unsafe {
        if libc::dladdr(address, info.as_mut_ptr()) == 0 {
            return None;
        }
        let name = CStr::from_ptr(info.assume_init().dli_fname);
        Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
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

fn open(path: &Path) -> bool {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: the administrator named the folder as one of NVIDIA's libraries, whose initialisers may run at any time.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
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
    fn the_first_folder_that_has_a_library_is_chosen() {
        let first = tempfile::tempdir().expect("a temporary folder");
        let second = tempfile::tempdir().expect("a temporary folder");
        fs::write(second.path().join("libcublasLt.so.13"), "no library").expect("a file");
        let known = second.path().canonicalize().expect("a folder").join("libcublasLt.so.13");
        let mut opened = HashSet::from([known]);
        assert!(!open_all(&CUBLAS_LT, first.path(), &mut opened), "the folder is empty");
        assert!(open_all(&CUBLAS_LT, second.path(), &mut opened), "it is open already");
    }

    #[test]
    fn the_wheels_of_the_environment_of_the_executable_are_searched() {
        let prefix = tempfile::tempdir().expect("a temporary folder");
        let wheel = prefix.path().join("lib/python3.12/site-packages/nvidia/cu13/lib");
        let debian = prefix.path().join("lib/python3.11/dist-packages/nvidia/cublas/lib");
        let without_libraries = prefix.path().join("lib/python3.12/site-packages/nvidia/cuda_runtime/include");
        for folder in [&wheel, &debian, &without_libraries] {
            fs::create_dir_all(folder).expect("a folder");
        }
        assert_eq!(wheel_folders(&prefix.path().join("bin/accelerd")), [wheel, debian]);
        assert!(wheel_folders(Path::new("accelerd")).is_empty());
    }

    #[test]
    fn the_path_of_a_library_is_that_of_its_functions() {
        // SAFETY: the C library is loaded already.
        let library = unsafe { Library::new("libc.so.6") }.expect("the C library");
        let path = path_of(&library, c"getpid").expect("a path");
        assert!(path.to_str().is_some_and(|path| path.contains("libc.so")), "{path:?}");
        assert_eq!(path_of(&library, c"no_such_function"), None);
    }

    #[test]
    fn missing_folders_and_broken_libraries_are_skipped() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("libcublasLt.so.13"), "no library").expect("a file");
        preload(&[folder.path().to_owned(), folder.path().join("none")]);
    }
}
