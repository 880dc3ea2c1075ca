//! Lowers attention: one dimension of batches and one of heads, and rows that are contiguous.

use crate::{AttentionStep, Layout, Step, View, graph::Node, op::AttentionOp};

use super::steps::Steps;

/// Lowers attention; returns the view of its result.
pub(super) fn attention(steps: &mut Steps<'_>, node: &Node, op: &AttentionOp) -> View {
    let result = &node.result.shape;
    let (leading, [queries, value_dim]) = split(result);
    let (batch, heads) = leading.split_at(leading.len().saturating_sub(1));
    let mut operands = node.operands.iter().map(|operand| steps.view_of(*operand)).collect::<Vec<_>>().into_iter();
    let mut next = |is_there: bool| if is_there { operands.next() } else { None };
    let [query, key, value] = [next(true), next(true), next(true)].map(|view| view.expect("operands were counted"));
    let (mask, lengths) = (next(op.has_mask), next(op.has_lengths));
    let keys = split(&key.layout.shape).1[0];
    let kv_heads = op.kv_heads.map_or(heads.to_vec(), |kv_heads| vec![kv_heads]);
    let mut rows = |view: View, heads: &[usize]| {
        let (_, matrix) = split(&view.layout.shape);
        let view = folded(steps, &view, batch, heads, matrix);
        with_contiguous_rows(steps, view)
    };
    let (query, key, value) = (rows(query, heads), rows(key, &kv_heads), rows(value, &kv_heads));
    let mask = mask.map(|mask| folded(steps, &mask, batch, heads, [queries, keys]));
    let batches: usize = batch.iter().product();
    let lengths = lengths.map(|lengths| {
        let lengths = steps.contiguous(lengths);
        steps.reshaped(lengths, &[batches])
    });
    let output = steps.allocate(node.result.dtype, result);
    let layout = Layout::contiguous(&[batches, heads.iter().product(), queries, value_dim]);
    let mut step = AttentionStep {
        query,
        key,
        value,
        mask,
        lengths,
        is_causal: op.is_causal,
        scale_bits: op.scale.to_bits(),
        accumulate: op.accumulate,
        output: View { layout, ..output.clone() },
    };
    if op.kv_heads.is_some() && queries == 1 && !op.is_causal {
        merge_group(&mut step);
    }
    steps.push(Step::Attention(step));
    output
}

/// Turns heads of one query that share a key into one head of several queries, so that the key is read once.
fn merge_group(step: &mut AttentionStep) {
    let kv_heads = step.key.layout.shape[1];
    for view in [&mut step.query, &mut step.output].into_iter().chain(&mut step.mask) {
        let &[batch, heads, _, columns] = &view.layout.shape[..] else { continue };
        let group = heads.checked_div(kv_heads).unwrap_or(0);
        if let Some(layout) = view.layout.reshaped(&[batch, kv_heads, group, columns]) {
            view.layout = layout;
        }
    }
}

/// The leading extents, and those of the matrices.
fn split(shape: &[usize]) -> (&[usize], [usize; 2]) {
    let (leading, matrix) = shape.split_at(shape.len() - 2);
    (leading, [matrix[0], matrix[1]])
}

/// Matrices that broadcast to `[batch, heads, matrix]`, with one dimension each of batches and heads; copied where strides cannot express
/// that.
fn folded(steps: &mut Steps<'_>, view: &View, batch: &[usize], heads: &[usize], matrix: [usize; 2]) -> View {
    let layout = view.layout.broadcast(&[batch, heads, &matrix].concat()).expect("shapes were checked");
    let shape = [batch.iter().product(), heads.iter().product(), matrix[0], matrix[1]];
    steps.reshaped(View { layout, ..*view }, &shape)
}

/// A view whose rows are contiguous, and aligned if they are of 16-bit elements; copied to rows of a whole number of vectors if need be.
fn with_contiguous_rows(steps: &mut Steps<'_>, mut view: View) -> View {
    let shape = view.layout.shape.clone();
    let [.., columns] = shape[..] else { return view };
    if view.layout.elements() == 0 {
        view.layout = Layout::contiguous(&shape);
        return view;
    }
    if columns == 1 {
        view.layout.strides[3] = 1;
    }
    let vector = if view.dtype.size() == 2 { AttentionStep::ROW_ALIGNMENT / view.dtype.size() } else { 1 };
    let outer = view.layout.strides.iter().zip(&shape).take(3);
    let is_aligned = |elements: isize| elements.unsigned_abs().is_multiple_of(vector);
    let are_aligned = outer.into_iter().all(|(stride, extent)| *extent == 1 || is_aligned(*stride));
    if view.layout.strides[3] == 1 && are_aligned && view.layout.offset.is_multiple_of(vector) {
        return view;
    }
    let padded = steps.allocate(view.dtype, &[shape[0], shape[1], shape[2], columns.next_multiple_of(vector)]);
    let copy = View { layout: padded.layout.sliced(3, 0, columns, 1), ..padded };
    steps.copy_to(view, copy.clone());
    copy
}
