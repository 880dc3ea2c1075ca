//! Lowers a source and runs its first kernel in the interpreter.
#![allow(dead_code, reason = "each test binary uses a part")]

use accelerd_ir::kernel::interpret::{LaunchError, Limits, launch};
use accelerd_ir::kernel::{Argument, Fault, FaultKind, Kernel, Scalar};
use accelerd_lower::{Dialect, ErrorKind, LowerError, Options, lower};

/// The dialect of a test's source.
pub(crate) fn options(dialect: Dialect) -> Options<'static> {
    Options { dialect, ..Options::default() }
}

/// An array with a shape.
pub(crate) fn shaped<T: Scalar>(elements: &[T], shape: &[i32]) -> Argument {
    let Argument::Array(array) = Argument::array(elements) else { unreachable!("an array") };
    Argument::contiguous(array.data, shape, T::DTYPE.size())
}

/// An array of elements of several components.
pub(crate) fn elements<T: Scalar>(components: &[T], count: usize) -> Argument {
    let Argument::Array(array) = Argument::array(components) else { unreachable!("an array") };
    let extent = i32::try_from(components.len() / count).expect("few elements");
    Argument::contiguous(array.data, &[extent], count * T::DTYPE.size())
}

/// A value of several components.
pub(crate) fn value_of<T: Scalar>(components: &[T]) -> Argument {
    let Argument::Array(array) = Argument::array(components) else { unreachable!("an array") };
    Argument::Value(array.data)
}

/// Runs a kernel that does not fault.
pub(crate) fn run_kernel(kernel: &Kernel, grid: &[u32], arguments: &mut [Argument]) {
    launch(kernel, grid, arguments, Limits::default()).unwrap_or_else(|error| panic!("{error}"));
}

/// The components of an array.
pub(crate) fn read<T: Scalar>(argument: &Argument) -> Vec<T> {
    let Argument::Array(array) = argument else { panic!("a value") };
    array.data.chunks(T::DTYPE.size()).map(T::read).collect()
}

/// Runs the first kernel of a source.
pub(crate) fn try_run(
    source: &str,
    options: &Options<'_>,
    grid: &[u32],
    arguments: &mut [Argument],
) -> Result<(), LaunchError> {
    let module = lower(source, options).unwrap_or_else(|error| panic!("{error}\n{source}"));
    launch(&module.kernels[0].kernel, grid, arguments, Limits::default())
}

/// Runs the first kernel of a source of Warp, which does not fault.
pub(crate) fn run(source: &str, grid: &[u32], arguments: &mut [Argument]) {
    try_run(source, &options(Dialect::Warp), grid, arguments).unwrap_or_else(|error| panic!("{error}\n{source}"));
}

/// The kind of the fault of the first kernel of a source.
pub(crate) fn fault(source: &str, options: &Options<'_>, grid: &[u32], arguments: &mut [Argument]) -> FaultKind {
    whole_fault(source, options, grid, arguments).kind
}

/// The fault of the first kernel of a source.
pub(crate) fn whole_fault(source: &str, options: &Options<'_>, grid: &[u32], arguments: &mut [Argument]) -> Fault {
    match try_run(source, options, grid, arguments) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// Runs a body of statements of Warp, of which `out` is an array; returns it.
pub(crate) fn body<T: Scalar>(dtype: &str, body: &str, length: usize, zero: T) -> Vec<T> {
    let body = indented(body);
    let source = format!("import warp as wp\n\n@wp.kernel\ndef k(out: wp.array(dtype={dtype})):\n{body}");
    let mut arguments = [Argument::array(&vec![zero; length])];
    try_run(&source, &options(Dialect::Warp), &[1], &mut arguments).unwrap_or_else(|error| panic!("{error}\n{source}"));
    read(&arguments[0])
}

/// Runs a body of statements of Warp, of which `out` is an array of vectors of float32; returns their components.
pub(crate) fn vectors_of(dtype: &str, body: &str, length: usize, count: usize) -> Vec<f32> {
    let body = indented(body);
    let source = format!("import warp as wp\n\n@wp.kernel\ndef k(out: wp.array(dtype={dtype})):\n{body}");
    let mut arguments = [elements(&vec![0.0_f32; length * count], count)];
    run(&source, &[1], &mut arguments);
    read(&arguments[0])
}

/// The error of a source that cannot be lowered.
pub(crate) fn refused(source: &str, options: &Options<'_>) -> LowerError {
    lower(source, options).err().unwrap_or_else(|| panic!("expected an error\n{source}"))
}

/// The error of a body of statements of Warp, of which `out` is an array of float32 and `n` an int.
pub(crate) fn refused_body(body: &str) -> ErrorKind {
    let body = indented(body);
    let source = format!("import warp as wp\n\n@wp.kernel\ndef k(out: wp.array(dtype=float), n: int):\n{body}");
    refused(&source, &options(Dialect::Warp)).kind
}

/// Statements as the body of a function.
fn indented(body: &str) -> String {
    body.trim().lines().flat_map(|line| ["    ", line, "\n"]).collect()
}
