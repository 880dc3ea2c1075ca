//! Small vectors: types of Warp, lists in Python.

use crate::{
    code::Code,
    frame::{Frame, List},
    names::Role,
    scope::Type::Float,
};

pub(super) fn write(frame: &mut Frame) {
    if frame.is_python() || frame.chance(25) { lists(frame) } else { typed(frame) }
}

/// Vectors of Warp.
fn typed(frame: &mut Frame) {
    let size = frame.between(2, 4);
    let element = format!("wp.vec{size}");
    let mut vectors = vec![];
    for _ in 0..frame.between(1, 3) {
        let name = frame.name(Role::Float);
        let array = frame.array_of(&element, Role::Array);
        let thread = frame.thread(0).to_owned();
        frame.line(format!("{name} = {array}[{thread}]"));
        vectors.push(name);
    }
    if frame.chance(60) {
        frame.scalar(Float);
    }
    for _ in 0..frame.between(1, 3) {
        let value = vector(frame, &vectors, size, 2);
        let name = frame.name(Role::Temporary);
        frame.line(format!("{name} = {value}"));
        vectors.push(name);
        if frame.chance(50) {
            let value = number_of(frame, &vectors, size);
            frame.assign(Float, &value);
        }
    }
    let last = Code::atom(vectors.last().expect("there is one").clone());
    if frame.chance(50) {
        let out = frame.array_of(&element, Role::Result);
        let factor = frame.leaf(Float);
        let thread = frame.thread(0).to_owned();
        return frame.line(format!("{out}[{thread}] = {}", Code::binary(&last, "*", &factor)));
    }
    let value = number_of(frame, &vectors, size);
    let rest = frame.arithmetic(Float, 1);
    frame.finish(&[(Float, Code::binary(&Code::call("wp.length", &[last]), "*", &Code::binary(&value, "+", &rest)))]);
}

/// An expression whose value is a vector.
fn vector(frame: &mut Frame, vectors: &[String], size: u64, depth: u32) -> Code {
    let leaf = Code::atom(vectors[frame.random.index(vectors.len())].clone());
    if depth == 0 {
        return leaf;
    }
    let part = vector(frame, vectors, size, depth - 1);
    match frame.random.below(8) {
        0 | 1 => Code::binary(&part, "+", &leaf),
        2 => Code::binary(&part, "-", &leaf),
        3 => Code::binary(&part, "*", &frame.leaf(Float)),
        4 => Code::call("wp.cw_mul", &[part, leaf]),
        5 => Code::call("wp.normalize", &[part]),
        6 if size == 3 => Code::call("wp.cross", &[part, leaf]),
        6 => Code::negative(&part),
        _ => {
            let number = number_of(frame, vectors, size);
            Code::binary(&part, "*", &number)
        }
    }
}

/// A number that a vector gives.
fn number_of(frame: &mut Frame, vectors: &[String], size: u64) -> Code {
    let [a, b] = [(); 2].map(|()| vectors[frame.random.index(vectors.len())].clone());
    match frame.random.below(4) {
        0 | 1 => Code::call("wp.dot", &[Code::atom(a), Code::atom(b)]),
        2 => Code::call("wp.length", &[Code::atom(a)]),
        _ => Code::atom(format!("{a}[{}]", frame.random.below(size))),
    }
}

/// Sums over lists.
fn lists(frame: &mut Frame) {
    let count = frame.between(1, 3);
    let lists: Vec<_> = (0..count).map(|_| frame.list(Float)).collect();
    if frame.chance(50) {
        frame.input(Float);
    }
    let mut totals = vec![];
    for _ in 0..frame.between(1, 2) {
        totals.push(sum(frame, &lists));
    }
    let rest = frame.arithmetic(Float, 1);
    let mut value = totals.into_iter().map(Code::atom).reduce(|a, b| Code::binary(&a, "*", &b)).expect("a sum");
    if frame.chance(40) {
        value = Code::call(frame.spell("wp.sqrt", "math.sqrt"), &[frame.magnitude(&value)]);
    }
    frame.finish(&[(Float, Code::binary(&value, "+", &rest))]);
}

/// A reduction of lists: a sum, or an extreme.
fn sum(frame: &mut Frame, lists: &[List]) -> String {
    let start = frame.number(Float);
    let total = frame.variable(Float, &start);
    let first = frame.choose(lists);
    frame.block(format!("for k in range({}):", first.len()), |frame| {
        frame.assign(Float, &first.at("k"));
        if lists.len() > 1 {
            let other = frame.choose(lists);
            let index = format!("k % {}", other.len());
            frame.assign(Float, &other.at(&index));
        }
        let value = frame.arithmetic(Float, 2);
        if frame.chance(25) {
            let function = frame.random.pick(&["min", "max"]);
            let extreme = frame.extreme(function, Code::atom(total.clone()), value);
            return frame.line(format!("{total} = {extreme}"));
        }
        frame.line(format!("{total} += {value}"));
    });
    total
}
