//! Runs the threads of a launch in chunks: one call of `run` each.

use wasmtime::{Instance, Memory, Store, TypedFunc};

use super::{
    cache::LoadedModule,
    data::StoreData,
    pace::{Done, Pace},
};
use crate::{
    limits::OnFault,
    outcome::Outcome,
    protocol::{FAULT_RECORD_BYTES, LaunchRequest, WASM_PAGE},
    refusal::Refusal,
};

/// A chunk that took fewer ticks is followed by a larger one, so that what happens per call does not count.
const GROW_TICKS: u64 = 4;

/// A chunk that took more ticks is followed by a smaller one: of a chunk with a fault, later threads run for nothing.
const SHRINK_TICKS: u64 = 16;

/// Outcome of a launch.
pub(super) struct Ended {
    /// Work that has not been reported.
    pub(super) done: Done,
    pub(super) outcome: Result<Outcome, Refusal>,
    /// The instance's memory, if there is one.
    pub(super) memory: Option<(Store<StoreData>, Memory)>,
}

type Run = TypedFunc<(i32, i32, i64, i64, i64), i32>;

/// Runs a launch from its first slice to its end; the pace reports each slice but the last.
pub(super) fn run(
    request: &LaunchRequest,
    module: &LoadedModule,
    mut store: Store<StoreData>,
    mut pace: Pace,
    image: Vec<u8>,
) -> Ended {
    pace.wait();
    store.data_mut().pace = Some(pace);
    store.epoch_deadline_callback(|mut context| Ok(pace_of(context.data_mut()).tick()));
    store.set_epoch_deadline(1);
    let (outcome, memory) = match instantiate(request, module, &mut store, image) {
        Ok((run, memory)) => {
            let mut threads = Threads { request, run, memory, chunk: Chunk::new(request, pace_of(store.data_mut())) };
            (threads.run(&mut store), Some(memory))
        }
        Err(outcome) => (Ok(outcome), None),
    };
    let mut pace = store.data_mut().pace.take().expect("a launch has a pace");
    Ended { done: pace.take_done(), outcome, memory: memory.map(|memory| (store, memory)) }
}

fn pace_of(data: &mut StoreData) -> &mut Pace {
    data.pace.as_mut().expect("a launch has a pace")
}

/// Creates the instance and its memory, and writes the segments.
fn instantiate(
    request: &LaunchRequest,
    module: &LoadedModule,
    store: &mut Store<StoreData>,
    image: Vec<u8>,
) -> Result<(Run, Memory), Outcome> {
    let instance = module.instance_pre.instantiate(&mut *store);
    let instance: Instance = instance.map_err(|error| store.data_mut().outcome(&error))?;
    let memory = instance.get_memory(&mut *store, "memory").expect("the module exports its memory");
    let run = instance.get_typed_func(&mut *store, "run").expect("the type of the function was compared");
    let missing = (request.page_bytes() / WASM_PAGE).saturating_sub(memory.size(&*store));
    if missing > 0 && memory.grow(&mut *store, missing).is_err() {
        store.data_mut().forget_denial();
        return Err(Outcome::OutOfMemory);
    }
    let mut rest = image.as_slice();
    let to = memory.data_mut(&mut *store);
    for (address, bytes) in &request.segments {
        let (segment, others) = rest.split_at(usize::try_from(*bytes).expect("segments fit in the image"));
        to[*address as usize..][..segment.len()].copy_from_slice(segment);
        rest = others;
    }
    // It may be as large as the memory, and is of no more use.
    drop(image);
    Ok((run, memory))
}

/// The threads of a launch.
struct Threads<'a> {
    request: &'a LaunchRequest,
    run: Run,
    memory: Memory,
    chunk: Chunk,
}

/// Outcome of a chunk.
enum Called {
    Ended,
    /// The first thread that had a fault, and its record.
    Fault(u64, [u8; FAULT_RECORD_BYTES]),
    /// One of its threads ran too long, or trapped.
    Failed(Outcome),
}

impl Threads<'_> {
    fn run(&mut self, store: &mut Store<StoreData>) -> Result<Outcome, Refusal> {
        let first = self.request.first_thread;
        let on_fault = self.request.on_fault;
        let mut next = first;
        let mut end = first + self.request.thread_count;
        while next < end {
            let count = self.chunk.count(next, end);
            let called = self.call(store, next, count)?;
            let pace = pace_of(store.data_mut());
            match (called, on_fault) {
                (Called::Ended, _) => next += count,
                (Called::Fault(thread, record), _) => {
                    pace.add_fault(thread, Outcome::Ok, &record);
                    next = thread + 1;
                    self.chunk.restart();
                    if on_fault == OnFault::Stop {
                        end = next;
                    }
                }
                (Called::Failed(outcome), OnFault::Stop) => return Ok(outcome),
                (Called::Failed(_), _) if count > 1 => self.chunk.single_until(next + count),
                (Called::Failed(outcome), _) => {
                    pace.add_fault(next, outcome, &[0; FAULT_RECORD_BYTES]);
                    next += 1;
                }
            }
            pace.set_threads_done(next - first);
            if pace.is_abandoned() {
                break;
            }
        }
        Ok(Outcome::Ok)
    }

    /// Runs `count` threads.
    fn call(&mut self, store: &mut Store<StoreData>, first: u64, count: u64) -> Result<Called, Refusal> {
        let LaunchRequest { arguments, grid, loop_budget, on_fault, .. } = self.request;
        let pace = pace_of(store.data_mut());
        if *on_fault != OnFault::Stop {
            pace.restart();
        }
        let before = pace.ticks();
        let [first_thread, thread_count, loop_budget] = [first, count, *loop_budget].map(u64::cast_signed);
        let parameters = (arguments.cast_signed(), grid.cast_signed(), first_thread, thread_count, loop_budget);
        pace.start_threads();
        let called = self.run.call(&mut *store, parameters);
        pace_of(store.data_mut()).end_threads();
        match called {
            Ok(0) => {
                self.chunk.ended(count, pace_of(store.data_mut()).ticks() - before);
                Ok(Called::Ended)
            }
            Ok(1) => self.fault(store, first, count),
            Ok(status) => Err(Refusal::NotAKernel(format!("`run` returned {status}, expected 0 or 1"))),
            Err(error) => {
                store.set_epoch_deadline(1);
                Ok(Called::Failed(store.data_mut().outcome(&error)))
            }
        }
    }

    /// The fault that `run` has recorded.
    fn fault(&self, store: &Store<StoreData>, first: u64, count: u64) -> Result<Called, Refusal> {
        let record = self.memory.data(store).first_chunk().expect("a memory has at least a page");
        let thread = u64::from_le_bytes(*record.first_chunk().expect("a record starts with 8 bytes"));
        if (first..first + count).contains(&thread) {
            return Ok(Called::Fault(thread, *record));
        }
        let last = first + count - 1;
        Err(Refusal::NotAKernel(format!("a fault is that of thread {thread}, expected one from {first} to {last}")))
    }
}

/// Number of threads of a call of `run`.
struct Chunk {
    size: u64,
    is_fixed: bool,
    grow_ticks: u64,
    /// Threads before this one run one by one, to find which of them fails.
    single_until: u64,
}

impl Chunk {
    fn new(request: &LaunchRequest, pace: &Pace) -> Self {
        let is_fixed = request.on_fault == OnFault::Continue { repeatable: false };
        // A chunk that would reach the time limit of one thread would have to run again.
        Self { size: 1, is_fixed, grow_ticks: GROW_TICKS.min(pace.timeout_ticks() / 4), single_until: 0 }
    }

    fn count(&self, next: u64, end: u64) -> u64 {
        if next < self.single_until { 1 } else { self.size.min(end - next) }
    }

    fn ended(&mut self, count: u64, ticks: u64) {
        if self.is_fixed || count != self.size {
            return;
        }
        if ticks < self.grow_ticks {
            self.size = self.size.saturating_mul(2);
        } else if ticks > SHRINK_TICKS {
            self.size = (self.size / 2).max(1);
        }
    }

    /// After a fault: where one thread has a fault, the next ones may have some as well.
    fn restart(&mut self) {
        self.size = 1;
    }

    fn single_until(&mut self, thread: u64) {
        self.single_until = thread;
        self.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk() -> Chunk {
        Chunk { size: 1, is_fixed: false, grow_ticks: GROW_TICKS, single_until: 0 }
    }

    #[test]
    fn chunks_grow_until_they_take_some_ticks_and_shrink_where_threads_are_slow() {
        let mut chunk = chunk();
        for size in [1, 2, 4, 8] {
            assert_eq!(chunk.count(0, 100), size);
            chunk.ended(size, 0);
        }
        chunk.ended(16, GROW_TICKS);
        assert_eq!(chunk.count(0, 100), 16);
        assert_eq!(chunk.count(90, 100), 10, "no more threads than are left");
        chunk.ended(10, 0);
        assert_eq!(chunk.count(0, 100), 16, "a part of a chunk says nothing");
        chunk.ended(16, SHRINK_TICKS + 1);
        assert_eq!(chunk.count(0, 100), 8);
    }

    #[test]
    fn threads_of_a_chunk_that_failed_run_one_by_one() {
        let mut chunk = Chunk { size: 64, ..chunk() };
        chunk.single_until(20);
        for thread in 10..20 {
            assert_eq!(chunk.count(thread, 100), 1);
            chunk.ended(1, 0);
        }
        assert_eq!(chunk.count(20, 100), 2);
    }
}
