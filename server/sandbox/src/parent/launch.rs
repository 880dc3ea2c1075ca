//! Launches of kernels and their results.

use std::{
    ops::{ControlFlow, Range},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{call::Module, error::SandboxError, sandbox::Sandbox, stats::add};
use crate::{
    limits::{OnFault, Slice},
    outcome::Outcome,
    protocol::{
        CudaTarget, FAULT_ENTRY_BYTES, FAULT_RECORD_BYTES, LaunchRequest, LaunchSlice, MAX_SLICE_BYTES, ModuleCode,
        ReadRequest, Request, Response,
    },
    refusal::Refusal,
};

/// Threads of a kernel: a module of `accelerd-ir`, and what lies in its memory.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The module. It may import functions of `math`.
    pub module: Module,
    /// Addresses and bytes that are written to the memory before the first thread runs. Other memory is 0.
    pub segments: Vec<(u32, Bytes)>,
    /// Bytes of the memory, which has as many pages of 64 KiB as they need.
    pub memory_bytes: u64,
    /// Address of the argument block.
    pub arguments: u32,
    /// Address of the grid.
    pub grid: u32,
    /// The first thread, counted row-major.
    pub first_thread: u64,
    /// Number of threads.
    pub thread_count: u64,
    /// Iterations that a thread may run, of all its loops together.
    pub loop_budget: u64,
    /// Reaction to a fault.
    pub on_fault: OnFault,
    /// With [`OnFault::Stop`], how long all threads may run. Otherwise how long each thread may run.
    pub timeout: Duration,
    /// Ranges of addresses that are read after the last thread has run.
    pub outputs: Vec<Range<u64>>,
    /// Parameters of a launch on a GPU. They replace argument block, grid, `on_fault`, which is [`OnFault::Stop`], and `timeout`, which is that of the call.
    /// The module is the code that a GPU loads.
    pub cuda: Option<CudaTarget>,
}

/// Progress of a launch after a slice of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchProgress {
    /// Threads that have certainly ended; more may have.
    pub threads_done: u64,
}

/// Result of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchResult {
    /// `Ok` if all threads have run, but for those after a fault with [`OnFault::Stop`]. Otherwise why they did not: the time limit, a
    /// trap, or what kept the module from being instantiated.
    pub outcome: Outcome,
    /// Threads that ended early, in ascending order. With [`OnFault::Stop`] there is at most one.
    pub faults: Vec<LaunchFault>,
    /// The memory of [`Launch::outputs`]. There are none if the outcome is not `Ok`, or if [`OnFault::Stop`] ended the launch.
    pub outputs: Vec<Vec<u8>>,
    /// Time that its threads ran; on a GPU, as the GPU measures it.
    pub execution_time: Duration,
}

/// A thread that ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchFault {
    /// The thread, counted row-major.
    pub thread: u64,
    /// Why.
    pub cause: FaultCause,
}

/// Why a thread ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCause {
    /// A fault. The record is what the module wrote: only the number of the thread, with which it begins, has been checked.
    Record([u8; FAULT_RECORD_BYTES]),
    /// The thread ran too long, or trapped. With [`OnFault::Stop`] this ends the launch instead.
    Outcome(Outcome),
}

impl Launch {
    fn request(&self, slice: Slice) -> LaunchRequest {
        LaunchRequest {
            hash: self.module.hash(),
            segments: self.segments.iter().map(|(address, bytes)| (*address, bytes.len() as u64)).collect(),
            memory_bytes: self.memory_bytes,
            arguments: self.arguments,
            grid: self.grid,
            first_thread: self.first_thread,
            thread_count: self.thread_count,
            loop_budget: self.loop_budget,
            on_fault: self.on_fault,
            timeout: self.timeout,
            slice,
            cuda: self.cuda.clone(),
        }
    }

    fn check(&self, sandbox: &Sandbox) -> Result<(), Refusal> {
        let within = |what: &str, got: u64, limit: u64| {
            if got <= limit { Ok(()) } else { Err(Refusal::LimitTooHigh { what: what.to_owned(), got, limit }) }
        };
        self.request(sandbox.settings.slice).check(sandbox.settings.case_memory_bytes)?;
        let sum = |lengths: &mut dyn Iterator<Item = u64>| lengths.fold(0, u64::saturating_add);
        let segments = sum(&mut self.segments.iter().map(|(_, bytes)| bytes.len() as u64));
        within("segments of a launch", segments, sandbox.settings.request_bytes)?;
        let outputs = sum(&mut self.outputs.iter().map(|range| range.end.saturating_sub(range.start)));
        within("outputs of a launch", outputs, sandbox.settings.response_bytes)?;
        let outside = self.outputs.iter().find(|range| range.start > range.end || range.end > self.memory_bytes);
        outside.map_or(Ok(()), |range| {
            let what = format!("end of an output from {}", range.start);
            Err(Refusal::OutOfRange { what, limit: self.memory_bytes, got: range.end })
        })
    }

    /// Checks an entry of a slice of the child: the fault of a thread after `last`.
    fn fault(&self, entry: &[u8; FAULT_ENTRY_BYTES], last: Option<u64>) -> Option<LaunchFault> {
        let (thread, rest) = entry.split_first_chunk()?;
        let (code, record) = rest.split_first()?;
        let thread = u64::from_le_bytes(*thread);
        let is_next = last.is_none_or(|last| last < thread);
        let is_of_launch = thread >= self.first_thread && thread - self.first_thread < self.thread_count;
        let outcome = Outcome::from_code(*code)?;
        let record = FaultCause::Record(record.try_into().ok()?);
        let cause = if outcome == Outcome::Ok { record } else { FaultCause::Outcome(outcome) };
        (is_next && is_of_launch).then_some(LaunchFault { thread, cause })
    }
}

impl LaunchResult {
    /// Checks a slice of the child, and adds it. Whether it was the last one.
    fn add(&mut self, launch: &Launch, slice: LaunchSlice, body: &[u8]) -> Result<bool, String> {
        if slice.threads_done > launch.thread_count {
            return Err(format!("{} of {} threads have ended", slice.threads_done, launch.thread_count));
        }
        let (entries, rest) = body.as_chunks();
        if !rest.is_empty() {
            return Err(format!("{} bytes were sent for faults of {FAULT_ENTRY_BYTES} bytes", body.len()));
        }
        for entry in entries {
            let fault = launch.fault(entry, self.faults.last().map(|fault| fault.thread));
            self.faults.push(fault.ok_or("a fault is not one of the launch's next threads")?);
        }
        self.execution_time = self.execution_time.saturating_add(slice.time);
        let Some(code) = slice.outcome else { return Ok(false) };
        self.outcome = Outcome::from_code(code).ok_or("a byte is not an outcome")?;
        Ok(true)
    }
}

impl Sandbox {
    /// Runs the threads of a launch. After each slice but the last, `on_slice` is told how far it is; the launch is cancelled if it breaks.
    pub fn launch(
        &mut self,
        launch: &Launch,
        deadline: Instant,
        on_slice: impl FnMut(LaunchProgress) -> ControlFlow<()>,
    ) -> Result<LaunchResult, SandboxError> {
        let result = self.run_launch(launch, deadline, on_slice);
        match result {
            Err(SandboxError::Canceled | SandboxError::Preempted(_) | SandboxError::Timeout { killed: false })
                if launch.cuda.is_some() =>
            {
                self.stop_launch();
                result
            }
            result => result,
        }
    }

    /// Ends the threads that a GPU runs. A child whose threads do not end is replaced.
    fn stop_launch(&mut self) {
        let until = Instant::now() + self.settings.stall_timeout;
        // A failure is counted, and the next launch finds another child.
        let _ended = self.exchange(Request::Stop, vec![], until);
    }

    fn run_launch(
        &mut self,
        launch: &Launch,
        deadline: Instant,
        mut on_slice: impl FnMut(LaunchProgress) -> ControlFlow<()>,
    ) -> Result<LaunchResult, SandboxError> {
        launch.check(self)?;
        add(&self.counters.launches, 1);
        let mut result = LaunchResult::default();
        let mut threads_done = 0;
        if self.last_module() != Some(launch.module.hash()) {
            // Segments are sent in vain to a child that does not have the module.
            self.load(&launch.module, ModuleCode::Plain, deadline)?;
        }
        let mut slice = self.first_slice((&launch.module, ModuleCode::Plain), deadline, |sandbox, slice| {
            let segments = launch.segments.iter().map(|(_, bytes)| bytes.clone()).collect();
            sandbox.launch_slice(Request::Launch(launch.request(slice)), segments, deadline)
        })?;
        loop {
            let (header, body) = slice;
            let is_last = result.add(launch, header, &body).map_err(|error| self.protocol_error(error))?;
            add(&self.counters.threads, header.threads_done.saturating_sub(threads_done));
            threads_done = header.threads_done;
            if is_last {
                break;
            }
            self.check_faults(&result)?;
            if on_slice(LaunchProgress { threads_done }).is_break() {
                return Err(SandboxError::Canceled);
            }
            let request = Request::Continue(self.next_slice(deadline)?);
            slice =
                self.launch_slice(request, vec![], deadline)?.ok_or_else(|| self.unexpected(&Response::NotLoaded))?;
        }
        if result.outcome == Outcome::Ok {
            let is_stopped = launch.on_fault == OnFault::Stop && !result.faults.is_empty();
            let outputs = if is_stopped { &[][..] } else { &launch.outputs };
            result.outputs = self.read(outputs, deadline)?;
        }
        Ok(result)
    }

    /// Requests a slice; `None` if the module has to be loaded first.
    fn launch_slice(
        &mut self,
        request: Request,
        body: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<Option<(LaunchSlice, Vec<u8>)>, SandboxError> {
        match self.exchange(request, body, deadline + self.settings.stall_timeout)? {
            (Response::LaunchSlice(header), body) => Ok(Some((header, body))),
            (Response::NotLoaded, _) => Ok(None),
            (response, _) => Err(self.unexpected(&response)),
        }
    }

    fn check_faults(&self, result: &LaunchResult) -> Result<(), Refusal> {
        let got = size_of_val(result.faults.as_slice()) as u64;
        let limit = self.settings.response_bytes;
        if got <= limit { Ok(()) } else { Err(Refusal::LimitTooHigh { what: "faults of a launch".into(), got, limit }) }
    }

    /// Reads memory, and ends the launch.
    pub(super) fn read(&mut self, outputs: &[Range<u64>], deadline: Instant) -> Result<Vec<Vec<u8>>, SandboxError> {
        let mut read: Vec<Vec<u8>> = vec![vec![]; outputs.len()];
        let mut messages = messages(outputs);
        while let Some(pieces) = messages.pop() {
            let ranges: Vec<_> = pieces.iter().map(|(_, range)| range.clone()).collect();
            let request = Request::Read(ReadRequest { ranges, is_last: messages.is_empty() });
            let body = match self.exchange(request, vec![], deadline + self.settings.stall_timeout)? {
                (Response::Memory, body) => body,
                (response, _) => return Err(self.unexpected(&response)),
            };
            let mut rest = body.as_slice();
            for (output, range) in pieces {
                let length = usize::try_from(range.end - range.start).expect("a message fits in memory");
                let Some((piece, others)) = rest.split_at_checked(length) else {
                    return Err(self.protocol_error(format!("{} bytes of memory were sent", body.len())));
                };
                read[output].extend_from_slice(piece);
                rest = others;
            }
            if !rest.is_empty() {
                return Err(self.protocol_error(format!("{} bytes of memory were sent", body.len())));
            }
        }
        Ok(read)
    }
}

/// The messages that read some ranges, at least one, the first one last: numbers of the ranges, and pieces of them.
fn messages(outputs: &[Range<u64>]) -> Vec<Vec<(usize, Range<u64>)>> {
    let mut messages = vec![vec![]];
    let mut room = MAX_SLICE_BYTES;
    for (output, Range { start, end }) in outputs.iter().enumerate() {
        let mut start = *start;
        while start < *end {
            if room == 0 {
                messages.push(vec![]);
                room = MAX_SLICE_BYTES;
            }
            let piece = start..(start + room).min(*end);
            room -= piece.end - piece.start;
            start = piece.end;
            messages.last_mut().expect("there is at least one").push((output, piece));
        }
    }
    messages.reverse();
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        Launch {
            module: Module::new(vec![]),
            segments: vec![],
            memory_bytes: 100,
            arguments: 0,
            grid: 0,
            first_thread: 5,
            thread_count: 10,
            loop_budget: 0,
            on_fault: OnFault::Continue { repeatable: true },
            timeout: Duration::from_secs(1),
            outputs: vec![],
            cuda: None,
        }
    }

    fn entry(thread: u64, code: u8) -> Vec<u8> {
        [&thread.to_le_bytes()[..], &[code], &[7; FAULT_RECORD_BYTES]].concat()
    }

    fn add(threads_done: u64, outcome: Option<u8>, body: &[u8]) -> Result<LaunchResult, String> {
        let mut result = LaunchResult::default();
        let slice = LaunchSlice { threads_done, outcome, time: Duration::from_millis(3) };
        result.add(&launch(), slice, body)?;
        Ok(result)
    }

    #[test]
    fn faults_of_a_slice_are_read() {
        let result = add(10, Some(0), &[entry(5, 0), entry(14, 3)].concat()).expect("a valid slice");
        let causes = [FaultCause::Record([7; FAULT_RECORD_BYTES]), FaultCause::Outcome(Outcome::Timeout)];
        let faults = [(5, causes[0]), (14, causes[1])].map(|(thread, cause)| LaunchFault { thread, cause });
        assert_eq!((result.faults, result.execution_time), (faults.to_vec(), Duration::from_millis(3)));
    }

    #[test]
    fn a_slice_that_does_not_fit_the_launch_is_an_error() {
        assert!(add(11, None, &[]).is_err(), "more threads than there are");
        assert!(add(3, None, &entry(5, 0)[1..]).is_err(), "a part of a fault");
        assert!(add(3, None, &entry(4, 0)).is_err(), "a thread before the first");
        assert!(add(3, None, &entry(15, 0)).is_err(), "a thread after the last");
        assert!(add(3, None, &[entry(7, 0), entry(7, 0)].concat()).is_err(), "a thread that ended twice");
        assert!(add(3, None, &entry(5, 15)).is_err(), "an unknown outcome of a thread");
        assert!(add(3, Some(15), &[]).is_err(), "an unknown outcome");
    }

    #[test]
    fn memory_is_read_in_messages_of_bounded_size() {
        assert_eq!(messages(&[]), [vec![]]);
        assert_eq!(messages(&[8..8, 1..3, 0..9]), [vec![(1, 1..3), (2, 0..9)]]);
        let all = MAX_SLICE_BYTES;
        let end = 2 * MAX_SLICE_BYTES + 5;
        let first = vec![(0, 0..2), (1, 0..all - 2)];
        let others = [vec![(1, 2 * all - 2..end)], vec![(1, all - 2..2 * all - 2)]];
        assert_eq!(messages(&[0..2, 0..end]), [&others[..], &[first]].concat());
    }
}
