//! Loops.

use super::elementwise::update;
use crate::{
    code::Code,
    frame::{Frame, List},
    scope::Type::{Float, Int},
};

/// Names of counters, from the outermost loop inwards.
const COUNTERS: [&str; 3] = ["k", "l", "m"];

pub(super) fn control_flow(frame: &mut Frame) {
    frame.input(Float);
    if frame.chance(50) {
        frame.input(Int);
    }
    let list = frame.chance(45).then(|| frame.list(Float));
    let start = frame.leaf(Float);
    let total = frame.variable(Float, &start);
    for _ in 0..frame.between(1, 2) {
        match (frame.random.below(3), &list) {
            (0, _) => repeat(frame, &total),
            (_, Some(list)) => scan(frame, list, &total),
            (_, None) => count(frame, &total),
        }
    }
    if frame.chance(30) {
        let condition = frame.condition(1);
        frame.block(format!("if {condition}:"), |frame| update(frame, &total));
    }
    frame.finish(&[(Float, Code::atom(total))]);
}

/// A `while` loop that halves, or counts.
fn repeat(frame: &mut Frame, total: &str) {
    let rounds = frame.variable(Int, &Code::atom("0"));
    let maximum = frame.between(5, 40);
    let limit = frame.number(Float);
    let size = frame.magnitude(&Code::atom(total));
    frame.block(format!("while {rounds} < {maximum} and {size} > {limit}:"), |frame| {
        let shrink = frame.random.pick(&["0.5", "0.75", "0.9", "-0.6"]);
        frame.line(format!("{total} = {total} * {shrink}"));
        leave(frame, "break");
        frame.line(format!("{rounds} += 1"));
    });
}

/// A loop over a list.
fn scan(frame: &mut Frame, list: &List, total: &str) {
    frame.block(format!("for k in range({}):", list.len()), |frame| {
        let item = frame.assign(Float, &list.at("k"));
        if frame.chance(60) {
            leave(frame, "continue");
        }
        let operator = frame.random.pick(&["+=", "-="]);
        let value = frame.arithmetic(Float, 1);
        frame.line(format!("{total} {operator} {}", Code::binary(&value, "*", &Code::atom(item))));
        if frame.chance(50) {
            leave(frame, "break");
        }
    });
}

/// A loop with a constant number of rounds.
fn count(frame: &mut Frame, total: &str) {
    let rounds = frame.between(3, 24);
    frame.block(format!("for k in range({rounds}):"), |frame| {
        frame.scope.add(Int, "k");
        leave(frame, "continue");
        let step = frame.arithmetic(Float, 2);
        let weight = frame.random.pick(&["0.5", "0.25", "0.1"]);
        frame.line(format!("{total} = {total} * {weight} + {step}"));
        if frame.chance(50) {
            leave(frame, "break");
        }
    });
}

/// Leaves the loop or the round if a condition holds.
fn leave(frame: &mut Frame, how: &str) {
    let condition = frame.condition(1);
    frame.block(format!("if {condition}:"), |frame| frame.line(how));
}

pub(super) fn nested(frame: &mut Frame) {
    let lists: Vec<_> = (0..frame.between(1, 2)).map(|_| frame.list(Float)).collect();
    if frame.chance(60) {
        frame.input(Float);
    }
    let total = frame.variable(Float, &Code::atom("0.0"));
    let depth = if frame.chance(30) { 3 } else { 2 };
    level(frame, &lists, &total, (0, depth));
    let value = frame.leaf(Float);
    frame.finish(&[(Float, Code::binary(&Code::atom(total), "+", &value))]);
}

/// A loop of `depth`, and those within.
fn level(frame: &mut Frame, lists: &[List], total: &str, (position, depth): (usize, usize)) {
    let counter = COUNTERS[position];
    let range = range(frame, lists, position);
    frame.block(format!("for {counter} in range({range}):"), |frame| {
        frame.scope.add(Int, counter);
        if position + 1 < depth {
            let partial = frame.chance(40).then(|| frame.variable(Float, &Code::atom("0.0")));
            level(frame, lists, partial.as_deref().unwrap_or(total), (position + 1, depth));
            if let Some(partial) = partial {
                let factor = frame.leaf(Float);
                frame.line(format!("{total} += {partial} * {factor}"));
            }
            return;
        }
        let first = frame.choose(lists);
        let index = index(frame, &first, position);
        let item = frame.assign(Float, &first.at(&index));
        if frame.chance(50) {
            let second = frame.choose(lists);
            let earlier = format!("{} % {}", COUNTERS[0], second.len());
            frame.assign(Float, &second.at(&earlier));
        }
        if frame.chance(35) {
            leave(frame, "continue");
        }
        let value = frame.arithmetic(Float, 2);
        frame.line(format!("{total} += {}", Code::binary(&Code::atom(item), "*", &value)));
        if frame.chance(20) {
            leave(frame, "break");
        }
    });
}

/// The range of a loop: the length of a list, an outer counter, or a number of rounds.
fn range(frame: &mut Frame, lists: &[List], index: usize) -> String {
    let list = frame.choose(lists);
    match frame.random.below(3) {
        0 => list.len(),
        1 if index > 0 => format!("{} + 1", COUNTERS[index - 1]),
        _ => frame.between(2, 6).to_string(),
    }
}

fn index(frame: &mut Frame, list: &List, index: usize) -> String {
    let counter = Code::atom(COUNTERS[index]);
    let sum = match frame.random.below(3) {
        0 if index > 0 => Code::binary(&counter, "+", &Code::atom(COUNTERS[index - 1])),
        1 => Code::binary(&counter, "*", &frame.number(Int)),
        _ => counter,
    };
    Code::binary(&sum, "%", &Code::atom(list.len())).to_string()
}
