//! Small matrices: types of Warp, rows of lists in Python; and products of arrays of two dimensions.

use crate::{
    code::Code,
    frame::{Frame, List},
    names::Role,
    scope::Type::{Float, Int},
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
    let mut matrices = vec![];
    for _ in 0..frame.between(1, 2) {
        matrices.push(load(frame, &format!("wp.mat{size}{size}")));
    }
    let vector = load(frame, &format!("wp.vec{size}"));
    if frame.chance(50) {
        frame.scalar(Float);
    }
    for _ in 0..frame.between(1, 2) {
        let value = matrix(frame, &matrices, 2);
        let name = frame.name(Role::Temporary);
        frame.line(format!("{name} = {value}"));
        matrices.push(name);
    }
    let last = Code::atom(matrices.last().expect("there is one").clone());
    if frame.chance(40) {
        let out = frame.array_of(&format!("wp.vec{size}"), Role::Result);
        let thread = frame.thread(0).to_owned();
        let factor = frame.leaf(Float);
        let image = Code::binary(&last, "*", &Code::atom(vector));
        return frame.line(format!("{out}[{thread}] = {}", Code::binary(&image, "*", &factor)));
    }
    let value = match frame.random.below(3) {
        0 => Code::call("wp.determinant", &[last]),
        1 => Code::call("wp.trace", &[last]),
        _ => Code::atom(format!("{last}[{}, {}]", frame.random.below(size), frame.random.below(size))),
    };
    let image = Code::binary(&Code::atom(matrices[0].clone()), "*", &Code::atom(vector.clone()));
    let quadratic = Code::call("wp.dot", &[Code::atom(vector), image]);
    let rest = frame.arithmetic(Float, 1);
    frame.finish(&[(Float, Code::binary(&Code::binary(&value, "*", &rest), "+", &quadratic))]);
}

/// An element of an array of matrices or vectors.
fn load(frame: &mut Frame, element: &str) -> String {
    let name = frame.name(Role::Float);
    let array = frame.array_of(element, Role::Array);
    let thread = frame.thread(0).to_owned();
    frame.line(format!("{name} = {array}[{thread}]"));
    name
}

/// An expression whose value is a matrix.
fn matrix(frame: &mut Frame, matrices: &[String], depth: u32) -> Code {
    let leaf = Code::atom(matrices[frame.random.index(matrices.len())].clone());
    if depth == 0 {
        return leaf;
    }
    let part = matrix(frame, matrices, depth - 1);
    match frame.random.below(6) {
        0 => Code::binary(&part, "+", &leaf),
        1 => Code::binary(&part, "-", &leaf),
        2 => Code::binary(&part, "*", &leaf),
        3 => Code::call("wp.transpose", &[part]),
        4 => Code::binary(&part, "*", &frame.number(Float)),
        _ => {
            let trace = Code::call("wp.trace", &[leaf]);
            Code::binary(&part, "*", &trace)
        }
    }
}

/// An element of a product of two arrays, with an epilogue.
fn product(frame: &mut Frame) {
    frame.with_two_dimensions();
    let [a, b] = [(); 2].map(|()| frame.array(Float, Role::Array));
    let [row, column] = [0, 1].map(|axis| frame.thread(axis).to_owned());
    if frame.chance(50) {
        frame.input(Float);
    }
    for _ in 0..frame.between(0, 2) {
        frame.scalar(Float);
    }
    let total = frame.variable(Float, &Code::atom("0.0"));
    frame.block(format!("for k in range({a}.shape[1]):"), |frame| {
        frame.scope.add(Int, "k");
        let (left, right) = match frame.random.below(4) {
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
            return frame.block(format!("if {condition}:"), |frame| frame.line(format!("{total} += {term}")));
        }
        frame.line(format!("{total} += {term}"));
    });
    let rest = frame.arithmetic(Float, 2);
    let operator = frame.random.pick(&["+", "*", "-"]);
    let mut value = Code::binary(&Code::atom(total), operator, &rest);
    if frame.chance(30) {
        value = frame.extreme("max", value, Code::atom("0.0"));
    }
    frame.finish(&[(Float, value)]);
}

/// Matrices whose rows follow each other in lists.
fn rows(frame: &mut Frame) {
    let size = frame.between(2, 3);
    let [a, b] = [(); 2].map(|()| frame.list(Float));
    if frame.chance(60) {
        frame.input(Float);
    }
    let total = frame.variable(Float, &Code::atom("0.0"));
    let element = |list: &List, row: &str, column: &str| list.at(&format!("{row} * {size} + {column}"));
    frame.block(format!("for r in range({size}):"), |frame| {
        frame.scope.add(Int, "r");
        frame.block(format!("for c in range({size}):"), |frame| {
            frame.scope.add(Int, "c");
            let left = element(&a, "r", "c");
            let right = if frame.chance(50) { element(&b, "c", "r") } else { element(&b, "r", "c") };
            let mut term = Code::binary(&left, "*", &right);
            if frame.chance(50) {
                term = Code::binary(&term, "*", &frame.leaf(Float));
            }
            if frame.chance(40) {
                let condition = frame.condition(0);
                return frame.block(format!("if {condition}:"), |frame| frame.line(format!("{total} += {term}")));
            }
            frame.line(format!("{total} += {term}"));
        });
    });
    let at = |list: &List, nth: u64| list.at(&nth.to_string());
    let minor = |nth: u64| {
        let down = Code::binary(&at(&a, nth), "*", &at(&a, nth + size + 1));
        Code::binary(&down, "-", &Code::binary(&at(&a, nth + 1), "*", &at(&a, nth + size)))
    };
    let value = match frame.random.below(3) {
        0 => minor(0),
        1 => Code::binary(&at(&b, 0), "+", &at(&b, size + 1)),
        _ => frame.arithmetic(Float, 2),
    };
    let rest = frame.arithmetic(Float, 1);
    let sum = Code::binary(&Code::atom(total), "+", &value);
    if frame.chance(25) {
        return frame.finish(&[(Float, sum), (Float, rest)]);
    }
    frame.finish(&[(Float, Code::binary(&sum, "*", &rest))]);
}
