//! Kernels, their parameters, files and code in messages.

use accelerd_ir::kernel::{Component, Param, ParamType};
use accelerd_kernels::ops::translate::{Diagnostic, Dialect, File, Translated};
use accelerd_proto::v1 as pb;
use accelerd_sandbox::CudaResources;

use crate::{
    grpc::dtype::dtype_to_proto,
    kernels::{CompiledKernel, CudaKernel},
    status::bounded_message,
};

/// A compiled kernel.
pub(in crate::grpc) fn kernel(kernel: &CompiledKernel) -> pb::Kernel {
    pb::Kernel {
        id: kernel.id.clone(),
        name: kernel.name.clone(),
        dialect: dialect(kernel.dialect).into(),
        grid_dims: kernel.kernel.grid_dims.into(),
        params: kernel.kernel.params.iter().map(param).collect(),
        written_arrays: kernel.written_arrays().map(str::to_owned).collect(),
        bit_exact: kernel.bit_exact,
        size_bytes: kernel.module.binary().len() as u64,
    }
}

/// A language.
pub(super) fn dialect(of: Dialect) -> pb::KernelDialect {
    match of {
        Dialect::Warp => pb::KernelDialect::Warp,
        Dialect::Python => pb::KernelDialect::Python,
    }
}

/// A parameter.
fn param(param: &Param) -> pb::KernelParam {
    let (dims, element) = match &param.ty {
        ParamType::Value(element) => (0, element),
        ParamType::Array(array) => (array.dims, &array.element),
    };
    pb::KernelParam {
        name: param.name.clone(),
        dims: dims.into(),
        element_size_bytes: element.size,
        components: element.components.iter().map(component).collect(),
    }
}

fn component(component: &Component) -> pb::KernelComponent {
    let Component { name, dtype, offset } = component;
    pb::KernelComponent { name: name.clone(), dtype: dtype_to_proto(*dtype).into(), offset_bytes: *offset }
}

/// A file of a translation.
pub(super) fn file(file: File) -> pb::KernelFile {
    pb::KernelFile { name: file.name, content: file.content.into() }
}

/// A translated kernel.
pub(super) fn translated(translated: Translated) -> pb::TranslatedKernel {
    let Translated { name, kernel, is_bit_exact, files, .. } = translated;
    pb::TranslatedKernel {
        name,
        grid_dims: kernel.grid_dims.into(),
        params: kernel.params.iter().map(param).collect(),
        bit_exact: is_bit_exact,
        files: files.into_iter().map(file).collect(),
    }
}

/// Why a kernel is not translated.
pub(super) fn diagnostic(diagnostic: Diagnostic) -> pb::KernelDiagnostic {
    let Diagnostic { kernel, code, message, line, column } = diagnostic;
    pb::KernelDiagnostic { kernel, code: code.to_owned(), message: bounded_message(&message), line, column }
}

/// The code of a kernel for a GPU, and what it needs.
pub(super) fn cuda_code(kernel: &CudaKernel) -> pb::CudaCode {
    let is_machine_code = kernel.resources.is_some();
    pb::CudaCode {
        arch: kernel.arch.to_string(),
        ptx: kernel.ptx.clone(),
        cubin: if is_machine_code { kernel.image.binary().clone() } else { bytes::Bytes::new() },
        resources: kernel.resources.map(resources),
    }
}

pub(super) fn resources(needs: CudaResources) -> pb::CudaResources {
    pb::CudaResources {
        registers: needs.registers,
        shared_memory_bytes: needs.shared_bytes,
        stack_bytes: needs.stack_bytes,
        spill_store_bytes: needs.spill_store_bytes,
        spill_load_bytes: needs.spill_load_bytes,
        max_block_threads: needs.max_block_threads,
    }
}
