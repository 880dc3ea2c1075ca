//! Atomic operations on small arrays that all threads share.

use super::elementwise::prepare;
use crate::{
    code::Code,
    frame::{Frame, type_name},
    names::{Name, Role},
    scope::Type::{self, Float, Int},
};

/// Operations that share one array of each type: their order shows in no bit of integers, and in few of floating-point numbers.
const FLOAT_OPERATIONS: [&[&str]; 3] = [&["add", "sub"], &["min"], &["max"]];
const INT_OPERATIONS: [&[&str]; 6] = [&["add", "sub"], &["min"], &["max"], &["and"], &["or"], &["xor"]];

pub(super) fn write(frame: &mut Frame) {
    frame.input(Float);
    if frame.chance(50) {
        frame.input(Float);
    }
    let label = frame.chance(50).then(|| frame.input(Int));
    if frame.chance(30) {
        frame.scalar(Float);
    }
    let size = frame.between(2, 16);
    let bin = bin(frame, label, size);
    let bin = frame.assign(Int, &bin);
    frame.scope.read(&bin);
    let ty = if frame.chance(55) { Float } else { Int };
    for _ in 0..frame.between(0, 2) {
        prepare(frame, Float);
    }
    if frame.chance(30) {
        let rounds = frame.between(2, 6);
        // Each thread adds to several elements.
        frame.count("k", &rounds.to_string(), |frame| {
            let place = frame.read("k");
            let place =
                Code::binary(&Code::binary(&Code::atom(bin.clone()), "+", &place), "%", &Code::atom(size.to_string()));
            shared(frame, ty, &place.to_string());
        });
    }
    shared(frame, ty, &bin);
    if frame.chance(30) {
        let counts = frame.name(Role::Result);
        frame.param(&counts, "wp.array(dtype=int)");
        frame.line(format_args!("wp.atomic_add({counts}, {bin}, 1)"));
    }
}

/// The element of a thread.
fn bin(frame: &mut Frame, label: Option<Name>, size: u64) -> Code {
    let size_of = |minus: u64| Code::atom((size - minus).to_string());
    let position = match label {
        Some(label) => frame.read(&label),
        None => Code::atom(frame.thread(0).clone()),
    };
    match frame.choices.below(4) {
        0 => {
            // As in a histogram of numbers.
            let value = frame.arithmetic(Float, 1);
            let scaled = Code::binary(&value, "*", &frame.number(Float));
            let whole = Code::call("int", &[scaled]);
            Code::call("wp.clamp", &[Code::binary(&whole, "+", &position), Code::atom("0"), size_of(1)])
        }
        1 => {
            let factor = frame.number(Int);
            let spread = Code::binary(&Code::binary(&position, "*", &factor), "+", &frame.number(Int));
            Code::binary(&spread, "%", &size_of(0))
        }
        2 => Code::binary(&Code::binary(&position, "//", &frame.number(Int)), "%", &size_of(0)),
        _ => Code::binary(&position, "%", &size_of(0)),
    }
}

/// Changes an element of a new array, in some branches or in any case.
fn shared(frame: &mut Frame, ty: Type, place: &str) {
    let array = frame.name(Role::Result);
    frame.param(&array, &format!("wp.array(dtype={})", type_name(ty)));
    let operations = match ty {
        Float => frame.choices.pick(&FLOAT_OPERATIONS),
        Int => frame.choices.pick(&INT_OPERATIONS),
    };
    // A condition reads what integers do not.
    if !frame.chance(50) && (ty == Float || !frame.has_unread(Float)) {
        return change(frame, ty, (&array, place), operations);
    }
    if frame.chance(50) {
        prepare(frame, ty);
    }
    let mut condition = frame.condition(1);
    if ty == Int {
        condition = frame.with_unread_floats(condition);
    }
    let value = frame.arithmetic(ty, 1);
    let value = frame.with_unread(ty, value);
    let line = call(frame, (&array, place), operations, &value);
    frame.block(format_args!("if {condition}:"), |frame| frame.line(line));
    if frame.chance(50) {
        frame.block("else:", |frame| change(frame, ty, (&array, place), operations));
    }
}

fn change(frame: &mut Frame, ty: Type, element: (&str, &str), operations: &[&str]) {
    let value = frame.arithmetic(ty, 2);
    let value = frame.with_unread(ty, value);
    let line = call(frame, element, operations, &value);
    frame.line(line);
}

fn call(frame: &mut Frame, (array, place): (&str, &str), operations: &[&str], value: &Code) -> String {
    match frame.choices.pick(operations) {
        "add" if frame.chance(30) => format!("{array}[{place}] += {value}"),
        operation => format!("wp.atomic_{operation}({array}, {place}, {value})"),
    }
}
