//! Properties of the memory of plans: what a step reads is what the same step reads if every value has a buffer of its own.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;

use super::{ints, node, plan, spec, tensor};
use crate::{
    Attribute, Dtype, Graph, GraphSpec, Location, NodeSpec, Plan, Step, View,
    planner::{arena, lower},
};

/// The bytes of memory: each has the number of the write that it is from.
#[derive(Default)]
struct Memory {
    writes: HashMap<(Buffer, usize), u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Buffer {
    Input(usize),
    Output(usize),
    /// A numbered buffer, or 0 for the arena.
    Arena(usize),
}

impl Memory {
    /// The writes that the bytes of a view are from; inputs are as they were.
    fn read(&self, bytes: &[(Buffer, usize)]) -> Vec<Option<u64>> {
        let write = |place: &(Buffer, usize)| match place {
            (Buffer::Input(nth), at) => Some(u64::MAX - ((*nth as u64) << 32 | *at as u64)),
            _ => self.writes.get(place).copied(),
        };
        bytes.iter().map(write).collect()
    }

    fn write(&mut self, bytes: &[(Buffer, usize)], first: u64) {
        self.writes.extend(bytes.iter().copied().zip(first..));
    }
}

/// The bytes of a view in the order of its elements. `is_placed` says whether the arena has places, rather than numbered buffers.
fn bytes(view: &View, is_placed: bool) -> Vec<(Buffer, usize)> {
    let (buffer, start) = match view.location {
        Location::Input(nth) => (Buffer::Input(nth), 0),
        Location::Output(nth) => (Buffer::Output(nth), 0),
        Location::Arena(start) if is_placed => (Buffer::Arena(0), start),
        Location::Arena(number) => (Buffer::Arena(number), 0),
    };
    let layout = &view.layout;
    let mut positions = vec![layout.offset.cast_signed()];
    for (extent, stride) in layout.shape.iter().zip(&layout.strides) {
        let along = |position: isize| (0..*extent).map(move |index| position + index.cast_signed() * stride);
        positions = positions.into_iter().flat_map(along).collect();
    }
    let size = view.dtype.size();
    let of_element = |position: isize| {
        let first = start + usize::try_from(position).expect("views begin within their buffers") * size;
        (first..first + size).map(move |at| (buffer, at))
    };
    positions.into_iter().flat_map(of_element).collect()
}

/// The views that a step reads, and those that it writes.
fn sides(step: &mut Step, inputs: &[usize]) -> (Vec<View>, Vec<View>) {
    let outputs = step.outputs_mut().into_iter().map(|view| view.clone()).collect();
    let all = step.views_mut();
    (inputs.iter().map(|nth| all[*nth].clone()).collect(), outputs)
}

/// The positions of the views that a step with numbered buffers reads. Such a step writes none of the buffers that it reads.
fn inputs(step: &mut Step) -> Vec<usize> {
    let written: Vec<_> = step.outputs_mut().into_iter().map(|view| view.location).collect();
    let all = step.views_mut();
    (0..all.len()).filter(|nth| !written.contains(&all[*nth].location)).collect()
}

/// Checks that placing the buffers of a graph changes nothing that steps read.
fn check(spec: &GraphSpec) {
    let graph = Graph::new(spec).expect("a valid graph");
    let numbered = lower::lower(&graph);
    let mut separate = numbered.steps;
    let (arena_bytes, mut placed) = arena::place(lower::lower(&graph));
    assert_eq!(separate.len(), placed.len());
    let mut before = Memory::default();
    let mut after = Memory::default();
    let mut writes = 1;
    for (nth, (separate, placed)) in separate.iter_mut().zip(&mut placed).enumerate() {
        let positions = inputs(separate);
        let (reads, outputs) = sides(separate, &positions);
        let (placed_reads, placed_outputs) = sides(placed, &positions);
        for (read, placed_read) in reads.iter().zip(&placed_reads) {
            let expected = before.read(&bytes(read, false));
            assert!(expected.iter().all(Option::is_some), "step {nth} reads what nobody wrote: {read:?}");
            let got = after.read(&bytes(placed_read, true));
            assert_eq!(got, expected, "step {nth} reads other values at {placed_read:?}");
        }
        for (output, placed_output) in outputs.iter().zip(&placed_outputs) {
            let to = bytes(placed_output, true);
            let is_inside = |(buffer, at): &(Buffer, usize)| !matches!(buffer, Buffer::Arena(_)) || *at < arena_bytes;
            assert!(to.iter().all(is_inside), "step {nth} writes beyond the arena");
            check_overlap(placed, &placed_reads, placed_output, nth);
            before.write(&bytes(output, false), writes);
            after.write(&to, writes);
            writes += to.len() as u64;
        }
    }
}

/// A step overwrites what it reads only element by element, in elementwise operations.
fn check_overlap(step: &Step, reads: &[View], output: &View, nth: usize) {
    let written: BTreeSet<_> = bytes(output, true).into_iter().map(|(_, at)| at).collect();
    for read in reads.iter().filter(|read| matches!(read.location, Location::Arena(_))) {
        let overlaps = matches!(output.location, Location::Arena(_))
            && bytes(read, true).iter().any(|(_, at)| written.contains(at));
        let is_in_place = matches!(step, Step::Map(_))
            && read.location == output.location
            && read.layout == output.layout
            && read.dtype.size() == output.dtype.size();
        assert!(!overlaps || is_in_place, "step {nth} overwrites {read:?} by {output:?}");
    }
}

/// Graphs of square tensors, so that any operation fits any value.
fn graphs() -> impl Strategy<Value = GraphSpec> {
    let one = (0..23_u8, any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let outputs = prop::collection::vec(any::<prop::sample::Index>(), 1..4);
    (prop::collection::vec(one, 1..40), outputs).prop_map(|(choices, outputs)| {
        let mut names = vec!["x".to_owned(), "y".to_owned()];
        let mut nodes = vec![];
        for (nth, (op, a, b)) in choices.into_iter().enumerate() {
            let name = format!("n{nth}");
            let [a, b] = [a, b].map(|index| names[index.index(names.len())].clone());
            nodes.extend(operation(op, &name, [&a, &b]));
            names.push(name);
        }
        let outputs: Vec<_> = outputs.iter().map(|nth| names[nth.index(names.len())].clone()).collect();
        let of = tensor(Dtype::F32, &[6, 6]);
        GraphSpec { inputs: vec![("x".to_owned(), of.clone()), ("y".to_owned(), of)], nodes, outputs }
    })
}

/// Nodes that compute `name` of the same shape and type as its operands.
fn operation(op: u8, name: &str, [a, b]: [&str; 2]) -> Vec<NodeSpec> {
    let dims = [("dim0", Attribute::Int(0)), ("dim1", Attribute::Int(1))];
    let dim = |dim: i64| ("dim", Attribute::Int(dim));
    let to = |dtype: &str| [("dtype", Attribute::Text(dtype.to_owned()))];
    let keep = [dim(1), ("keepdim", Attribute::Bool(true))];
    let first = format!("{name}a");
    let second = format!("{name}b");
    let joined = |along: i64, start: i64| {
        let cut = [dim(along), ("start", Attribute::Int(start)), ("end", Attribute::Int(start + 6))];
        let part = format!("{name}c");
        vec![
            node(&part, "exp", &[a], &[]),
            node(&first, "concat", &[&part, b], &[dim(along)]),
            node(&second, "exp", &[&first], &[]),
            node(name, "slice", &[&second], &cut),
        ]
    };
    match op {
        0 | 1 => vec![node(name, "add", &[a, b], &[])],
        2 => vec![node(name, "exp", &[a], &[])],
        3 => vec![node(name, "transpose", &[a], &dims)],
        4 => vec![node(name, "matmul", &[a, b], &[])],
        5 => vec![node(name, "softmax", &[a], &[dim(0)])],
        6 => vec![node(name, "softmax", &[a], &[dim(1)])],
        7 => vec![node(name, "layer_norm", &[a], &[])],
        8 => vec![node(&first, "sum", &[a], &keep), node(name, "add", &[b, &first], &[])],
        9 => joined(0, 3),
        10 => joined(0, 0),
        11 => joined(1, 5),
        // Elements of other sizes.
        12 => vec![node(&first, "to", &[a], &to("f64")), node(name, "to", &[&first], &to("f32"))],
        13 => vec![node(&first, "argsort", &[a], &[dim(1)]), node(name, "gather", &[b, &first], &[dim(1)])],
        14 => vec![node(name, "cumsum", &[a], &[dim(0)])],
        15 => vec![node(&first, "flip", &[a], &[("dims", ints(&[1]))]), node(name, "cummax", &[&first], &[dim(1)])],
        16 => vec![node(name, "sort", &[a], &[dim(0)])],
        // A row is read for all rows, and as a whole.
        17 | 18 => vec![
            node(&first, "slice", &[a], &[dim(0), ("start", Attribute::Int(2)), ("end", Attribute::Int(3))]),
            node(&second, "expand", &[&first], &[("shape", ints(&[6, 6]))]),
            node(name, "mul", &[&second, if op == 17 { a } else { b }], &[]),
        ],
        19 => vec![node(&first, "gt", &[a, b], &[]), node(name, "where", &[&first, b, a], &[])],
        20 => vec![node(name, "scaled_dot_product_attention", &[a, b, a], &[])],
        21 => {
            vec![node(&first, "reshape", &[b], &[("shape", ints(&[6, 6, 1]))]), node(name, "conv1d", &[a, &first], &[])]
        }
        _ => vec![
            node(&first, "transpose", &[a], &dims),
            node(&second, "reshape", &[&first], &[("shape", ints(&[4, 9]))]),
            node(name, "reshape", &[&second], &[("shape", ints(&[6, 6]))]),
        ],
    }
}

proptest! {
    #[test]
    fn steps_read_what_was_written_and_is_not_overwritten(spec in graphs()) {
        check(&spec);
        let mut plan = plan(&spec);
        let written = plan.steps.iter_mut().flat_map(Step::outputs_mut).filter_map(|view| match view.location {
            Location::Output(nth) => Some(nth),
            Location::Input(_) | Location::Arena(_) => None,
        });
        let written: BTreeSet<_> = written.collect();
        prop_assert_eq!(written.len(), spec.outputs.len());
    }
}

#[test]
fn a_concatenation_takes_no_buffer_that_is_shorter() {
    let of = tensor(Dtype::F64, &[40]);
    let nodes = vec![
        node("a", "exp", &["x"], &[]),
        node("b", "exp", &["y"], &[]),
        node("kept", "exp", &["z"], &[]),
        node("c", "concat", &["a", "b"], &[]),
        node("sum", "sum", &["c"], &[]),
        node("r", "cumsum", &["kept"], &[("dim", Attribute::Int(0))]),
    ];
    let spec = spec(&[("x", of.clone()), ("y", of.clone()), ("z", of)], nodes, &["sum", "r"]);
    check(&spec);
    let Plan { steps, .. } = plan(&spec);
    assert!(steps.iter().any(|step| matches!(step, Step::Reduce(_))), "{steps:?}");
}

#[test]
fn an_elementwise_step_writes_over_what_it_reads_last() {
    let of = tensor(Dtype::F32, &[64]);
    let dim = [("dim", Attribute::Int(0))];
    let nodes =
        vec![node("a", "cumsum", &["x"], &dim), node("b", "exp", &["a"], &[]), node("c", "cumsum", &["b"], &dim)];
    let spec = spec(&[("x", of)], nodes, &["c"]);
    check(&spec);
    assert_eq!(plan(&spec).arena_bytes, Plan::ALIGNMENT, "a and b share their bytes");
}
