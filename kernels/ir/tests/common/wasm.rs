//! Runs emitted modules under wasmtime, and compares them with the interpreter.
#![allow(dead_code, reason = "the benchmark uses a part")]

use std::{ops::Range, sync::OnceLock};

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, ArrayArgument, Fault, FaultRecord, Kernel, ParamType,
        interpret::{LaunchError, Limits, launch},
        wasm::{self, ArgumentLayout, MemoryImage},
    },
    scalar::{
        Literal,
        math::{self, MathOp},
    },
};
use wasmtime::{Config, Engine, Instance, Linker, Memory, Module, Store, TypedFunc};

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(Engine::default)
}

/// Returns true if the module has vector instructions.
pub(crate) fn has_vectors(kernel: &Kernel) -> bool {
    let mut config = Config::new();
    config.wasm_relaxed_simd(false).wasm_simd(false);
    let engine = Engine::new(&config).expect("the configuration is valid");
    let bytes = wasm::emit(kernel).expect("the kernel is well formed");
    Module::validate(&engine, &bytes).is_err()
}

/// An instance of a kernel's module.
pub(crate) struct Machine {
    store: Store<()>,
    memory: Memory,
    run: TypedFunc<(i32, i32, i64, i64, i64), i32>,
}

/// Arguments in the memory of an instance.
pub(crate) struct Placed {
    block: u32,
    grid: u32,
    /// Where the bytes of each array start.
    data: Vec<u32>,
}

impl Machine {
    pub(crate) fn new(kernel: &Kernel) -> Self {
        let bytes = wasm::emit(kernel).expect("the kernel is well formed");
        let module = Module::new(engine(), &bytes).unwrap_or_else(|error| panic!("{error:?}\n{kernel:#?}"));
        let mut linker = Linker::new(engine());
        for op in MathOp::all() {
            let name = op.name();
            match op {
                MathOp::Unary(op) => linker.func_wrap(wasm::MATH, name, move |x: f64| math::unary(op, x)),
                MathOp::Binary(op) => linker.func_wrap(wasm::MATH, name, move |x: f64, y: f64| math::binary(op, x, y)),
            }
            .expect("names are unique");
        }
        let mut store = Store::new(engine(), ());
        let instance: Instance = linker.instantiate(&mut store, &module).expect("the module imports math only");
        let memory = instance.get_memory(&mut store, wasm::MEMORY).expect("the memory is exported");
        let run = instance.get_typed_func(&mut store, wasm::RUN).expect("the function has this type");
        Self { store, memory, run }
    }

    pub(crate) fn place(&mut self, kernel: &Kernel, grid: &[u32], arguments: &[Argument]) -> Placed {
        let layout = ArgumentLayout::new(kernel);
        let grid_at = wasm::RESERVED;
        let block = wasm::RESERVED + 16;
        let mut bytes = vec![0; (block + layout.size) as usize];
        for (axis, extent) in grid.iter().enumerate() {
            bytes[grid_at as usize + 4 * axis..][..4].copy_from_slice(&extent.to_le_bytes());
        }
        let mut data = vec![];
        for (argument, offset) in arguments.iter().zip(&layout.offsets) {
            let start = (block + offset) as usize;
            match argument {
                Argument::Value(value) => {
                    bytes[start..][..value.len()].copy_from_slice(value);
                    data.push(0);
                }
                Argument::Array(array) => {
                    bytes.resize(bytes.len().next_multiple_of(16), 0);
                    let base = u32::try_from(bytes.len()).expect("small arrays");
                    bytes.extend_from_slice(&array.data);
                    data.push(base);
                    let header = header(array, base);
                    bytes[start..][..header.len()].copy_from_slice(&header);
                }
            }
        }
        self.grow(bytes.len() as u64);
        self.memory.write(&mut self.store, 0, &bytes).expect("the memory is large enough");
        Placed { block, grid: grid_at, data }
    }

    pub(crate) fn place_image(&mut self, image: &MemoryImage<&[u8]>) -> Placed {
        self.grow(image.memory_bytes);
        for (index, bytes) in image.data.iter().copied().chain([(wasm::RESERVED, image.head.as_slice())]) {
            self.memory.write(&mut self.store, index as usize, bytes).expect("the image lies in memory");
        }
        let start = |range: &Option<Range<u64>>| range.as_ref().map_or(0, |range| range.start);
        let data = image.arrays.iter().map(|range| u32::try_from(start(range)).expect("a small image")).collect();
        Placed { block: image.arguments, grid: image.grid, data }
    }

    fn grow(&mut self, bytes: u64) {
        let missing = bytes.div_ceil(1 << 16).saturating_sub(self.memory.size(&self.store));
        self.memory.grow(&mut self.store, missing).expect("the memory grows");
    }

    /// Runs a range of threads; the record of the first fault among them.
    pub(crate) fn run(&mut self, placed: &Placed, first: u64, count: u64, loop_budget: u64) -> Option<FaultRecord> {
        let [block, grid] = [placed.block, placed.grid].map(u32::cast_signed);
        let [first, count, budget] = [first, count, loop_budget].map(u64::cast_signed);
        let status = self.run.call(&mut self.store, (block, grid, first, count, budget)).expect("a module never traps");
        let record = self.memory.data(&self.store)[..FaultRecord::SIZE].try_into().expect("as many bytes");
        (status != 0).then(|| FaultRecord::from_bytes(record))
    }

    /// Copies the results of the kernel to the arguments.
    pub(crate) fn read(&self, placed: &Placed, arguments: &mut [Argument]) {
        for (argument, index) in arguments.iter_mut().zip(&placed.data) {
            if let Argument::Array(array) = argument {
                let len = array.data.len();
                array.data.copy_from_slice(&self.memory.data(&self.store)[*index as usize..][..len]);
            }
        }
    }
}

fn header(array: &ArrayArgument, base: u32) -> Vec<u8> {
    let mut words = vec![base.cast_signed() + i32::try_from(array.offset).expect("small arrays")];
    words.extend(&array.shape);
    words.resize(5, 0);
    words.extend(array.strides.iter().map(|stride| i32::try_from(*stride).expect("small arrays")));
    words.into_iter().flat_map(i32::to_le_bytes).collect()
}

/// Runs a kernel in two parts.
pub(crate) fn run(kernel: &Kernel, grid: &[u32], arguments: &mut [Argument], loop_budget: u64) -> Option<Fault> {
    let threads: u64 = grid.iter().map(|extent| u64::from(*extent)).product();
    let mut machine = Machine::new(kernel);
    let placed = machine.place(kernel, grid, arguments);
    let first = machine.run(&placed, 0, threads / 3, loop_budget);
    let second = machine.run(&placed, threads / 3, threads - threads / 3, loop_budget);
    machine.read(&placed, arguments);
    first.or(second).map(|record| record.resolve(kernel, grid).expect("a record of this kernel"))
}

/// Asserts that module and interpreter write the same bits, but for the bits of a NaN, and report the same fault; returns both.
pub(crate) fn assert_agree(
    kernel: &Kernel,
    grid: &[u32],
    arguments: &[Argument],
    loop_budget: u64,
) -> (Vec<Argument>, Option<Fault>) {
    let mut expected = arguments.to_vec();
    let mut got = arguments.to_vec();
    let expected_fault = match launch(kernel, grid, &mut expected, Limits { loop_budget, steps: 1 << 28 }) {
        Ok(()) => None,
        Err(LaunchError::Fault(fault)) => Some(*fault),
        Err(error) => panic!("{error}"),
    };
    let fault = run(kernel, grid, &mut got, loop_budget);
    assert_eq!(fault, expected_fault, "{kernel:#?}");
    for ((param, expected), got) in kernel.params.iter().zip(&expected).zip(&got) {
        let dtype = match &param.ty {
            ParamType::Array(array) if array.element.components.len() == 1 => array.element.components[0].dtype,
            ParamType::Array(_) | ParamType::Value(_) => Dtype::U8,
        };
        let expected = literals(dtype, expected);
        let got = literals(dtype, got);
        for (index, (expected, got)) in expected.into_iter().zip(got).enumerate() {
            let is_nan = |value: Literal| value.dtype().is_float() && value.as_f64().is_nan();
            let is_same = expected == got || (is_nan(expected) && is_nan(got));
            assert!(is_same, "element {index} of {}: {got:?} instead of {expected:?}\n{kernel:#?}", param.name);
        }
    }
    (got, fault)
}

fn literals(dtype: Dtype, argument: &Argument) -> Vec<Literal> {
    let literal = |bytes: &[u8]| {
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        Literal::from_bits(dtype, u64::from_le_bytes(bits))
    };
    argument.bytes().chunks_exact(dtype.size()).map(literal).collect()
}
