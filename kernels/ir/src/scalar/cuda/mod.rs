//! Emits scalar functions as CUDA C++ for NVRTC, without any header of CUDA.
//!
//! With `-fmad=false`, and without `-use_fast_math`, integers, comparisons, casts and the operations that IEEE 754 rounds correctly
//! have the results of [`interpret`](crate::scalar::interpret); the others are within the bounds of CUDA's math library of them, or those of
//! the prelude if all parameters and results have 16 bits. NaN is NaN, but its sign and payload may differ. The text is the same for equal functions.

pub(crate) mod elementary;

use std::fmt::Write as _;

use crate::Dtype;
use crate::scalar::{BinaryOp, Function, Inst, Literal, UnaryOp, ValueId, row::Spelling};

/// Functions that emitted functions call. They stand once, before them.
pub const PRELUDE: &str = include_str!("../prelude.cuh");

/// The type of an element in memory, and of parameters and results of emitted functions: a bool is a byte, 0 or 1, and 16-bit
/// floating-point types are their bits.
pub fn ctype(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool | Dtype::U8 => "unsigned char",
        Dtype::I8 => "signed char",
        Dtype::U16 | Dtype::F16 | Dtype::Bf16 => "unsigned short",
        Dtype::I16 => "short",
        Dtype::U32 => "unsigned int",
        Dtype::I32 => "int",
        Dtype::U64 => "unsigned long long",
        Dtype::I64 => "long long",
        Dtype::F32 => "float",
        Dtype::F64 => "double",
    }
}

/// `__device__ void name(const T0 p0, .., const long long index, R0& r0, ..)`, of which the `T`s and `R`s are the [`ctype`]s of
/// the function's parameters and results.
pub fn emit(function: &Function, name: &str) -> String {
    let params = function.params().iter().enumerate().map(|(at, dtype)| format!("const {} p{at}", ctype(*dtype)));
    let results = function.results().iter().map(|result| ctype(function.dtype(*result)));
    let results = results.enumerate().map(|(at, ctype)| format!("{ctype}& r{at}"));
    let signature: Vec<_> = params.chain(["const long long index".to_owned()]).chain(results).collect();
    let mut text = format!("__device__ __forceinline__ void {name}({}) {{\n", signature.join(", "));
    for (at, value) in function.values().iter().enumerate() {
        let expression = expression(function, value.inst, value.dtype);
        writeln!(text, "    const {} v{at} = {expression};", value_type(value.dtype)).expect("a string grows");
    }
    for (at, result) in function.results().iter().enumerate() {
        writeln!(text, "    r{at} = {};", variable(*result)).expect("a string grows");
    }
    text.push_str("}\n");
    text
}

/// The type of a value within a function.
fn value_type(dtype: Dtype) -> &'static str {
    if dtype == Dtype::Bool { "bool" } else { ctype(dtype) }
}

fn variable(value: ValueId) -> String {
    format!("v{}", value.index())
}

/// Returns true if all that a function reads and returns has 16 bits: rounding it hides errors of f32 in between.
fn is_narrow(function: &Function) -> bool {
    let is_16_bit = |dtype: Dtype| matches!(dtype, Dtype::F16 | Dtype::Bf16);
    let results = function.results().iter().map(|result| function.dtype(*result));
    !function.params().is_empty() && function.params().iter().copied().chain(results).all(is_16_bit)
}

fn expression(function: &Function, inst: Inst, dtype: Dtype) -> String {
    if let Inst::Unary(op, a) = inst
        && function.dtype(a) == Dtype::F32
        && let Some(name) = op.row().cpp_for_16_bits.filter(|_| is_narrow(function))
    {
        return format!("{name}({})", variable(a));
    }
    match inst {
        Inst::Param(nth) if dtype == Dtype::Bool => format!("p{nth} != 0"),
        Inst::Param(nth) => format!("p{nth}"),
        Inst::Index => "index".to_owned(),
        Inst::Literal(value) => literal(value),
        Inst::Unary(op, a) => unary(op, function.dtype(a), &variable(a)),
        Inst::Binary(op, a, b) => binary(op, function.dtype(a), &variable(a), &variable(b)),
        Inst::Select(condition, a, b) => format!("{} ? {} : {}", variable(condition), variable(a), variable(b)),
        Inst::Cast(a) => cast(function.dtype(a), dtype, &variable(a)),
    }
}

/// By its bits, which is exact for every value.
fn literal(value: Literal) -> String {
    let (dtype, bits) = (value.dtype(), value.bits());
    if dtype == Dtype::Bool {
        (bits != 0).to_string()
    } else if dtype == Dtype::F32 {
        format!("__uint_as_float({bits:#x}u)")
    } else if dtype == Dtype::F64 {
        format!("__longlong_as_double((long long){bits:#x}ull)")
    } else {
        format!("({}){bits:#x}ull", ctype(dtype))
    }
}

pub(crate) fn unary(op: UnaryOp, dtype: Dtype, a: &str) -> String {
    spell(op.row().spelling(dtype), dtype, &[a])
}

pub(crate) fn binary(op: BinaryOp, dtype: Dtype, a: &str, b: &str) -> String {
    spell(op.row().spelling(dtype), dtype, &[a, b])
}

/// An operation on operands of a type.
fn spell(spelling: Spelling, dtype: Dtype, operands: &[&str]) -> String {
    match spelling {
        Spelling::Call(name) => {
            let suffix = if dtype == Dtype::F32 { "f" } else { "" };
            format!("{name}{suffix}({})", operands.join(", "))
        }
        Spelling::Infix(operator) if dtype.is_float() => operands.join(&format!(" {operator} ")),
        Spelling::Infix(operator) => {
            let unsigned: Vec<_> = operands.iter().map(|operand| bits(dtype, operand)).collect();
            format!("({})({})", value_type(dtype), unsigned.join(&format!(" {operator} ")))
        }
        Spelling::Text(template) => filled(template, dtype, operands),
    }
}

/// A template of [`Spelling::Text`] with its placeholders replaced.
fn filled(template: &str, dtype: Dtype, operands: &[&str]) -> String {
    let mut parts = template.split(['{', '}']);
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let (Some(placeholder), Some(rest)) = (parts.next(), parts.next()) {
        match placeholder {
            "a" => text.push_str(operands[0]),
            "b" => text.push_str(operands[1]),
            "ua" => text.push_str(&bits(dtype, operands[0])),
            "t" => text.push_str(value_type(dtype)),
            _ => unreachable!("no placeholder is called {placeholder}"),
        }
        text.push_str(rest);
    }
    text
}

pub(crate) fn cast(from: Dtype, to: Dtype, a: &str) -> String {
    let is_storage = from.compute() != from;
    let a = if is_storage { format!("ir::{from}_to_f32({a})") } else { a.to_owned() };
    if to == Dtype::Bool {
        format!("{a} != 0")
    } else if to.compute() != to {
        format!("ir::f32_to_{to}(ir::to_odd({a}))")
    } else if to.is_integer() && from.is_float() {
        format!("ir::to_{to}({a})")
    } else {
        format!("({}){a}", ctype(to))
    }
}

/// An integer or bool as an unsigned integer that is not promoted: overflow of signed integers is undefined.
fn bits(dtype: Dtype, a: &str) -> String {
    format!("({}){a}", if dtype.size() == 8 { "unsigned long long" } else { "unsigned int" })
}
