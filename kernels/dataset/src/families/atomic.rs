//! Atomic operations on a small array that all threads share.

use crate::{
    code::Code,
    frame::{Frame, type_name},
    names::Role,
    scope::Type::{Float, Int},
};

pub(super) fn write(frame: &mut Frame) {
    frame.input(Float);
    if frame.chance(50) {
        frame.input(Float);
    }
    let label = frame.chance(50).then(|| frame.input(Int));
    let bins = frame.between(2, 16);
    let position = match label {
        Some(label) => Code::atom(label),
        None => Code::atom(frame.thread(0)),
    };
    let bin = Code::binary(&position, "%", &Code::atom(bins.to_string()));
    let ty = if frame.chance(55) { Float } else { Int };
    let shared = frame.name(Role::Result);
    frame.param(&shared, &format!("wp.array(dtype={})", type_name(ty)));
    let bin = frame.assign(Int, &bin);
    // A sum of one type: its order shows in no bit of integers, and in few of floating-point numbers.
    let value = if ty == Float { frame.arithmetic(Float, 2) } else { frame.arithmetic(Int, 1) };
    let operation = match ty {
        Float => frame.random.pick(&["add", "add", "sub", "min", "max"]),
        Int => frame.random.pick(&["add", "sub", "min", "max", "and", "or", "xor"]),
    };
    let call = match operation {
        "add" if frame.chance(30) => format!("{shared}[{bin}] += {value}"),
        _ => format!("wp.atomic_{operation}({shared}, {bin}, {value})"),
    };
    if frame.chance(50) {
        let condition = frame.condition(1);
        frame.block(format!("if {condition}:"), |frame| frame.line(&call));
    } else {
        frame.line(&call);
    }
    if frame.chance(30) {
        let counts = frame.name(Role::Result);
        frame.param(&counts, "wp.array(dtype=int)");
        frame.line(format!("wp.atomic_add({counts}, {bin}, 1)"));
    }
}
