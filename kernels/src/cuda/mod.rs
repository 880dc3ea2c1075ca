//! The CUDA device layer. `cudarc` is named only below this folder.

use std::sync::Arc;

use crate::{DeviceInfo, KernelStats, OpError, PoolStats, Settings};

/// A GPU: context, memory pool and compiled modules, shared by its workers.
#[derive(Debug)]
pub struct Device {
    info: DeviceInfo,
}

/// What a CUDA worker computes with: a stream, staging memory and library handles of its own.
#[derive(Debug)]
pub struct Worker {
    device: Arc<Device>,
}

/// Finds the GPUs, or says why there are none.
pub fn discover(_settings: &Settings) -> Result<Vec<Arc<Device>>, String> {
    Err("not built yet".to_owned())
}

impl Device {
    /// What is known of it.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Its memory pool.
    pub fn pool_stats(&self) -> PoolStats {
        PoolStats::default()
    }

    /// The kernels that ran, by name.
    pub fn kernel_stats(&self) -> Vec<KernelStats> {
        vec![]
    }
}

impl Worker {
    /// Opens a worker on the calling thread.
    pub fn open(device: Arc<Device>) -> Result<Self, OpError> {
        Ok(Self { device })
    }

    /// Its device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}
