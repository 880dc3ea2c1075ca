//! Convolutions over one or two dimensions, with PyTorch's layouts: activations `[batch, channels, height, width]`, weights
//! `[out_channels, channels / groups, kernel_height, kernel_width]`.

use crate::{
    Attribute, GraphError, NodeSpec, TensorType, Windows,
    attributes::Attributes,
    op::{ConvOp, Op},
    operation::{Operation, any},
    products::{accumulate, activation, common_type},
    signature::Results,
    spatial::Spatial,
};

type Result<T> = std::result::Result<T, GraphError>;

pub(crate) const OPERATIONS: &[Operation] = &[
    any(&["conv1d"], Results::untyped(1), |node, attributes, operands| conv(node, attributes, operands, Spatial(1))),
    any(&["conv2d"], Results::untyped(1), |node, attributes, operands| conv(node, attributes, operands, Spatial(2))),
];

/// The operands are activations, which may lack the batch, weights, and maybe a bias for each output channel.
fn conv(
    node: &NodeSpec,
    attributes: &Attributes<'_>,
    operands: &[&TensorType],
    spatial: Spatial,
) -> Result<(Op, TensorType)> {
    let (x, weight, bias) = match *operands {
        [x, weight] => (x, weight, None),
        [x, weight, bias] => (x, weight, Some(bias)),
        _ => return Err(GraphError::new(&node.name, "inputs", "2 or 3", operands.len())),
    };
    let dtype = common_type(node, x, weight)?;
    if !dtype.is_float() {
        return Err(GraphError::new(&node.name, "inputs[0]", "floating-point elements", dtype));
    }
    let image = spatial.images(node, x)?;
    if weight.shape.len() != spatial.0 + 2 {
        let expected = format!("{} dimensions", spatial.0 + 2);
        return Err(GraphError::new(&node.name, "inputs[1]", expected, weight.shape.len()));
    }
    let (lead, &[channels, height, width]) = image.split_at(image.len() - 3) else {
        return Err(GraphError::new(&node.name, "inputs[0]", "channels and positions", format!("{:?}", x.shape)));
    };
    let &[out_channels, group_channels, kernel_height, kernel_width] = &spatial.image(&weight.shape)[..] else {
        return Err(GraphError::new(&node.name, "inputs[1]", "filters", format!("{:?}", weight.shape)));
    };
    let groups = groups(attributes, channels, out_channels)?;
    if group_channels.checked_mul(groups) != Some(channels) {
        let expected = format!("{} channels, those of inputs[0] in {groups} groups", channels / groups);
        return Err(GraphError::new(&node.name, "inputs[1]", expected, group_channels));
    }
    if let Some(bias) = bias {
        let expected = TensorType { dtype, shape: vec![out_channels] };
        if *bias != expected {
            return Err(GraphError::new(&node.name, "inputs[2]", expected.describe(), bias.describe()));
        }
    }
    let (windows, extents) = windows(node, attributes, spatial, [kernel_height, kernel_width], [height, width])?;
    let accumulate = accumulate(attributes, dtype)?;
    let epilogue = attributes.text("activation")?.map(|name| activation(attributes, name, dtype)).transpose()?;
    let shape = spatial.shape([lead, &[out_channels], &extents].concat());
    Ok((Op::Conv(ConvOp { spatial, windows, groups, accumulate, epilogue }), TensorType { dtype, shape }))
}

fn groups(attributes: &Attributes<'_>, channels: usize, out_channels: usize) -> Result<usize> {
    let groups = attributes.int("groups")?.unwrap_or(1);
    let divides =
        |groups: &usize| *groups > 0 && channels.is_multiple_of(*groups) && out_channels.is_multiple_of(*groups);
    usize::try_from(groups).ok().filter(divides).ok_or_else(|| {
        let expected = format!("a divisor of {channels} channels and {out_channels} output channels");
        attributes.error("groups", expected, groups)
    })
}

/// The windows, and how many there are along height and width.
fn windows(
    node: &NodeSpec,
    attributes: &Attributes<'_>,
    spatial: Spatial,
    kernel: [usize; 2],
    input: [usize; 2],
) -> Result<(Windows, [usize; 2])> {
    let stride = spatial.pair(attributes, "stride", 1)?.unwrap_or([1; 2]);
    let dilation = spatial.pair(attributes, "dilation", 1)?.unwrap_or([1; 2]);
    if kernel.contains(&0) || kernel.iter().any(|extent| i32::try_from(*extent).is_err()) {
        let expected = format!("kernel extents from 1 to {}", i32::MAX);
        return Err(GraphError::new(&node.name, "inputs[1]", expected, format!("{kernel:?}")));
    }
    let mut windows = Windows { kernel, stride, padding: [0; 2], dilation };
    let reach = [0, 1].map(|axis| windows.reach(axis));
    // The padding of both sides together.
    let padding = match attributes.get("padding") {
        Some(Attribute::Text(text)) if text == "valid" => [0; 2],
        Some(Attribute::Text(text)) if text == "same" => {
            if stride != [1; 2] {
                return Err(attributes.error("stride", "1, since padding is \"same\"", format!("{stride:?}")));
            }
            reach.map(|reach| reach - 1)
        }
        Some(Attribute::Text(text)) => {
            return Err(attributes.error("padding", "numbers, \"same\" or \"valid\"", format!("{text:?}")));
        }
        _ => spatial.pair(attributes, "padding", 0)?.unwrap_or([0; 2]).map(|padding| 2 * padding),
    };
    // Odd padding is larger at the end.
    windows.padding = padding.map(|padding| padding / 2);
    let mut extents = [0; 2];
    for axis in 0..2 {
        let padded = input[axis] + padding[axis];
        let positions = padded.checked_sub(reach[axis]).ok_or_else(|| {
            let expected = format!("a kernel that spans at most {padded} positions, those of the padded inputs[0]");
            GraphError::new(&node.name, "inputs[1]", expected, reach[axis])
        })?;
        extents[axis] = positions / stride[axis] + 1;
    }
    Ok((windows, extents))
}
