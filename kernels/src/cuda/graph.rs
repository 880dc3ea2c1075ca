//! CUDA graphs: launches that are captured once and replayed as one.
//!
//! A replay costs the host about as much as one launch, and leaves smaller gaps between kernels. Launches are captured
//! with their arguments, so addresses and sizes stay the same: the memory that they read and write must live as long as the
//! graph.

use std::{any::Any, fmt, sync::Arc};

use cudarc::driver::sys::{self, CUresult};

use super::{
    device::{Device, record_launch},
    driver::ok,
    jit::JitKernel,
    stats::LaunchCounter,
    stream::{Recording, Stream},
};
use crate::OpError;

/// A graph with the memory it reads and writes, which only the operation looks into.
pub(crate) struct CachedGraph {
    pub(crate) graph: Graph,
    pub(crate) memory: Box<dyn Any>,
}

/// Captured launches.
pub struct Graph {
    device: Arc<Device>,
    exec: sys::CUgraphExec,
    /// With the bytes that each launch moves.
    counters: Vec<(Arc<LaunchCounter>, u64)>,
    /// The generated kernels that it launches.
    jit_kernels: Arc<Vec<Arc<JitKernel>>>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("launches", &self.counters.len()).finish_non_exhaustive()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: made by `Capture::end`, destroyed once; the driver lets a replay that is under way end first.
            let _ = unsafe { sys::cuGraphExecDestroy(self.exec) };
        }
    }
}

/// A capture in progress; dropping it ends it.
struct Capture<'a> {
    stream: &'a Stream,
}

impl<'a> Capture<'a> {
    /// Captures on a separate stream, so that allocations on the worker's stream during the capture are done before the
    /// graph runs.
    fn begin(stream: &'a Stream) -> Result<Self, OpError> {
        let device = stream.device();
        device.enter()?;
        if stream.recording().is_some() {
            return Err(device.failed("graph", "another capture is in progress"));
        }
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle.
        device.check("graph", unsafe { sys::cuStreamCreate(&raw mut raw, flags) })?;
        *stream.recording() = Some(Recording { stream: raw, counters: vec![], jit_kernels: vec![] });
        let capture = Self { stream };
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive.
        device.check("graph", unsafe { sys::cuStreamBeginCapture_v2(raw, mode) })?;
        Ok(capture)
    }

    /// Instantiates the graph.
    fn end(self) -> Result<Graph, OpError> {
        let device = Arc::clone(self.stream.device());
        let (graph, recording) = self.stop().map_err(|failed| device.error("graph", failed))?;
        let mut exec = std::ptr::null_mut();
        // SAFETY: the graph is alive, and destroyed once; what is made of it does not need it.
        let made = unsafe {
            let made = sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0);
            let _ = sys::cuGraphDestroy(graph);
            made
        };
        device.check("graph", made)?;
        let jit_kernels = Arc::new(recording.jit_kernels);
        Ok(Graph { device, exec, counters: recording.counters, jit_kernels })
    }

    fn stop(&self) -> Result<(sys::CUgraph, Recording), CUresult> {
        let recording = self.stream.recording().take().ok_or(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)?;
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is this recording's: it is alive, and destroyed once.
        let ended = unsafe {
            let ended = sys::cuStreamEndCapture(recording.stream, &raw mut graph);
            let _ = sys::cuStreamDestroy_v2(recording.stream);
            ended
        };
        ok(ended)?;
        if graph.is_null() { Err(CUresult::CUDA_ERROR_INVALID_VALUE) } else { Ok((graph, recording)) }
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if let Ok((graph, _)) = self.stop() {
            // SAFETY: ended just now, destroyed once.
            let _ = unsafe { sys::cuGraphDestroy(graph) };
        }
    }
}

impl Graph {
    /// See `Worker::record`.
    pub(super) fn record<T>(
        stream: &Stream,
        launches: impl FnOnce() -> Result<T, OpError>,
    ) -> Result<(Self, T), OpError> {
        let capture = Capture::begin(stream)?;
        let made = launches()?;
        Ok((capture.end()?, made))
    }

    /// Launches the graph.
    pub(super) fn replay(&self, stream: &Stream) -> Result<(), OpError> {
        stream.device().enter()?;
        if let Some((last, _)) = self.counters.last() {
            record_launch(last.name());
        }
        // SAFETY: graph and stream are alive and of one context. What the kernels read and write is the caller's contract,
        // as with their launches.
        stream.device().check("graph", unsafe { sys::cuGraphLaunch(self.exec, stream.raw()) })?;
        self.counters.iter().for_each(|(counter, moved_bytes)| counter.count_replay(*moved_bytes));
        if !self.jit_kernels.is_empty() {
            stream.keep(&self.jit_kernels);
        }
        Ok(())
    }
}
