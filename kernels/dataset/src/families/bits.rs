//! Bits of integers from 0 to 2^31 - 1, so that Python and Warp mean the same.

use super::elementwise::inputs;
use crate::{code::Code, frame::Frame, names::Name, scope::Type::Int};

/// The bits that remain.
const MASK: &str = "0x7FFFFFFF";

pub(super) fn write(frame: &mut Frame) {
    inputs(frame, Int);
    if frame.chance(40) {
        frame.scalar(Int);
    }
    let start = frame.leaf(Int);
    let state = frame.variable(Int, &Code::binary(&start, "&", &Code::atom(MASK)));
    frame.scope.read(&state);
    if frame.chance(40) {
        let rounds = frame.between(2, 6);
        frame.block(format_args!("for _ in range({rounds}):"), |frame| {
            for _ in 0..frame.between(1, 2) {
                step(frame, &state);
            }
        });
    }
    for _ in 0..frame.between(1, 4) {
        step(frame, &state);
    }
    while let Some(name) = frame.unread(Int) {
        let operator = frame.choices.pick(&["^", "|", "+"]);
        let value = Code::binary(&Code::atom(state.clone()), operator, &Code::atom(name));
        frame.line(format_args!("{state} = {}", Code::binary(&value, "&", &Code::atom(MASK))));
    }
    let value = if frame.chance(45) { gather(frame, &state) } else { Code::atom(state.clone()) };
    frame.finish(vec![(Int, value)]);
}

/// Changes the state, in one branch of two or in any case.
fn step(frame: &mut Frame, state: &Name) {
    if frame.chance(70) {
        return mix(frame, state);
    }
    let bit = Code::atom((1_u64 << frame.between(0, 12)).to_string());
    let operator = frame.choices.pick(&["==", "!="]);
    let test = Code::binary(&Code::binary(&Code::atom(state.clone()), "&", &bit), operator, &Code::atom("0"));
    frame.block(format_args!("if {test}:"), |frame| mix(frame, state));
    if frame.chance(50) {
        frame.block("else:", |frame| mix(frame, state));
    }
}

/// A step that mixes the bits of the state.
fn mix(frame: &mut Frame, state: &Name) {
    let shift = frame.between(1, 15);
    let line = match frame.choices.below(9) {
        0 => format!("{state} = {state} ^ ({state} >> {shift})"),
        1 => format!("{state} = ({state} ^ ({state} << {shift})) & {MASK}"),
        2 => format!("{state} = ({state} & 0xFFFF) * {} + ({state} >> 16)", frame.between(3, 32_000)),
        3 => format!("{state} = ({state} | {}) & 0x{:X}", frame.leaf(Int), frame.between(0xFF, 0x7FFF_FFFF)),
        4 => format!("{state} = ({state} >> {shift}) | (({state} & {}) << {})", (1 << shift) - 1, 31 - shift),
        5 => format!("{state} = ~{state} & 0x{:X}", frame.between(0xFFFF, 0x7FFF_FFFF)),
        _ => {
            let value = bits(frame, state, 2);
            format!("{state} = {}", Code::binary(&value, "&", &Code::atom(MASK)))
        }
    };
    frame.line(line);
}

/// An expression of bits. Only variables are shifted and multiplied, so that no number has more than 46 bits.
fn bits(frame: &mut Frame, state: &Name, depth: u32) -> Code {
    if depth > 0 && frame.chance(60) {
        let operator = frame.choices.pick(&["^", "^", "|", "&", "+"]);
        let [left, right] = [(); 2].map(|()| bits(frame, state, depth - 1));
        let right = frame.unlike(&left, right, Int);
        return Code::binary(&left, operator, &right);
    }
    let variable = if frame.chance(60) { Code::atom(state.clone()) } else { frame.variable_of(Int) };
    match frame.choices.below(if depth > 0 { 4 } else { 5 }) {
        0 => Code::binary(&variable, ">>", &Code::atom(frame.between(1, 15).to_string())),
        1 => Code::binary(&variable, "<<", &Code::atom(frame.between(1, 15).to_string())),
        2 => Code::binary(&variable, "&", &Code::atom(format!("0x{:X}", frame.between(0xFF, 0xFFF_FFFF)))),
        3 => Code::binary(&variable, "*", &Code::atom(frame.between(3, 31).to_string())),
        _ => variable,
    }
}

/// A number that is gathered from the bits of the state, one by one.
fn gather(frame: &mut Frame, state: &Name) -> Code {
    let gathered = frame.variable(Int, &Code::atom("0"));
    let count = frame.between(4, 31);
    let step = frame.between(1, 3);
    frame.count("bit", &count.to_string(), |frame| {
        let place = frame.read("bit");
        let value = Code::binary(&Code::atom(state.clone()), ">>", &place);
        let value = Code::binary(&value, "&", &Code::atom(step.to_string()));
        let line = match frame.choices.below(4) {
            0 => format!("{gathered} += {value}"),
            1 => format!("{gathered} ^= {value}"),
            2 => format!("{gathered} = ({gathered} << 1 | {value}) & {MASK}"),
            _ => format!("{gathered} = ({gathered} * {} + ({value})) & 0xFFFF", frame.between(3, 31)),
        };
        if frame.chance(30) {
            let test = frame.read("bit");
            let test = Code::binary(&test, "%", &Code::atom(frame.between(2, 5).to_string()));
            return frame.block(format_args!("if {test} != 0:"), |frame| frame.line(line));
        }
        frame.line(line);
    });
    let gathered = frame.read(&gathered);
    match frame.choices.below(3) {
        0 => Code::binary(&gathered, "^", &Code::atom(state.clone())),
        1 => Code::binary(&gathered, "+", &Code::binary(&Code::atom(state.clone()), "&", &frame.number(Int))),
        _ => gathered,
    }
}
