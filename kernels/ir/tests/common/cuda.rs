//! Compiles emitted CUDA C++ for the host, and compares its results with the interpreter's.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::fmt::Write as _;

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, Fault, Kernel, ParamType,
        cuda::{self, DeviceCode, Launch, Options, ParamLayout},
        interpret::{LaunchError, Limits, launch},
    },
    scalar::Literal,
};

use super::host::{compile, feed, folder, without_ptx};

/// A kernel, the arguments of its launch, and the numbers of blocks and of threads in a block.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) kernel: Kernel,
    pub(crate) grid: Vec<u32>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) shape: [u32; 2],
    /// True if the host ends the launch before it begins.
    pub(crate) is_stopped: bool,
    pub(crate) loop_budget: u64,
}

impl Case {
    /// Threads run in order: kernels may show it.
    pub(crate) fn new(kernel: Kernel, grid: &[u32], arguments: &[Argument]) -> Self {
        let grid = grid.to_vec();
        let arguments = arguments.to_vec();
        Self { kernel, grid, arguments, shape: [1, 1], is_stopped: false, loop_budget: super::LOOP_BUDGET }
    }

    /// Threads run in reverse, in three blocks of eight.
    pub(crate) fn reversed(kernel: Kernel, grid: &[u32], arguments: &[Argument]) -> Self {
        Self { shape: [3, 8], ..Self::new(kernel, grid, arguments) }
    }
}

/// The outcome of a launch.
pub(crate) struct Outcome {
    pub(crate) arguments: Vec<Argument>,
    pub(crate) fault: Option<Fault>,
    pub(crate) is_stopped: bool,
}

/// The kernel under a name that is unique in a program.
fn renamed(kernel: &Kernel, index: usize) -> Kernel {
    Kernel { name: format!("kernel_{index}"), ..kernel.clone() }
}

/// Runs all cases in one program.
pub(crate) fn run(name: &str, cases: &[Case], options: Options) -> Vec<Outcome> {
    run_each(name, &cases.iter().map(|case| (case, options)).collect::<Vec<_>>())
}

fn run_each(name: &str, cases: &[(&Case, Options)]) -> Vec<Outcome> {
    let codes: Vec<DeviceCode> = cases
        .iter()
        .enumerate()
        .map(|(index, (case, options))| cuda::device(&renamed(&case.kernel, index), *options))
        .collect();
    let mut text = format!("#include \"cuda_device.h\"\n{}\n#include \"driver.h\"\n", without_ptx(&cuda::prelude()));
    for code in &codes {
        text.push_str(&code.source.replace("extern \"C\" __global__", "__global__"));
    }
    text.push_str("static const Entry entries[] = {\n");
    for (index, code) in codes.iter().enumerate() {
        let call = format!("{}(launch, *(const kernel_{index}_params*)params)", code.entry);
        writeln!(text, "    [](const ir::Launch& launch, const void* params) {{ {call}; }},").expect("a string grows");
    }
    text.push_str("};\nint main() { return run_launches(entries); }\n");
    let program = compile(&folder(name), &text);
    let requests = cases.iter().zip(&codes).enumerate();
    let input: Vec<u8> = requests.flat_map(|(index, ((case, _), code))| request(index, case, code)).collect();
    let output = feed(&program, &input);
    assert!(output.status.success(), "{name}: {output:?}");
    let mut answer = output.stdout.as_slice();
    cases.iter().map(|(case, _)| outcome(case, &mut answer)).collect()
}

fn word(value: usize) -> [u8; 4] {
    u32::try_from(value).expect("small tests").to_le_bytes()
}

/// Launches of a third of the threads, and of the others.
fn request(index: usize, case: &Case, code: &DeviceCode) -> Vec<u8> {
    let mut bytes = word(index).to_vec();
    bytes.extend(case.shape.iter().flat_map(|extent| extent.to_le_bytes()));
    let arrays = case.arguments.iter().filter(|argument| matches!(argument, Argument::Array(_)));
    bytes.extend(word(arrays.clone().count()));
    for array in arrays {
        bytes.extend((array.bytes().len() as u64).to_le_bytes());
        bytes.extend(array.bytes());
    }
    let (block, pointers) = parameters(case, code);
    bytes.extend(word(pointers.len()));
    bytes.extend(pointers.iter().flatten().flat_map(|one| word(*one)));
    let threads: u64 = case.grid.iter().map(|extent| u64::from(*extent)).product();
    let mut grid = [1; 4];
    grid[..case.grid.len()].copy_from_slice(&case.grid);
    let first = Launch {
        stop: case.is_stopped.into(),
        fault: 0,
        first: 0,
        count: threads / 3,
        loop_budget: case.loop_budget,
        grid,
    };
    let second = Launch { first: threads / 3, count: threads - threads / 3, ..first };
    bytes.extend(word(2));
    bytes.extend([first.to_bytes(), second.to_bytes()].concat());
    bytes.extend(word(block.len()));
    bytes.extend(block);
    bytes
}

/// The parameter block, and for each pointer its place there, its array, and its offset in the array.
fn parameters(case: &Case, code: &DeviceCode) -> (Vec<u8>, Vec<[usize; 3]>) {
    let layout = code.layout();
    let mut block = vec![0; layout.size];
    let mut pointers = vec![];
    for ((param, argument), place) in case.kernel.params.iter().zip(&case.arguments).zip(&layout.params) {
        match (place, argument) {
            (ParamLayout::Value(offsets), Argument::Value(value)) => {
                for (component, offset) in param.ty.element().components.iter().zip(offsets) {
                    let bytes = &value[component.offset as usize..][..component.dtype.size()];
                    block[*offset..][..bytes.len()].copy_from_slice(bytes);
                }
            }
            (ParamLayout::Array { data, strides, shape }, Argument::Array(array)) => {
                pointers.push([*data, pointers.len(), array.offset]);
                let bytes: Vec<_> = array.strides.iter().flat_map(|stride| stride.to_le_bytes()).collect();
                block[*strides..][..bytes.len()].copy_from_slice(&bytes);
                let bytes: Vec<_> = array.shape.iter().flat_map(|extent| extent.to_le_bytes()).collect();
                block[*shape..][..bytes.len()].copy_from_slice(&bytes);
            }
            (ParamLayout::Value(_), Argument::Array(_)) | (ParamLayout::Array { .. }, Argument::Value(_)) => {
                panic!("arguments fit their parameters")
            }
        }
    }
    (block, pointers)
}

fn outcome(case: &Case, answer: &mut &[u8]) -> Outcome {
    let record = answer.split_off(..Launch::FAULT_SIZE).expect("a record").try_into().expect("as many bytes");
    let is_stopped = Launch::is_stopped(record);
    let fault = Launch::fault(record).map(|record| record.resolve(&case.kernel, &case.grid).expect("a record of it"));
    let mut arguments = case.arguments.clone();
    for argument in &mut arguments {
        if let Argument::Array(array) = argument {
            let len = array.data.len();
            array.data.copy_from_slice(answer.split_off(..len).expect("the bytes of each array"));
        }
    }
    Outcome { arguments, fault, is_stopped }
}

/// The outcome of the interpreter.
pub(crate) fn expected(case: &Case) -> Outcome {
    let mut arguments = case.arguments.clone();
    let limits = Limits { loop_budget: case.loop_budget, steps: 1 << 28 };
    let fault = match launch(&case.kernel, &case.grid, &mut arguments, limits) {
        Ok(()) => None,
        Err(LaunchError::Fault(fault)) => Some(*fault),
        Err(error) => panic!("{error}"),
    };
    Outcome { arguments, fault, is_stopped: false }
}

/// Asserts that outcomes are the same, but for the bits of NaNs.
pub(crate) fn assert_same(case: &Case, got: &Outcome, expected: &Outcome) {
    let text = || cuda::device(&case.kernel, Options::default()).source;
    assert_eq!(got.fault, expected.fault, "{}", text());
    assert_eq!(got.is_stopped, expected.is_stopped);
    for ((param, got), expected) in case.kernel.params.iter().zip(&got.arguments).zip(&expected.arguments) {
        let ParamType::Array(array) = &param.ty else { continue };
        let dtype = match array.element.components.as_slice() {
            [only] => only.dtype,
            _ => Dtype::U8,
        };
        for (index, (got, expected)) in literals(dtype, got).zip(literals(dtype, expected)).enumerate() {
            let are_nan = dtype.is_float() && got.as_f64().is_nan() && expected.as_f64().is_nan();
            let name = &param.name;
            assert!(got == expected || are_nan, "{name}[{index}] is {got:?}, expected {expected:?}\n{}", text());
        }
    }
}

pub(crate) fn literals(dtype: Dtype, argument: &Argument) -> impl Iterator<Item = Literal> {
    argument.bytes().chunks_exact(dtype.size()).map(move |bytes| {
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        Literal::from_bits(dtype, u64::from_le_bytes(bits))
    })
}

/// Runs all cases with checks, and those without a fault also without, and compares them with the interpreter.
pub(crate) fn assert_agree(name: &str, cases: &[Case]) {
    let expected: Vec<_> = cases.iter().map(expected).collect();
    let all = cases.iter().zip(&expected);
    let sound = all.clone().filter(|(_, expected)| expected.fault.is_none());
    let jobs: Vec<_> = all
        .map(|(case, expected)| (case, expected, Options::default()))
        .chain(sound.map(|(case, expected)| (case, expected, Options { checks: false })))
        .collect();
    let got = run_each(name, &jobs.iter().map(|(case, _, options)| (*case, *options)).collect::<Vec<_>>());
    for ((case, expected, _), got) in jobs.iter().zip(got) {
        assert_same(case, &got, expected);
    }
}
