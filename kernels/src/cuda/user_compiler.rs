//! Compiles kernels of clients, and reports the resources that they need. Nothing bounds the time and the memory that the compiler takes:
//! it belongs in a process that can be killed.

use std::path::PathBuf;

use cudarc::nvrtc::sys;

use super::{
    arch::Arch,
    module::TranslationUnit,
    nvrtc::{FAST_COMPILE, Nvrtc, Program, Target},
};

/// Registers of a multiprocessor of every supported architecture, and those that a warp gets at once.
const REGISTERS: u32 = 64 << 10;
const REGISTERS_PER_WARP_UNIT: u32 = 256;

/// The compiler of kernels of clients.
#[derive(Debug)]
pub struct UserCompiler {
    nvrtc: Nvrtc,
    quick: bool,
}

/// A compiled kernel of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserCode {
    /// Machine code, or NUL-terminated PTX where the compiler does not know the architecture yet.
    pub image: Vec<u8>,
    /// PTX.
    pub ptx: String,
    /// Resources that it needs; `None` if there is no machine code.
    pub resources: Option<KernelResources>,
}

/// Resources that a kernel needs on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelResources {
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block.
    pub shared_bytes: u32,
    /// Stack of a thread, in local memory.
    pub stack_bytes: u32,
    /// Bytes of the instructions that write registers to the stack for want of registers.
    pub spill_store_bytes: u32,
    /// Bytes of the instructions that read them back.
    pub spill_load_bytes: u32,
    /// The most threads of a block, by the number of registers.
    pub max_block_threads: u32,
}

impl UserCompiler {
    /// Loads NVRTC; searches `folders` first. A quick compiler takes a fourth of the time for generated code, which then is slower.
    pub fn find(folders: &[PathBuf], quick: bool) -> Result<Self, String> {
        Ok(Self { nvrtc: Nvrtc::find(folders)?, quick })
    }

    /// Compiles generated CUDA C++ for an architecture, without contraction of products and sums. An error is the compiler's log.
    pub fn compile(&self, source: &str, arch: Arch) -> Result<UserCode, String> {
        // Integers of 128 bits have the places of values of 64 bits.
        let mut options = vec!["--fmad=false".to_owned(), "--device-int128".to_owned()];
        if self.nvrtc.has_fast_compile() {
            // Generated code uses no types of the runtime, whose declarations take 5 ms.
            options.push("--minimal".to_owned());
            if self.quick {
                options.push(FAST_COMPILE.to_owned());
            }
        }
        self.compile_with(source, arch, options, resources)
    }

    /// Compiles CUDA C++ of a client, with NVRTC's own options. The resources are those of `entry`. An error is the compiler's log.
    ///
    /// The compiler opens the files that a source includes: the process must not be able to.
    pub fn compile_source(&self, source: &str, entry: &str, arch: Arch) -> Result<UserCode, String> {
        self.compile_with(source, arch, vec![], |log| resources(of_entry(log, entry)?))
    }

    fn compile_with(
        &self,
        source: &str,
        arch: Arch,
        mut options: Vec<String>,
        resources: impl FnOnce(&str) -> Option<KernelResources>,
    ) -> Result<UserCode, String> {
        options.push("--ptxas-options=-v".to_owned());
        let unit =
            TranslationUnit { name: "kernel", path: "kernel.cu".to_owned(), text: source, headers: &[], options };
        // Without the variant of the architecture, PTX serves later ones as well.
        let (target, is_machine) = match self.nvrtc.target(arch)? {
            Target::Machine(arch) => (arch.to_string(), true),
            target @ Target::Ptx(_) => (target.name(), false),
        };
        let program = Program::compile_with_log(&unit, &target)?;
        let ptx = program.fetch(sys::nvrtcGetPTXSize, sys::nvrtcGetPTX)?;
        let text = String::from_utf8_lossy(&ptx).trim_end_matches('\0').to_owned();
        if !is_machine {
            return Ok(UserCode { image: ptx, ptx: text, resources: None });
        }
        let image = program.fetch(sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN)?;
        Ok(UserCode { image, ptx: text, resources: resources(&program.whole_log()) })
    }
}

/// The report of the assembler on one of the kernels of a program.
fn of_entry<'a>(log: &'a str, entry: &str) -> Option<&'a str> {
    const START: &str = "Compiling entry function '";
    let mut parts = log.split(START).skip(1);
    parts.find(|part| part.strip_prefix(entry).is_some_and(|rest| rest.starts_with('\'')))
}

/// The resources in the assembler's report on the only kernel of a program.
fn resources(log: &str) -> Option<KernelResources> {
    let before = |unit: &str| {
        let (before, _) = log.split_once(unit)?;
        before.rsplit([' ', ',']).find(|word| !word.is_empty())?.parse::<u32>().ok()
    };
    let registers = before(" registers")?;
    Some(KernelResources {
        registers,
        shared_bytes: before(" bytes smem").unwrap_or(0),
        stack_bytes: before(" bytes stack frame").unwrap_or(0),
        spill_store_bytes: before(" bytes spill stores").unwrap_or(0),
        spill_load_bytes: before(" bytes spill loads").unwrap_or(0),
        max_block_threads: max_block_threads(registers),
    })
}

/// Registers are handed out to warps in units, and to the four parts of a multiprocessor evenly.
fn max_block_threads(registers: u32) -> u32 {
    let of_warp = (registers.max(1) * 32).next_multiple_of(REGISTERS_PER_WARP_UNIT);
    let warps = REGISTERS / of_warp / 4 * 4;
    (warps * 32).min(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_the_assembler_is_read() {
        let log = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_75'
ptxas info    : Function properties for k
ptxas         .     1200 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 72 registers, used 0 barriers, 1200 bytes cumulative stack size, 512 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 8.977 ms";
        let expected = KernelResources {
            registers: 72,
            shared_bytes: 512,
            stack_bytes: 1200,
            spill_store_bytes: 16,
            spill_load_bytes: 24,
            max_block_threads: 896,
        };
        assert_eq!(resources(log), Some(expected));
        assert_eq!(resources(""), None);
        let two = log.replace("'k'", "'kk'").replace("72 registers", "8 registers") + "\n" + log;
        assert_eq!(of_entry(&two, "k").and_then(resources), Some(expected));
        assert_eq!(of_entry(&two, "kk").and_then(resources).map(|needs| needs.registers), Some(8));
        assert_eq!(of_entry(&two, "other"), None);
    }

    #[test]
    fn registers_bound_the_threads_of_a_block() {
        assert_eq!([1, 32, 64, 65, 128, 255].map(max_block_threads), [1024, 1024, 1024, 896, 512, 256]);
    }
}
