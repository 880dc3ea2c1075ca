//! A launch whose slices are run one by one.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use wasmtime::{Memory, Store};

use super::{
    cache::LoadedModule,
    clock::{Clock, ticks_of},
    data::StoreData,
    inspect::exported,
    launch_runner::{self, Ended},
    pace::{Done, Pace},
};
use crate::{
    abi::{WasmSignature, WasmType},
    outcome::Outcome,
    protocol::{ChildSettings, LaunchRequest, LaunchSlice, ReadRequest, Response},
    refusal::Refusal,
};

/// Native stack of the thread that runs a launch, besides the stack of WebAssembly.
const HOST_STACK_BYTES: u64 = 1 << 20;

/// A launch, and how far it is.
pub(super) struct ActiveLaunch {
    /// Starts slices, until the last one has run.
    slices: Option<SyncSender<u64>>,
    /// Reports of all slices but the last one.
    reports: Receiver<Done>,
    /// Until the last slice has run.
    thread: Option<JoinHandle<Ended>>,
    /// Entries of faults of the last slice.
    faults: Vec<u8>,
    /// The memory, once all threads have run.
    memory: Option<(Store<StoreData>, Memory)>,
    /// The part of its memory that is read, whose addresses have been checked.
    reading: Option<ReadRequest>,
}

impl ActiveLaunch {
    /// Checks a launch against its module and the limits of the sandbox, and prepares its thread.
    pub(super) fn new(
        request: LaunchRequest,
        module: LoadedModule,
        image: Vec<u8>,
        settings: &ChildSettings,
        clock: &Arc<Clock>,
    ) -> Result<Self, Refusal> {
        request.check(settings.case_memory_bytes)?;
        let expected = request.segments.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let got = image.len() as u64;
        if expected != got {
            return Err(Refusal::ColumnMismatch { what: "all segments".into(), expected, got });
        }
        check_module(&module)?;
        let data = StoreData::new(request.page_bytes(), settings.module_limits.table_elements);
        let mut store = Store::new(module.module().engine(), data);
        store.limiter(|data| data);
        let (slices, inbox) = sync_channel(1);
        let (outbox, reports) = sync_channel(1);
        let pace = Pace::new(Arc::clone(clock), ticks_of(request.timeout), inbox, outbox);
        let stack = usize::try_from(settings.stack_bytes.saturating_add(HOST_STACK_BYTES)).unwrap_or(usize::MAX);
        let run = move || launch_runner::run(&request, &module, store, pace, image);
        let thread = thread::Builder::new().name("launch".into()).stack_size(stack).spawn(run);
        let thread = thread.map_err(|error| Refusal::NotStarted(error.to_string()))?;
        Ok(Self { slices: Some(slices), reports, thread: Some(thread), faults: vec![], memory: None, reading: None })
    }

    /// Runs threads until the clock reaches `slice_end`, unless the launch is over.
    pub(super) fn run(&mut self, slice_end: u64) -> Result<Response, Refusal> {
        let Some(slices) = &self.slices else { return Ok(Response::NotLoaded) };
        slices.send(slice_end).expect("the thread waits for its slice");
        let (done, outcome) = if let Ok(done) = self.reports.recv() {
            (done, None)
        } else {
            let Ended { done, outcome, memory } = self.ended();
            let outcome = outcome?;
            self.memory = memory.filter(|_| outcome == Outcome::Ok);
            (done, Some(outcome.code()))
        };
        self.faults = done.faults;
        Ok(Response::LaunchSlice(LaunchSlice { threads_done: done.threads, outcome, time: done.time }))
    }

    /// Takes what the thread returns, after its last report.
    fn ended(&mut self) -> Ended {
        self.slices = None;
        let thread = self.thread.take().expect("the thread returns once");
        // A panic ends the process: it has been reported.
        thread.join().expect("the thread of a launch does not panic")
    }

    /// The body of the last slice.
    pub(super) fn faults(&self) -> &[u8] {
        &self.faults
    }

    /// Checks what is read, if the launch is over and has memory.
    pub(super) fn read(&mut self, request: ReadRequest) -> Result<Response, Refusal> {
        let Some((store, memory)) = &self.memory else { return Ok(Response::NotLoaded) };
        request.check(memory.data_size(store) as u64)?;
        self.reading = Some(request);
        Ok(Response::Memory)
    }

    /// The memory that is read.
    pub(super) fn memory(&self) -> Vec<&[u8]> {
        let (Some(request), Some((store, memory))) = (&self.reading, &self.memory) else { return vec![] };
        let memory = memory.data(store);
        let address = |at: u64| usize::try_from(at).expect("a checked address");
        request.ranges.iter().map(|range| &memory[address(range.start)..address(range.end)]).collect()
    }

    /// Returns true if nothing else will be read.
    pub(super) fn is_read(&self) -> bool {
        self.reading.as_ref().is_some_and(|request| request.is_last)
    }
}

/// Ends the thread, which waits for a slice if it has not ended.
impl Drop for ActiveLaunch {
    fn drop(&mut self) {
        self.slices = None;
        if let Some(thread) = self.thread.take() {
            // Its result is not needed.
            let _ = thread.join();
        }
    }
}

/// Checks that a module has the exports of a kernel's module.
fn check_module(module: &LoadedModule) -> Result<(), Refusal> {
    use WasmType::{I32, I64};
    exported(&module.info, "run", &WasmSignature { params: vec![I32, I32, I64, I64, I64], results: vec![I32] })?;
    if module.info.exports_memory { Ok(()) } else { Err(Refusal::NoMemory) }
}
