//! Dimensions as attributes name them: negative ones count from the end.

use crate::{GraphError, attributes::Attributes};

/// The dimension that `dim` names in a shape of `rank` dimensions.
pub(crate) fn resolve(attributes: &Attributes<'_>, name: &str, dim: i64, rank: usize) -> Result<usize, GraphError> {
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    let resolved = if dim < 0 { dim.saturating_add(signed) } else { dim };
    usize::try_from(resolved).ok().filter(|dim| *dim < rank).ok_or_else(|| {
        let expected = if rank == 0 { "no dimension".to_owned() } else { format!("{} to {}", -signed, signed - 1) };
        attributes.error(name, expected, dim)
    })
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
