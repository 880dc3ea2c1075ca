//! The CPU pool: rayon threads of our own, sized by the container's CPU quota.

use std::{fmt, sync::Arc};

use crate::{DeviceId, DeviceInfo, KernelStats};

/// The threads that CPU work runs on.
pub struct Pool {
    threads: rayon::ThreadPool,
    info: DeviceInfo,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Pool {
    /// Starts the pool; 0 threads takes what the container may use.
    pub fn start(threads: usize) -> Result<Arc<Self>, String> {
        let threads =
            if threads == 0 { std::thread::available_parallelism().map_or(1, std::num::NonZero::get) } else { threads };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("cpu-{i}"))
            .build()
            .map_err(|e| e.to_string())?;
        let info = DeviceInfo {
            id: DeviceId::Cpu,
            product: "CPU".to_owned(),
            compute_capability: None,
            units: u32::try_from(threads).unwrap_or(u32::MAX),
            memory_bytes: 0,
        };
        Ok(Arc::new(Self { threads: pool, info }))
    }

    /// What is known of it.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Runs `work` on the pool's threads and waits for it.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.threads.install(work)
    }

    /// The kernels that ran, by name.
    pub fn kernel_stats(&self) -> Vec<KernelStats> {
        vec![]
    }
}

/// What a CPU worker computes with.
#[derive(Debug)]
pub struct Worker {
    pool: Arc<Pool>,
}

impl Worker {
    /// A worker on the pool.
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool }
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}
