//! A sandbox with real child processes, and modules in the text format.

#![allow(dead_code, reason = "each test program uses some of these")]

use std::time::{Duration, Instant};

use accelerd_sandbox::{
    Call, CallResult, Module, Outcome, Program, Sandbox, SandboxError, ScalarType, Settings, Signature,
};
use bytes::Bytes;

/// Long enough for a slow machine; tests that wait for a time limit set their own.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

pub(crate) fn program() -> Program {
    Program { path: env!("CARGO_BIN_EXE_sandbox-child").into(), arguments: vec![], environment: vec![] }
}

/// A program of the system, with a script.
pub(crate) fn shell(script: &str) -> Program {
    Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()], environment: vec![] }
}

pub(crate) fn sandbox() -> Sandbox {
    sandbox_with(&Settings::default())
}

/// Compilers that are not optimised are slow; only tests of the time limit lower it.
pub(crate) fn sandbox_with(settings: &Settings) -> Sandbox {
    let load_timeout = settings.load_timeout.max(Duration::from_secs(60));
    let settings = Settings { load_timeout, ..settings.clone() };
    Sandbox::start(program(), settings).expect("the child process starts")
}

pub(crate) fn module(text: &str) -> Module {
    Module::new(wat::parse_str(text).expect("the text is a module"))
}

/// Calls `f` of a module with a column for each parameter.
pub(crate) fn call(text: &str, params: &[ScalarType], results: &[ScalarType], columns: &[Bytes], cases: u64) -> Call {
    let mut call = Call::new(module(text), "f", Signature::scalar(params, results), cases);
    call.columns = columns.to_vec();
    call
}

/// Calls `f: () -> ()`.
pub(crate) fn call_plain(text: &str, cases: u64) -> Call {
    call(text, &[], &[], &[], cases)
}

pub(crate) fn run(sandbox: &mut Sandbox, call: &Call) -> Result<CallResult, SandboxError> {
    sandbox.call(call, soon())
}

pub(crate) fn outcomes(sandbox: &mut Sandbox, call: &Call) -> Vec<Outcome> {
    run(sandbox, call).expect("the call runs").outcomes.iter().collect()
}

pub(crate) fn bytes_of<const N: usize, T>(values: &[T], to_bytes: impl Fn(&T) -> [u8; N]) -> Bytes {
    values.iter().flat_map(to_bytes).collect::<Vec<_>>().into()
}

pub(crate) fn i32s(values: &[i32]) -> Bytes {
    bytes_of(values, |value| value.to_le_bytes())
}

pub(crate) fn f32s(values: &[f32]) -> Bytes {
    bytes_of(values, |value| value.to_le_bytes())
}

pub(crate) fn f64s(values: &[f64]) -> Bytes {
    bytes_of(values, |value| value.to_le_bytes())
}

pub(crate) fn read_i32s(column: &[u8]) -> Vec<i32> {
    column.chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect()
}

pub(crate) fn read_f64s(column: &[u8]) -> Vec<f64> {
    column.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("eight bytes"))).collect()
}

/// A module that adds nothing wrong: `f(x: i32) = x + 1`.
pub(crate) const INCREMENT: &str =
    r#"(module (func (export "f") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1))))"#;

/// The sandbox answers, with the right results.
pub(crate) fn assert_works(sandbox: &mut Sandbox) {
    let call = call(INCREMENT, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&[1, -1, i32::MAX])], 3);
    let result = run(sandbox, &call).expect("the call runs");
    assert_eq!(read_i32s(&result.columns[0]), [2, 0, i32::MIN]);
}
