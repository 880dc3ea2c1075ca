//! Compiles all kernels for an architecture in parallel, or loads them from the cache.

use std::{
    path::{Path, PathBuf},
    thread,
};

use super::{
    arch::Arch,
    cache::{ANY_VERSION, Cache, Key},
    module::{Module, TranslationUnit},
    nvrtc::{Nvrtc, Target, trim_memory},
};
use crate::LoadProgress;

/// A module compiled for a device.
pub(super) struct Compiled {
    pub(super) module: &'static Module,
    /// Machine code, or NUL-terminated PTX.
    pub(super) image: Vec<u8>,
    cached: bool,
}

/// A module compiled by [`compile_kernels`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledModule {
    /// Module name.
    pub module: &'static str,
    /// Target architecture.
    pub arch: Arch,
    /// Size of the code in bytes.
    pub bytes: u64,
    /// True if it was already cached.
    pub cached: bool,
}

/// Whom a folder of compiled kernels serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFolder {
    /// Daemons with the same version of NVRTC: their kernel cache.
    Cache,
    /// Daemons with any version of NVRTC: the kernels of an installation, which they only read.
    Installation,
}

/// The folders of compiled kernels.
#[derive(Clone, Copy, Default)]
pub(super) struct Folders<'a> {
    /// The kernels of the installation, which are only read.
    pub(super) installed: Option<&'a Cache>,
    pub(super) cache: Option<&'a Cache>,
}

/// Why kernels could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The compiler is missing, or does not support the architecture.
    #[error("{0}")]
    Compiler(String),
    /// A kernel does not compile.
    #[error("kernels {module} do not compile for {arch}: {log}")]
    Compile {
        /// Module name.
        module: &'static str,
        /// Target architecture.
        arch: Arch,
        /// The first lines of the compiler's log.
        log: String,
    },
    /// The cache is not writable.
    #[error("the kernel cache {folder} is not writable: {reason}")]
    Cache {
        /// Folder of the cache.
        folder: PathBuf,
        /// The operating system's error.
        reason: String,
    },
}

/// Compiles `modules` for `archs` into `folder`, which is the cache of a daemon or part of an installation. Modules already there are not
/// recompiled. Needs NVRTC, but neither a GPU nor a driver.
pub fn compile_kernels(
    modules: &[&'static Module],
    archs: &[Arch],
    kind: KernelFolder,
    folder: &Path,
    library_paths: &[PathBuf],
    progress: &LoadProgress,
) -> Result<Vec<CompiledModule>, CompileError> {
    let nvrtc = Nvrtc::find(library_paths).map_err(CompileError::Compiler)?;
    let store = Cache::new(folder, 0);
    let failed = |e: std::io::Error| CompileError::Cache { folder: folder.to_owned(), reason: e.to_string() };
    store.prepare().map_err(failed)?;
    let (folders, version) = match kind {
        KernelFolder::Cache => (Folders { cache: Some(&store), ..Folders::default() }, nvrtc.version()),
        KernelFolder::Installation => {
            (Folders { installed: Some(&store), ..Folders::default() }, ANY_VERSION.to_owned())
        }
    };
    let mut built = vec![];
    for arch in archs {
        let target = nvrtc.target(*arch).map_err(CompileError::Compiler)?;
        for compiled in all(modules, &nvrtc, *arch, folders, progress)? {
            let key = Key::new(&compiled.module.unit(), target, &version);
            if store.get(&key).is_none() {
                store.put(&key, &compiled.image).map_err(failed)?;
            }
            let module = compiled.module.name;
            let bytes = compiled.image.len() as u64;
            built.push(CompiledModule { module, arch: *arch, bytes, cached: compiled.cached });
        }
    }
    Ok(built)
}

/// Every module for `arch`. Errors of the cache are ignored.
pub(super) fn all(
    modules: &[&'static Module],
    nvrtc: &Nvrtc,
    arch: Arch,
    folders: Folders<'_>,
    progress: &LoadProgress,
) -> Result<Vec<Compiled>, CompileError> {
    let target = nvrtc.target(arch).map_err(CompileError::Compiler)?;
    progress.expect(modules.len());
    parallel(modules, |module| {
        let compiled = compile(nvrtc, module, arch, target, folders)?;
        progress.add(compiled.cached);
        Ok(compiled)
    })
}

/// Runs `work` on all modules in parallel; returns the first error.
fn parallel(
    modules: &[&'static Module],
    work: impl Fn(&'static Module) -> Result<Compiled, CompileError> + Sync,
) -> Result<Vec<Compiled>, CompileError> {
    let work = &work;
    let all: Result<Vec<_>, _> = thread::scope(|scope| {
        let running: Vec<_> = modules.iter().map(|&module| (module.name, scope.spawn(move || work(module)))).collect();
        let died = |name| CompileError::Compiler(format!("the compilation of {name} panicked"));
        running.into_iter().map(|(name, thread)| thread.join().unwrap_or_else(|_| Err(died(name)))).collect()
    });
    if all.as_ref().is_ok_and(|all| all.iter().any(|compiled| !compiled.cached)) {
        trim_memory();
    }
    all
}

fn compile(
    nvrtc: &Nvrtc,
    module: &'static Module,
    arch: Arch,
    target: Target,
    folders: Folders<'_>,
) -> Result<Compiled, CompileError> {
    let unit = module.unit();
    if let Some(image) = folders.installed.and_then(|installed| installed.get(&Key::new(&unit, target, ANY_VERSION))) {
        return Ok(Compiled { module, image, cached: true });
    }
    let key = Key::new(&unit, target, &nvrtc.version());
    let failed = |log| CompileError::Compile { module: module.name, arch, log };
    let (image, cached) = image(&unit, &key, target, folders.cache).map_err(failed)?;
    Ok(Compiled { module, image, cached })
}

/// Machine code, or NUL-terminated PTX, of a unit, and whether it was cached. Errors of the cache are ignored; an error is
/// the compiler's log.
pub(super) fn image(
    unit: &TranslationUnit<'_>,
    key: &Key,
    target: Target,
    cache: Option<&Cache>,
) -> Result<(Vec<u8>, bool), String> {
    if let Some(image) = cache.and_then(|cache| cache.get(key)) {
        return Ok((image, true));
    }
    let image = Nvrtc::compile(unit, target)?;
    if let Some(cache) = cache {
        // A full or read-only folder only makes the next process recompile.
        let _ = cache.put(key, &image);
    }
    Ok((image, false))
}
