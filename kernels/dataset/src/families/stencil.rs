//! Neighbours in arrays, whose edges are repeated.

use crate::{code::Code, frame::Frame, names::Role, scope::Type::Float};

pub(super) fn write(frame: &mut Frame) {
    let dims = if frame.chance(50) {
        frame.with_two_dimensions();
        2
    } else {
        1
    };
    let source = frame.array(Float, Role::Array);
    let reach = if dims == 1 && frame.chance(30) { 2 } else { 1 };
    let threads: Vec<_> = (0..dims).map(|axis| frame.thread(axis).to_owned()).collect();
    let centre = frame.name(Role::Float);
    frame.line(format!("{centre} = {source}[{}]", threads.join(", ")));
    frame.scope.add(Float, &centre);
    let mut sum: Option<Code> = None;
    for (axis, thread) in threads.iter().enumerate() {
        for distance in 1..=reach {
            for side in ["-", "+"] {
                let near = frame.name(Role::Int);
                let edge = match side {
                    "-" => format!("wp.max({thread} - {distance}, 0)"),
                    _ => format!("wp.min({thread} + {distance}, {source}.shape[{axis}] - 1)"),
                };
                frame.line(format!("{near} = {edge}"));
                let place: Vec<_> =
                    (0..dims).map(|dim| if dim == axis { near.clone() } else { threads[dim].clone() }).collect();
                let value = Code::atom(format!("{source}[{}]", place.join(", ")));
                let weighted = Code::binary(&frame.number(Float), "*", &value);
                sum = Some(sum.map_or_else(|| weighted.clone(), |sum| Code::binary(&sum, "+", &weighted)));
            }
        }
    }
    let sum = frame.assign(Float, &sum.expect("there are neighbours"));
    if frame.chance(50) {
        frame.scalar(Float);
    }
    let mut value = frame.arithmetic(Float, 2);
    if frame.chance(35) {
        let condition = frame.condition(0);
        value = Code::conditional(&condition, &value, &Code::atom(centre));
    }
    let operator = frame.random.pick(&["+", "-"]);
    frame.finish(&[(Float, Code::binary(&Code::atom(sum), operator, &value))]);
}
