//! Lowers operations that read by index: views of the operands in which each element of the result has an index and a row to choose
//! from.

use crate::{
    Dtype, IndexOp, IndexStep, Layout, MapStep, Step, View,
    graph::Node,
    scalar::{BinaryOp, Builder, Function, Literal},
};

use super::{along_dim::vector, steps::Steps};

/// Lowers an operation with two operands; returns the view of its result.
pub(super) fn index(steps: &mut Steps<'_>, node: &Node, op: IndexOp, dim: usize) -> View {
    let [x, index] = [0, 1].map(|nth| vector(steps.view_of(node.operands[nth])));
    let output = steps.allocate(node.result.dtype, &node.result.shape);
    let shape = vector(output.clone()).layout.shape;
    let (input, indices) = match op {
        IndexOp::Embedding => (columns_of(&x.layout, &shape), with_columns(&index_of(steps, node), &shape)),
        IndexOp::IndexSelect => {
            let mut strides = vec![0; shape.len()];
            strides[dim] = index.layout.strides[0];
            let indices = Layout { shape: shape.clone(), strides, offset: index.layout.offset };
            (along(&x.layout, dim, &shape), indices)
        }
        IndexOp::Gather | IndexOp::TakeAlongDim | IndexOp::OneHot => {
            let indices = index.layout.broadcast(&shape).expect("shapes were checked");
            (along(&x.layout, dim, &shape), indices)
        }
    };
    let (input, index) = (View { layout: input, ..x }, View { layout: indices, ..index });
    push(steps, node, op, input, index, &output);
    output
}

/// Row `k` of the identity matrix begins `k` before the only 1 of a vector.
pub(super) fn one_hot(steps: &mut Steps<'_>, node: &Node) -> View {
    let shape = &node.result.shape;
    let classes = shape[shape.len() - 1];
    let diagonal = steps.allocate(Dtype::I64, &[2 * classes - 1]);
    steps.push(Step::Map(MapStep {
        shape: diagonal.layout.shape.clone(),
        inputs: vec![],
        function: one_at(classes - 1),
        outputs: vec![diagonal.clone()],
    }));
    let mut strides = vec![0; shape.len() - 1];
    strides.extend([1, -1]);
    let layout = Layout { shape: [shape.as_slice(), &[classes]].concat(), strides, offset: classes - 1 };
    let output = steps.allocate(node.result.dtype, shape);
    let index = index_of(steps, node);
    let index = View { layout: with_columns(&index, shape), ..index };
    push(steps, node, IndexOp::OneHot, View { layout, ..diagonal }, index, &output);
    output
}

fn push(steps: &mut Steps<'_>, node: &Node, op: IndexOp, input: View, index: View, output: &View) {
    steps.push(Step::Index(IndexStep { op, node: node.caller, input, index, output: vector(output.clone()) }));
}

/// The last operand.
fn index_of(steps: &Steps<'_>, node: &Node) -> View {
    steps.view_of(*node.operands.last().expect("an operation by index has operands"))
}

/// Elements of `x`, broadcast to `shape` but for `dim`, which is last.
fn along(x: &Layout, dim: usize, shape: &[usize]) -> Layout {
    let stride = |at: usize| if at == dim || x.shape[at] == 1 { 0 } else { x.strides[at] };
    let strides = (0..shape.len()).map(stride).chain([x.strides[dim]]).collect();
    Layout { shape: [shape, &[x.shape[dim]]].concat(), strides, offset: x.offset }
}

/// The columns of a matrix as the last dimension of `shape`, and then its rows.
fn columns_of(matrix: &Layout, shape: &[usize]) -> Layout {
    let mut strides = vec![0; shape.len() - 1];
    strides.extend([matrix.strides[1], matrix.strides[0]]);
    Layout { shape: [shape, &[matrix.shape[0]]].concat(), strides, offset: matrix.offset }
}

/// Indices that are the same in all columns, the last dimension of `shape`.
fn with_columns(index: &View, shape: &[usize]) -> Layout {
    let strides = index.layout.strides.iter().copied().chain([0]).collect();
    Layout { shape: shape.to_vec(), strides, offset: index.layout.offset }
}

/// 1 at a position, else 0.
fn one_at(position: usize) -> Function {
    let mut builder = Builder::new(&[]);
    let index = builder.index();
    let position = builder.literal(Literal::from_i64(Dtype::I64, i64::try_from(position).unwrap_or(i64::MAX)));
    let is_there = builder.binary(BinaryOp::Eq, index, position).expect("integers compare");
    let one = builder.cast(is_there, Dtype::I64);
    builder.finish(&[one])
}
