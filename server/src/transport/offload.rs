//! Threads for what would hold up a reactor: large messages are decompressed, decoded, encoded and compressed here, and
//! streams run here. They are apart from the control threads, which answer probes.

use std::{io, thread};

use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime of its own. Dropping it abandons what is still under way.
#[derive(Debug)]
pub(crate) struct Offload(Option<Runtime>);

impl Offload {
    /// Starts a thread for each core.
    pub(crate) fn start() -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name("offload").enable_all().build().map(|runtime| Self(Some(runtime)))
    }

    /// Where tasks are spawned.
    pub(crate) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it is there until it is dropped").handle()
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
