//! Launches that are recorded once and replayed as one (CUDA graphs), and those that a worker keeps.
//!
//! A replay costs the host about what one launch does, and leaves smaller gaps between kernels. Launches are recorded with
//! their arguments, so addresses and sizes stay what they were: what they read and write must live as long as the graph.

use std::{
    any::Any,
    rc::Rc,
    sync::{Arc, Weak},
};

use cudarc::driver::sys::{self, CUresult};

use super::{device::Device, stats::Function, worker::Worker};
use crate::OpError;

/// What tells the graphs of an owner apart.
pub(crate) type Shape = [u32; 4];

/// Graphs that a worker keeps at most, their bytes, and shapes that it remembers.
const MOST_GRAPHS: usize = 32;
const DEFAULT_BYTES: usize = 512 << 20;
const MOST_SHAPES: usize = 256;

/// A graph with what it reads and writes. A type of the operation's own, for nobody else looks into it.
pub(crate) struct Kept {
    pub(crate) graph: Graph,
    pub(crate) memory: Box<dyn Any>,
}

/// What a worker knows of a shape.
#[derive(Debug)]
pub(crate) enum Known<G> {
    /// Nothing: it has not been seen, or not for long.
    Nothing,
    /// It has been seen, so that it may be worth a graph.
    Seen,
    /// It is not to be recorded.
    Refused,
    /// Its graph.
    Graph(Rc<G>),
}

/// Graphs by what they belong to and their shape; the ones that were not used for longest go when there are too many.
#[derive(Debug)]
pub(crate) struct Graphs<G> {
    /// The last one was used last.
    entries: Vec<Entry<G>>,
    most_bytes: usize,
}

#[derive(Debug)]
struct Entry<G> {
    owner: Weak<dyn Any + Send + Sync>,
    shape: Shape,
    bytes: usize,
    known: Known<G>,
}

impl<G> Default for Graphs<G> {
    fn default() -> Self {
        Self { entries: vec![], most_bytes: DEFAULT_BYTES }
    }
}

impl<G> Graphs<G> {
    /// Bytes that graphs may hold.
    pub(crate) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Sets them, drops what is beyond, and forgets what was refused for those before.
    pub(super) fn limit(&mut self, bytes: usize) {
        self.most_bytes = bytes;
        self.entries.retain(|entry| !matches!(entry.known, Known::Refused));
        self.evict();
    }

    /// What is known of a shape; from now on it has been seen.
    pub(crate) fn look<T: Any + Send + Sync>(&mut self, owner: &Arc<T>, shape: Shape) -> Known<G> {
        let Some(entry) = self.take(owner, shape) else {
            self.put(owner, shape, 0, Known::Seen);
            return Known::Nothing;
        };
        let known = match &entry.known {
            Known::Nothing | Known::Seen => Known::Seen,
            Known::Refused => Known::Refused,
            Known::Graph(graph) => Known::Graph(Rc::clone(graph)),
        };
        self.entries.push(entry);
        known
    }

    /// Keeps a graph that holds so many bytes, unless that is more than all graphs may.
    pub(crate) fn keep<T: Any + Send + Sync>(
        &mut self,
        owner: &Arc<T>,
        shape: Shape,
        bytes: usize,
        graph: G,
    ) -> Option<Rc<G>> {
        if bytes > self.most_bytes {
            self.refuse(owner, shape);
            return None;
        }
        let graph = Rc::new(graph);
        self.take(owner, shape);
        self.put(owner, shape, bytes, Known::Graph(Rc::clone(&graph)));
        Some(graph)
    }

    /// Remembers that a shape cannot be recorded.
    pub(crate) fn refuse<T: Any + Send + Sync>(&mut self, owner: &Arc<T>, shape: Shape) {
        self.take(owner, shape);
        self.put(owner, shape, 0, Known::Refused);
    }

    /// Drops the graphs whose owners are gone.
    pub(crate) fn sweep(&mut self) {
        self.entries.retain(|entry| entry.owner.strong_count() > 0);
    }

    /// Drops all graphs; says whether there were any.
    pub(crate) fn clear(&mut self) -> bool {
        let some = self.graphs() > 0;
        self.entries.retain(|entry| matches!(entry.known, Known::Refused));
        some
    }

    fn take<T: Any + Send + Sync>(&mut self, owner: &Arc<T>, shape: Shape) -> Option<Entry<G>> {
        let same = |entry: &Entry<G>| entry.shape == shape && entry.owner.as_ptr().addr() == Arc::as_ptr(owner).addr();
        self.entries.iter().rposition(same).map(|at| self.entries.remove(at))
    }

    fn put<T: Any + Send + Sync>(&mut self, owner: &Arc<T>, shape: Shape, bytes: usize, known: Known<G>) {
        let owner = Arc::downgrade(owner);
        self.entries.push(Entry { owner, shape, bytes, known });
        while self.entries.len() > MOST_SHAPES {
            self.entries.remove(0);
        }
        self.evict();
    }

    fn evict(&mut self) {
        while self.graphs() > MOST_GRAPHS || self.bytes() > self.most_bytes {
            let oldest = self.entries.iter().position(|entry| matches!(entry.known, Known::Graph(_)));
            let Some(oldest) = oldest else { return };
            self.entries.remove(oldest);
        }
    }

    /// How many there are.
    pub(super) fn graphs(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.known, Known::Graph(_))).count()
    }

    fn bytes(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.known, Known::Graph(_))).map(|entry| entry.bytes).sum()
    }
}

/// Launches to be replayed as one.
pub(crate) struct Graph {
    device: Arc<Device>,
    exec: sys::CUgraphExec,
    functions: Vec<Arc<Function>>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: made by `Recorder::end`, destroyed once; the driver lets a replay that is under way end first.
            let _ = unsafe { sys::cuGraphExecDestroy(self.exec) };
        }
    }
}

/// Where launches go while they are recorded, and which there were.
pub(super) struct Recording {
    pub(super) stream: sys::CUstream,
    pub(super) functions: Vec<Arc<Function>>,
}

/// Ends a recording, in whatever way it ends.
struct Recorder<'a> {
    worker: &'a Worker,
}

impl<'a> Recorder<'a> {
    /// Launches are recorded on a stream of their own, so that everything else may be done on the worker's meanwhile:
    /// what is allocated then is there before the graph runs.
    fn begin(worker: &'a Worker) -> Result<Self, OpError> {
        let device = worker.device();
        device.enter()?;
        if worker.recording().is_some() {
            return Err(device.failed("graph", "another one is being recorded"));
        }
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle.
        device.check("graph", unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
        *worker.recording() = Some(Recording { stream, functions: vec![] });
        let recorder = Self { worker };
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive.
        device.check("graph", unsafe { sys::cuStreamBeginCapture_v2(stream, mode) })?;
        Ok(recorder)
    }

    /// Makes what was recorded ready to run.
    fn end(self) -> Result<Graph, OpError> {
        let device = Arc::clone(self.worker.device());
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
        let Some(Recording { stream, functions }) = self.worker.recording().take() else {
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

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        if let (Ok(graph), _) = self.stop() {
            // SAFETY: ended just now, destroyed once.
            let _ = unsafe { sys::cuGraphDestroy(graph) };
        }
    }
}

impl Worker {
    /// Records what `launches` launches and fills, and runs none of it. Buffers may be made meanwhile; copies, and
    /// whatever waits, are not recorded.
    pub(crate) fn record<T>(&self, launches: impl FnOnce() -> Result<T, OpError>) -> Result<(Graph, T), OpError> {
        let recorder = Recorder::begin(self)?;
        let made = launches()?;
        Ok((recorder.end()?, made))
    }

    /// Runs what was recorded, after what is on the stream by now.
    pub(crate) fn replay(&self, graph: &Graph) -> Result<(), OpError> {
        self.device().enter()?;
        // SAFETY: graph and stream are alive and of one context. What the kernels read and write is the caller's contract,
        // as with their launches.
        self.device().check("graph", unsafe { sys::cuGraphLaunch(graph.exec, self.stream()) })?;
        graph.functions.iter().for_each(|function| function.count_replay());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known<G>(graphs: &mut Graphs<G>, owner: &Arc<u8>, shape: u32) -> &'static str {
        match graphs.look(owner, [shape; 4]) {
            Known::Nothing => "nothing",
            Known::Seen => "seen",
            Known::Refused => "refused",
            Known::Graph(_) => "graph",
        }
    }

    #[test]
    fn a_shape_is_seen_once_then_kept_or_refused() {
        let (mut graphs, owner, other) = (Graphs::default(), Arc::new(1), Arc::new(1));
        assert_eq!(known(&mut graphs, &owner, 1), "nothing");
        assert_eq!(known(&mut graphs, &owner, 1), "seen");
        assert!(graphs.keep(&owner, [1; 4], 10, ()).is_some());
        graphs.refuse(&owner, [2; 4]);
        assert!(graphs.keep(&owner, [3; 4], DEFAULT_BYTES + 1, ()).is_none());
        assert_eq!([1, 2, 3].map(|shape| known(&mut graphs, &owner, shape)), ["graph", "refused", "refused"]);
        assert_eq!(known(&mut graphs, &other, 1), "nothing", "another owner has graphs of its own");
        assert!(graphs.clear() && !graphs.clear());
        assert_eq!([1, 2].map(|shape| known(&mut graphs, &owner, shape)), ["nothing", "refused"]);
    }

    #[test]
    fn the_ones_not_used_for_longest_go_and_those_without_owner() {
        let (mut graphs, owner) = (Graphs::default(), Arc::new(1));
        let count = u32::try_from(MOST_GRAPHS).expect("few");
        for shape in 0..count {
            assert!(graphs.keep(&owner, [shape; 4], 1, ()).is_some());
        }
        assert_eq!(known(&mut graphs, &owner, 0), "graph");
        assert!(graphs.keep(&owner, [count; 4], 1, ()).is_some());
        assert_eq!([0, 1, 2].map(|shape| known(&mut graphs, &owner, shape)), ["graph", "nothing", "graph"]);
        let whole = graphs.keep(&owner, [count + 1; 4], DEFAULT_BYTES, ()).expect("not too large");
        assert_eq!((graphs.graphs(), graphs.bytes()), (1, DEFAULT_BYTES), "it leaves no room for others");
        drop(owner);
        graphs.sweep();
        assert_eq!((Rc::strong_count(&whole), graphs.entries.len()), (1, 0));
    }

    #[test]
    fn shapes_that_are_remembered_are_bounded() {
        let (mut graphs, owner) = (Graphs::<()>::default(), Arc::new(1));
        for shape in 0..2000 {
            known(&mut graphs, &owner, shape);
        }
        assert_eq!(graphs.entries.len(), MOST_SHAPES);
        assert_eq!(known(&mut graphs, &owner, 1999), "seen");
    }
}
