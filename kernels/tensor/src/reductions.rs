//! Reductions over dimensions: the table of the operations that combine values, and those that find an index.

use accelerd_ir::{Dtype, scalar::Function};

use crate::{
    GraphError, NodeSpec, Reduction, TensorType,
    attributes::Attributes,
    dims,
    elementwise::{Expr, Scope},
    op::{Op, ReduceOp},
    operation::{Checked, Operation, any, one},
    signature::{DtypeRule, Results, ShapeRule},
};

type Result<T> = std::result::Result<T, GraphError>;

/// The operations that combine values.
pub(crate) const REDUCTIONS: &[Combining] = &[
    plain(&["sum"], SUM, Reduction::Sum),
    Combining {
        is_in_f64: true,
        epilogue: |sum, values| Ok(sum / values.count),
        ..plain(&["mean"], MEAN, Reduction::Sum)
    },
    plain(&["prod"], SUM, Reduction::Prod),
    Combining { needs_values: true, ..plain(&["amin", "min"], SAME, Reduction::Min) },
    Combining { needs_values: true, ..plain(&["amax", "max"], SAME, Reduction::Max) },
    plain(&["all"], TRUTH, Reduction::Min),
    plain(&["any"], TRUTH, Reduction::Max),
    Combining {
        is_in_f64: true,
        prologue: |x| x * x,
        epilogue: |sum, _| Ok(sum.sqrt()),
        ..plain(&["norm"], SPREAD, Reduction::Sum)
    },
    plain(&["logsumexp"], FLOAT_SPREAD, Reduction::LogSumExp),
    Combining {
        is_in_f64: true,
        epilogue: |squares, values| Ok(squares / values.degrees_of_freedom()?),
        ..plain(&["var"], SPREAD, Reduction::SquaredDeviations)
    },
    Combining {
        is_in_f64: true,
        epilogue: |squares, values| Ok((squares / values.degrees_of_freedom()?).sqrt()),
        ..plain(&["std"], SPREAD, Reduction::SquaredDeviations)
    },
];

/// The operations that find an index.
pub(crate) const OPERATIONS: &[Operation] = &[
    any(&["argmin"], INDEX, |node, attributes, operands| arg_reduce(node, attributes, operands, false)),
    any(&["argmax"], INDEX, |node, attributes, operands| arg_reduce(node, attributes, operands, true)),
];

const INDEX: Results = Results::one(ShapeRule::Reduced, DtypeRule::Is(Dtype::I64));

/// An operation that combines the values of an operand. Values are combined in [`Dtype::compute`] of the type of the result, or in f64: a
/// type given as `dtype` is where the result is rounded.
pub(crate) struct Combining {
    pub(crate) names: &'static [&'static str],
    pub(crate) results: Results,
    dtype: ResultType,
    /// From an element, in the type in which values are combined.
    prologue: for<'a> fn(Expr<'a>) -> Expr<'a>,
    reduction: Reduction,
    /// From the combination.
    epilogue: for<'a> fn(Expr<'a>, &Values<'_>) -> Result<Expr<'a>>,
    /// True where the combination of no values is an error.
    needs_values: bool,
    /// True where values are combined in f64: their sum may be out of the range of f32 where the result is not, as that of the squares of
    /// numbers from 1e19 on or below 1e-22.
    is_in_f64: bool,
}

/// The values of which a result is made.
struct Values<'a> {
    count: f64,
    attributes: &'a Attributes<'a>,
}

impl Values<'_> {
    /// Their number less the attribute `correction`.
    fn degrees_of_freedom(&self) -> Result<f64> {
        let correction = self.attributes.float("correction")?.unwrap_or(1.0);
        Ok((self.count - correction).max(0.0))
    }
}

/// An operation whose result is the combination of the elements.
const fn plain(names: &'static [&'static str], (rule, dtype): TypeRule, reduction: Reduction) -> Combining {
    let results = Results::one(ShapeRule::Reduced, rule);
    Combining {
        names,
        results,
        dtype,
        prologue: |x| x,
        reduction,
        epilogue: |x, _| Ok(x),
        needs_values: false,
        is_in_f64: false,
    }
}

/// The type of a result from attributes and the type of the elements.
type ResultType = fn(&Attributes<'_>, Dtype) -> Result<Dtype>;
type TypeRule = (DtypeRule, ResultType);

const SAME: TypeRule = (DtypeRule::First, |_, x| Ok(x));
const TRUTH: TypeRule = (DtypeRule::Is(Dtype::Bool), |_, _| Ok(Dtype::Bool));
const SUM: TypeRule = (DtypeRule::Sum, sum_type);
const MEAN: TypeRule = (DtypeRule::Mean, mean_type);
const SPREAD: TypeRule = (DtypeRule::Spread, |attributes, x| mean_type(attributes, float(attributes, x)?));
const FLOAT_SPREAD: TypeRule =
    (DtypeRule::FloatSpread, |attributes, x| mean_type(attributes, if x.is_float() { x } else { Dtype::F32 }));

/// The attribute `dtype`, by default that of the elements. Integers and bool become i64, unless they are of u64.
pub(crate) fn sum_type(attributes: &Attributes<'_>, x: Dtype) -> Result<Dtype> {
    let wide = if x.is_float() || x == Dtype::U64 { x } else { Dtype::I64 };
    Ok(attributes.dtype("dtype")?.unwrap_or(wide))
}

/// The attribute `dtype`, by default that of the elements.
fn mean_type(attributes: &Attributes<'_>, x: Dtype) -> Result<Dtype> {
    float(attributes, attributes.dtype("dtype")?.unwrap_or(x))
}

fn float(attributes: &Attributes<'_>, dtype: Dtype) -> Result<Dtype> {
    let refused = || GraphError::new(&attributes.node().name, "inputs[0]", "floating-point elements", dtype);
    dtype.is_float().then_some(dtype).ok_or_else(refused)
}

/// The reduction of a node and the type of its result; `None` if the operation combines no values.
pub(crate) fn infer(node: &NodeSpec, operands: &[&TensorType]) -> Option<Checked> {
    let operation = REDUCTIONS.iter().find(|operation| operation.names.contains(&node.op.as_str()))?;
    Some(operation.infer(node, operands))
}

impl Combining {
    fn infer(&self, node: &NodeSpec, operands: &[&TensorType]) -> Checked {
        let attributes = &Attributes::new(node);
        let x = one(node, operands)?;
        let (dims, shape) = dimensions(attributes, x)?;
        let count: usize = dims.iter().map(|&dim| x.shape[dim]).product();
        let dtype = (self.dtype)(attributes, x.dtype)?;
        if self.needs_values && count == 0 && shape.iter().product::<usize>() > 0 {
            return Err(GraphError::new(&node.name, "inputs[0]", "at least one element to reduce", "none"));
        }
        let accumulate = if self.is_in_f64 { Dtype::F64 } else { dtype.compute() };
        let values = Values { count: count as f64, attributes };
        let prologue = function(node, x.dtype, |element| Ok((self.prologue)(element.cast(accumulate))))?;
        // By way of the type in which elements are computed: a conversion from f64 to 16 bits has no vector instruction.
        let compute = dtype.compute();
        let epilogue =
            function(node, accumulate, |value| Ok((self.epilogue)(value, &values)?.cast(compute).cast(dtype)))?;
        attributes.finish()?;
        let op = ReduceOp { dims, prologue, reduction: self.reduction, accumulate, epilogue };
        Ok((Op::Reduce(op), TensorType { dtype, shape }))
    }
}

/// A function of one parameter.
fn function(
    node: &NodeSpec,
    param: Dtype,
    build: impl for<'a> FnOnce(Expr<'a>) -> Result<Expr<'a>>,
) -> Result<Function> {
    let scope = Scope::new(&[param]);
    let result = build(scope.param(0))?;
    let expected = "elements that are reduced by this operation";
    scope.finish(result).map_err(|_| GraphError::new(&node.name, "inputs[0]", expected, param))
}

/// The dimensions to reduce in ascending order, all by default, and the shape that is left.
fn dimensions(attributes: &Attributes<'_>, x: &TensorType) -> Result<(Vec<usize>, Vec<usize>)> {
    let rank = x.shape.len();
    let mut dims = match attributes.ints("dim")? {
        Some(dims) if !dims.is_empty() => dims::resolve_all(attributes, "dim", &dims, rank)?,
        Some(_) | None => (0..rank).collect(),
    };
    dims.sort_unstable();
    let keepdim = attributes.bool("keepdim")?.unwrap_or(false);
    let extents = x
        .shape
        .iter()
        .enumerate()
        .filter_map(|(dim, &extent)| if dims.contains(&dim) { keepdim.then_some(1) } else { Some(extent) });
    let shape = extents.collect();
    Ok((dims, shape))
}

fn arg_reduce(node: &NodeSpec, attributes: &Attributes<'_>, operands: &[&TensorType], is_max: bool) -> Checked {
    let x = one(node, operands)?;
    if let Some(dims) = attributes.ints("dim")?.filter(|dims| dims.len() > 1) {
        return Err(attributes.error("dim", "one dimension, or none for all", format!("{} dimensions", dims.len())));
    }
    let (dims, shape) = dimensions(attributes, x)?;
    if dims.iter().any(|&dim| x.shape[dim] == 0) {
        return Err(GraphError::new(&node.name, "inputs[0]", "at least one element to reduce", "none"));
    }
    Ok((Op::ArgReduce { dims, is_max }, TensorType { dtype: Dtype::I64, shape }))
}
