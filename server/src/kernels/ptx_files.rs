//! The files of a kernel that is compiled for GPUs.

use accelerd_kernels::ops::translate::File;
use serde_json::{Value, json};

use super::CudaKernel;

/// The files of a translation to PTX.
pub(super) fn ptx_files(name: &str, entry: &str, kernel: &CudaKernel) -> [File; 2] {
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
    let file = |name: String, content: String| File { name, content: content.into_bytes() };
    [file(format!("{name}.ptx"), kernel.ptx.clone()), file("resources.json".to_owned(), format!("{report:#}\n"))]
}
