//! A kernel in the form in which it runs.

use std::path::Path;

use accelerd_ir::{kernel::Kernel, scalar::Literal};
use accelerd_kernels::ops::translate::{DeviceCode, Dialect, Translated};
use accelerd_sandbox::Module;

use super::kept::CacheEntry;

/// A compiled kernel.
#[derive(Debug)]
pub(crate) struct CompiledKernel {
    /// SHA-256 of its program, in hexadecimal digits.
    pub(crate) id: String,
    /// Name of its function.
    pub(crate) name: String,
    /// Its language, which the module decides if the program does not.
    pub(crate) dialect: Dialect,
    /// True if it maps a function over rows.
    pub(crate) maps_rows: bool,
    /// Its parameters, and the places in the source that faults refer to. It has no body.
    pub(crate) kernel: Kernel,
    /// For each parameter, whether it is an array that the kernel writes.
    pub(crate) written: Vec<bool>,
    /// True if threads may run again with the same effect.
    pub(crate) is_repeatable: bool,
    /// The constants of its body, each once.
    pub(crate) literals: Vec<Literal>,
    /// True if all targets compute the same bits.
    pub(crate) bit_exact: bool,
    /// Its module of WebAssembly.
    pub(crate) module: Module,
    /// Its code for GPUs, in CUDA C++.
    pub(crate) device: DeviceCode,
}

impl CacheEntry for CompiledKernel {
    type Key = String;

    fn key(&self) -> &String {
        &self.id
    }

    fn size_bytes(&self) -> u64 {
        let Kernel { params, sites, .. } = &self.kernel;
        let described = size_of_val(&params[..]) + size_of_val(&sites[..]) + size_of_val(&self.literals[..]);
        (self.module.binary().len() + self.device.source.len() + described + size_of::<Self>()) as u64
    }
}

impl CompiledKernel {
    /// `translated` has a module of WebAssembly and device code.
    pub(crate) fn new(id: String, translated: Translated) -> Self {
        let Translated {
            name,
            dialect,
            maps_rows,
            kernel,
            written,
            is_repeatable,
            literals,
            is_bit_exact,
            files,
            device,
            ..
        } = translated;
        let module = files.into_iter().find(|file| is_module(&file.name));
        let module = module.expect("it is requested").content;
        Self {
            id,
            name,
            dialect,
            maps_rows,
            kernel,
            written,
            is_repeatable,
            literals,
            bit_exact: is_bit_exact,
            module: Module::new(module),
            device: device.expect("it is requested"),
        }
    }

    /// Names of the arrays that it writes, in the order of the parameters.
    pub(crate) fn written_arrays(&self) -> impl Iterator<Item = &str> {
        let params = self.kernel.params.iter().zip(&self.written);
        params.filter(|(_, written)| **written).map(|(param, _)| param.name.as_str())
    }
}

/// Returns true if a file of a translation is a module of WebAssembly.
pub(crate) fn is_module(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "wasm")
}
