//! Small vectors: types of Warp, lists in Python.

use super::elementwise::accumulate;
use crate::{
    code::Code,
    frame::{Frame, List},
    names::{Name, Role},
    scope::{Pool, Type::Float},
};

pub(super) fn write(frame: &mut Frame) {
    if frame.is_python() || frame.chance(25) { lists(frame) } else { typed(frame) }
}

/// Vectors of Warp.
fn typed(frame: &mut Frame) {
    let size = frame.between(2, 4);
    let element = format!("wp.vec{size}");
    let mut vectors = Pool::default();
    for _ in 0..frame.between(1, 3) {
        vectors.add(frame.load(&element));
    }
    if frame.chance(60) {
        frame.scalar(Float);
    }
    for _ in 0..frame.between(1, 3) {
        let value = vector(frame, &mut vectors, size, 2);
        let name = frame.name(Role::Temporary);
        frame.line(format_args!("{name} = {value}"));
        if frame.chance(50) {
            let value = number_of(frame, &mut vectors, size);
            frame.assign(Float, &value);
        }
        vectors.add(name);
    }
    let mut last = Code::atom(frame.pick(&mut vectors));
    while let Some(name) = vectors.unread(0) {
        let operator = frame.choices.pick(&["+", "-"]);
        last = Code::binary(&last, operator, &Code::atom(name));
    }
    if frame.chance(50) {
        let out = frame.array_of(&element, Role::Result);
        let factor = frame.leaf(Float);
        let factor = frame.with_unread(Float, factor);
        let thread = frame.thread(0).clone();
        return frame.line(format_args!("{out}[{thread}] = {}", Code::binary(&last, "*", &factor)));
    }
    let value = number_of(frame, &mut vectors, size);
    let rest = frame.arithmetic(Float, 1);
    let length = Code::call("wp.length", &[last]);
    frame.finish(vec![(Float, Code::binary(&length, "*", &Code::binary(&value, "+", &rest)))]);
}

/// An expression whose value is a vector.
fn vector(frame: &mut Frame, vectors: &mut Pool<Name>, size: u64, depth: u32) -> Code {
    if depth == 0 {
        return Code::atom(frame.pick(vectors));
    }
    let part = vector(frame, vectors, size, depth - 1);
    match frame.choices.below(8) {
        0 | 1 => Code::binary(&part, "+", &Code::atom(frame.pick(vectors))),
        2 => Code::binary(&part, "-", &Code::atom(frame.pick(vectors))),
        3 => Code::binary(&part, "*", &frame.leaf(Float)),
        4 => Code::call("wp.cw_mul", &[part, Code::atom(frame.pick(vectors))]),
        5 => Code::call("wp.normalize", &[part]),
        6 if size == 3 => Code::call("wp.cross", &[part, Code::atom(frame.pick(vectors))]),
        6 => Code::negative(&part),
        _ => {
            let number = number_of(frame, vectors, size);
            Code::binary(&part, "*", &number)
        }
    }
}

/// A number that a vector gives.
fn number_of(frame: &mut Frame, vectors: &mut Pool<Name>, size: u64) -> Code {
    let vector = frame.pick(vectors);
    match frame.choices.below(4) {
        0 | 1 => Code::call("wp.dot", &[Code::atom(vector), Code::atom(frame.pick(vectors))]),
        2 => Code::call("wp.length", &[Code::atom(vector)]),
        _ => Code::atom(format!("{vector}[{}]", frame.choices.below(size))),
    }
}

/// Sums over lists.
fn lists(frame: &mut Frame) {
    let mut lists = Pool::default();
    for _ in 0..frame.between(1, 3) {
        lists.add(frame.list(Float));
    }
    if frame.chance(50) {
        frame.input(Float);
    }
    let first = sum(frame, &mut lists);
    let mut value = frame.read(&first);
    while lists.has_unread(0) || frame.chance(30) {
        let next = sum(frame, &mut lists);
        value = Code::binary(&value, "*", &frame.read(&next));
    }
    if frame.chance(40) {
        value = Code::call(frame.spell("wp.sqrt", "math.sqrt"), &[frame.magnitude(&value)]);
    }
    let rest = frame.arithmetic(Float, 1);
    frame.finish(vec![(Float, Code::binary(&value, "+", &rest))]);
}

/// A reduction of lists: a sum, or an extreme.
fn sum(frame: &mut Frame, lists: &mut Pool<List>) -> Name {
    let start = frame.number(Float);
    let total = frame.variable(Float, &start);
    let first = frame.next(lists);
    frame.count("k", &first.len(), |frame| {
        frame.scope.read("k");
        frame.assign(Float, &first.at("k"));
        if lists.len() > 1 {
            let other = frame.pick(lists);
            let index = format!("k % {}", other.len());
            frame.assign(Float, &other.at(&index));
        }
        accumulate(frame, &total, |_| "+=");
    });
    total
}
