//! Kernels and their parameters in messages.

use accelerd_ir::kernel::{Component, Param, ParamType};
use accelerd_kernels::ops::translate::Dialect;
use accelerd_proto::v1 as pb;

use crate::{grpc::dtype::dtype_to_proto, kernels::CompiledKernel};

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
pub(in crate::grpc) fn param(param: &Param) -> pb::KernelParam {
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
