//! A launch on a GPU whose slices are run one by one. A chunk may still be running when a slice ends.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    chunk::{Chunks, pause},
    runtime::{CudaDevice, CudaError, CudaThreads},
};
use crate::{
    outcome::Outcome,
    protocol::{CudaTarget, FAULT_RECORD_BYTES, LaunchRequest, LaunchSlice},
};

/// Maximum time of a chunk to end after it was asked to. Threads look at the request in every loop.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// A launch, and how far it is.
pub(super) struct ActiveLaunch {
    pub(super) kernel: u64,
    threads: CudaThreads,
    /// The parameter block, with the addresses of the memory.
    params: Vec<u8>,
    /// Threads that have ended.
    done: u64,
    /// Threads of the chunk that is running.
    running: u64,
    pub(super) chunks: Chunks,
    duty_cycle: f32,
    resume_at: Instant,
    /// The number of a thread, and its fault.
    pub(super) fault: Option<(u64, [u8; FAULT_RECORD_BYTES])>,
    /// True if the last slice has run.
    pub(super) is_over: bool,
}

impl ActiveLaunch {
    /// A launch whose memory starts at `address`.
    pub(super) fn new(
        kernel: u64,
        request: &LaunchRequest,
        target: CudaTarget,
        address: u64,
        (chunks, duty_cycle): (Chunks, f32),
    ) -> Option<Self> {
        let mut params = target.params;
        for at in target.addresses {
            let word = params.get_mut(at as usize..)?.first_chunk_mut()?;
            *word = u64::from_le_bytes(*word).checked_add(address)?.to_le_bytes();
        }
        let LaunchRequest { first_thread, thread_count, loop_budget, .. } = *request;
        Some(Self {
            kernel,
            threads: CudaThreads { first: first_thread, count: thread_count, loop_budget, grid: target.grid },
            params,
            done: 0,
            running: 0,
            chunks,
            duty_cycle,
            resume_at: Instant::now(),
            fault: None,
            is_over: false,
        })
    }

    /// Runs chunks until `slice_end`, unless the launch is over.
    pub(super) fn run(&mut self, device: &mut dyn CudaDevice, slice_end: Instant) -> Result<LaunchSlice, CudaError> {
        let mut time = Duration::ZERO;
        while self.fault.is_none() && self.done < self.threads.count {
            if self.running == 0 {
                let until = self.resume_at.min(slice_end);
                thread::sleep(until.saturating_duration_since(Instant::now()));
                if Instant::now() >= slice_end {
                    return Ok(LaunchSlice { threads_done: self.done, outcome: None, time });
                }
                self.start(device)?;
            }
            let Some(took) = device.wait(slice_end.saturating_duration_since(Instant::now()))? else {
                return Ok(LaunchSlice { threads_done: self.done, outcome: None, time });
            };
            self.ended(device, took)?;
            time += took;
        }
        self.is_over = true;
        Ok(LaunchSlice { threads_done: self.done, outcome: Some(Outcome::Ok.code()), time })
    }

    fn start(&mut self, device: &mut dyn CudaDevice) -> Result<(), CudaError> {
        let count = self.chunks.next(self.threads.count - self.done);
        let threads = CudaThreads { first: self.threads.first + self.done, count, ..self.threads };
        device.start(self.kernel, &threads, &self.params)?;
        self.running = count;
        Ok(())
    }

    /// The chunk has ended. Chunks run in order, so the lowest thread with a fault is that of the first chunk with one.
    fn ended(&mut self, device: &mut dyn CudaDevice, took: Duration) -> Result<(), CudaError> {
        let count = std::mem::take(&mut self.running);
        self.chunks.ended(count, took);
        self.done += count;
        self.resume_at = Instant::now() + pause(took, self.duty_cycle);
        self.fault = device.fault()?.map(|record| {
            let thread = record.first_chunk().expect("a record starts with 8 bytes");
            (u64::from_le_bytes(*thread), record)
        });
        Ok(())
    }

    /// Ends the chunk that is running; whether it has ended.
    pub(super) fn stop(&mut self, device: &mut dyn CudaDevice) -> Result<bool, CudaError> {
        if self.running == 0 {
            return Ok(true);
        }
        device.stop();
        let ended = device.wait(STOP_TIMEOUT)?.is_some();
        self.running = 0;
        Ok(ended)
    }
}
