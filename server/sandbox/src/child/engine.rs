//! The engines, one for each kind of code: all check time, one counts fuel as well, and modules of one have a second memory.

use accelerd_ir::{
    kernel::wasm::MATH,
    scalar::math::{self, MathOp},
};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, Linker, PoolingAllocationConfig, Result, Strategy,
    WasmFeatures,
};

use super::data::StoreData;
use crate::{
    math::REM,
    protocol::{ChildSettings, ModuleCode},
};

/// Instances that can exist at once in the pool of an engine.
pub(super) const POOL_INSTANCES: u32 = 128;

/// Modules that keep a slot of the pool to themselves. With fewer slots, an instance for each case clears the pages that another module has
/// left in its slot, each time.
const WARM_SLOTS: u32 = 16;

/// Memory of a freed slot that is cleared instead of returned to the operating system: clearing pages is faster than faulting them in again. All
/// that stay are cleared, also those that an instance has not written, so they are few.
const KEEP_RESIDENT_BYTES: usize = 64 << 10;

/// The same where the operating system cannot say which pages were written, so that all are cleared.
const KEEP_RESIDENT_BYTES_WITHOUT_SCAN: usize = 32 << 10;

/// An engine with the functions that its modules may import.
pub(super) struct EngineLinker {
    pub(super) engine: Engine,
    pub(super) linker: Linker<StoreData>,
}

impl EngineLinker {
    pub(super) fn new(settings: &ChildSettings, code: ModuleCode) -> Result<Self> {
        let engine = Engine::new(&config(settings, code))?;
        let mut linker = Linker::new(&engine);
        define_math(&mut linker)?;
        Ok(Self { engine, linker })
    }
}

fn config(settings: &ChildSettings, code: ModuleCode) -> Config {
    let mut config = Config::new();
    config.strategy(Strategy::Cranelift);
    config.epoch_interruption(true).consume_fuel(code == ModuleCode::Fuel);
    config.max_wasm_stack(usize::try_from(settings.stack_bytes).unwrap_or(usize::MAX));
    config.wasm_backtrace_max_frames(None).generate_address_map(false).native_unwind_info(false);
    // Relaxed SIMD is nondeterministic. The others have no use here, and a module that cannot use them has less to attack.
    let disabled = WasmFeatures::RELAXED_SIMD
        | WasmFeatures::MEMORY64
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::EXCEPTIONS
        | WasmFeatures::FUNCTION_REFERENCES
        | WasmFeatures::GC
        | WasmFeatures::STACK_SWITCHING
        | WasmFeatures::CUSTOM_PAGE_SIZES
        | WasmFeatures::WIDE_ARITHMETIC;
    config.wasm_features(disabled, false);
    // Of modules that are validated without.
    config.wasm_multi_memory(code == ModuleCode::Undo);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(settings, code)));
    config
}

fn pool(settings: &ChildSettings, code: ModuleCode) -> PoolingAllocationConfig {
    let limits = &settings.module_limits;
    let memories = if code == ModuleCode::Undo { 2 } else { 1 };
    let has_scan = PoolingAllocationConfig::is_pagemap_scan_available();
    let resident = if has_scan { KEEP_RESIDENT_BYTES } else { KEEP_RESIDENT_BYTES_WITHOUT_SCAN };
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(POOL_INSTANCES)
        .total_memories(POOL_INSTANCES * memories)
        .max_memories_per_module(memories)
        .total_tables(POOL_INSTANCES * limits.tables.max(1))
        .max_tables_per_module(limits.tables)
        .table_elements(limits.table_elements as usize)
        .max_memory_size(usize::try_from(settings.case_memory_bytes).unwrap_or(usize::MAX))
        .max_unused_warm_slots(WARM_SLOTS)
        .linear_memory_keep_resident(resident)
        .table_keep_resident(KEEP_RESIDENT_BYTES_WITHOUT_SCAN)
        .pagemap_scan(if has_scan { Enabled::Yes } else { Enabled::No });
    pool
}

fn define_math(linker: &mut Linker<StoreData>) -> Result<()> {
    for function in MathOp::all() {
        let name = function.name();
        match function {
            MathOp::Unary(op) => {
                linker.func_wrap(MATH, &format!("{name}_f32"), move |x: f32| math::unary_f32(op, x))?;
                for name in doubles(name) {
                    linker.func_wrap(MATH, &name, move |x: f64| math::unary(op, x))?;
                }
            }
            MathOp::Binary(op) => {
                linker.func_wrap(MATH, &format!("{name}_f32"), move |x: f32, y: f32| math::binary_f32(op, x, y))?;
                for name in doubles(name) {
                    linker.func_wrap(MATH, &name, move |x: f64, y: f64| math::binary(op, x, y))?;
                }
            }
        }
    }
    linker.func_wrap(MATH, &format!("{REM}_f32"), |x: f32, y: f32| x % y)?;
    for name in doubles(REM) {
        linker.func_wrap(MATH, &name, |x: f64, y: f64| x % y)?;
    }
    Ok(())
}

/// The names of a function of f64.
fn doubles(name: &str) -> [String; 2] {
    [format!("{name}_f64"), name.to_owned()]
}
