//! Pooling: the maximum or the average of windows over the last one or two dimensions.

use crate::{
    Divisor, GraphError, NodeSpec, PoolKind, PoolWindows, TensorType, Windows,
    attributes::Attributes,
    op::{Op, PoolOp},
    operation::{Checked, Operation, any, one},
    signature::Results,
    spatial::Spatial,
};

type Result<T> = std::result::Result<T, GraphError>;

pub(crate) const OPERATIONS: &[Operation] = &[
    pool(&["max_pool1d"], |node, attributes, operands| sliding(node, attributes, operands, Spatial(1), true)),
    pool(&["max_pool2d"], |node, attributes, operands| sliding(node, attributes, operands, Spatial(2), true)),
    pool(&["avg_pool1d"], |node, attributes, operands| sliding(node, attributes, operands, Spatial(1), false)),
    pool(&["avg_pool2d"], |node, attributes, operands| sliding(node, attributes, operands, Spatial(2), false)),
    pool(&["adaptive_max_pool1d"], |node, attributes, operands| adaptive(node, attributes, operands, Spatial(1), true)),
    pool(&["adaptive_max_pool2d"], |node, attributes, operands| adaptive(node, attributes, operands, Spatial(2), true)),
    pool(&["adaptive_avg_pool1d"], |node, attributes, operands| {
        adaptive(node, attributes, operands, Spatial(1), false)
    }),
    pool(&["adaptive_avg_pool2d"], |node, attributes, operands| {
        adaptive(node, attributes, operands, Spatial(2), false)
    }),
];

const fn pool(
    names: &'static [&'static str],
    check: fn(&NodeSpec, &Attributes<'_>, &[&TensorType]) -> Checked,
) -> Operation {
    any(names, Results::untyped(1), check)
}

/// The operand as `[leading dimensions.., height, width]`.
struct Images<'a> {
    of: &'a TensorType,
    spatial: Spatial,
    lead: Vec<usize>,
    extents: [usize; 2],
}

fn images<'a>(node: &NodeSpec, operands: &[&'a TensorType], spatial: Spatial, is_max: bool) -> Result<Images<'a>> {
    let x = one(node, operands)?;
    if !(x.dtype.is_float() || is_max && x.dtype.is_integer()) {
        let expected = if is_max { "numbers" } else { "floating-point elements" };
        return Err(GraphError::new(&node.name, "inputs[0]", expected, x.dtype));
    }
    let image = spatial.images(node, x)?;
    let batched = usize::from(image.len() == 4);
    if x.shape[batched..].contains(&0) {
        let expected = "no dimension without elements but the batch";
        return Err(GraphError::new(&node.name, "inputs[0]", expected, format!("{:?}", x.shape)));
    }
    let (lead, extents) = image.split_at(image.len() - 2);
    Ok(Images { of: x, spatial, lead: lead.to_vec(), extents: [extents[0], extents[1]] })
}

impl Images<'_> {
    fn pooled(&self, extents: [usize; 2], windows: PoolWindows, kind: PoolKind) -> (Op, TensorType) {
        let shape = self.spatial.shape([&self.lead[..], &extents].concat());
        (Op::Pool(PoolOp { spatial: self.spatial, windows, kind }), TensorType { dtype: self.of.dtype, shape })
    }
}

fn adaptive(
    node: &NodeSpec,
    attributes: &Attributes<'_>,
    operands: &[&TensorType],
    spatial: Spatial,
    is_max: bool,
) -> Checked {
    let images = images(node, operands, spatial, is_max)?;
    let wanted = attributes.required("output_size", images.spatial.pair(attributes, "output_size", 0)?, &[])?;
    let extents = if images.spatial == Spatial(1) { [1, wanted[1]] } else { wanted };
    let kind = if is_max { PoolKind::Max } else { PoolKind::Average(Divisor::Elements) };
    Ok(images.pooled(extents, PoolWindows::Adaptive, kind))
}

fn sliding(
    node: &NodeSpec,
    attributes: &Attributes<'_>,
    operands: &[&TensorType],
    spatial: Spatial,
    is_max: bool,
) -> Checked {
    let images = images(node, operands, spatial, is_max)?;
    let later: &[_] = if is_max {
        &["stride", "padding", "dilation", "ceil_mode"]
    } else {
        &["stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]
    };
    let kernel = attributes.required("kernel_size", spatial.pair(attributes, "kernel_size", 1)?, later)?;
    let stride = spatial.pair(attributes, "stride", 1)?.unwrap_or(kernel);
    let padding = spatial.pair(attributes, "padding", 0)?.unwrap_or([0; 2]);
    let dilation = if is_max { spatial.pair(attributes, "dilation", 1)? } else { None }.unwrap_or([1; 2]);
    if (0..2).any(|axis| padding[axis] > kernel[axis] / 2) {
        let expected = format!("at most half of the kernel {kernel:?}");
        return Err(attributes.error("padding", expected, format!("{padding:?}")));
    }
    let is_ceil = attributes.bool("ceil_mode")?.unwrap_or(false);
    let windows = Windows { kernel, stride, padding, dilation };
    let mut extents = [0; 2];
    for (axis, extent) in extents.iter_mut().enumerate() {
        *extent = count(&windows, axis, images.extents[axis], is_ceil).ok_or_else(|| {
            let padded = images.extents[axis] + 2 * padding[axis];
            let expected = format!("a kernel that spans at most {padded} positions, those of the padded inputs[0]");
            GraphError::new(&node.name, "attributes.kernel_size", expected, windows.reach(axis))
        })?;
    }
    let kind = if is_max { PoolKind::Max } else { PoolKind::Average(divisor(attributes)?) };
    Ok(images.pooled(extents, PoolWindows::Sliding(windows), kind))
}

/// The number of windows along an axis. With `is_ceil`, the last may reach beyond the padding, but begins within the input or the
/// padding before it.
fn count(windows: &Windows, axis: usize, input: usize, is_ceil: bool) -> Option<usize> {
    let (stride, padding) = (windows.stride[axis], windows.padding[axis]);
    let rounding = if is_ceil { stride - 1 } else { 0 };
    let positions = (input + 2 * padding + rounding).checked_sub(windows.reach(axis))?;
    let count = positions / stride + 1;
    let begins_outside = is_ceil && (count - 1) * stride >= input + padding;
    Some(count - usize::from(begins_outside)).filter(|count| *count > 0)
}

fn divisor(attributes: &Attributes<'_>) -> Result<Divisor> {
    let counts_padding = attributes.bool("count_include_pad")?.unwrap_or(true);
    match attributes.int("divisor_override")? {
        Some(0) => Err(attributes.error("divisor_override", "a number other than 0", 0)),
        Some(number) => Ok(Divisor::Number(number)),
        None if counts_padding => Ok(Divisor::Padded),
        None => Ok(Divisor::Elements),
    }
}
