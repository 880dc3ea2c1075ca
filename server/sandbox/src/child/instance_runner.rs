//! Runs cases one by one from the host: for new instances, for buffers, and where fuel is counted.

use std::sync::Arc;

use wasmtime::{Func, Memory, Store, TypedFunc, Val};

use super::{
    data::StoreData,
    slice_columns::{InputColumns, OutputColumns, argument, write_result},
    subject::Subject,
};
use crate::{
    abi::{Param, ScalarType},
    outcome::Outcome,
    protocol::WASM_PAGE,
};

/// Instances of a store, within those of the pool: a store that is created and dropped for a few costs more than they do.
const STORE_INSTANCES: u32 = 120;

/// Memory of the instances of a store after which it is dropped.
const STORE_BYTES: usize = 32 << 20;

/// Alignment of buffers.
const ALIGNMENT: u64 = 16;

/// Runs cases one by one.
pub(super) struct InstanceRunner {
    subject: Arc<Subject>,
    arguments: Vec<Val>,
    results: Vec<Val>,
    live: Option<LiveStore>,
    fuel_used: u64,
}

/// A store with the instances that were created in it: only the last one is used, but all of them end with the store.
struct LiveStore {
    store: Store<StoreData>,
    instances: u32,
    current: Option<LiveInstance>,
}

struct LiveInstance {
    function: Func,
    memory: Option<Memory>,
    /// Addresses of the buffers, in the order of the parameters.
    buffers: Vec<usize>,
    /// Makes it as it was before the first case, or returns 1.
    undo: Option<TypedFunc<(), i32>>,
}

impl InstanceRunner {
    pub(super) fn new(subject: Arc<Subject>) -> Self {
        let results = vec![Val::I32(0); subject.signature.results.len()];
        Self { subject, arguments: vec![], results, live: None, fuel_used: 0 }
    }

    /// Fuel that cases used since the last call.
    pub(super) fn take_fuel_used(&mut self) -> u64 {
        std::mem::take(&mut self.fuel_used)
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
            let outcome = self.run_case(inputs, first + done, outputs, done);
            if outcome != Outcome::Ok {
                outputs.set_outcome(done, outcome);
            }
            done += 1;
        }
        done
    }

    fn run_case(&mut self, inputs: &InputColumns, case: usize, outputs: &mut OutputColumns, output: usize) -> Outcome {
        let mut live = self.take_store();
        live.store.set_epoch_deadline(self.subject.timeout_ticks);
        if let Some(fuel) = self.subject.limits.fuel {
            live.store.set_fuel(fuel).expect("code with a limit of fuel counts it");
        }
        let result = self.run_in(&mut live, inputs, case, outputs, output);
        if let Some(fuel) = self.subject.limits.fuel {
            let left = live.store.get_fuel().expect("code with a limit of fuel counts it");
            self.fuel_used = self.fuel_used.saturating_add(fuel - left);
        }
        let outcome = result.err().unwrap_or(Outcome::Ok);
        if !self.is_as_new(&mut live) && (!self.subject.shares_instance || outcome != Outcome::Ok) {
            live.current = None;
        }
        self.live = Some(live);
        outcome
    }

    /// Returns true if the current instance is as a new one, perhaps after an undo.
    fn is_as_new(&self, LiveStore { store, current, .. }: &mut LiveStore) -> bool {
        match current {
            Some(LiveInstance { undo: Some(undo), .. }) => {
                store.set_epoch_deadline(self.subject.timeout_ticks);
                undo.call(store, ()).is_ok_and(|spent| spent == 0)
            }
            _ => self.subject.is_pure,
        }
    }

    /// The store with the current instance, or one that another instance fits in.
    fn take_store(&mut self) -> LiveStore {
        let has_room = |live: &LiveStore| {
            live.current.is_some()
                || (live.instances < STORE_INSTANCES && live.store.data().live_bytes() <= STORE_BYTES)
        };
        // An old store is dropped before the new one takes its place.
        let live = self.live.take().filter(has_room);
        live.unwrap_or_else(|| LiveStore { store: self.subject.store(), instances: 0, current: None })
    }

    fn run_in(
        &mut self,
        live: &mut LiveStore,
        inputs: &InputColumns,
        case: usize,
        outputs: &mut OutputColumns,
        output: usize,
    ) -> Result<(), Outcome> {
        let LiveStore { store, instances, current } = live;
        if current.is_none() {
            *instances += 1;
        }
        let instance = match current {
            Some(instance) => instance,
            None => current.insert(self.instantiate(store)?),
        };
        self.pass(store, instance, inputs, case);
        let called = instance.function.call(&mut *store, &self.arguments, &mut self.results);
        called.map_err(|error| store.data_mut().outcome(&error))?;
        self.read(store, instance, outputs, output);
        Ok(())
    }

    fn instantiate(&self, store: &mut Store<StoreData>) -> Result<LiveInstance, Outcome> {
        let instance = self.subject.module.instance_pre.instantiate(&mut *store);
        let instance = instance.map_err(|error| store.data_mut().outcome(&error))?;
        let mut export = |export| instance.get_module_export(&mut *store, export);
        let function = export(&self.subject.function).and_then(wasmtime::Extern::into_func);
        let function = function.expect("the module was compiled with this function");
        let memory = self.subject.memory.as_ref().and_then(&mut export).and_then(wasmtime::Extern::into_memory);
        let alloc = self.subject.alloc.as_ref().and_then(&mut export).and_then(wasmtime::Extern::into_func);
        let buffers = match (memory, alloc) {
            (None, _) => vec![],
            (Some(memory), None) => self.grow_for_buffers(store, memory)?,
            (Some(memory), Some(alloc)) => self.allocate_buffers(store, memory, alloc)?,
        };
        let undo = self.subject.undo.as_ref().map(|exports| exports.start(&instance, &mut *store)).transpose();
        let undo = undo.map_err(|error| store.data_mut().outcome(&error))?;
        let undo = undo.map(|undo| undo.typed(&*store).expect("it has no parameters"));
        Ok(LiveInstance { function, memory, buffers, undo })
    }

    fn buffer_sizes(&self) -> impl Iterator<Item = u64> {
        self.subject.signature.params.iter().filter_map(|param| param.buffer_bytes())
    }

    fn grow_for_buffers(&self, store: &mut Store<StoreData>, memory: Memory) -> Result<Vec<usize>, Outcome> {
        let start = memory.data_size(&*store) as u64;
        let mut end = start;
        let place = |bytes: u64| {
            let address = end;
            end += bytes.next_multiple_of(ALIGNMENT);
            usize::try_from(address).expect("buffers are within the limit of memory")
        };
        let buffers = self.buffer_sizes().map(place).collect();
        let pages = (end - start).div_ceil(WASM_PAGE);
        if pages > 0 && memory.grow(&mut *store, pages).is_err() {
            store.data_mut().forget_denial();
            return Err(Outcome::OutOfMemory);
        }
        Ok(buffers)
    }

    fn allocate_buffers(
        &self,
        store: &mut Store<StoreData>,
        memory: Memory,
        alloc: Func,
    ) -> Result<Vec<usize>, Outcome> {
        let mut addresses = vec![];
        for bytes in self.buffer_sizes() {
            let size = u32::try_from(bytes).map_err(|_| Outcome::OutOfMemory)?;
            let mut result = [Val::I32(0)];
            let called = alloc.call(&mut *store, &[Val::I32(size.cast_signed())], &mut result);
            called.map_err(|error| store.data_mut().outcome(&error))?;
            let address = result[0].unwrap_i32().cast_unsigned() as usize;
            addresses.push((address, size as usize));
        }
        let memory_bytes = memory.data_size(&*store);
        let is_inside =
            |(address, size): &(usize, usize)| address.checked_add(*size).is_some_and(|end| end <= memory_bytes);
        if !addresses.iter().all(is_inside) {
            return Err(Outcome::BadAllocation);
        }
        Ok(addresses.into_iter().map(|(address, _)| address).collect())
    }

    /// Prepares arguments and buffers of a case.
    fn pass(&mut self, store: &mut Store<StoreData>, instance: &LiveInstance, inputs: &InputColumns, case: usize) {
        self.arguments.clear();
        let memory = instance.memory.map_or(&mut [][..], |memory| memory.data_mut(&mut *store));
        let mut column = 0;
        let mut buffers = instance.buffers.iter();
        for param in &self.subject.signature.params {
            let bytes = param.input_bytes().map(|_| {
                column += 1;
                inputs.cases(column - 1, case, 1)
            });
            let length = match (param, bytes) {
                (Param::Value(ty), bytes) => {
                    self.arguments.push(argument(*ty, bytes.unwrap_or_default()));
                    continue;
                }
                (Param::Input(_, length) | Param::Output(_, length) | Param::InOut(_, length), _) => Some(*length),
                (Param::Address(..), _) => None,
            };
            let address = *buffers.next().expect("every buffer has an address");
            let size = usize::try_from(param.buffer_bytes().unwrap_or_default()).expect("buffers fit in memory");
            let buffer = &mut memory[address..address + size];
            match bytes {
                Some(bytes) => buffer.copy_from_slice(bytes),
                None => buffer.fill(0),
            }
            let address = u32::try_from(address).expect("addresses have 32 bits").cast_signed();
            self.arguments.push(Val::I32(address));
            self.arguments.extend(length.map(|length| Val::I32(length.cast_signed())));
        }
    }

    /// Copies buffers and results of a case to its columns.
    fn read(&self, store: &Store<StoreData>, instance: &LiveInstance, outputs: &mut OutputColumns, case: usize) {
        let memory = instance.memory.map_or(&[][..], |memory| memory.data(store));
        let mut column = 0;
        let buffers = self.subject.signature.params.iter().filter(|param| param.buffer_bytes().is_some());
        for (param, address) in buffers.zip(&instance.buffers) {
            if param.output_bytes().is_some() {
                let to = outputs.case_mut(column, case);
                to.copy_from_slice(&memory[*address..][..to.len()]);
                column += 1;
            }
        }
        let types: &[ScalarType] = &self.subject.signature.results;
        for (nth, (ty, value)) in types.iter().zip(&self.results).enumerate() {
            write_result(*ty, value, outputs.case_mut(column + nth, case));
        }
    }
}
