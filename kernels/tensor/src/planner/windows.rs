//! Lowers convolutions and pooling: contiguous images, of one shape for one and two spatial dimensions.

use crate::{
    ConvStep, Layout, PoolStep, Step, View,
    graph::Node,
    op::{ConvOp, PoolOp},
    spatial::Spatial,
};

use super::steps::Steps;

/// Lowers a convolution; returns the view of its result.
pub(super) fn conv(steps: &mut Steps<'_>, node: &Node, op: &ConvOp) -> View {
    let mut operands = node.operands.iter().map(|operand| {
        let view = steps.view_of(*operand);
        steps.contiguous(view)
    });
    let batches = |view: View| images(&view, op.spatial, 1);
    let (input, weight, bias) = (operands.next().map(batches), operands.next().map(batches), operands.next());
    drop(operands);
    let output = steps.allocate(node.result.dtype, &node.result.shape);
    let (Some(input), Some(weight)) = (input, weight) else { return output };
    steps.push(Step::Conv(ConvStep {
        input,
        weight,
        bias,
        windows: op.windows,
        groups: op.groups,
        accumulate: op.accumulate,
        epilogue: op.epilogue.clone(),
        output: images(&output, op.spatial, 1),
    }));
    output
}

/// Lowers pooling; returns the view of its result.
pub(super) fn pool(steps: &mut Steps<'_>, node: &Node, op: &PoolOp) -> View {
    let input = steps.view_of(node.operands[0]);
    let input = steps.contiguous(input);
    let output = steps.allocate(node.result.dtype, &node.result.shape);
    steps.push(Step::Pool(PoolStep {
        input: images(&input, op.spatial, 0),
        windows: op.windows,
        kind: op.kind,
        output: images(&output, op.spatial, 0),
    }));
    output
}

/// A contiguous view as `[batch, channels, height, width]`, or without `channels` as `[planes, height, width]`.
fn images(view: &View, spatial: Spatial, channels: usize) -> View {
    let image = spatial.image(&view.layout.shape);
    let (lead, rest) = image.split_at(image.len() - 2 - channels);
    let shape = [&[lead.iter().product()], rest].concat();
    View { layout: Layout { offset: view.layout.offset, ..Layout::contiguous(&shape) }, ..*view }
}
