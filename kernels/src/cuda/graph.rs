//! CUDA graphs: launches that are captured once and replayed as one.
//!
//! A replay costs the host about as much as one launch, and leaves smaller gaps between kernels. Launches are captured
//! with their arguments, so addresses and sizes stay what they were: what they read and write must live as long as the
//! graph.

use std::{any::Any, sync::Arc};

use cudarc::driver::sys::{self, CUresult};

use super::{
    device::{Device, record_launch},
    stats::Function,
    stream::{Recording, Stream},
};
use crate::OpError;

/// A graph with the memory it reads and writes, which only the operation looks into.
pub(crate) struct CachedGraph {
    pub(crate) graph: Graph,
    pub(crate) memory: Box<dyn Any>,
}

/// Captured launches.
pub(crate) struct Graph {
    device: Arc<Device>,
    exec: sys::CUgraphExec,
    functions: Vec<Arc<Function>>,
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
        *stream.recording() = Some(Recording { stream: raw, functions: vec![] });
        let capture = Self { stream };
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive.
        device.check("graph", unsafe { sys::cuStreamBeginCapture_v2(raw, mode) })?;
        Ok(capture)
    }

    /// Instantiates the graph.
    fn end(self) -> Result<Graph, OpError> {
        let device = Arc::clone(self.stream.device());
        let (graph, functions) = self.stop();
        let graph = graph.map_err(|failed| device.error("graph", failed))?;
        let mut exec = std::ptr::null_mut();
        // SAFETY: the graph is alive, and destroyed once; what is made of it does not need it.
        let made = unsafe {
            let made = sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0);
            let _ = sys::cuGraphDestroy(graph);
            made
        };
        device.check("graph", made)?;
        Ok(Graph { device, exec, functions })
    }

    fn stop(&self) -> (Result<sys::CUgraph, CUresult>, Vec<Arc<Function>>) {
        let Some(Recording { stream, functions }) = self.stream.recording().take() else {
            return (Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED), vec![]);
        };
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is this recording's: it is alive, and destroyed once.
        let ended = unsafe {
            let ended = sys::cuStreamEndCapture(stream, &raw mut graph);
            let _ = sys::cuStreamDestroy_v2(stream);
            ended
        };
        let whole = ended == CUresult::CUDA_SUCCESS && !graph.is_null();
        let failed = if ended == CUresult::CUDA_SUCCESS { CUresult::CUDA_ERROR_INVALID_VALUE } else { ended };
        (if whole { Ok(graph) } else { Err(failed) }, functions)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if let (Ok(graph), _) = self.stop() {
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
        if let Some(last) = self.functions.last() {
            record_launch(last.name());
        }
        // SAFETY: graph and stream are alive and of one context. What the kernels read and write is the caller's contract,
        // as with their launches.
        stream.device().check("graph", unsafe { sys::cuGraphLaunch(self.exec, stream.raw()) })?;
        self.functions.iter().for_each(|function| function.count_replay());
        Ok(())
    }
}
