//! Products of matrices.
#![expect(clippy::many_single_char_names, reason = "the customary names of factors and extents of a product")]

use accelerd_ir::{Dtype, scalar::Function};

use crate::{
    Accumulate, GraphError, NodeSpec, TensorType,
    attributes::Attributes,
    dims::broadcast_shape,
    elementwise,
    op::{MatMulOp, Op},
    operation::{Operation, any},
    signature::{DtypeRule, Results, ShapeRule},
};

type Result<T> = std::result::Result<T, GraphError>;

pub(crate) const OPERATIONS: &[Operation] = &[
    any(&["matmul"], Results::one(ShapeRule::MatMul, DtypeRule::Equal), matmul),
    any(&["linear"], Results::one(ShapeRule::Linear, DtypeRule::First), linear),
];

/// NumPy's `matmul`: vectors count as a row on the left and a column on the right, leading dimensions broadcast.
fn matmul(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let &[a, b] = operands else { return Err(GraphError::new(&node.name, "inputs", "2", operands.len())) };
    let transpose_a = attributes.bool("transpose_a")?.unwrap_or(false);
    let transpose_b = attributes.bool("transpose_b")?.unwrap_or(false);
    for (nth, (operand, transposed)) in [(a, transpose_a), (b, transpose_b)].into_iter().enumerate() {
        let least = if transposed { 2 } else { 1 };
        if operand.shape.len() < least {
            let expected = format!("at least {least} dimensions");
            return Err(GraphError::new(&node.name, format!("inputs[{nth}]"), expected, operand.shape.len()));
        }
    }
    let (mut left, mut right) = (a.shape.clone(), b.shape.clone());
    if left.len() == 1 {
        left.insert(0, 1);
    }
    if right.len() == 1 {
        right.push(1);
    }
    let (m, k) = last_two(&mut left, transpose_a);
    let (inner, n) = last_two(&mut right, transpose_b);
    if k != inner {
        return Err(GraphError::new(&node.name, "inputs[1]", format!("{k} rows"), format!("{inner} in {:?}", b.shape)));
    }
    let dtype = common_type(node, a, b)?;
    let accumulate = accumulate(attributes, dtype)?;
    let batch = [left, right].map(|shape| TensorType { dtype, shape });
    let mut shape = broadcast_shape(node, &[&batch[0], &batch[1]])?;
    shape.extend((a.shape.len() > 1).then_some(m));
    shape.extend((b.shape.len() > 1).then_some(n));
    let op = MatMulOp { transpose_a, transpose_b, accumulate, epilogue: None };
    Ok((Op::MatMul(op), TensorType { dtype, shape }))
}

/// PyTorch's `linear`: `x[..., k]`, `weight[n, k]` and maybe `bias[n]`, then maybe an elementwise operation.
fn linear(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType]) -> Result<(Op, TensorType)> {
    let ([x, weight] | [x, weight, _]) = operands else {
        return Err(GraphError::new(&node.name, "inputs", "2 or 3", operands.len()));
    };
    let k =
        x.shape.last().copied().ok_or_else(|| GraphError::new(&node.name, "inputs[0]", "a dimension", "a scalar"))?;
    let n = match weight.shape[..] {
        [n, inner] if inner == k => n,
        _ => {
            return Err(GraphError::new(
                &node.name,
                "inputs[1]",
                format!("shape [n, {k}]"),
                format!("{:?}", weight.shape),
            ));
        }
    };
    let dtype = common_type(node, x, weight)?;
    if let Some(bias) = operands.get(2) {
        let expected = TensorType { dtype, shape: vec![n] };
        if **bias != expected {
            return Err(GraphError::new(&node.name, "inputs[2]", expected.describe(), bias.describe()));
        }
    }
    let accumulate = accumulate(attributes, dtype)?;
    let epilogue = attributes.text("activation")?.map(|name| activation(attributes, name, dtype)).transpose()?;
    let mut shape = x.shape.clone();
    shape.pop();
    shape.push(n);
    let op = MatMulOp { transpose_a: false, transpose_b: true, accumulate, epilogue };
    Ok((Op::MatMul(op), TensorType { dtype, shape }))
}

/// Removes the last two extents, in the order of the matrix after its transposition.
fn last_two(shape: &mut Vec<usize>, transposed: bool) -> (usize, usize) {
    let columns = shape.pop().unwrap_or(1);
    let rows = shape.pop().unwrap_or(1);
    if transposed { (columns, rows) } else { (rows, columns) }
}

/// Both operands have one type, as in PyTorch: no product converts a whole matrix unasked.
pub(crate) fn common_type(node: &NodeSpec, a: &TensorType, b: &TensorType) -> Result<Dtype> {
    if a.dtype != b.dtype || a.dtype == Dtype::Bool {
        let expected =
            if a.dtype == Dtype::Bool { "numbers".to_owned() } else { format!("elements of type {}", a.dtype) };
        return Err(GraphError::new(&node.name, "inputs[1]", expected, b.dtype));
    }
    Ok(a.dtype)
}

/// The precision of products of elements of a type, from the attribute `precision`.
pub(crate) fn accumulate(attributes: &Attributes<'_>, dtype: Dtype) -> Result<Accumulate> {
    let tf32 = match attributes.text("precision")? {
        None | Some("highest") => false,
        Some("high") => true,
        Some(other) => return Err(attributes.error("precision", "highest or high", other)),
    };
    Ok(match dtype {
        Dtype::F32 if tf32 => Accumulate::Tf32,
        Dtype::F64 => Accumulate::F64,
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 => Accumulate::F32,
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64 => Accumulate::Wrapping,
    })
}

/// The function of an elementwise operation of one operand with its default attributes.
pub(crate) fn activation(attributes: &Attributes<'_>, name: &str, dtype: Dtype) -> Result<Function> {
    let refused =
        || attributes.error("activation", format!("an operation of one operand that maps {dtype} to {dtype}"), name);
    let node = NodeSpec { op: name.to_owned(), inputs: vec![String::new()], ..NodeSpec::default() };
    let function = elementwise::function(&node, &[dtype]).and_then(std::result::Result::ok).ok_or_else(refused)?;
    if function.dtype(function.results()[0]) == dtype { Ok(function) } else { Err(refused()) }
}
