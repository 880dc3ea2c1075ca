//! NVRTC, the run-time compiler: CUDA C++ source to machine code for one architecture. It needs no GPU.

use std::{
    ffi::{CStr, CString, c_char, c_int},
    path::PathBuf,
};

use cudarc::nvrtc::sys::{self, nvrtcResult};

use super::{
    arch::Arch,
    libraries,
    module::{Module, TranslationUnit},
};

/// Maximum lines of the compiler's log in an error message.
const LOG_LINES: usize = 4;

/// The option that optimises least.
pub(super) const FAST_COMPILE: &str = "--Ofast-compile=max";

/// Compilation target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// Machine code for exactly this architecture.
    Machine(Arch),
    /// PTX, if the architecture is newer than this NVRTC: the driver compiles it at load time.
    Ptx(Arch),
}

impl Target {
    /// The value of `--gpu-architecture`.
    pub(super) fn name(self) -> String {
        match self {
            Self::Machine(arch) => arch.target(),
            Self::Ptx(arch) => arch.to_string().replace("sm_", "compute_"),
        }
    }
}

/// The loaded NVRTC library.
#[derive(Clone, Debug)]
pub(super) struct Nvrtc {
    version: (c_int, c_int),
    archs: Vec<u32>,
}

impl Nvrtc {
    /// Loads the library, searching `folders` first.
    pub(super) fn find(folders: &[PathBuf]) -> Result<Self, String> {
        libraries::preload(folders);
        // SAFETY: only opens a library by name; loading NVRTC runs NVIDIA's initialisers, which is intended.
        if !unsafe { sys::is_culib_present() } {
            return Err("the CUDA compiler library (libnvrtc) was not found: install accelerd-server[cuda], the package nvidia-cuda-nvrtc or \
                        the CUDA toolkit, or name its folder in cuda.library_path"
                .to_owned());
        }
        let mut major = 0;
        let mut minor = 0;
        let mut count = 0;
        // SAFETY: each call writes the integers it is given.
        unsafe {
            check(sys::nvrtcVersion(&raw mut major, &raw mut minor))?;
            check(sys::nvrtcGetNumSupportedArchs(&raw mut count))?;
        }
        let mut archs = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: writes as many integers as the preceding call returned.
        check(unsafe { sys::nvrtcGetSupportedArchs(archs.as_mut_ptr()) })?;
        let archs = archs.into_iter().filter_map(|arch| u32::try_from(arch).ok()).collect();
        Ok(Self { version: (major, minor), archs })
    }

    /// Version, as `13.0`.
    pub(super) fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Returns true if it has the options `--Ofast-compile` and `--minimal`.
    pub(super) fn has_fast_compile(&self) -> bool {
        self.version >= (13, 0)
    }

    /// Target for `arch`: machine code if NVRTC supports it, or PTX of the newest supported one if `arch` is newer.
    pub(super) fn target(&self, arch: Arch) -> Result<Target, String> {
        let known = self.archs.iter().filter(|known| **known <= arch.number()).max();
        match known {
            Some(known) if *known == arch.number() => Ok(Target::Machine(arch)),
            Some(known) if self.archs.iter().all(|other| other <= known) => {
                Ok(Target::Ptx(Arch::new(known / 10, known % 10)))
            }
            _ => Err(format!("NVRTC {} does not compile for {arch}", self.version())),
        }
    }

    /// Compiles a unit to machine code or NUL-terminated PTX. An error is the compiler's log.
    pub(super) fn compile(unit: &TranslationUnit<'_>, target: Target) -> Result<Vec<u8>, String> {
        let program = Program::compile(unit, &target.name())?;
        match target {
            Target::Machine(_) => program.fetch(sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN),
            Target::Ptx(_) => program.fetch(sys::nvrtcGetPTXSize, sys::nvrtcGetPTX),
        }
    }
}

/// Compiler options; part of the cache key. The unit's own `--fmad` replaces the default.
pub(super) fn options(unit: &TranslationUnit<'_>, architecture: &str) -> Vec<String> {
    let fixed = [format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
    let sets_fmad = unit.options.iter().any(|option| option.starts_with("--fmad="));
    let fmad = (!sets_fmad).then(|| "--fmad=true".to_owned());
    fixed.into_iter().chain(fmad).chain(unit.options.iter().cloned()).collect()
}

/// Returns the memory that compilations have freed to the operating system. NVRTC allocates with the C library, which keeps it: a gigabyte
/// after all kernels were compiled at once.
pub(super) fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: only returns free memory of the C library's allocator.
    unsafe {
        libc::malloc_trim(0);
    }
}

pub(super) struct Program {
    handle: sys::nvrtcProgram,
}

impl Program {
    /// Compiles a unit; an error is the start of the compiler's log.
    pub(super) fn compile(unit: &TranslationUnit<'_>, architecture: &str) -> Result<Self, String> {
        Self::compile_or(unit, architecture, |program, failed| format!("{failed}: {}", program.log()))
    }

    /// Compiles a unit; an error is the compiler's whole log.
    pub(super) fn compile_with_log(unit: &TranslationUnit<'_>, architecture: &str) -> Result<Self, String> {
        Self::compile_or(unit, architecture, |program, failed| {
            let log = program.whole_log();
            if log.trim().is_empty() { failed } else { log }
        })
    }

    fn compile_or(
        unit: &TranslationUnit<'_>,
        architecture: &str,
        error: impl FnOnce(&Self, String) -> String,
    ) -> Result<Self, String> {
        let program = Self::create(unit)?;
        let options = options(unit, architecture).iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(options.len()).map_err(|e| e.to_string())?;
        // SAFETY: the options are `count` NUL-terminated strings that outlive the call.
        match check(unsafe { sys::nvrtcCompileProgram(program.handle, count, options.as_ptr()) }) {
            Ok(()) => Ok(program),
            Err(failed) => Err(error(&program, failed)),
        }
    }

    fn create(unit: &TranslationUnit<'_>) -> Result<Self, String> {
        let source = text(unit.text)?;
        let name = text(&unit.path)?;
        let names = unit.headers.iter().map(|header| text(header.path)).collect::<Result<Vec<_>, _>>()?;
        let texts = unit.headers.iter().map(|header| text(header.text)).collect::<Result<Vec<_>, _>>()?;
        let pointers = |strings: &[CString]| strings.iter().map(|string| string.as_ptr()).collect::<Vec<_>>();
        let names = pointers(&names);
        let texts = pointers(&texts);
        let count = c_int::try_from(names.len()).map_err(|e| e.to_string())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: all strings are NUL-terminated and outlive the call, which copies them.
        check(unsafe {
            let texts = texts.as_ptr();
            let names = names.as_ptr();
            sys::nvrtcCreateProgram(&raw mut handle, source.as_ptr(), name.as_ptr(), count, texts, names)
        })?;
        Ok(Self { handle })
    }

    /// Fetches the output of the compiler.
    pub(super) fn fetch(
        &self,
        size: unsafe fn(sys::nvrtcProgram, *mut usize) -> nvrtcResult,
        get: unsafe fn(sys::nvrtcProgram, *mut c_char) -> nvrtcResult,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: writes one number.
        check(unsafe { size(self.handle, &raw mut bytes) })?;
        let mut image = vec![0_u8; bytes];
        // SAFETY: writes as many bytes as the preceding call returned.
        check(unsafe { get(self.handle, image.as_mut_ptr().cast()) })?;
        Ok(image)
    }

    /// The PTX, which a compilation to machine code makes too.
    fn ptx(&self) -> Result<String, String> {
        let image = self.fetch(sys::nvrtcGetPTXSize, sys::nvrtcGetPTX)?;
        let text = CStr::from_bytes_until_nul(&image).map_err(|e| e.to_string())?;
        Ok(text.to_string_lossy().into_owned())
    }

    pub(super) fn whole_log(&self) -> String {
        let log = self.fetch(sys::nvrtcGetProgramLogSize, sys::nvrtcGetProgramLog).unwrap_or_default();
        CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The first lines of the compiler's log from the first error on, joined.
    fn log(&self) -> String {
        let log = self.whole_log();
        let has_error = log.contains("error");
        let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.skip_while(|line| has_error && !line.contains("error")).take(LOG_LINES).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&raw mut self.handle) };
    }
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|e| e.to_string())
}

fn check(result: nvrtcResult) -> Result<(), String> {
    if result == nvrtcResult::NVRTC_SUCCESS { Ok(()) } else { Err(describe(result)) }
}

fn describe(result: nvrtcResult) -> String {
    format!("{result:?}")
}

/// Compiles a module to machine code with hardly any optimisation, which takes a fraction of the time, and returns its PTX: tests compile for
/// every architecture, and compare the parameters of kernels.
pub fn compile_quickly(module: &Module, arch: Arch, folders: &[PathBuf]) -> Result<String, String> {
    unit_quickly(module.unit(), arch, folders)
}

/// Compiles a unit as [`compile_quickly`] does.
pub(super) fn unit_quickly(mut unit: TranslationUnit<'_>, arch: Arch, folders: &[PathBuf]) -> Result<String, String> {
    let target = Nvrtc::find(folders)?.target(arch)?;
    unit.options.push(FAST_COMPILE.to_owned());
    Program::compile(&unit, &target.name())?.ptx()
}

/// PTX of a unit.
pub(super) fn unit_ptx(unit: &TranslationUnit<'_>, arch: Arch, folders: &[PathBuf]) -> Result<String, String> {
    Nvrtc::find(folders)?;
    let virtual_target = arch.target().replace("sm_", "compute_");
    Program::compile(unit, &virtual_target)?.ptx()
}
