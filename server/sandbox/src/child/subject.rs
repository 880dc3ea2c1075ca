//! The function of a call, with everything that is the same for all its cases.

use std::sync::Arc;

use wasmtime::{Func, Instance, ModuleExport, Store};

use super::{
    cache::LoadedModule,
    clock::{Clock, ticks_of},
    data::StoreData,
    inspect::exported,
    undo::{COMMIT, UNDO},
};
use crate::{
    abi::{MAX_VALUES, Signature, WasmType},
    limits::{CaseLimits, Isolation},
    protocol::{CallRequest, ChildSettings, MAX_SLICE_BYTES, ModuleCode},
    refusal::Refusal,
};

/// The function of a call.
pub(super) struct Subject {
    pub(super) module: LoadedModule,
    pub(super) function: ModuleExport,
    /// The exported memory, if the call passes buffers.
    pub(super) memory: Option<ModuleExport>,
    /// The exported allocator, if the call passes buffers and there is one.
    pub(super) alloc: Option<ModuleExport>,
    pub(super) signature: Signature,
    pub(super) limits: CaseLimits,
    /// True if cases run in one instance.
    pub(super) shares_instance: bool,
    /// True if a case that fails leaves its instance as a new one.
    pub(super) is_pure: bool,
    /// Exports of an instance that undo the effects of a case, if cases have any.
    pub(super) undo: Option<Undo>,
    pub(super) timeout_ticks: u64,
    pub(super) clock: Arc<Clock>,
    table_elements: u32,
}

/// See [`with_log`](super::undo::with_log).
pub(super) struct Undo {
    commit: ModuleExport,
    undo: ModuleExport,
}

impl Undo {
    /// Commits the current state of an instance, and returns the function that restores it.
    pub(super) fn start(&self, instance: &Instance, store: &mut Store<StoreData>) -> wasmtime::Result<Func> {
        let mut export = |export| instance.get_module_export(&mut *store, export).and_then(wasmtime::Extern::into_func);
        let [commit, undo] = [&self.commit, &self.undo].map(|one| export(one).expect("the log has this function"));
        commit.typed::<(), ()>(&*store).expect("it has no parameters").call(&mut *store, ())?;
        Ok(undo)
    }
}

impl Subject {
    /// Returns true if an instance serves several cases.
    pub(super) fn keeps_instance(&self) -> bool {
        self.shares_instance || self.undo.is_some()
    }

    /// Checks a call against its module and the limits of the sandbox.
    pub(super) fn new(
        request: &CallRequest,
        module: LoadedModule,
        settings: &ChildSettings,
        clock: &Arc<Clock>,
    ) -> Result<Self, Refusal> {
        check_limits(request, settings)?;
        let info = &module.info;
        if !request.math && !info.math_imports.is_empty() {
            return Err(Refusal::MathNotEnabled(info.math_imports.iter().take(20).cloned().collect()));
        }
        let exported = exported(info, &request.function, &request.signature.wasm())?;
        let has_buffers = !request.signature.is_scalar();
        if has_buffers && !info.exports_memory {
            return Err(Refusal::NoMemory);
        }
        let is_alloc = |name: &str| {
            let function = info.functions.iter().find(|function| function.name == name);
            function.is_some_and(|f| f.signature.params == [WasmType::I32] && f.signature.results == [WasmType::I32])
        };
        let export = |name: &str| module.module().get_export_index(name);
        // Placing buffers uses fuel, which the first case alone would pay if cases shared an instance.
        let is_shareable = exported.is_pure && (request.limits.fuel.is_none() || !has_buffers);
        Ok(Self {
            function: export(&request.function).expect("the module exports this function"),
            memory: export("memory").filter(|_| has_buffers),
            alloc: export("alloc").filter(|_| has_buffers && is_alloc("alloc")),
            signature: request.signature.clone(),
            limits: request.limits,
            shares_instance: is_shareable || request.isolation == Isolation::Reused,
            is_pure: is_shareable,
            undo: (module.code == ModuleCode::Undo && !is_shareable)
                .then(|| export(COMMIT).zip(export(UNDO)).map(|(commit, undo)| Undo { commit, undo }))
                .flatten(),
            timeout_ticks: ticks_of(request.limits.timeout),
            clock: Arc::clone(clock),
            table_elements: settings.module_limits.table_elements,
            module,
        })
    }

    /// A store for instances of the module.
    pub(super) fn store(&self) -> Store<StoreData> {
        let data = StoreData::new(self.limits.memory_bytes, self.table_elements);
        let mut store = Store::new(self.module.module().engine(), data);
        store.limiter(|data| data);
        store
    }
}

fn check_limits(request: &CallRequest, settings: &ChildSettings) -> Result<(), Refusal> {
    let within = |what: &str, got: u64, limit: u64| {
        if got <= limit { Ok(()) } else { Err(Refusal::LimitTooHigh { what: what.to_owned(), got, limit }) }
    };
    for (what, got) in [("parameters", &request.signature.params.len()), ("results", &request.signature.results.len())]
    {
        let got = *got as u64;
        let limit = MAX_VALUES as u64;
        if got > limit {
            return Err(Refusal::SignatureTooLarge { what: what.into(), got, limit });
        }
    }
    within("memory of a case", request.limits.memory_bytes, settings.case_memory_bytes)?;
    within("buffers of a case", request.signature.buffer_bytes(), settings.case_memory_bytes)?;
    within("results of a case", request.signature.output_bytes(), MAX_SLICE_BYTES - 1)
}
