//! Chains of branches.

use super::elementwise::update;
use crate::{
    code::Code,
    frame::Frame,
    names::Role,
    scope::Type::{Float, Int},
};

pub(super) fn write(frame: &mut Frame) {
    for _ in 0..frame.between(1, 3) {
        frame.input(Float);
    }
    if frame.chance(50) {
        frame.input(Int);
    }
    let start = frame.number(Float);
    let result = frame.variable(Float, &start);
    chain(frame, &result, 1);
    if frame.chance(40) {
        chain(frame, &result, 0);
    }
    if frame.chance(50) {
        let condition = frame.condition(1);
        let [yes, no] = [(); 2].map(|()| frame.arithmetic(Float, 1));
        let chosen = Code::conditional(&condition, &yes, &no);
        let name = frame.name(Role::Temporary);
        frame.line(format_args!("{name} = {chosen}"));
        let sum = Code::binary(&frame.read(&result), "+", &Code::atom(name));
        return frame.finish(vec![(Float, sum)]);
    }
    let result = frame.read(&result);
    frame.finish(vec![(Float, result)]);
}

/// Three to five branches, of which some have branches of their own.
pub(super) fn chain(frame: &mut Frame, result: &str, depth: u32) {
    let branches = frame.between(2, 4);
    for nth in 0..branches {
        let condition = frame.condition(2);
        let keyword = if nth == 0 { "if" } else { "elif" };
        frame.block(format_args!("{keyword} {condition}:"), |frame| branch(frame, result, depth));
    }
    if frame.chance(80) {
        frame.block("else:", |frame| branch(frame, result, depth));
    }
}

fn branch(frame: &mut Frame, result: &str, depth: u32) {
    update(frame, result);
    if depth > 0 && frame.chance(35) {
        let condition = frame.condition(1);
        frame.block(format_args!("if {condition}:"), |frame| update(frame, result));
        if frame.chance(50) {
            frame.block("else:", |frame| update(frame, result));
        }
    }
}
