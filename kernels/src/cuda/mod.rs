//! The CUDA device layer: devices, workers, memory, launches and compiled kernels. `cudarc` is named only below this
//! folder.
//!
//! One build runs everywhere: driver and compiler are looked for at run time, and what is missing is a reason to work
//! without a GPU, never a panic. Kernels are CUDA C++ texts inside the binary, compiled for the device when it is
//! opened, and cached on disk.

mod arch;
mod beside;
mod blas;
mod build;
mod cache;
mod copiers;
mod device;
mod driver;
mod graphs;
mod launch;
mod libraries;
mod mailbox;
mod memory;
pub mod modules;
mod nvrtc;
mod pinned;
mod residents;
mod staging;
mod stats;
mod worker;

use std::{collections::HashMap, sync::Arc};

pub use arch::{Arch, ArchError};
pub(crate) use beside::{Landed, Landing, Layout, Mark, On, Order, Parcel, Place, Sent};
pub use blas::{Compute, Element, Epilogue, Product};
pub use build::{BuildError, Built, build_kernels};
pub(crate) use copiers::{Copiers, copy};
pub use device::Device;
pub(crate) use graphs::{Kept, Known, Shape};
pub use launch::{Args, Grid};
pub use mailbox::Mailbox;
pub use memory::{Buffer, DevicePtr};
pub use modules::{Kernel, MODULES, Module};
pub use nvrtc::ptx;
pub(crate) use pinned::{Block, PinnedPool};
pub use residents::Residents;
pub(crate) use stats::Left;
pub use worker::Worker;

use crate::{Settings, cpu};

/// Finds the GPUs and makes them ready, all kernels compiled; or says in one line why there are none.
///
/// Ordinals that were named must all work. Where none was named, a device that cannot be used is left out as long as
/// another one can. What their operations do on the CPU is done by `cpu`.
pub fn discover(settings: &Settings, cpu: &Arc<cpu::Pool>) -> Result<Vec<Arc<Device>>, String> {
    driver::start()?;
    let nvrtc = nvrtc::Nvrtc::find(&settings.cuda_library_paths)?;
    let cache = settings.kernel_cache.as_deref().map(|folder| cache::Cache::new(folder, settings.kernel_cache_bytes));
    let mut compiled = HashMap::new();
    let mut open = |ordinal| {
        let listed = device::Listed::get(ordinal)?;
        let images = match compiled.entry(listed.arch) {
            std::collections::hash_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(build::all(&nvrtc, listed.arch, cache.as_ref()).map_err(|e| e.to_string())?)
            }
        };
        Device::open(listed, images, settings, cpu)
    };
    let (mut found, mut reasons) = (vec![], vec![]);
    for ordinal in ordinals(settings)? {
        match open(ordinal) {
            Ok(device) => found.push(device),
            Err(reason) => reasons.push(format!("cuda:{ordinal}: {reason}")),
        }
    }
    let all_needed = !settings.cuda_ordinals.is_empty();
    if found.is_empty() || (all_needed && !reasons.is_empty()) {
        let driver = driver::version();
        return Err(format!("{} (driver for CUDA {}.{})", reasons.join("; "), driver / 1000, driver % 1000 / 10));
    }
    Ok(found)
}

/// The ordinals to use, each once.
fn ordinals(settings: &Settings) -> Result<Vec<u32>, String> {
    let count = device::Listed::count()?;
    if count == 0 {
        return Err("the CUDA driver finds no device".to_owned());
    }
    let mut wanted = settings.cuda_ordinals.clone();
    wanted.sort_unstable();
    wanted.dedup();
    match wanted.last() {
        None => Ok((0..count).collect()),
        Some(last) if *last >= count => Err(format!("cuda:{last} was asked for, and there are {count} devices")),
        Some(_) => Ok(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_answers_with_devices_or_a_reason_of_one_line() {
        if let Err(reason) = discover(&Settings::default(), &cpu::Pool::start(1).expect("one thread")) {
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
        }
    }
}
