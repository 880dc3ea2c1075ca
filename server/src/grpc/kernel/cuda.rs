//! Kernels compiled for GPUs, in messages and files.

use accelerd_proto::v1 as pb;
use accelerd_sandbox::CudaResources;
use serde_json::{Value, json};

use crate::kernels::CudaKernel;

/// The code and what it needs.
pub(super) fn code(kernel: &CudaKernel) -> pb::CudaCode {
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

/// The files of a translation to PTX.
pub(super) fn files(name: &str, entry: &str, kernel: &CudaKernel) -> [pb::KernelFile; 2] {
    let needs = kernel.resources.map_or(Value::Null, |needs| {
        json!({
            "registers": needs.registers,
            "shared_memory_bytes": needs.shared_bytes,
            "stack_bytes": needs.stack_bytes,
            "spill_store_bytes": needs.spill_store_bytes,
            "spill_load_bytes": needs.spill_load_bytes,
            "max_block_threads": needs.max_block_threads,
        })
    });
    let report = json!({ "kernel": name, "entry": entry, "arch": kernel.arch.to_string(), "resources": needs });
    let file = |name: String, content: String| pb::KernelFile { name, content: content.into() };
    [file(format!("{name}.ptx"), kernel.ptx.clone()), file("resources.json".to_owned(), format!("{report:#}\n"))]
}
