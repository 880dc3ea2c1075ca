//! Small matrices: types of Warp, rows of lists in Python; and products of arrays of two dimensions.

use super::elementwise::{prepare, update};
use crate::{
    code::Code,
    frame::{Frame, List},
    names::{Name, Role},
    scope::{Pool, Type::Float},
};

pub(super) fn write(frame: &mut Frame) {
    if frame.is_python() {
        rows(frame);
    } else if frame.chance(40) {
        product(frame);
    } else {
        typed(frame);
    }
}

/// Matrices of Warp.
fn typed(frame: &mut Frame) {
    let size = frame.between(2, 4);
    let mut matrices = Pool::default();
    for _ in 0..frame.between(1, 2) {
        matrices.add(frame.load(&format!("wp.mat{size}{size}")));
    }
    let vector = frame.load(&format!("wp.vec{size}"));
    if frame.chance(50) {
        frame.scalar(Float);
    }
    for _ in 0..frame.between(1, 3) {
        let value = matrix(frame, &mut matrices, 2);
        let name = frame.name(Role::Temporary);
        frame.line(format_args!("{name} = {value}"));
        if frame.chance(40) {
            let value = number_of(frame, &mut matrices, size);
            frame.assign(Float, &value);
        }
        matrices.add(name);
    }
    let image = Code::binary(&Code::atom(frame.pick(&mut matrices)), "*", &Code::atom(vector.clone()));
    let name = frame.name(Role::Temporary);
    frame.line(format_args!("{name} = {image}"));
    let image = name;
    let mut last = Code::atom(frame.pick(&mut matrices));
    while let Some(name) = matrices.unread(0) {
        let operator = frame.choices.pick(&["+", "-", "*"]);
        last = Code::binary(&last, operator, &Code::atom(name));
    }
    if frame.chance(40) {
        let out = frame.array_of(&format!("wp.vec{size}"), Role::Result);
        let thread = frame.thread(0).clone();
        let factor = frame.leaf(Float);
        let factor = frame.with_unread(Float, factor);
        let product = Code::binary(&Code::binary(&last, "*", &Code::atom(image)), "*", &factor);
        return frame.line(format_args!("{out}[{thread}] = {product}"));
    }
    let value = match frame.choices.below(3) {
        0 => Code::call("wp.determinant", &[last]),
        1 => Code::call("wp.trace", &[last]),
        _ => Code::call("wp.length", &[Code::binary(&last, "*", &Code::atom(vector.clone()))]),
    };
    let other = if frame.chance(60) { vector } else { image.clone() };
    let quadratic = Code::call("wp.dot", &[Code::atom(other), Code::atom(image)]);
    let rest = frame.arithmetic(Float, 1);
    frame.finish(vec![(Float, Code::binary(&Code::binary(&value, "*", &rest), "+", &quadratic))]);
}

/// An expression whose value is a matrix.
fn matrix(frame: &mut Frame, matrices: &mut Pool<Name>, depth: u32) -> Code {
    if depth == 0 {
        return Code::atom(frame.pick(matrices));
    }
    let part = matrix(frame, matrices, depth - 1);
    match frame.choices.below(6) {
        0 => Code::binary(&part, "+", &Code::atom(frame.pick(matrices))),
        1 => Code::binary(&part, "-", &Code::atom(frame.pick(matrices))),
        2 => Code::binary(&part, "*", &Code::atom(frame.pick(matrices))),
        3 => Code::call("wp.transpose", &[part]),
        4 => Code::binary(&part, "*", &frame.leaf(Float)),
        _ => {
            let trace = Code::call("wp.trace", &[Code::atom(frame.pick(matrices))]);
            Code::binary(&part, "*", &trace)
        }
    }
}

/// A number that a matrix gives.
fn number_of(frame: &mut Frame, matrices: &mut Pool<Name>, size: u64) -> Code {
    let matrix = frame.pick(matrices);
    match frame.choices.below(3) {
        0 => Code::call("wp.determinant", &[Code::atom(matrix)]),
        1 => Code::call("wp.trace", &[Code::atom(matrix)]),
        _ => Code::atom(format!("{matrix}[{}, {}]", frame.choices.below(size), frame.choices.below(size))),
    }
}

/// An element of a product of two arrays, with an epilogue.
fn product(frame: &mut Frame) {
    frame.with_two_dimensions();
    let [a, b] = [(); 2].map(|()| frame.array(Float, Role::Array));
    let [row, column] = [0, 1].map(|axis| frame.thread(axis).clone());
    if frame.chance(50) {
        frame.input(Float);
    }
    for _ in 0..frame.between(0, 2) {
        frame.scalar(Float);
    }
    let total = frame.variable(Float, &Code::atom("0.0"));
    frame.count("k", &format!("{a}.shape[1]"), |frame| {
        frame.scope.read("k");
        let (left, right) = match frame.choices.below(4) {
            0 => (format!("{a}[{row}, k]"), format!("{b}[{column}, k]")),
            1 => (format!("{a}[k, {row}]"), format!("{b}[k, {column}]")),
            _ => (format!("{a}[{row}, k]"), format!("{b}[k, {column}]")),
        };
        let mut term = Code::binary(&Code::atom(left), "*", &Code::atom(right));
        if frame.chance(40) {
            term = Code::binary(&term, "*", &frame.leaf(Float));
        }
        if frame.chance(30) {
            let condition = frame.condition(0);
            return frame.block(format_args!("if {condition}:"), |frame| frame.line(format_args!("{total} += {term}")));
        }
        frame.line(format_args!("{total} += {term}"));
    });
    if frame.chance(50) {
        prepare(frame, Float);
    }
    let rest = frame.arithmetic(Float, 2);
    let operator = frame.choices.pick(&["+", "*", "-"]);
    let mut value = Code::binary(&frame.read(&total), operator, &rest);
    if frame.chance(30) {
        value = frame.extreme("max", value, Code::atom("0.0"));
    }
    frame.finish(vec![(Float, value)]);
}

/// Matrices whose rows follow each other in lists.
fn rows(frame: &mut Frame) {
    let size = frame.between(2, 3);
    let mut lists = Pool::default();
    for _ in 0..frame.between(1, 2) {
        lists.add(frame.list(Float));
    }
    if frame.chance(60) {
        frame.input(Float);
    }
    let total = frame.variable(Float, &Code::atom("0.0"));
    sum(frame, &mut lists, &total, size);
    let parts = frame.between(0, 2);
    for _ in 0..parts {
        let value = minor(frame, &mut lists, size);
        frame.assign(Float, &value);
    }
    if lists.has_unread(0) {
        // It reads the other list, of which there are at most two.
        sum(frame, &mut lists, &total, size);
    }
    if frame.chance(40) {
        prepare(frame, Float);
    }
    let value = frame.arithmetic(Float, 2);
    let operator = frame.choices.pick(&["+", "-", "*"]);
    let sum = Code::binary(&frame.read(&total), operator, &value);
    if frame.chance(25) {
        let rest = frame.arithmetic(Float, 1);
        return frame.finish(vec![(Float, sum), (Float, rest)]);
    }
    frame.finish(vec![(Float, sum)]);
}

/// A sum over the elements of one matrix or two, or over the diagonal or a triangle.
fn sum(frame: &mut Frame, lists: &mut Pool<List>, total: &str, size: u64) {
    let columns = frame.choices.pick(&["size", "size", "r + 1", "1"]).replace("size", &size.to_string());
    frame.count("r", &size.to_string(), |frame| {
        frame.scope.read("r");
        frame.count("c", &columns, |frame| {
            frame.scope.read("c");
            let list = frame.next(lists);
            let mut term = element(frame, &list, size);
            for _ in 0..frame.between(0, 2) {
                let factor = if frame.chance(60) {
                    let list = frame.pick(lists);
                    element(frame, &list, size)
                } else {
                    frame.leaf(Float)
                };
                let operator = frame.choices.pick(&["*", "*", "+", "-"]);
                term = Code::binary(&term, operator, &factor);
            }
            if frame.chance(25) {
                term = frame.magnitude(&term);
            }
            let operator = frame.choices.pick(&["+=", "+=", "-="]);
            let line = format!("{total} {operator} {term}");
            if frame.chance(40) {
                let condition = frame.condition(1);
                return frame.block(format_args!("if {condition}:"), |frame| frame.line(line));
            }
            frame.line(line);
        });
        if frame.chance(25) {
            update(frame, total);
        }
    });
}

/// An element at the counters, or that of the transposed matrix.
fn element(frame: &mut Frame, list: &List, size: u64) -> Code {
    let (row, column) = if frame.chance(60) { ("r", "c") } else { ("c", "r") };
    list.at(&format!("{row} * {size} + {column}"))
}

/// A determinant of two rows and columns, or a sum on a diagonal.
fn minor(frame: &mut Frame, lists: &mut Pool<List>, size: u64) -> Code {
    let [a, b] = [(); 2].map(|()| frame.pick(lists));
    let corner = frame.choices.below(size - 1) * size + frame.choices.below(size - 1);
    let [first, right, below, last] = [0, 1, size, size + 1].map(|from| (corner + from).to_string());
    let product = |one: Code, other: Code| Code::binary(&one, "*", &other);
    match frame.choices.below(3) {
        0 => Code::binary(&product(a.at(&first), b.at(&last)), "-", &product(a.at(&right), b.at(&below))),
        1 => Code::binary(&a.at(&first), "+", &b.at(&last)),
        _ => frame.extreme("max", a.at(&right), b.at(&below)),
    }
}
