//! Scaled dot-product attention.

use accelerd_ir::Dtype;

use crate::{
    AttentionStep, GraphError, NodeSpec, TensorType,
    attributes::Attributes,
    dims::broadcast_shape,
    op::{AttentionOp, Op},
    operation::{Operation, any},
    products,
    signature::Results,
};

type Result<T> = std::result::Result<T, GraphError>;

/// The names of the operands that are always there.
const OPERANDS: [&str; 3] = ["query", "key", "value"];

pub(crate) const OPERATIONS: &[Operation] = &[any(&["scaled_dot_product_attention"], Results::untyped(1), attention)];

/// PyTorch's: `query[..., H, L, E]`, `key[..., Hkv, S, E]` and `value[..., Hkv, S, Ev]`, then a mask that broadcasts to `[..., H, L, S]`
/// and the lengths `i32[...]` of the keys, both optional. The type tells a mask from lengths.
fn attention(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let error = |nth: usize, expected: String, got: String| {
        Err(GraphError::new(&node.name, format!("inputs[{nth}]"), expected, got))
    };
    let &[query, key, value, ref optional @ ..] = operands else {
        return Err(GraphError::new(&node.name, "inputs", "3 to 5", operands.len()));
    };
    if optional.len() > 2 {
        return Err(GraphError::new(&node.name, "inputs", "3 to 5", operands.len()));
    }
    let dtype = query.dtype;
    for (nth, (operand, name)) in operands.iter().zip(OPERANDS).enumerate() {
        if !dtype.is_float() {
            return error(0, "floating-point elements".to_owned(), dtype.to_string());
        }
        if operand.dtype != dtype {
            return error(nth, format!("a {name} of type {dtype}"), operand.dtype.to_string());
        }
        if operand.shape.len() < 2 {
            return error(nth, format!("a {name} of at least 2 dimensions"), operand.shape.len().to_string());
        }
    }
    let ([queries, dim], [keys, key_dim], [values, value_dim]) = (matrix(query), matrix(key), matrix(value));
    if dim == 0 {
        return error(0, "a last extent of at least 1".to_owned(), "0".to_owned());
    }
    if key_dim != dim {
        return error(1, format!("a last extent of {dim}"), format!("{key_dim} in {:?}", key.shape));
    }
    if values != keys {
        return error(2, format!("{keys} rows"), format!("{values} in {:?}", value.shape));
    }
    for (nth, rows) in [queries, keys].into_iter().enumerate() {
        if rows > AttentionStep::MAX_ROWS {
            return error(nth, format!("at most {} rows", AttentionStep::MAX_ROWS), rows.to_string());
        }
    }
    for (nth, columns) in [(0, dim), (2, value_dim)] {
        if columns > AttentionStep::MAX_COLUMNS {
            let expected = format!("a last extent of at most {}", AttentionStep::MAX_COLUMNS);
            return error(nth, expected, columns.to_string());
        }
    }
    let is_grouped = attributes.bool("enable_gqa")?.unwrap_or(false);
    let (batch, heads) = if is_grouped { grouped_batch(node, [query, key, value])? } else { batch(node, operands)? };
    let has_mask = optional.first().is_some_and(|first| first.dtype != Dtype::I32);
    let mask_shape = [&batch[..], &heads[..], &[queries, keys]].concat();
    for (nth, operand) in optional.iter().enumerate() {
        if nth == 0 && has_mask {
            check_mask(node, operand, dtype, &mask_shape)?;
        } else if operand.dtype != Dtype::I32 || operand.shape != batch || nth > usize::from(has_mask) {
            let mask = if nth == 0 { "a mask, or " } else { "" };
            return error(nth + 3, format!("{mask}lengths of type i32 and shape {batch:?}"), operand.describe());
        }
    }
    let is_causal = attributes.bool("is_causal")?.unwrap_or(false);
    if is_causal && has_mask {
        return Err(attributes.error("is_causal", "false with a mask", "true"));
    }
    let scale = attributes.float("scale")?.unwrap_or_else(|| (dim as f64).sqrt().recip());
    if !scale.is_finite() {
        return Err(attributes.error("scale", "a finite number", scale));
    }
    if let Some(dropout) = attributes.float("dropout_p")?.filter(|p| *p != 0.0) {
        return Err(attributes.error("dropout_p", "0: dropout is not supported", dropout));
    }
    let accumulate = products::accumulate(attributes, dtype)?;
    let shape = [&batch[..], &heads[..], &[queries, value_dim]].concat();
    let has_lengths = optional.len() > usize::from(has_mask);
    let kv_heads = is_grouped.then(|| key.shape[key.shape.len() - 3]);
    let op = AttentionOp { kv_heads, has_mask, has_lengths, is_causal, scale, accumulate };
    Ok((Op::Attention(op), TensorType { dtype, shape }))
}

/// The extents of the last two dimensions.
fn matrix(of: &TensorType) -> [usize; 2] {
    let rank = of.shape.len();
    [of.shape[rank - 2], of.shape[rank - 1]]
}

/// The shape to which the first `rank - last` dimensions of the operands broadcast.
fn leading(node: &NodeSpec, operands: &[&TensorType], last: usize) -> Result<Vec<usize>> {
    let leading: Vec<_> = operands
        .iter()
        .map(|of| TensorType { dtype: of.dtype, shape: of.shape[..of.shape.len() - last].to_vec() })
        .collect();
    broadcast_shape(node, &leading.iter().collect::<Vec<_>>())
}

/// The dimensions before the heads, and the heads: none if the operands are matrices.
fn batch(node: &NodeSpec, operands: &[&TensorType]) -> Result<(Vec<usize>, Vec<usize>)> {
    let mut batch = leading(node, &operands[..OPERANDS.len()], 2)?;
    let heads = batch.pop().into_iter().collect();
    Ok((batch, heads))
}

/// As [`batch`], where several heads of the query share one of key and value.
fn grouped_batch(node: &NodeSpec, operands: [&TensorType; 3]) -> Result<(Vec<usize>, Vec<usize>)> {
    for (nth, (operand, name)) in operands.iter().zip(OPERANDS).enumerate() {
        if operand.shape.len() < 3 {
            let expected = format!("a {name} of at least 3 dimensions, for groups of heads");
            return Err(GraphError::new(&node.name, format!("inputs[{nth}]"), expected, operand.shape.len()));
        }
    }
    let [heads, key_heads, value_heads] = operands.map(|operand| operand.shape[operand.shape.len() - 3]);
    if key_heads == 0 || !heads.is_multiple_of(key_heads) {
        let expected = format!("a number of heads that divides {heads}");
        return Err(GraphError::new(&node.name, "inputs[1]", expected, key_heads));
    }
    if value_heads != key_heads {
        return Err(GraphError::new(&node.name, "inputs[2]", format!("{key_heads} heads"), value_heads));
    }
    Ok((leading(node, &operands, 3)?, vec![heads]))
}

fn check_mask(node: &NodeSpec, mask: &TensorType, dtype: Dtype, shape: &[usize]) -> Result<()> {
    let error = |expected: String, got: String| Err(GraphError::new(&node.name, "inputs[3]", expected, got));
    if ![Dtype::Bool, Dtype::F32, dtype].contains(&mask.dtype) {
        let types = if dtype == Dtype::F32 { "bool or f32".to_owned() } else { format!("bool, {dtype} or f32") };
        return error(format!("a mask of type {types}, or lengths of type i32"), mask.dtype.to_string());
    }
    let extents = mask.shape.iter().rev().zip(shape.iter().rev());
    if mask.shape.len() > shape.len() || !extents.into_iter().all(|(is, wanted)| is == wanted || *is == 1) {
        return error(format!("a mask that broadcasts to {shape:?}"), format!("{:?}", mask.shape));
    }
    Ok(())
}
