//! Runs cases of a function of scalars in one instance, by a loop in WebAssembly.

use std::sync::Arc;

use wasmtime::{Global, Memory, Module, Store, TypedFunc, UpdateDeadline, Val};

use super::{
    data::StoreData,
    driver::Layout,
    progress::{Progress, Tick},
    slice_columns::{InputColumns, OutputColumns},
    subject::Subject,
};
use crate::outcome::Outcome;

/// Cases of the first chunk after one that a new instance had to follow: filling a chunk costs time, too.
const CHUNK_AFTER_FAILURE: usize = 64;

/// A loop whose instances are spent after fewer cases each, on average, is not worth its own instance.
const CASES_AN_INSTANCE: u64 = 8;

/// Instances that are spent before that is decided.
const SPENT_INSTANCES: u64 = 16;

/// A compiled driver.
#[derive(Clone)]
pub(super) struct Driver {
    pub(super) module: Module,
    pub(super) layout: Arc<Layout>,
}

/// Runs cases by a driver.
pub(super) struct DriverRunner {
    subject: Arc<Subject>,
    driver: Driver,
    live: Option<Live>,
    chunk: usize,
    cases: u64,
    spent: u64,
}

/// The instances of subject and driver.
struct Live {
    store: Store<StoreData>,
    run: TypedFunc<(), ()>,
    memory: Memory,
    case: Global,
    end: Global,
    spent: Global,
    /// Undoes a case that failed, or returns 1.
    undo: Option<TypedFunc<(), i32>>,
}

impl DriverRunner {
    pub(super) fn new(subject: Arc<Subject>, driver: Driver) -> Self {
        let chunk = driver.layout.cases;
        Self { subject, driver, live: None, chunk, cases: 0, spent: 0 }
    }

    /// Returns true if cases have effects that the log does not hold, so that most need an instance of their own.
    pub(super) fn is_often_spent(&self) -> bool {
        self.spent >= SPENT_INSTANCES && self.cases / self.spent < CASES_AN_INSTANCE
    }

    /// Runs cases from `first` on until the clock reaches `slice_end`, at least one; the number of cases.
    pub(super) fn run(
        &mut self,
        inputs: &InputColumns,
        first: usize,
        cases: usize,
        slice_end: u64,
        outputs: &mut OutputColumns,
    ) -> usize {
        let mut done = 0;
        while done < cases && (done == 0 || self.subject.clock.ticks() < slice_end) {
            match self.take_live(slice_end) {
                Ok(live) => {
                    let chunk = self.chunk.min(cases - done);
                    self.chunk = (self.chunk * 2).min(self.driver.layout.cases);
                    done += self.run_chunk(live, inputs, first + done, chunk, slice_end, outputs, done);
                }
                Err(outcome) => {
                    outputs.set_outcome(done, outcome);
                    done += 1;
                }
            }
        }
        done
    }

    fn take_live(&mut self, slice_end: u64) -> Result<Live, Outcome> {
        self.live.take().map_or_else(|| self.instantiate(slice_end), Ok)
    }

    fn instantiate(&self, slice_end: u64) -> Result<Live, Outcome> {
        let mut store = self.subject.store();
        store.data_mut().progress = Some(Progress::new(self.subject.timeout_ticks, slice_end));
        let clock = Arc::clone(&self.subject.clock);
        store.epoch_deadline_callback(move |context| Ok(at_tick(context, clock.ticks())));
        store.set_epoch_deadline(1);
        let subject = self.subject.module.instance_pre.instantiate(&mut store);
        let subject = subject.map_err(|error| store.data_mut().outcome(&error))?;
        let function = subject.get_module_export(&mut store, &self.subject.function);
        let function = function.expect("the module was compiled with this function");
        let log = self.subject.undo.as_ref().map(|exports| exports.start(&subject, &mut store)).transpose();
        let undo = log.map_err(|error| store.data_mut().outcome(&error))?;
        let imports: Vec<_> = [Some(function), undo.map(Into::into)].into_iter().flatten().collect();
        store.data_mut().is_exempt = true;
        let driver = wasmtime::Instance::new(&mut store, &self.driver.module, &imports);
        let driver = driver.map_err(|error| store.data_mut().outcome(&error))?;
        store.data_mut().is_exempt = false;
        let mut export = |name| driver.get_export(&mut store, name).expect("the driver has this export");
        let memory = export("memory").into_memory().expect("the driver's memory");
        let globals = ["case", "end", "spent"];
        let [case, end, spent] = globals.map(|name| export(name).into_global().expect("a global of the driver"));
        let run = export("run").into_func().expect("the driver's function");
        let run = run.typed(&store).expect("the driver's function has no parameters");
        if let Some(progress) = &mut store.data_mut().progress {
            progress.globals = Some((case, end));
        }
        let undo = undo.map(|undo| undo.typed(&store).expect("it has no parameters"));
        Ok(Live { store, run, memory, case, end, spent, undo })
    }

    /// Runs cases of a chunk; the number of those that ended.
    #[expect(clippy::too_many_arguments, reason = "places in the columns of inputs and outputs")]
    fn run_chunk(
        &mut self,
        mut live: Live,
        inputs: &InputColumns,
        first: usize,
        cases: usize,
        slice_end: u64,
        outputs: &mut OutputColumns,
        output: usize,
    ) -> usize {
        live.write(&self.driver.layout, inputs, first, cases);
        let mut failed = vec![];
        let mut next = 0;
        let (done, is_alive) = loop {
            let Err(outcome) = live.call(next, cases, slice_end) else { break (live.current(), !live.is_spent()) };
            let case = live.current();
            if case >= cases {
                // The time limit was reached after the last case.
                break (cases, true);
            }
            failed.push((case, outcome));
            next = case + 1;
            let is_as_new = self.subject.is_pure || live.undo(slice_end);
            if !is_as_new || next == cases || self.subject.clock.ticks() >= slice_end {
                break (next, is_as_new);
            }
        };
        live.read(&self.driver.layout, outputs, output, done);
        for (case, outcome) in failed {
            outputs.set_outcome(output + case, outcome);
        }
        self.cases += done as u64;
        if is_alive {
            self.live = Some(live);
        } else {
            self.spent += 1;
            self.chunk = CHUNK_AFTER_FAILURE.min(self.driver.layout.cases);
        }
        done
    }
}

impl Live {
    /// Runs cases from `first` to `end` of the chunk, or to the end of the slice.
    fn call(&mut self, first: usize, end: usize, slice_end: u64) -> Result<(), Outcome> {
        for (global, value) in [(self.case, first), (self.end, end)] {
            let value = i32::try_from(value).expect("chunks are small");
            global.set(&mut self.store, Val::I32(value)).expect("the driver's globals are mutable");
        }
        self.restart(slice_end);
        let called = self.run.call(&mut self.store, ());
        called.map_err(|error| self.store.data_mut().outcome(&error))
    }

    fn restart(&mut self, slice_end: u64) {
        if let Some(progress) = &mut self.store.data_mut().progress {
            progress.restart(slice_end);
        }
        self.store.set_epoch_deadline(1);
    }

    /// Returns true if the current case, which failed, could be undone.
    fn undo(&mut self, slice_end: u64) -> bool {
        let Some(undo) = self.undo.clone() else { return false };
        self.restart(slice_end);
        undo.call(&mut self.store, ()).is_ok_and(|spent| spent == 0)
    }

    fn is_spent(&mut self) -> bool {
        self.spent.get(&mut self.store).unwrap_i32() != 0
    }

    /// The current case; after a call, the first that has not run or the one that failed.
    fn current(&mut self) -> usize {
        usize::try_from(self.case.get(&mut self.store).unwrap_i32()).expect("cases count from 0")
    }

    fn write(&mut self, layout: &Layout, inputs: &InputColumns, first: usize, cases: usize) {
        let memory = self.memory.data_mut(&mut self.store);
        for (column, (offset, _)) in layout.inputs.iter().enumerate() {
            let bytes = inputs.cases(column, first, cases);
            memory[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    fn read(&self, layout: &Layout, outputs: &mut OutputColumns, first: usize, cases: usize) {
        let memory = self.memory.data(&self.store);
        for (column, (offset, _)) in layout.outputs.iter().enumerate() {
            let to = outputs.cases_mut(column, first, cases);
            to.copy_from_slice(&memory[*offset as usize..][..to.len()]);
        }
    }
}

/// Checks the time limits at a tick.
fn at_tick(mut context: wasmtime::StoreContextMut<'_, StoreData>, now: u64) -> UpdateDeadline {
    let Some(mut progress) = context.data_mut().progress.take() else { return UpdateDeadline::Interrupt };
    let case = progress.globals.map(|(case, _)| case.get(&mut context).unwrap_i32());
    let tick = progress.tick(case, now);
    if let (Tick::StopAfterCurrent, Some((_, end)), Some(case)) = (&tick, progress.globals, case) {
        let last = end.get(&mut context).unwrap_i32();
        end.set(&mut context, Val::I32(last.min(case + 1))).expect("the driver's globals are mutable");
    }
    context.data_mut().progress = Some(progress);
    if tick == Tick::Timeout { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) }
}
