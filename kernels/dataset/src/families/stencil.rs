//! Neighbours in arrays.

use super::elementwise::{accumulate, prepare, update};
use crate::{
    code::Code,
    frame::Frame,
    names::{Name, Role},
    scope::Type::Float,
};

/// Which element takes the place of a neighbour that is outside of the array.
#[derive(Clone, Copy)]
enum Edge {
    /// The last one within.
    Repeat,
    /// The one at the other end.
    Wrap,
}

/// The side of an element on which its neighbours are.
#[derive(Clone, Copy)]
enum Side {
    Before,
    After,
    Both,
}

pub(super) fn write(frame: &mut Frame) {
    if frame.chance(50) {
        frame.with_two_dimensions();
    }
    let source = frame.array(Float, Role::Array);
    let threads = frame.threads().to_vec();
    let centre = frame.assign_as(Role::Float, Float, &Code::atom(format!("{source}[{}]", threads.join(", "))));
    if frame.chance(30) {
        frame.input(Float);
    }
    if frame.chance(40) {
        frame.scalar(Float);
    }
    let edge = frame.choices.pick(&[Edge::Repeat, Edge::Wrap]);
    let result = match frame.choices.below(3) {
        0 => window(frame, &source, &threads, edge),
        1 => inside(frame, &source, &threads),
        _ => neighbours(frame, &source, &threads, edge),
    };
    if frame.chance(50) {
        prepare(frame, Float);
    }
    if frame.chance(35) {
        let condition = frame.condition(1);
        frame.block(format_args!("if {condition}:"), |frame| update(frame, &result));
    }
    let mut value = frame.arithmetic(Float, 2);
    if frame.chance(25) {
        let condition = frame.condition(0);
        value = Code::conditional(&condition, &value, &frame.read(&centre));
    }
    let operator = frame.choices.pick(&["+", "-", "*"]);
    let sum = Code::binary(&frame.read(&result), operator, &value);
    frame.finish(vec![(Float, sum)]);
}

/// Some neighbours by name, and an expression of them.
fn neighbours(frame: &mut Frame, source: &str, threads: &[Name], edge: Edge) -> Name {
    for _ in 0..frame.between(2, 4) {
        let axis = frame.choices.index(threads.len());
        let offset = if frame.chance(75) { 1 } else { frame.between(2, 3) };
        let (sign, side) = frame.choices.pick(&[("-", Side::Before), ("+", Side::After)]);
        let place = Code::binary(&Code::atom(threads[axis].clone()), sign, &Code::atom(offset.to_string()));
        let place = within(&place, (source, axis), edge, (side, offset));
        let value = element(frame, source, threads, (axis, &place));
        frame.assign_as(Role::Float, Float, &value);
    }
    let value = match frame.choices.below(3) {
        0 => frame.elementary(Float, 2),
        depth => frame.arithmetic(Float, 1 + u32::try_from(depth).expect("below three")),
    };
    let value = frame.with_unread(Float, value);
    frame.variable(Float, &value)
}

/// A loop over the neighbours along an axis.
fn window(frame: &mut Frame, source: &str, threads: &[Name], edge: Edge) -> Name {
    let axis = frame.choices.index(threads.len());
    let reach = frame.between(1, 3);
    let start = frame.leaf(Float);
    let total = frame.variable(Float, &start);
    frame.count("k", &format!("-{reach}, {}", reach + 1), |frame| {
        let place = Code::binary(&Code::atom(threads[axis].clone()), "+", &frame.read("k"));
        let place = within(&place, (source, axis), edge, (Side::Both, reach));
        let value = element(frame, source, threads, (axis, &place));
        frame.assign_as(Role::Float, Float, &value);
        if frame.chance(40) {
            let condition = frame.condition(1);
            frame.block(format_args!("if {condition}:"), |frame| frame.line("continue"));
        }
        accumulate(frame, &total, |frame| frame.choices.pick(&["+=", "-="]));
    });
    total
}

/// An expression of neighbours where they are in the array, and another one where they are not.
fn inside(frame: &mut Frame, source: &str, threads: &[Name]) -> Name {
    let start = frame.arithmetic(Float, 1);
    let result = frame.variable(Float, &start);
    let axis = frame.choices.index(threads.len());
    let thread = threads[axis].clone();
    let [before, after] = [(); 2].map(|()| frame.between(1, 2));
    let header = format!("if {thread} >= {before} and {thread} + {after} < {source}.shape[{axis}]:");
    frame.block(header, |frame| {
        for (sign, offset) in [("-", before), ("+", after)] {
            let value = element(frame, source, threads, (axis, &format!("{thread} {sign} {offset}")));
            frame.assign_as(Role::Float, Float, &value);
        }
        let depth = if frame.chance(50) { 2 } else { 3 };
        let value = frame.arithmetic(Float, depth);
        let value = frame.with_unread(Float, value);
        let operator = frame.choices.pick(&["=", "+=", "-="]);
        frame.line(format_args!("{result} {operator} {value}"));
    });
    if frame.chance(50) {
        frame.block("else:", |frame| update(frame, &result));
    }
    result
}

/// A place along an axis, moved into the array if it is at most `reach` outside.
fn within(place: &Code, (source, axis): (&str, usize), edge: Edge, (side, reach): (Side, u64)) -> String {
    let extent = Code::atom(format!("{source}.shape[{axis}]"));
    match (edge, side) {
        (Edge::Repeat, Side::Before) => format!("wp.max({place}, 0)"),
        (Edge::Repeat, Side::After) => format!("wp.min({place}, {extent} - 1)"),
        (Edge::Repeat, Side::Both) => format!("wp.clamp({place}, 0, {extent} - 1)"),
        (Edge::Wrap, Side::After) => Code::binary(place, "%", &extent).to_string(),
        // A remainder has the sign of the dividend.
        (Edge::Wrap, Side::Before | Side::Both) => {
            let turns =
                if reach == 1 { extent.clone() } else { Code::binary(&extent, "*", &Code::atom(reach.to_string())) };
            Code::binary(&Code::binary(place, "+", &turns), "%", &extent).to_string()
        }
    }
}

/// The element at a place on an axis, and at the thread's on others.
fn element(frame: &mut Frame, source: &str, threads: &[Name], (axis, place): (usize, &str)) -> Code {
    let mut places = threads.to_vec();
    places[axis] = place.to_owned().into();
    if frame.chance(60) {
        places[axis] = frame.name(Role::Int);
        frame.line(format_args!("{} = {place}", places[axis]));
    }
    Code::atom(format!("{source}[{}]", places.join(", ")))
}
