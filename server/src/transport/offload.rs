//! Threads for work that would block a reactor: decompressing, decoding, encoding and compressing large messages, and
//! running streams. They are separate from the control threads, which answer probes.

use std::{io, thread};

use accelerd_kernels::use_short_slice;
use tokio::runtime::{Builder, Handle, Runtime};

/// A multi-threaded runtime. Dropping it abandons tasks that are still running.
#[derive(Debug)]
pub(crate) struct Offload(Option<Runtime>);

impl Offload {
    /// Starts one thread per core.
    pub(crate) fn start() -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name("offload").on_thread_start(use_short_slice);
        builder.enable_all().build().map(|runtime| Self(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("the runtime is set until drop").handle()
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
