//! Loops.

use super::elementwise::{prepare, update};
use crate::{
    code::Code,
    frame::{Frame, List},
    names::Name,
    scope::{
        Pool,
        Type::{Float, Int},
    },
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
    let loops = frame.between(1, 2);
    let mut is_scanned = false;
    for nth in 1..=loops {
        match &list {
            Some(list) if nth == loops && !is_scanned || frame.chance(65) => {
                is_scanned = true;
                scan(frame, list, &total);
            }
            None if frame.chance(65) => count(frame, &total),
            _ => repeat(frame, &total),
        }
    }
    if frame.chance(30) {
        let condition = frame.condition(1);
        frame.block(format_args!("if {condition}:"), |frame| update(frame, &total));
    }
    let total = frame.read(&total);
    frame.finish(vec![(Float, total)]);
}

/// A `while` loop that halves, or counts.
fn repeat(frame: &mut Frame, total: &Name) {
    let rounds = frame.variable(Int, &Code::atom("0"));
    let maximum = frame.between(5, 40);
    let limit = frame.number(Float);
    let total = frame.read(total);
    let size = frame.magnitude(&total);
    let counter = frame.read(&rounds);
    frame.block(format_args!("while {counter} < {maximum} and {size} > {limit}:"), |frame| {
        let shrink = frame.choices.pick(&["0.5", "0.75", "0.9", "-0.6"]);
        frame.line(format_args!("{total} = {total} * {shrink}"));
        leave(frame, "break");
        frame.line(format_args!("{counter} += 1"));
    });
}

/// A loop over a list.
fn scan(frame: &mut Frame, list: &List, total: &Name) {
    frame.block(format_args!("for k in range({}):", list.len()), |frame| {
        let item = frame.assign(Float, &list.at("k"));
        if frame.chance(60) {
            leave(frame, "continue");
        }
        let operator = frame.choices.pick(&["+=", "-="]);
        let value = frame.arithmetic(Float, 1);
        let item = frame.read(&item);
        frame.line(format_args!("{total} {operator} {}", Code::binary(&value, "*", &item)));
        if frame.chance(50) {
            leave(frame, "break");
        }
    });
}

/// A loop with a constant number of rounds.
fn count(frame: &mut Frame, total: &Name) {
    let rounds = frame.between(3, 24);
    frame.count("k", &rounds.to_string(), |frame| {
        leave(frame, "continue");
        let step = frame.arithmetic(Float, 2);
        let step = frame.with_unread(Float, step);
        let weight = frame.choices.pick(&["0.5", "0.25", "0.1"]);
        let last = Code::binary(&Code::atom(total.clone()), "*", &Code::atom(weight));
        frame.line(format_args!("{total} = {}", Code::binary(&last, "+", &step)));
        if frame.chance(50) {
            leave(frame, "break");
        }
    });
}

/// Leaves the loop or the round if a condition holds.
fn leave(frame: &mut Frame, how: &str) {
    let condition = frame.condition(1);
    frame.block(format_args!("if {condition}:"), |frame| frame.line(how));
}

pub(super) fn nested(frame: &mut Frame) {
    let mut lists = Pool::default();
    for _ in 0..frame.between(1, 2) {
        lists.add(frame.list(Float));
    }
    if frame.chance(60) {
        frame.input(Float);
    }
    if frame.chance(40) {
        frame.scalar(Float);
    }
    let total = frame.variable(Float, &Code::atom("0.0"));
    let depth = if frame.chance(30) { 3 } else { 2 };
    level(frame, &mut lists, &total, (0, depth));
    if frame.chance(40) {
        let condition = frame.condition(1);
        frame.block(format_args!("if {condition}:"), |frame| update(frame, &total));
    }
    let value = frame.arithmetic(Float, 2);
    let sum = Code::binary(&frame.read(&total), "+", &value);
    frame.finish(vec![(Float, sum)]);
}

/// A loop of `depth`, and those within.
fn level(frame: &mut Frame, lists: &mut Pool<List>, total: &Name, (position, depth): (usize, usize)) {
    let range = range(frame, lists, position);
    frame.count(COUNTERS[position], &range, |frame| {
        if position + 1 == depth {
            return innermost(frame, lists, total, position);
        }
        let partial = frame.chance(40).then(|| frame.variable(Float, &Code::atom("0.0")));
        level(frame, lists, partial.as_ref().unwrap_or(total), (position + 1, depth));
        if let Some(partial) = partial {
            let product = Code::binary(&frame.read(&partial), "*", &frame.leaf(Float));
            let value = frame.with_unread(Float, product);
            frame.line(format_args!("{total} += {value}"));
        }
    });
}

fn innermost(frame: &mut Frame, lists: &mut Pool<List>, total: &Name, position: usize) {
    let first = frame.pick(lists);
    let index = index(frame, &first, position);
    let item = frame.assign(Float, &first.at(&index));
    if lists.has_unread(0) || frame.chance(50) {
        let second = frame.next(lists);
        let outer = frame.read(COUNTERS[0]);
        let earlier = Code::binary(&outer, "%", &Code::atom(second.len()));
        frame.assign(Float, &second.at(&earlier.to_string()));
    }
    if frame.chance(40) {
        prepare(frame, Float);
    }
    if frame.chance(35) {
        leave(frame, "continue");
    }
    let value = frame.arithmetic(Float, 2);
    let value = Code::binary(&frame.read(&item), "*", &value);
    let value = frame.with_unread(Float, value);
    frame.line(format_args!("{total} += {value}"));
    if frame.chance(20) {
        leave(frame, "break");
    }
}

/// The range of a loop: the length of a list, an outer counter, or a number of rounds.
fn range(frame: &mut Frame, lists: &Pool<List>, position: usize) -> String {
    match frame.choices.below(3) {
        0 => lists.any(&mut frame.choices).len(),
        1 if position > 0 => format!("{} + 1", frame.read(COUNTERS[position - 1])),
        _ => frame.between(2, 6).to_string(),
    }
}

/// An index of a list by the counters of the loops: at least those that nothing has read yet.
fn index(frame: &mut Frame, list: &List, position: usize) -> String {
    let counter = frame.read(COUNTERS[position]);
    let mut sum = if frame.chance(33) { Code::binary(&counter, "*", &frame.number(Int)) } else { counter };
    for outer in &COUNTERS[..position] {
        if frame.scope.is_unread(outer) || frame.chance(25) {
            sum = Code::binary(&sum, "+", &frame.read(outer));
        }
    }
    Code::binary(&sum, "%", &Code::atom(list.len())).to_string()
}
