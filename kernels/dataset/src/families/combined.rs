//! Helpers, loops, branches and elementary functions together.

use super::{branches::chain, elementwise::update};
use crate::{
    code::Code,
    frame::{Frame, List},
    names::Name,
    scope::{
        Scope,
        Type::{Float, Int},
    },
};

pub(super) fn write(frame: &mut Frame) {
    let helper = helper(frame);
    for _ in 0..frame.between(1, 2) {
        frame.input(Float);
    }
    if frame.chance(40) {
        frame.input(Int);
    }
    if frame.chance(50) {
        frame.scalar(Float);
    }
    let list = frame.chance(40).then(|| frame.list(Float));
    let total = frame.variable(Float, &Code::atom("0.0"));
    let rounds = list.as_ref().map_or_else(|| frame.between(2, 12).to_string(), List::len);
    frame.count("k", &rounds, |frame| {
        if let Some(list) = &list {
            frame.scope.read("k");
            frame.assign(Float, &list.at("k"));
        }
        let arguments = [(); 2].map(|()| frame.leaf(Float));
        let value = frame.with_unread(Float, Code::call(&helper, &arguments));
        frame.line(format_args!("{total} += {value}"));
        if frame.chance(50) {
            let condition = frame.condition(1);
            frame.block(format_args!("if {condition}:"), |frame| update(frame, &total));
        }
    });
    if frame.chance(60) {
        chain(frame, &total, 0);
    }
    let value = frame.elementary(Float, 2);
    let sum = Code::binary(&frame.read(&total), "+", &value);
    frame.finish(vec![(Float, sum)]);
}

/// A function of two numbers.
fn helper(frame: &mut Frame) -> Name {
    let params = frame.choices.pick(&[["a0", "b0"], ["lhs", "rhs"], ["first", "second"]]);
    let mut inside = Scope::default();
    for param in params {
        inside.add(Float, param);
    }
    let outside = std::mem::replace(&mut frame.scope, inside);
    let body = frame.elementary(Float, 2);
    // Both parameters are used, so that their types are known.
    let both = Code::binary(&Code::atom(params[0]), "*", &Code::atom(params[1]));
    frame.scope = outside;
    frame.helper(&params, &Code::binary(&body, "+", &both))
}
