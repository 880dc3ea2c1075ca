//! Kernels in which a thread computes its elements from numbers alone.

use crate::{
    code::Code,
    frame::Frame,
    names::Name,
    scope::Type::{self, Float, Int},
};

pub(super) fn arithmetic(frame: &mut Frame) {
    let ty = if frame.chance(25) { Int } else { Float };
    inputs(frame, ty);
    statements(frame, ty, Frame::arithmetic);
}

pub(super) fn math(frame: &mut Frame) {
    inputs(frame, Float);
    statements(frame, Float, Frame::elementary);
}

/// One to three numbers for each thread.
pub(super) fn inputs(frame: &mut Frame, of: Type) {
    if frame.chance(20) {
        frame.with_two_dimensions();
    }
    for _ in 0..frame.between(1, 3) {
        frame.input(of);
    }
}

/// Some variables, and one or two results.
fn statements(frame: &mut Frame, ty: Type, expression: fn(&mut Frame, Type, u32) -> Code) {
    for _ in 0..frame.between(0, 3) {
        let depth = if frame.chance(50) { 2 } else { 1 };
        let value = expression(frame, ty, depth);
        frame.assign(ty, &value);
    }
    let count = if frame.chance(20) { 2 } else { 1 };
    let results = (0..count).map(|_| (ty, expression(frame, ty, 3))).collect();
    frame.finish(results);
}

/// A variable that later expressions read.
pub(super) fn prepare(frame: &mut Frame, ty: Type) {
    let value = if ty == Float && frame.chance(40) { frame.elementary(ty, 2) } else { frame.arithmetic(ty, 2) };
    frame.assign(ty, &value);
}

pub(super) fn scalar_param(frame: &mut Frame) {
    inputs(frame, Float);
    for _ in 0..frame.between(1, 3) {
        frame.scalar(Float);
    }
    let mode = frame.chance(50).then(|| frame.scalar(Int));
    let start = frame.arithmetic(Float, 2);
    let result = frame.variable(Float, &start);
    if let Some(mode) = mode {
        frame.scope.read(&mode);
        let modulus = frame.between(2, 3);
        for case in 0..modulus {
            let header = match case {
                0 => format!("if {mode} % {modulus} == 0:"),
                _ if case + 1 == modulus => "else:".to_owned(),
                _ => format!("elif {mode} % {modulus} == {case}:"),
            };
            frame.block(header, |frame| update(frame, &result));
        }
    }
    if frame.chance(60) {
        let condition = frame.condition(1);
        frame.block(format_args!("if {condition}:"), |frame| update(frame, &result));
    }
    let mut value = frame.arithmetic(Float, 1);
    if frame.chance(40) {
        let [least, most] = [(); 2].map(|()| frame.leaf(Float));
        let ordered = ["min", "max"].map(|function| frame.extreme(function, least.clone(), most.clone()));
        value = frame.clamp(value, &ordered[0], &ordered[1]);
    }
    let sum = Code::binary(&frame.read(&result), "+", &value);
    frame.finish(vec![(Float, sum)]);
}

/// Accumulates an expression, with all that nothing has read yet, in a variable: by an operator, or as an extreme.
pub(super) fn accumulate(frame: &mut Frame, total: &Name, operator: impl FnOnce(&mut Frame) -> &'static str) {
    let value = frame.arithmetic(Float, 2);
    let value = frame.with_unread(Float, value);
    if frame.chance(25) {
        let function = frame.choices.pick(&["min", "max"]);
        let extreme = frame.extreme(function, Code::atom(total.clone()), value);
        return frame.line(format_args!("{total} = {extreme}"));
    }
    let operator = operator(frame);
    frame.line(format_args!("{total} {operator} {value}"));
}

/// Changes a variable.
pub(super) fn update(frame: &mut Frame, variable: &str) {
    let value = frame.arithmetic(Float, 2);
    let operator = frame.choices.pick(&["=", "+=", "-=", "*="]);
    frame.line(format_args!("{variable} {operator} {value}"));
}
