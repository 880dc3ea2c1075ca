//! Kernels in which a thread computes its elements without a loop.

use crate::{
    code::Code,
    frame::Frame,
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
fn inputs(frame: &mut Frame, of: Type) {
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
    let results: Vec<_> = (0..if frame.chance(20) { 2 } else { 1 }).map(|_| (ty, expression(frame, ty, 3))).collect();
    frame.finish(&results);
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
        frame.block(format!("if {condition}:"), |frame| update(frame, &result));
    }
    let mut value = frame.arithmetic(Float, 1);
    if frame.chance(40) {
        let [least, most] = [(); 2].map(|()| frame.leaf(Float));
        let ordered = ["min", "max"].map(|function| frame.extreme(function, least.clone(), most.clone()));
        value = frame.clamp(value, &ordered[0], &ordered[1]);
    }
    frame.finish(&[(Float, Code::binary(&Code::atom(result), "+", &value))]);
}

/// Changes a variable.
pub(super) fn update(frame: &mut Frame, variable: &str) {
    let value = frame.arithmetic(Float, 2);
    let operator = frame.random.pick(&["=", "+=", "-=", "*="]);
    frame.line(format!("{variable} {operator} {value}"));
}

/// Integers from 0 to 2^31 - 1, so that Python and Warp mean the same.
pub(super) fn bitwise(frame: &mut Frame) {
    inputs(frame, Int);
    if frame.chance(40) {
        frame.scalar(Int);
    }
    let start = frame.leaf(Int);
    let state = frame.variable(Int, &Code::binary(&start, "&", &Code::atom("0x7FFFFFFF")));
    if frame.chance(40) {
        let rounds = frame.between(2, 6);
        frame.block(format!("for _ in range({rounds}):"), |frame| mix(frame, &state));
    }
    for _ in 0..frame.between(1, 4) {
        mix(frame, &state);
    }
    if frame.chance(30) {
        let count = frame.variable(Int, &Code::atom("0"));
        let bits = frame.between(4, 31);
        frame.block(format!("for bit in range({bits}):"), |frame| {
            frame.line(format!("{count} += ({state} >> bit) & 1"));
        });
        return frame.finish(&[(Int, Code::atom(count))]);
    }
    frame.finish(&[(Int, Code::atom(state))]);
}

/// A step that mixes the bits of a variable.
fn mix(frame: &mut Frame, state: &str) {
    let shift = frame.between(1, 15);
    let other = frame.leaf(Int);
    let line = match frame.random.below(7) {
        0 => format!("{state} = {state} ^ ({state} >> {shift})"),
        1 => format!("{state} = ({state} ^ ({state} << {shift})) & 0x7FFFFFFF"),
        2 => format!("{state} = ({state} & 0xFFFF) * {} + ({state} >> 16)", frame.between(3, 32_000)),
        3 => format!("{state} = ({state} | {other}) & 0x{:X}", frame.between(0xFF, 0x7FFF_FFFF)),
        4 => format!("{state} = ({state} ^ {other}) & 0x7FFFFFFF"),
        5 => format!("{state} = ({state} >> {shift}) | (({state} & {}) << {})", (1 << shift) - 1, 31 - shift),
        _ => format!("{state} = ~{state} & 0x{:X}", frame.between(0xFFFF, 0x7FFF_FFFF)),
    };
    frame.line(line);
}
