//! Turns the units of a graph into steps over numbered buffers. Views become layouts of their operands.

use std::collections::HashMap;

use crate::{
    ArgReduction, Dtype, Graph, Layout, Location, MapStep, NormStep, ReduceStep, SoftmaxStep, Step, TensorType, View,
    graph::{Node, ValueId},
    op::{Op, ReduceOp, ViewOp},
    scalar::{Builder, Function},
};

use super::{
    buffer, products,
    units::{Units, function, uses_index},
};

/// Steps over numbered buffers.
pub(super) struct Lowered {
    pub(super) steps: Vec<Step>,
    /// Bytes of each buffer.
    pub(super) buffer_bytes: Vec<usize>,
    /// Which buffers are outputs: the buffer's number and the output's.
    pub(super) outputs: HashMap<usize, usize>,
}

pub(super) fn lower(graph: &Graph) -> Lowered {
    let units = Units::new(graph);
    let order = units.order(graph);
    let uses = Uses::new(graph);
    let mut lowering = Lowering { graph, units, uses, views: HashMap::new(), steps: vec![], buffer_bytes: vec![] };
    for unit in order {
        lowering.unit(unit);
    }
    lowering.finish()
}

/// How often each node's result is read by other nodes and outputs.
struct Uses(Vec<usize>);

impl Uses {
    fn new(graph: &Graph) -> Self {
        let mut counts = vec![0; graph.nodes.len()];
        let operands = graph.nodes.iter().flat_map(|node| &node.operands);
        for value in operands.chain(&graph.outputs) {
            if let ValueId::Node(nth) = value {
                counts[*nth] += 1;
            }
        }
        Self(counts)
    }
}

pub(super) struct Lowering<'a> {
    graph: &'a Graph,
    units: Units,
    uses: Uses,
    /// Where the values are that steps have written.
    views: HashMap<ValueId, View>,
    steps: Vec<Step>,
    buffer_bytes: Vec<usize>,
}

impl Lowering<'_> {
    fn unit(&mut self, unit: usize) {
        let members = self.units.members(unit).to_vec();
        let node = &self.graph.nodes[members[0]];
        match &node.op {
            Op::Map(_) if self.absorbing_reduction(&members).is_some() => {}
            Op::Map(_) => self.map(&members),
            Op::View(view) => self.view(members[0], node, view),
            Op::Concat { dim } => self.concat(members[0], node, *dim),
            Op::Reduce(reduce) => self.reduce(members[0], node, reduce),
            Op::ArgReduce { dims, is_max } => self.arg_reduce(members[0], node, dims, *is_max),
            Op::Softmax { dim, is_log } => self.softmax(members[0], node, *dim, *is_log),
            Op::Norm { .. } => self.norm(members[0], node),
            Op::MatMul(op) => {
                let output = products::matmul(self, node, op);
                self.views.insert(ValueId::Node(members[0]), output);
            }
        }
    }

    /// The view of a value that a step has written, or of an input.
    pub(super) fn view_of(&self, value: ValueId) -> View {
        match value {
            ValueId::Input(nth) => {
                let of = &self.graph.inputs[nth];
                View { location: Location::Input(nth), dtype: of.dtype, layout: Layout::contiguous(&of.shape) }
            }
            ValueId::Node(_) => self.views[&value].clone(),
        }
    }

    pub(super) fn type_of(&self, value: ValueId) -> &TensorType {
        self.graph.type_of(value)
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// A new buffer for a tensor.
    pub(super) fn allocate(&mut self, dtype: Dtype, shape: &[usize]) -> View {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        self.buffer_bytes.push(bytes);
        View { location: buffer(self.buffer_bytes.len() - 1), dtype, layout: Layout::contiguous(shape) }
    }

    /// Copies a view, converted to the type of `to`.
    fn copy_to(&mut self, from: View, to: View) {
        let mut builder = Builder::new(&[from.dtype]);
        let element = builder.param(0);
        let result = builder.cast(element, to.dtype);
        let function = builder.finish(&[result]);
        let shape = to.layout.shape.clone();
        self.push(Step::Map(MapStep { shape, inputs: vec![from], function, outputs: vec![to] }));
    }

    /// A contiguous copy of a view, or itself if it is contiguous.
    pub(super) fn contiguous(&mut self, view: View) -> View {
        if view.layout.is_contiguous() {
            return view;
        }
        let copy = self.allocate(view.dtype, &view.layout.shape);
        self.copy_to(view, copy.clone());
        copy
    }

    /// The view in another shape; copied if its strides cannot express it.
    pub(super) fn reshaped(&mut self, view: View, shape: &[usize]) -> View {
        if let Some(layout) = view.layout.reshaped(shape) {
            return View { layout, ..view };
        }
        let copy = self.contiguous(view);
        let layout = copy.layout.reshaped(shape).expect("a contiguous tensor takes any shape of as many elements");
        View { layout, ..copy }
    }

    /// The elementwise operations of a unit as one function of the values that it reads, and these values.
    fn fused(&self, members: &[usize], results: &[usize]) -> (Vec<ValueId>, Function) {
        let nodes = || members.iter().map(|&member| &self.graph.nodes[member]);
        let mut inputs: Vec<ValueId> = vec![];
        for operand in nodes().flat_map(|node| &node.operands) {
            let is_inside = matches!(operand, ValueId::Node(nth) if members.binary_search(nth).is_ok());
            if !is_inside && !inputs.contains(operand) {
                inputs.push(*operand);
            }
        }
        let dtypes: Vec<_> = inputs.iter().map(|input| self.type_of(*input).dtype).collect();
        let mut builder = Builder::new(&dtypes);
        let mut values: HashMap<ValueId, _> =
            inputs.iter().enumerate().map(|(nth, &input)| (input, builder.param(nth))).collect();
        for (&member, node) in members.iter().zip(nodes()) {
            let arguments: Vec<_> = node.operands.iter().map(|operand| values[operand]).collect();
            let function = function(&node.op).expect("a unit of several nodes has elementwise operations only");
            values.insert(ValueId::Node(member), builder.call(function, &arguments)[0]);
        }
        let results: Vec<_> = results.iter().map(|&member| values[&ValueId::Node(member)]).collect();
        (inputs, builder.finish(&results))
    }

    fn map(&mut self, members: &[usize]) {
        let results: Vec<_> = members.iter().copied().filter(|&member| self.is_read_outside(members, member)).collect();
        let (inputs, function) = self.fused(members, &results);
        let shape = self.graph.nodes[members[0]].result.shape.clone();
        let inputs = inputs.into_iter().map(|input| self.broadcast(input, &shape)).collect();
        let outputs: Vec<_> = results
            .iter()
            .map(|&member| {
                let view = self.allocate(self.graph.nodes[member].result.dtype, &shape);
                self.views.insert(ValueId::Node(member), view.clone());
                view
            })
            .collect();
        self.push(Step::Map(MapStep { shape, inputs, function, outputs }));
    }

    fn broadcast(&self, value: ValueId, shape: &[usize]) -> View {
        let view = self.view_of(value);
        let layout = view.layout.broadcast(shape).expect("shapes were checked");
        View { layout, ..view }
    }

    /// Whether nodes outside of a unit or outputs read the result of a member.
    fn is_read_outside(&self, members: &[usize], member: usize) -> bool {
        let value = ValueId::Node(member);
        let operands = members.iter().flat_map(|&one| &self.graph.nodes[one].operands);
        operands.filter(|operand| **operand == value).count() < self.uses.0[member]
    }

    /// The reduction that computes the operations of a unit itself: the only reader of the unit's only result.
    fn absorbing_reduction(&self, members: &[usize]) -> Option<usize> {
        let mut read = members.iter().copied().filter(|&member| self.is_read_outside(members, member));
        let (result, None) = (read.next()?, read.next()) else { return None };
        if self.uses.0[result] != 1 {
            return None;
        }
        let reader = self.graph.nodes.iter().position(|node| node.operands.contains(&ValueId::Node(result)))?;
        let Op::Reduce(_) = self.graph.nodes[reader].op else { return None };
        let uses_index = |member: &usize| function(&self.graph.nodes[*member].op).is_some_and(uses_index);
        (!members.iter().any(uses_index)).then_some(reader)
    }

    fn reduce(&mut self, nth: usize, node: &Node, reduce: &ReduceOp) {
        let operand = node.operands[0];
        let shape = self.type_of(operand).shape.clone();
        let (inputs, before) = match self.views.get(&operand) {
            None if matches!(operand, ValueId::Node(_)) => self.absorbed(operand),
            _ => (vec![operand], None),
        };
        let order = Axes::new(&shape, &reduce.dims);
        let inputs: Vec<_> = inputs.into_iter().map(|input| order.permute(&self.broadcast(input, &shape))).collect();
        let dtypes: Vec<_> = inputs.iter().map(|input| input.dtype).collect();
        let mut builder = Builder::new(&dtypes);
        let arguments: Vec<_> = (0..inputs.len()).map(|nth| builder.param(nth)).collect();
        let elements = before.map_or(arguments.clone(), |before| builder.call(&before, &arguments));
        let results = builder.call(&reduce.prologue, &elements);
        let prologue = builder.finish(&results);
        let output = self.allocate(node.result.dtype, &node.result.shape);
        self.views.insert(ValueId::Node(nth), output.clone());
        let output = View { layout: Layout::contiguous(&order.outer), ..output };
        self.push(Step::Reduce(ReduceStep {
            outer: order.outer,
            inner: order.inner,
            inputs,
            prologue,
            reduction: reduce.reduction,
            accumulate: reduce.accumulate,
            epilogue: reduce.epilogue.clone(),
            output,
        }));
    }

    /// The inputs and the function of a unit that a reduction computes itself.
    fn absorbed(&self, result: ValueId) -> (Vec<ValueId>, Option<Function>) {
        let ValueId::Node(nth) = result else { return (vec![result], None) };
        let members = self.units.members(self.units.unit(nth));
        let (inputs, function) = self.fused(members, &[nth]);
        (inputs, Some(function))
    }

    fn arg_reduce(&mut self, nth: usize, node: &Node, dims: &[usize], is_max: bool) {
        let input = self.view_of(node.operands[0]);
        let order = Axes::new(&input.layout.shape, dims);
        let output = self.allocate(node.result.dtype, &node.result.shape);
        self.views.insert(ValueId::Node(nth), output.clone());
        let output = View { layout: Layout::contiguous(&order.outer), ..output };
        let input = order.permute(&input);
        self.push(Step::ArgReduce(ArgReduction { outer: order.outer, inner: order.inner, input, is_max, output }));
    }

    fn softmax(&mut self, nth: usize, node: &Node, dim: usize, is_log: bool) {
        let input = self.view_of(node.operands[0]);
        let rank = input.layout.rank();
        let mut order: Vec<_> = (0..rank).filter(|at| *at != dim).collect();
        order.push(dim);
        let permuted = View { layout: input.layout.permuted(&order), ..input };
        let columns = permuted.layout.shape[rank - 1];
        let input = self.contiguous(permuted);
        let output = self.allocate(node.result.dtype, &input.layout.shape);
        let mut back = vec![0; rank];
        for (at, &dim) in order.iter().enumerate() {
            back[dim] = at;
        }
        self.views.insert(ValueId::Node(nth), View { layout: output.layout.permuted(&back), ..output.clone() });
        let (input, output) = (rows(&input, columns), rows(&output, columns));
        self.push(Step::Softmax(SoftmaxStep { input, is_log, output }));
    }

    fn norm(&mut self, nth: usize, node: &Node) {
        let Op::Norm { kind, rank, eps, has_weight, has_bias } = node.op else { return };
        let shape = &node.result.shape;
        let columns = shape[shape.len() - rank..].iter().product();
        let operands: Vec<_> = node.operands.iter().map(|operand| self.contiguous(self.view_of(*operand))).collect();
        let flat = |view: &View| View {
            layout: Layout { offset: view.layout.offset, ..Layout::contiguous(&[columns]) },
            ..view.clone()
        };
        let output = self.allocate(node.result.dtype, shape);
        self.views.insert(ValueId::Node(nth), output.clone());
        self.push(Step::Norm(NormStep {
            input: rows(&operands[0], columns),
            kind,
            eps_bits: eps.to_bits(),
            weight: has_weight.then(|| flat(&operands[1])),
            bias: has_bias.then(|| flat(&operands[2])),
            output: rows(&output, columns),
        }));
    }

    fn view(&mut self, nth: usize, node: &Node, op: &ViewOp) {
        let operand = self.view_of(node.operands[0]);
        let shape = &node.result.shape;
        let layout = match op {
            ViewOp::Reshape => {
                let view = self.reshaped(operand, shape);
                self.views.insert(ValueId::Node(nth), view);
                return;
            }
            ViewOp::Permute(order) => operand.layout.permuted(order),
            ViewOp::Expand => operand.layout.broadcast(shape).expect("shapes were checked"),
            ViewOp::Slice(slices) => {
                let cut = |layout: Layout, &(dim, start, step): &(usize, usize, isize)| {
                    layout.sliced(dim, start, shape[dim], step)
                };
                slices.iter().fold(operand.layout.clone(), cut)
            }
            ViewOp::Select { dim, index } => {
                let mut layout = operand.layout.sliced(*dim, *index, 1, 1);
                layout.shape.remove(*dim);
                layout.strides.remove(*dim);
                layout
            }
        };
        self.views.insert(ValueId::Node(nth), View { layout, ..operand });
    }

    fn concat(&mut self, nth: usize, node: &Node, dim: usize) {
        let output = self.allocate(node.result.dtype, &node.result.shape);
        let mut start = 0;
        for operand in &node.operands {
            let from = self.view_of(*operand);
            let len = from.layout.shape[dim];
            if from.layout.elements() > 0 {
                let layout = output.layout.sliced(dim, start, len, 1);
                self.copy_to(from, View { layout, ..output.clone() });
            }
            start += len;
        }
        self.views.insert(ValueId::Node(nth), output);
    }

    /// Assigns buffers to the outputs, and copies what is no buffer of its own.
    fn finish(mut self) -> Lowered {
        let mut outputs = HashMap::new();
        for (nth, value) in self.graph.outputs.iter().enumerate() {
            let view = self.view_of(*value);
            let owns = match view.location {
                Location::Arena(number) => {
                    let is_whole = view.layout == Layout::contiguous(&view.layout.shape)
                        && self.buffer_bytes[number] == view.layout.elements() * view.dtype.size();
                    Some(number).filter(|number| is_whole && !outputs.contains_key(number))
                }
                Location::Input(_) | Location::Output(_) => None,
            };
            let number = owns.unwrap_or_else(|| {
                let copy = self.allocate(view.dtype, &view.layout.shape.clone());
                self.copy_to(view, copy);
                self.buffer_bytes.len() - 1
            });
            outputs.insert(number, nth);
        }
        Lowered { steps: self.steps, buffer_bytes: self.buffer_bytes, outputs }
    }
}

/// A contiguous view as rows of `columns`.
fn rows(view: &View, columns: usize) -> View {
    let rows = view.layout.elements().checked_div(columns).unwrap_or(0);
    View { layout: Layout { offset: view.layout.offset, ..Layout::contiguous(&[rows, columns]) }, ..*view }
}

/// The kept dimensions of a shape, then the reduced ones.
struct Axes {
    order: Vec<usize>,
    outer: Vec<usize>,
    inner: Vec<usize>,
}

impl Axes {
    fn new(shape: &[usize], reduced: &[usize]) -> Self {
        let kept = (0..shape.len()).filter(|dim| !reduced.contains(dim));
        let order: Vec<_> = kept.chain(reduced.iter().copied()).collect();
        let (outer, inner) = order.split_at(shape.len() - reduced.len());
        let extents = |dims: &[usize]| dims.iter().map(|&dim| shape[dim]).collect();
        Self { outer: extents(outer), inner: extents(inner), order }
    }

    fn permute(&self, view: &View) -> View {
        View { layout: view.layout.permuted(&self.order), ..*view }
    }
}
