//! All kernels for an architecture, from the cache or compiled, several at a time.

use std::{
    path::{Path, PathBuf},
    thread,
};

use super::{
    arch::Arch,
    cache::{Cache, Key},
    modules::{MODULES, Module},
    nvrtc::{Nvrtc, Target},
};

/// A module compiled for a device.
pub(super) struct Compiled {
    pub(super) module: &'static Module,
    /// Machine code, or PTX that ends with a zero.
    pub(super) image: Vec<u8>,
    cached: bool,
}

/// One line of what [`build_kernels`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The module.
    pub module: &'static str,
    /// The architecture.
    pub arch: Arch,
    /// Size of the code.
    pub bytes: u64,
    /// Whether it was in the cache already.
    pub cached: bool,
}

/// Why kernels could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The compiler is missing, or does not know the architecture.
    #[error("{0}")]
    Compiler(String),
    /// A kernel does not compile.
    #[error("kernels {module} do not compile for {arch}: {log}")]
    Compile {
        /// The module.
        module: &'static str,
        /// The architecture.
        arch: Arch,
        /// The first lines of the compiler's log.
        log: String,
    },
    /// The cache cannot be written.
    #[error("the kernel cache {folder} cannot be written: {reason}")]
    Cache {
        /// Its folder.
        folder: PathBuf,
        /// The system's words.
        reason: String,
    },
}

/// Compiles every kernel for `archs` into the folder `cache`, where a daemon that is given the same folder finds them.
/// Needs NVRTC, but neither a GPU nor a driver. What is there already is kept.
pub fn build_kernels(archs: &[Arch], cache: &Path, library_paths: &[PathBuf]) -> Result<Vec<Built>, BuildError> {
    let nvrtc = Nvrtc::find(library_paths).map_err(BuildError::Compiler)?;
    let store = Cache::new(cache, 0);
    let failed = |e: std::io::Error| BuildError::Cache { folder: cache.to_owned(), reason: e.to_string() };
    store.prepare().map_err(failed)?;
    let mut built = vec![];
    for arch in archs {
        let target = nvrtc.target(*arch).map_err(BuildError::Compiler)?;
        for one in parallel(|module| compile(&nvrtc, module, *arch, target, Some(&store)))? {
            let key = Key::new(one.module, target, &nvrtc.version());
            if store.get(&key).is_none() {
                store.put(&key, &one.image).map_err(failed)?;
            }
            let (module, bytes) = (one.module.name, one.image.len() as u64);
            built.push(Built { module, arch: *arch, bytes, cached: one.cached });
        }
    }
    Ok(built)
}

/// Every module for `arch`. A cache that cannot be read or written is done without.
pub(super) fn all(nvrtc: &Nvrtc, arch: Arch, cache: Option<&Cache>) -> Result<Vec<Compiled>, BuildError> {
    let target = nvrtc.target(arch).map_err(BuildError::Compiler)?;
    parallel(|module| compile(nvrtc, module, arch, target, cache))
}

/// Works on all modules at the same time; the first error wins.
fn parallel(
    work: impl Fn(&'static Module) -> Result<Compiled, BuildError> + Sync,
) -> Result<Vec<Compiled>, BuildError> {
    let work = &work;
    thread::scope(|scope| {
        let running: Vec<_> = MODULES.iter().map(|module| (module.name, scope.spawn(move || work(module)))).collect();
        let died = |name| BuildError::Compiler(format!("compiling {name} ended in a panic"));
        running.into_iter().map(|(name, thread)| thread.join().unwrap_or_else(|_| Err(died(name)))).collect()
    })
}

fn compile(
    nvrtc: &Nvrtc,
    module: &'static Module,
    arch: Arch,
    target: Target,
    cache: Option<&Cache>,
) -> Result<Compiled, BuildError> {
    let key = Key::new(module, target, &nvrtc.version());
    if let Some(image) = cache.and_then(|cache| cache.get(&key)) {
        return Ok(Compiled { module, image, cached: true });
    }
    let failed = |log| BuildError::Compile { module: module.name, arch, log };
    let image = Nvrtc::compile(module, target).map_err(failed)?;
    if let Some(cache) = cache {
        // A folder that is full or read-only costs the next start some time, never this one.
        let _ = cache.put(&key, &image);
    }
    Ok(Compiled { module, image, cached: false })
}
