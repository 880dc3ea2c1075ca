//! Dimensions as attributes name them, of which negative ones count from the end, and the broadcasting of shapes.

use crate::{GraphError, NodeSpec, TensorType, attributes::Attributes};

/// The dimension that `dim` names in a shape of `rank` dimensions.
pub(crate) fn resolve(attributes: &Attributes<'_>, name: &str, dim: i64, rank: usize) -> Result<usize, GraphError> {
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    let resolved = if dim < 0 { dim.saturating_add(signed) } else { dim };
    usize::try_from(resolved).ok().filter(|dim| *dim < rank).ok_or_else(|| {
        let expected = if rank == 0 { "no dimension".to_owned() } else { format!("{} to {}", -signed, signed - 1) };
        attributes.error(name, expected, dim)
    })
}

/// As [`resolve`], of an operation that takes a scalar for a vector of one element: its dimension is 0 or -1.
pub(crate) fn resolve_or_scalar(
    attributes: &Attributes<'_>,
    name: &str,
    dim: i64,
    rank: usize,
) -> Result<usize, GraphError> {
    resolve(attributes, name, dim, rank.max(1))
}

/// Dimensions, each named once, in the order of the list.
pub(crate) fn resolve_all(
    attributes: &Attributes<'_>,
    name: &str,
    dims: &[i64],
    rank: usize,
) -> Result<Vec<usize>, GraphError> {
    let mut resolved = vec![];
    for dim in dims {
        let one = resolve(attributes, name, *dim, rank)?;
        if resolved.contains(&one) {
            return Err(attributes.error(name, "each dimension once", format!("{dim} twice")));
        }
        resolved.push(one);
    }
    Ok(resolved)
}

/// The shape to which all operands broadcast, by NumPy's rules.
pub(crate) fn broadcast_shape(node: &NodeSpec, operands: &[&TensorType]) -> Result<Vec<usize>, GraphError> {
    let mut shape: Vec<usize> = vec![];
    for (nth, operand) in operands.iter().enumerate() {
        let other = &operand.shape;
        let rank = shape.len().max(other.len());
        let mut merged = vec![1; rank];
        for (back, extent) in merged.iter_mut().rev().enumerate() {
            let of = |shape: &[usize]| shape.len().checked_sub(back + 1).map_or(1, |dim| shape[dim]);
            *extent = match (of(&shape), of(other)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => {
                    let expected = format!("a shape that broadcasts with {shape:?}");
                    return Err(GraphError::new(&node.name, format!("inputs[{nth}]"), expected, format!("{other:?}")));
                }
            };
        }
        shape = merged;
    }
    Ok(shape)
}
