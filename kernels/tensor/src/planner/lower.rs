//! Turns the units of a graph into steps over numbered buffers. Views become layouts of their operands.

use std::collections::HashMap;

use crate::{
    ArgReduction, Graph, Layout, MapStep, ReduceStep, Step, View,
    graph::{Node, ValueId},
    op::{Op, ReduceOp, ViewOp},
    scalar::{Builder, Function},
};

use super::{
    along_dim, attention, indexing, products,
    rows::{self, RowSource},
    steps::{Lowered, Steps},
    unit_graph::function,
    units::Units,
    windows,
};

pub(super) fn lower(graph: &Graph) -> Lowered {
    let units = Units::new(graph);
    let order = units.order(graph);
    let mut lowering = Lowering { graph, units, steps: Steps::new(graph) };
    for unit in order {
        lowering.unit(unit);
    }
    lowering.steps.finish()
}

struct Lowering<'a> {
    graph: &'a Graph,
    units: Units,
    steps: Steps<'a>,
}

impl Lowering<'_> {
    fn unit(&mut self, unit: usize) {
        let members = self.units.members(unit).to_vec();
        let node = &self.graph.nodes[members[0]];
        match &node.op {
            Op::Map(_) if self.is_absorbed(&members) => {}
            Op::Map(_) => self.map(&members),
            Op::View(view) => self.view(members[0], node, view),
            Op::Concat { dim } => self.concat(members[0], node, *dim),
            Op::Reduce(reduce) => self.reduce(members[0], node, reduce),
            Op::ArgReduce { dims, is_max } => self.arg_reduce(members[0], node, dims, *is_max),
            Op::Softmax { dim, is_log } => {
                let absorbed = self.absorbed_rows(node);
                let output = rows::softmax(&mut self.steps, node, *dim, *is_log, absorbed);
                self.steps.set(members[0], output);
            }
            Op::Norm(op) => {
                let absorbed = self.absorbed_rows(node);
                let output = rows::norm(&mut self.steps, node, op, absorbed);
                self.steps.set(members[0], output);
            }
            Op::MatMul(op) => {
                let output = products::matmul(&mut self.steps, node, op);
                self.steps.set(members[0], output);
            }
            Op::Index { op, dim } => {
                let output = indexing::index(&mut self.steps, node, *op, *dim);
                self.steps.set(members[0], output);
            }
            Op::OneHot => {
                let output = indexing::one_hot(&mut self.steps, node);
                self.steps.set(members[0], output);
            }
            Op::Scan { dim, kind, accumulate } => {
                let output = along_dim::scan(&mut self.steps, node, *dim, *kind, *accumulate);
                self.steps.set(members[0], output);
            }
            Op::ArgSort { dim, is_descending } => {
                let output = along_dim::argsort(&mut self.steps, node, *dim, *is_descending);
                self.steps.set(members[0], output);
            }
            Op::Conv(op) => {
                let output = windows::conv(&mut self.steps, node, op);
                self.steps.set(members[0], output);
            }
            Op::Pool(op) => {
                let output = windows::pool(&mut self.steps, node, op);
                self.steps.set(members[0], output);
            }
            Op::Attention(op) => {
                let output = attention::attention(&mut self.steps, node, op);
                self.steps.set(members[0], output);
            }
        }
    }

    /// The values that the elementwise operations of a unit read.
    fn inputs(&self, members: &[usize]) -> Vec<ValueId> {
        let mut inputs: Vec<ValueId> = vec![];
        for operand in members.iter().flat_map(|&member| &self.graph.nodes[member].operands) {
            let is_inside = matches!(operand, ValueId::Node(nth) if members.binary_search(nth).is_ok());
            if !is_inside && !inputs.contains(operand) {
                inputs.push(*operand);
            }
        }
        inputs
    }

    /// The elementwise operations of a unit as one function of the values that it reads, and these values.
    fn fused(&self, members: &[usize], results: &[usize]) -> (Vec<ValueId>, Function) {
        let inputs = self.inputs(members);
        let dtypes: Vec<_> = inputs.iter().map(|input| self.steps.type_of(*input).dtype).collect();
        let mut builder = Builder::new(&dtypes);
        let mut values: HashMap<ValueId, _> =
            inputs.iter().enumerate().map(|(nth, &input)| (input, builder.param(nth))).collect();
        for &member in members {
            let node = &self.graph.nodes[member];
            let arguments: Vec<_> = node.operands.iter().map(|operand| values[operand]).collect();
            let function = function(&node.op).expect("a unit of several nodes has elementwise operations only");
            values.insert(ValueId::Node(member), builder.call(function, &arguments)[0]);
        }
        let results: Vec<_> = results.iter().map(|&member| values[&ValueId::Node(member)]).collect();
        (inputs, builder.finish(&results))
    }

    fn map(&mut self, members: &[usize]) {
        let results: Vec<_> = members.iter().copied().filter(|&member| self.units.is_read_outside(member)).collect();
        let (inputs, function) = self.fused(members, &results);
        let shape = self.graph.nodes[members[0]].result.shape.clone();
        let inputs = inputs.into_iter().map(|input| self.broadcast(input, &shape)).collect();
        let outputs: Vec<_> = results
            .iter()
            .map(|&member| {
                let view = self.steps.allocate(self.graph.nodes[member].result.dtype, &shape);
                self.steps.set(member, view.clone());
                view
            })
            .collect();
        self.steps.push(Step::Map(MapStep { shape, inputs, function, outputs }));
    }

    fn broadcast(&self, value: ValueId, shape: &[usize]) -> View {
        let view = self.steps.view_of(value);
        let layout = view.layout.broadcast(shape).expect("shapes were checked");
        View { layout, ..view }
    }

    /// Returns true if another step computes the operations of a unit itself: a reduction, softmax or a norm, if it is the only reader of the
    /// unit's only result.
    fn is_absorbed(&self, members: &[usize]) -> bool {
        let mut read = members.iter().copied().filter(|&member| self.units.is_read_outside(member));
        let (Some(result), None) = (read.next(), read.next()) else { return false };
        let Some(reader) = self.units.only_reader(result) else { return false };
        let uses_index = |member: &usize| function(&self.graph.nodes[*member].op).is_some_and(Function::uses_index);
        let node = &self.graph.nodes[reader];
        let is_absorbing = matches!(node.op, Op::Reduce(_)) || self.row_inputs(members, result, node).is_some();
        is_absorbing && !members.iter().any(uses_index)
    }

    /// The inputs of a unit as `node` reads them, if it reads rows of the unit's result, and can compute these itself.
    fn row_inputs(&self, members: &[usize], result: usize, node: &Node) -> Option<Vec<View>> {
        let columns = rows::columns(node).filter(|_| node.operands[0] == ValueId::Node(result))?;
        let shape = &self.graph.nodes[result].result.shape;
        let views: Vec<_> = self.inputs(members).into_iter().map(|input| self.broadcast(input, shape)).collect();
        rows::inputs(&views, columns)
    }

    /// The rows that `node` reads, if no step has written them.
    fn absorbed_rows(&self, node: &Node) -> Option<RowSource> {
        let ValueId::Node(result) = node.operands[0] else { return None };
        if self.steps.is_written(node.operands[0]) {
            return None;
        }
        let members = self.units.members(self.units.unit(result));
        let inputs = self.row_inputs(members, result, node)?;
        Some(RowSource { inputs, prologue: self.fused(members, &[result]).1 })
    }

    fn reduce(&mut self, nth: usize, node: &Node, reduce: &ReduceOp) {
        let operand = node.operands[0];
        let shape = self.steps.type_of(operand).shape.clone();
        let (inputs, before) =
            if self.steps.is_written(operand) { (vec![operand], None) } else { self.absorbed(operand) };
        let order = Axes::new(&shape, &reduce.dims);
        let inputs: Vec<_> = inputs.into_iter().map(|input| order.permute(&self.broadcast(input, &shape))).collect();
        let dtypes: Vec<_> = inputs.iter().map(|input| input.dtype).collect();
        let mut builder = Builder::new(&dtypes);
        let arguments: Vec<_> = (0..inputs.len()).map(|nth| builder.param(nth)).collect();
        let elements = before.map_or(arguments.clone(), |before| builder.call(&before, &arguments));
        let results = builder.call(&reduce.prologue, &elements);
        let prologue = builder.finish(&results);
        let output = self.steps.allocate(node.result.dtype, &node.result.shape);
        self.steps.set(nth, output.clone());
        let output = View { layout: Layout::contiguous(&order.outer), ..output };
        self.steps.push(Step::Reduce(ReduceStep {
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
        let input = self.steps.view_of(node.operands[0]);
        let order = Axes::new(&input.layout.shape, dims);
        let output = self.steps.allocate(node.result.dtype, &node.result.shape);
        self.steps.set(nth, output.clone());
        let output = View { layout: Layout::contiguous(&order.outer), ..output };
        let input = order.permute(&input);
        self.steps.push(Step::ArgReduce(ArgReduction {
            outer: order.outer,
            inner: order.inner,
            input,
            is_max,
            output,
        }));
    }

    fn view(&mut self, nth: usize, node: &Node, op: &ViewOp) {
        let operand = self.steps.view_of(node.operands[0]);
        let shape = &node.result.shape;
        let layout = match op {
            ViewOp::Reshape => {
                let view = self.steps.reshaped(operand, shape);
                self.steps.set(nth, view);
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
        self.steps.set(nth, View { layout, ..operand });
    }

    fn concat(&mut self, nth: usize, node: &Node, dim: usize) {
        let output = self.steps.allocate(node.result.dtype, &node.result.shape);
        let mut start = 0;
        for operand in &node.operands {
            let from = self.steps.view_of(*operand);
            let len = from.layout.shape[dim];
            if from.layout.elements() > 0 {
                let layout = output.layout.sliced(dim, start, len, 1);
                self.steps.copy_to(from, View { layout, ..output.clone() });
            }
            start += len;
        }
        self.steps.set(nth, output);
    }
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
