//! Lowers scans and sorts along a dimension.

use crate::{Dtype, Layout, ScanKind, ScanStep, SortStep, Step, View, graph::Node};

use super::steps::Steps;

/// The fewest elements after the dimension of a scan that are scanned side by side where they are. With fewer, the dimension is made
/// the last one: neighbours in memory would be of the same scan.
const MIN_INNER: usize = 16;

/// A scalar as a vector of one element.
pub(super) fn vector(view: View) -> View {
    if view.layout.rank() > 0 { view } else { View { layout: view.layout.broadcast(&[1]).expect("a scalar"), ..view } }
}

/// Lowers a scan; returns the view of its result.
pub(super) fn scan(steps: &mut Steps<'_>, node: &Node, dim: usize, kind: ScanKind, accumulate: Dtype) -> View {
    let shape = vector(steps.view_of(node.operands[0])).layout.shape;
    let inner: usize = shape[dim + 1..].iter().product();
    let moves = inner > 1 && inner < MIN_INNER;
    let (input, back) = if moves { last(steps, node, dim) } else { in_place(steps, node) };
    let outer = if moves { input.layout.elements() / shape[dim].max(1) } else { shape[..dim].iter().product() };
    let spans = [outer, shape[dim], if moves { 1 } else { inner }];
    let output = steps.allocate(node.result.dtype, &input.layout.shape);
    let input = flat(&input, &spans);
    steps.push(Step::Scan(ScanStep { input, kind, accumulate, output: flat(&output, &spans) }));
    permuted_to(&output, &back, &node.result.shape)
}

/// Lowers a sort; returns the view of the indices.
pub(super) fn argsort(steps: &mut Steps<'_>, node: &Node, dim: usize, is_descending: bool) -> View {
    let (input, back) = last(steps, node, dim);
    let (outer, columns) = input.layout.shape.split_at(input.layout.rank() - 1);
    let rows = outer.iter().product();
    let count = node.result.shape.get(dim).copied().unwrap_or(1);
    let output = steps.allocate(Dtype::I64, &[outer, &[count]].concat());
    let input = flat(&input, &[rows, columns[0]]);
    steps.push(Step::Sort(SortStep { input, is_descending, output: flat(&output, &[rows, count]) }));
    permuted_to(&output, &back, &node.result.shape)
}

/// The operand, contiguous, with `dim` as the last dimension, and the permutation that restores the order.
fn last(steps: &mut Steps<'_>, node: &Node, dim: usize) -> (View, Vec<usize>) {
    let view = vector(steps.view_of(node.operands[0]));
    let rank = view.layout.rank();
    let order: Vec<_> = (0..rank).filter(|at| *at != dim).chain([dim]).collect();
    let back = (0..rank).map(|at| if at == dim { rank - 1 } else { at - usize::from(at > dim) }).collect();
    let permuted = View { layout: view.layout.permuted(&order), ..view };
    (steps.contiguous(permuted), back)
}

/// The operand, contiguous, in the order of its dimensions.
fn in_place(steps: &mut Steps<'_>, node: &Node) -> (View, Vec<usize>) {
    let view = vector(steps.view_of(node.operands[0]));
    let back = (0..view.layout.rank()).collect();
    (steps.contiguous(view), back)
}

/// A contiguous view in another shape of as many elements.
fn flat(view: &View, shape: &[usize]) -> View {
    View { layout: Layout { offset: view.layout.offset, ..Layout::contiguous(shape) }, ..*view }
}

/// A result in the order of the node's dimensions; a scalar has none.
fn permuted_to(output: &View, back: &[usize], shape: &[usize]) -> View {
    if shape.is_empty() {
        return View { layout: Layout::contiguous(&[]), ..*output };
    }
    View { layout: output.layout.permuted(back), ..*output }
}
