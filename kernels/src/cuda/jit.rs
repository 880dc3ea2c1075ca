//! Kernels generated at run time: compiled by NVRTC when they are first needed, kept on disk, and loaded until no worker
//! uses them and others need their place.

use std::{
    ffi::CString,
    fmt, mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use cudarc::driver::sys::{self, CUresult};

use super::{
    arch::Arch,
    cache::{Cache, Key},
    compile::{self, CompileError, CompiledModule},
    driver::{self, ok},
    module::{Source, TranslationUnit},
    nvrtc::{self, Nvrtc, Target},
    stats::{Function, LaunchCounter},
};
use crate::{Settings, single_flight::SingleFlightCache};

/// Bounds of the loaded kernels that nothing uses.
const MAX_LOADED: usize = 1024;
const MAX_LOADED_BYTES: u64 = 64 << 20;
/// The folder below that of the built-in kernels. It has a limit of its own, so that generated kernels evict no built-in
/// ones.
const FOLDER: &str = "jit";

/// A generated CUDA source with one kernel, `extern "C" __global__ void TEMPLATE(...)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitSource {
    /// Name of the template that the source is generated from: the kernel's symbol, and its name in statistics and errors.
    /// There are few templates and many sources.
    pub template: &'static str,
    /// CUDA C++.
    pub text: String,
    /// All headers that the text includes, directly or not.
    pub headers: &'static [Source],
    /// Compiler options, such as `-DNAME=VALUE` or `--fmad=false`, in addition to those of every kernel.
    pub options: Vec<String>,
    /// Sizes of the kernel's parameters in bytes, in order.
    pub params: Vec<usize>,
}

impl JitSource {
    fn unit(&self) -> TranslationUnit<'_> {
        TranslationUnit {
            name: self.template,
            path: format!("{}.cu", self.template),
            text: &self.text,
            headers: self.headers,
            options: self.options.clone(),
        }
    }
}

/// A generated kernel loaded on a device. It stays loaded while a reference exists, and until launches and graphs that use
/// it have completed.
pub struct JitKernel {
    function: Function,
    params: Vec<usize>,
    _module: LoadedModule,
}

impl fmt::Debug for JitKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.template();
        f.debug_struct("JitKernel").field("template", &name).field("params", &self.params).finish_non_exhaustive()
    }
}

impl JitKernel {
    /// Name of its template.
    pub fn template(&self) -> &'static str {
        self.function.name()
    }

    pub(super) fn function(&self) -> &Function {
        &self.function
    }

    pub(super) fn params(&self) -> &[usize] {
        &self.params
    }

    /// Loads an image; the device's context is current.
    fn load(
        image: &[u8],
        source: &JitSource,
        counter: Arc<LaunchCounter>,
        unloads: &Arc<UnloadQueue>,
    ) -> Result<Self, JitError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the image is a whole CUBIN, or PTX that ends with a zero; the driver copies it.
        ok(unsafe { sys::cuModuleLoadData(&raw mut raw, image.as_ptr().cast()) })?;
        let module = LoadedModule { handle: raw as usize, unloads: Arc::clone(unloads) };
        let symbol = CString::new(source.template).map_err(|e| JitError::Source(e.to_string()))?;
        let mut function = std::ptr::null_mut();
        // SAFETY: writes one handle, which lives as long as its module.
        ok(unsafe { sys::cuModuleGetFunction(&raw mut function, raw, symbol.as_ptr()) })?;
        if let Some(compiled) = driver::function_params(function).filter(|compiled| *compiled != source.params) {
            let declared = &source.params;
            return Err(JitError::Source(format!("declares parameters of {declared:?} bytes, has {compiled:?}")));
        }
        Ok(Self { function: Function::new(counter, function), params: source.params.clone(), _module: module })
    }
}

/// Why a generated kernel cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JitError {
    /// The source is wrong.
    Source(String),
    /// The driver does not load the code.
    Driver(CUresult),
}

impl From<CUresult> for JitError {
    fn from(failed: CUresult) -> Self {
        Self::Driver(failed)
    }
}

/// A module in the device's context. Dropping it queues it to be unloaded.
struct LoadedModule {
    handle: usize,
    unloads: Arc<UnloadQueue>,
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        self.unloads.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.handle);
    }
}

/// Modules that nothing uses any more. Any thread queues them, and a worker unloads them, in the device's context and
/// outside of captures.
#[derive(Default)]
struct UnloadQueue(Mutex<Vec<usize>>);

impl UnloadQueue {
    fn unload(&self) {
        let modules = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for module in modules {
            // SAFETY: loaded once in the current context, unloaded once; what launched from it has completed.
            let _ = unsafe { sys::cuModuleUnload(module as sys::CUmodule) };
        }
    }
}

/// Compiles generated kernels for one architecture, or finds them on disk. It needs no device.
pub(super) struct JitCompiler {
    version: String,
    arch: Arch,
    target: Target,
    disk: Option<Cache>,
}

impl JitCompiler {
    pub(super) fn new(nvrtc: &Nvrtc, arch: Arch, settings: &Settings) -> Result<Self, String> {
        let disk = settings.kernel_cache.as_deref().map(|folder| disk_cache(folder, settings.jit_cache_bytes));
        Ok(Self { version: nvrtc.version(), arch, target: nvrtc.target(arch)?, disk })
    }

    fn key(&self, source: &JitSource) -> Key {
        Key::new(&source.unit(), self.target, &self.version)
    }

    /// The code and whether it was on disk. An error is the compiler's log.
    fn image(&self, source: &JitSource, key: &Key) -> Result<(Vec<u8>, bool), String> {
        let (image, on_disk) = compile::image(&source.unit(), key, self.target, self.disk.as_ref())?;
        if !on_disk {
            nvrtc::trim_memory();
        }
        Ok((image, on_disk))
    }
}

fn disk_cache(kernel_cache: &Path, limit: u64) -> Cache {
    Cache::new(&kernel_cache.join(FOLDER), limit)
}

/// A device's generated kernels.
pub(super) struct Jit {
    compiler: JitCompiler,
    loaded: SingleFlightCache<JitKey, JitKernel, JitError>,
    unloads: Arc<UnloadQueue>,
}

/// The code, and how it is launched.
#[derive(Clone, PartialEq, Eq, Hash)]
struct JitKey {
    code: Key,
    params: Vec<usize>,
}

impl Jit {
    pub(super) fn new(compiler: JitCompiler) -> Self {
        Self { compiler, loaded: SingleFlightCache::new(MAX_LOADED, MAX_LOADED_BYTES), unloads: Arc::default() }
    }

    /// The loaded kernel of a source. The device's context is current.
    pub(super) fn kernel(
        &self,
        source: &JitSource,
        counter: impl FnOnce() -> Arc<LaunchCounter>,
    ) -> Result<Arc<JitKernel>, JitError> {
        let key = JitKey { code: self.compiler.key(source), params: source.params.clone() };
        self.loaded.get_or_create(&key, || {
            let arch = self.compiler.arch;
            let failed = |log| JitError::Source(format!("does not compile for {arch}: {log}"));
            let (image, _) = self.compiler.image(source, &key.code).map_err(failed)?;
            let kernel = JitKernel::load(&image, source, counter(), &self.unloads)?;
            Ok((kernel, image.len() as u64))
        })
    }

    /// Number of loaded kernels and the bytes of their code.
    pub(super) fn usage(&self) -> (usize, u64) {
        self.loaded.usage()
    }

    /// Unloads what nothing uses any more; the device's context is current.
    pub(super) fn unload_unused(&self) {
        self.unloads.unload();
    }

    /// Unloads all kernels without other references; the device's context is current, and its work has completed.
    pub(super) fn unload_all(&self) {
        self.loaded.clear();
        self.unloads.unload();
    }
}

/// Compiles a generated source for `arch` into the part of the folder `cache` that generated kernels have, for a daemon
/// configured with the same folder. Needs NVRTC, but neither a GPU nor a driver.
pub fn compile_jit(
    source: &JitSource,
    arch: Arch,
    cache: &Path,
    library_paths: &[PathBuf],
) -> Result<CompiledModule, CompileError> {
    let nvrtc = Nvrtc::find(library_paths).map_err(CompileError::Compiler)?;
    let settings = Settings { kernel_cache: Some(cache.to_owned()), ..Settings::default() };
    let compiler = JitCompiler::new(&nvrtc, arch, &settings).map_err(CompileError::Compiler)?;
    let failed = |log| CompileError::Compile { module: source.template, arch, log };
    let (image, cached) = compiler.image(source, &compiler.key(source)).map_err(failed)?;
    Ok(CompiledModule { module: source.template, arch, bytes: image.len() as u64, cached })
}

/// Compiles a generated source to machine code with hardly any optimisation, and returns its PTX, for tests of many sources.
pub fn compile_jit_quickly(source: &JitSource, arch: Arch, library_paths: &[PathBuf]) -> Result<String, String> {
    nvrtc::unit_quickly(source.unit(), arch, library_paths)
}

/// PTX of a generated source, for tests that compare kernel parameters or instructions.
pub fn jit_ptx(source: &JitSource, arch: Arch, library_paths: &[PathBuf]) -> Result<String, String> {
    nvrtc::unit_ptx(&source.unit(), arch, library_paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> JitSource {
        JitSource { template: "template", text: text.to_owned(), headers: &[], options: vec![], params: vec![8, 4] }
    }

    fn key(source: &JitSource) -> Key {
        Key::new(&source.unit(), Target::Machine(Arch::new(9, 0)), "13.0")
    }

    #[test]
    fn the_key_depends_on_everything_that_changes_the_code() {
        const HEADER: Source = Source { path: "h", text: "" };
        let sources = [
            source("a"),
            source("b"),
            JitSource { template: "other", ..source("a") },
            JitSource { headers: &[HEADER], ..source("a") },
            JitSource { options: vec!["-DN=1".to_owned()], ..source("a") },
            JitSource { options: vec!["-DN=2".to_owned()], ..source("a") },
            JitSource { options: vec!["--fmad=false".to_owned()], ..source("a") },
        ];
        let keys: Vec<_> = sources.iter().map(key).collect();
        for (i, one) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|other| other != one), "{:?}", sources[i]);
        }
        assert_eq!(key(&source("a")), keys[0]);
    }

    #[test]
    fn generated_kernels_evict_each_other_and_no_built_in_ones() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let built_in = Cache::new(folder.path(), 0);
        let generated = disk_cache(folder.path(), 250);
        let [first, second, third] = ["a", "b", "c"].map(|text| key(&source(text)));
        built_in.put(&third, &[0; 200]).expect("written");
        generated.put(&first, &[1; 150]).expect("written");
        generated.put(&second, &[2; 150]).expect("written");
        assert_eq!(generated.get(&first), None);
        assert_eq!(generated.get(&second), Some(vec![2; 150]));
        assert_eq!((generated.get(&third), built_in.get(&third)), (None, Some(vec![0; 200])));
    }
}
