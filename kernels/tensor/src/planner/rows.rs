//! Lowers softmax and norms: operations on rows, with the elementwise operations before them.

use crate::{
    Layout, NormStep, RowAccess, SoftmaxStep, Step, View,
    graph::Node,
    op::{NormOp, Op},
    scalar::Function,
};

use super::steps::Steps;

/// The values of rows: a function of inputs of layout shape `[rows, columns]`.
pub(super) struct RowSource {
    pub(super) inputs: Vec<View>,
    pub(super) prologue: Function,
}

impl RowSource {
    /// The elements of a contiguous view.
    fn plain(view: &View, columns: usize) -> Self {
        Self { inputs: vec![rows(view, columns)], prologue: Function::conversion(view.dtype, view.dtype) }
    }
}

/// The columns of the rows of its first operand that a node reads, if it is a norm, or softmax over the last dimension.
pub(super) fn columns(node: &Node) -> Option<usize> {
    let shape = &node.result.shape;
    if let Op::Norm(op) = &node.op {
        return Some(shape[shape.len() - op.rank..].iter().product());
    }
    if let Op::Softmax { dim, .. } = node.op
        && dim + 1 == shape.len()
    {
        return Some(shape[dim]);
    }
    None
}

/// Views of the shape of an operand as inputs of its rows; `None` if kernels cannot read them as fast as contiguous rows.
pub(super) fn inputs(views: &[View], columns: usize) -> Option<Vec<View>> {
    let is_bounded = (1..=RowAccess::MAX_INPUTS).contains(&views.len());
    is_bounded.then(|| views.iter().map(|view| input(view, columns)).collect())?
}

fn input(view: &View, columns: usize) -> Option<View> {
    if view.layout.is_contiguous() {
        return Some(rows(view, columns));
    }
    let count = view.layout.elements().checked_div(columns)?;
    let layout = view.layout.reshaped(&[count, columns])?;
    RowAccess::of(&layout)?;
    Some(View { layout, ..*view })
}

/// Lowers softmax of `absorbed`, or else of its operand; returns the view of its result.
pub(super) fn softmax(
    steps: &mut Steps<'_>,
    node: &Node,
    dim: usize,
    is_log: bool,
    absorbed: Option<RowSource>,
) -> View {
    let shape = &node.result.shape;
    let rank = shape.len();
    let order: Vec<_> = (0..rank).filter(|at| *at != dim).chain([dim]).collect();
    let columns = shape[dim];
    let RowSource { inputs, prologue } = absorbed.unwrap_or_else(|| {
        let input = steps.view_of(node.operands[0]);
        let input = steps.contiguous(View { layout: input.layout.permuted(&order), ..input });
        RowSource::plain(&input, columns)
    });
    let shape: Vec<_> = order.iter().map(|&dim| shape[dim]).collect();
    let output = steps.allocate(node.result.dtype, &shape);
    steps.push(Step::Softmax(SoftmaxStep { inputs, prologue, is_log, output: rows(&output, columns) }));
    let mut back = vec![0; rank];
    for (at, &dim) in order.iter().enumerate() {
        back[dim] = at;
    }
    View { layout: output.layout.permuted(&back), ..output }
}

/// Lowers a norm of `absorbed`, or else of its operand; returns the view of its result.
pub(super) fn norm(steps: &mut Steps<'_>, node: &Node, op: &NormOp, absorbed: Option<RowSource>) -> View {
    let shape = &node.result.shape;
    let columns = shape[shape.len() - op.rank..].iter().product();
    let RowSource { inputs, prologue } = absorbed.unwrap_or_else(|| {
        let input = steps.contiguous(steps.view_of(node.operands[0]));
        RowSource::plain(&input, columns)
    });
    let mut affine = |is_there: bool, nth: usize| {
        is_there.then(|| {
            let view = steps.contiguous(steps.view_of(node.operands[nth]));
            let layout = Layout { offset: view.layout.offset, ..Layout::contiguous(&[columns]) };
            View { layout, ..view }
        })
    };
    let (weight, bias) = (affine(op.has_weight, 1), affine(op.has_bias, 2));
    let output = steps.allocate(node.result.dtype, shape);
    steps.push(Step::Norm(NormStep {
        inputs,
        prologue,
        kind: op.kind,
        eps_bits: op.eps.to_bits(),
        weight,
        bias,
        output: rows(&output, columns),
    }));
    output
}

/// A contiguous view as rows of `columns`.
fn rows(view: &View, columns: usize) -> View {
    let rows = view.layout.elements().checked_div(columns).unwrap_or(0);
    View { layout: Layout { offset: view.layout.offset, ..Layout::contiguous(&[rows, columns]) }, ..*view }
}
