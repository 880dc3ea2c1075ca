//! The CUDA device layer: devices, workers, memory, launches and compiled kernels. `cudarc` is named only below this
//! folder.
//!
//! One build runs everywhere: driver and compiler are loaded at run time, and a missing one is a reason to run without
//! a GPU, never a panic. CUDA C++ sources are embedded in the binary, compiled by NVRTC when a device is opened, and
//! cached on disk.

mod arch;
mod async_readback;
mod blas;
mod cache;
mod compile;
mod context;
mod copy_stream;
mod device;
mod device_cache;
mod driver;
mod graph;
mod graph_cache;
mod in_flight;
mod jit;
mod launch;
mod launch_struct;
mod libraries;
mod memcpy_pool;
mod memory;
mod module;
mod nvrtc;
mod owner_cache;
mod pingpong;
mod pinned;
mod product;
mod slices;
mod staging;
mod stats;
mod stopwatch;
mod stream;
mod subject_device;
mod tensor_map;
mod user_compiler;
mod user_device;
mod worker;

use std::{collections::HashMap, sync::Arc};

pub use arch::{Arch, ArchError};
pub use async_readback::AsyncReadback;
pub use compile::{CompileError, CompiledModule, KernelFolder, compile_kernels};
pub(crate) use copy_stream::{
    DownloadPlan, Event, HostBuffer, Layout, PendingDownload, PendingUpload, Region, StreamKind, UploadPlan,
};
pub use device::Device;
pub use device_cache::DeviceCache;
pub(crate) use graph::CachedGraph;
pub use graph::Graph;
pub(crate) use graph_cache::{GraphLookup, Shape};
pub use jit::{JitKernel, JitSource, compile_jit, compile_jit_quickly, jit_ptx};
pub use launch::{Args, Grid, LaunchConfig};
#[cfg(test)]
pub(crate) use launch_struct::hidden_by_macros;
pub(crate) use launch_struct::launch_structs;
pub use libraries::loaded as loaded_libraries;
pub(crate) use memcpy_pool::{MemcpyPool, copy};
pub use memory::{Buffer, DevicePtr};
pub(crate) use module::{COMMON, MAINLOOP_MMA, MAINLOOP_SM90, MMA, TMA, WGMMA, cu};
pub use module::{Kernel, Module, Source};
pub use nvrtc::compile_quickly;
pub(crate) use pingpong::{
    PINGPONG_COLUMNS, PINGPONG_LAUNCH, PINGPONG_ROWS, PINGPONG_TERMS, PINGPONG_THREADS, pingpong_shared_bytes,
};
pub(crate) use pinned::{PinnedBlock, PinnedPool};
pub use product::{Compute, Element, Epilogue, Product};
pub(crate) use slices::Slices;
pub(crate) use stats::FallbackCounters;
pub(crate) use stream::StreamPriority;
pub use subject_device::{SubjectDevice, SubjectLaunch, SubjectOutcome};
pub(crate) use tensor_map::{TENSOR_MAP_BYTES, TENSOR_MAP_LAUNCH, TMA_ALIGNMENT, TensorMap, TmaBox};
pub use user_compiler::{KernelResources, UserCode, UserCompiler};
pub use user_device::{GpuProperties, UserDevice, UserError, UserThreads};
pub use worker::Worker;

use crate::{Settings, cpu};

/// Opens the GPUs with all kernels loaded, or returns in one line why none can be used.
///
/// All configured ordinals must work. Without configured ordinals, unusable devices are skipped as long as one works. `modules`: the kernels to load. `cpu`: runs what operations on the devices do on the CPU.
pub fn discover(
    settings: &Settings,
    modules: &[&'static Module],
    cpu: &Arc<cpu::Pool>,
) -> Result<Vec<Arc<Device>>, String> {
    driver::start()?;
    let nvrtc = nvrtc::Nvrtc::find(&settings.cuda_library_paths)?;
    let installed = settings.installed_kernels.as_deref().map(|folder| cache::Cache::new(folder, 0));
    let cache = settings.kernel_cache.as_deref().map(|folder| cache::Cache::new(folder, settings.kernel_cache_bytes));
    let folders = compile::Folders { installed: installed.as_ref(), cache: cache.as_ref() };
    let mut compiled = HashMap::new();
    let mut open = |ordinal| {
        let physical = device::PhysicalDevice::get(ordinal)?;
        let images = match compiled.entry(physical.arch) {
            std::collections::hash_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let compiled = compile::all(modules, &nvrtc, physical.arch, folders, &settings.load_progress);
                place.insert(compiled.map_err(|e| e.to_string())?)
            }
        };
        let jit = jit::JitCompiler::new(&nvrtc, physical.arch, settings)?;
        Device::open(physical, images, jit, settings, cpu)
    };
    let mut devices = vec![];
    let mut reasons = vec![];
    for ordinal in ordinals(settings)? {
        match open(ordinal) {
            Ok(device) => devices.push(device),
            Err(reason) => reasons.push(format!("cuda:{ordinal}: {reason}")),
        }
    }
    let all_needed = !settings.cuda_ordinals.is_empty();
    if devices.is_empty() || (all_needed && !reasons.is_empty()) {
        let driver = driver::version();
        return Err(format!("{} (driver for CUDA {}.{})", reasons.join("; "), driver / 1000, driver % 1000 / 10));
    }
    Ok(devices)
}

/// The ordinals to use, each once.
fn ordinals(settings: &Settings) -> Result<Vec<u32>, String> {
    let count = device::PhysicalDevice::count()?;
    if count == 0 {
        return Err("the CUDA driver finds no device".to_owned());
    }
    let mut wanted = settings.cuda_ordinals.clone();
    wanted.sort_unstable();
    wanted.dedup();
    match wanted.last() {
        None => Ok((0..count).collect()),
        Some(last) if *last >= count => Err(format!("cuda:{last} is configured, and the driver lists {count} devices")),
        Some(_) => Ok(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_returns_devices_or_a_reason_of_one_line() {
        if let Err(reason) = discover(&Settings::default(), &[], &cpu::Pool::start(1).expect("one thread")) {
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
        }
    }
}
