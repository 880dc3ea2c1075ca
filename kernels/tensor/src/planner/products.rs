//! Lowers products of matrices: one batch dimension, and rows or columns that are contiguous.
#![expect(clippy::many_single_char_names, reason = "the customary names of factors and extents of a product")]

use crate::{Layout, MatMulStep, Step, View, graph::Node, op::MatMulOp};

use super::steps::Steps;

/// Lowers a product; returns the view of its result.
pub(super) fn matmul(steps: &mut Steps<'_>, node: &Node, op: &MatMulOp) -> View {
    let mut a = steps.view_of(node.operands[0]);
    let mut b = steps.view_of(node.operands[1]);
    if a.layout.rank() == 1 {
        a.layout = with_unit(&a.layout, 0);
    }
    if b.layout.rank() == 1 {
        b.layout = with_unit(&b.layout, 1);
    }
    if op.transpose_a {
        a.layout = transposed(&a.layout);
    }
    if op.transpose_b {
        b.layout = transposed(&b.layout);
    }
    let (left, right) = (a.layout.shape.clone(), b.layout.shape.clone());
    let [m, k] = [left[left.len() - 2], left[left.len() - 1]];
    let n = right[right.len() - 1];
    // A product with one right factor is one product of all rows.
    let folds = right[..right.len() - 2].iter().product::<usize>() == 1 && left.len() >= right.len();
    let (batch, a, b, rows) = if folds {
        let rows = left[..left.len() - 1].iter().product();
        let flat = steps.reshaped(a, &[1, rows, k]);
        (vec![1], suitable(steps, flat), matrices(steps, b, &[1]), rows)
    } else {
        let batch = batch_shape(&left[..left.len() - 2], &right[..right.len() - 2]);
        (batch.clone(), matrices(steps, a, &batch), matrices(steps, b, &batch), m)
    };
    let bias = node.operands.get(2).map(|bias| {
        let bias = steps.view_of(*bias);
        if MatMulStep::is_bias_aligned(&bias) { steps.contiguous(bias) } else { steps.copy(bias) }
    });
    let output = steps.allocate(node.result.dtype, &node.result.shape);
    let layout = Layout::contiguous(&[batch.iter().product(), rows, n]);
    steps.push(Step::MatMul(MatMulStep {
        a,
        b,
        bias,
        accumulate: op.accumulate,
        epilogue: op.epilogue.clone(),
        output: View { layout, ..output.clone() },
    }));
    output
}

/// The shape of the batch; the shapes of both factors broadcast to it.
fn batch_shape(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], dim: usize| (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim]);
    (0..rank).map(|dim| if extent(a, dim) == 1 { extent(b, dim) } else { extent(a, dim) }).collect()
}

/// A factor as `[batch, rows, columns]`, copied where strides cannot express that.
fn matrices(steps: &mut Steps<'_>, view: View, batch: &[usize]) -> View {
    let view = suitable(steps, view);
    let rank = view.layout.rank();
    let matrix = [view.layout.shape[rank - 2], view.layout.shape[rank - 1]];
    let shape = [batch, &matrix].concat();
    let flat = [batch.iter().product(), matrix[0], matrix[1]];
    let layout = view.layout.broadcast(&shape).or_else(|| view.layout.reshaped(&shape)).expect("shapes were checked");
    let view = steps.reshaped(View { layout, ..view }, &flat);
    suitable(steps, view)
}

/// A view whose matrices have contiguous rows or columns; copied if need be. Strides of dimensions of extent 1 are those of dense
/// matrices.
fn suitable(steps: &mut Steps<'_>, mut view: View) -> View {
    if view.layout.elements() == 0 {
        view.layout = Layout::contiguous(&view.layout.shape);
        return view;
    }
    let rank = view.layout.rank();
    let [rows, columns] = [view.layout.shape[rank - 2], view.layout.shape[rank - 1]].map(usize::cast_signed);
    let strides = &mut view.layout.strides[rank - 2..];
    let by_rows = (columns == 1 || strides[1] == 1) && (rows == 1 || strides[0] >= columns);
    let by_columns = (rows == 1 || strides[0] == 1) && (columns == 1 || strides[1] >= rows);
    if by_rows {
        strides[1] = 1;
        strides[0] = if rows == 1 { columns.max(1) } else { strides[0] };
    } else if by_columns {
        strides[0] = 1;
        strides[1] = if columns == 1 { rows.max(1) } else { strides[1] };
    } else {
        let copy = steps.contiguous(view);
        return suitable(steps, copy);
    }
    view
}

/// The layout with a dimension of extent 1 before `dim`.
fn with_unit(layout: &Layout, dim: usize) -> Layout {
    let mut with = layout.clone();
    with.shape.insert(dim, 1);
    with.strides.insert(dim, 0);
    with
}

fn transposed(layout: &Layout) -> Layout {
    let rank = layout.rank();
    let mut order: Vec<_> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    layout.permuted(&order)
}
