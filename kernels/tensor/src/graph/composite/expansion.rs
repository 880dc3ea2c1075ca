//! Expands a node of the caller into nodes of the graph.

use accelerd_ir::{
    Dtype,
    scalar::{Builder, Literal},
};

use crate::{
    Attribute, Graph, GraphError, NodeSpec, TensorType,
    attributes::Attributes,
    dims,
    elementwise::{Expr, Scope},
    graph::{Node, ValueId},
    op::{Op, ReduceOp},
};

pub(crate) type Result<T> = std::result::Result<T, GraphError>;

/// A node under expansion: its operands and attributes, and the graph to which it adds nodes.
pub(crate) struct Expansion<'a> {
    pub(crate) attributes: Attributes<'a>,
    graph: &'a mut Graph,
    node: &'a NodeSpec,
    operands: &'a [ValueId],
}

impl<'a> Expansion<'a> {
    pub(super) fn new(graph: &'a mut Graph, node: &'a NodeSpec, operands: &'a [ValueId]) -> Self {
        Self { attributes: Attributes::new(node), graph, node, operands }
    }

    /// The operands of the caller.
    pub(crate) fn operands(&self) -> &'a [ValueId] {
        self.operands
    }

    pub(crate) fn type_of(&self, value: ValueId) -> &TensorType {
        self.graph.type_of(value)
    }

    pub(crate) fn dtype(&self, value: ValueId) -> Dtype {
        self.type_of(value).dtype
    }

    pub(crate) fn shape(&self, value: ValueId) -> &[usize] {
        &self.type_of(value).shape
    }

    /// Refuses other numbers of operands.
    pub(crate) fn expect_operands(&self, least: usize, most: usize) -> Result<()> {
        let got = self.operands.len();
        let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
        (least..=most).contains(&got).then_some(()).ok_or_else(|| self.error("inputs", expected, got))
    }

    /// Refuses an operand of another shape.
    pub(crate) fn expect_shape(&self, nth: usize, shape: &[usize]) -> Result<()> {
        let got = self.shape(self.operands[nth]);
        let refused = || self.error(format!("inputs[{nth}]"), format!("shape {shape:?}"), format!("{got:?}"));
        (got == shape).then_some(()).ok_or_else(refused)
    }

    /// The type of a floating-point operand.
    pub(crate) fn float(&self, nth: usize) -> Result<Dtype> {
        let dtype = self.dtype(self.operands[nth]);
        let refused = || self.error(format!("inputs[{nth}]"), "floating-point elements", dtype);
        dtype.is_float().then_some(dtype).ok_or_else(refused)
    }

    /// The common type of the first `count` operands, which are floating-point numbers.
    pub(crate) fn common_float(&self, count: usize) -> Result<Dtype> {
        let mut common = self.float(0)?;
        for nth in 1..count {
            let dtype = self.float(nth)?;
            let expected = || format!("a type that promotes with {common}");
            common = common.promote(dtype).map_err(|_| self.error(format!("inputs[{nth}]"), expected(), dtype))?;
        }
        Ok(common)
    }

    /// A number that is not negative; `default` if the attribute is not set.
    pub(crate) fn non_negative(&self, name: &'static str, default: f64) -> Result<f64> {
        let value = self.attributes.float(name)?.unwrap_or(default);
        let refused = || self.attributes.error(name, "a number not below 0", value);
        (value >= 0.0).then_some(value).ok_or_else(refused)
    }

    /// A truth value; false if the attribute is not set.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool> {
        Ok(self.attributes.bool(name)?.unwrap_or(false))
    }

    /// An error of the caller's node.
    pub(crate) fn error(
        &self,
        field: impl Into<String>,
        expected: impl Into<String>,
        got: impl ToString,
    ) -> GraphError {
        GraphError::new(&self.node.name, field, expected, got)
    }

    /// Adds an operation by its name in a [`NodeSpec`].
    pub(crate) fn op(&mut self, op: &str, operands: &[ValueId], attributes: &[(&str, Attribute)]) -> Result<ValueId> {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let node = NodeSpec { name: self.node.name.clone(), op: op.to_owned(), inputs: vec![], attributes };
        self.graph.infer(&node, operands).map_err(|error| self.reported(op, operands, error))
    }

    /// Adds an elementwise function of operands, which broadcast. It computes in [`Dtype::compute`] of the type of its result, to which
    /// floating-point operands are converted; other operands keep their types.
    pub(crate) fn map<const N: usize>(
        &mut self,
        operands: [ValueId; N],
        dtype: Dtype,
        function: impl for<'s> FnOnce([Expr<'s>; N]) -> Expr<'s>,
    ) -> Result<ValueId> {
        let types = operands.map(|operand| self.type_of(operand));
        let shape = dims::broadcast_shape(self.node, &types);
        let shape = shape.map_err(|error| self.reported("a function", &operands, error))?;
        self.map_over(shape, operands, dtype, |_, operands| function(operands))
    }

    /// As [`map`](Self::map), over a shape to which the operands broadcast. The function may use the position of the element.
    pub(crate) fn map_over<const N: usize>(
        &mut self,
        shape: Vec<usize>,
        operands: [ValueId; N],
        dtype: Dtype,
        function: impl for<'s> FnOnce(&'s Scope, [Expr<'s>; N]) -> Expr<'s>,
    ) -> Result<ValueId> {
        let scope = Scope::new(&operands.map(|operand| self.dtype(operand)));
        let loaded = std::array::from_fn(|nth| {
            let operand = scope.param(nth);
            if operand.is_float() { operand.cast(dtype.compute()) } else { operand }
        });
        let result = function(&scope, loaded).cast(dtype);
        let function = scope.finish(result).map_err(|error| self.error("inputs", "types that it takes", error))?;
        self.push(Op::Map(function), &operands, TensorType { dtype, shape })
    }

    /// An elementwise function of a value, computed in [`Dtype::compute`] of the value's type. It is a part of the reduction that computes
    /// the value, if one does.
    pub(crate) fn map_reduced(
        &mut self,
        value: ValueId,
        dtype: Dtype,
        function: impl for<'s> FnOnce(Expr<'s>) -> Expr<'s>,
    ) -> Result<ValueId> {
        let node = if let ValueId::Node(nth) = value { Some(self.graph.nodes[nth].clone()) } else { None };
        let Some(Node { op: Op::Reduce(reduce), operands, result, .. }) = node else {
            let mapped = self.map([value], self.dtype(value).compute(), |[value]| function(value))?;
            return self.cast(mapped, dtype);
        };
        let scope = Scope::new(&[result.dtype]);
        let mapped = function(scope.param(0).cast(result.dtype.compute())).cast(dtype);
        let function = scope.finish(mapped).map_err(|error| self.error("inputs", "types that it takes", error))?;
        let mut builder = Builder::new(&[reduce.accumulate]);
        let accumulated = builder.param(0);
        let reduced = builder.call(&reduce.epilogue, &[accumulated]);
        let results = builder.call(&function, &reduced);
        let reduce = ReduceOp { epilogue: builder.finish(&results), ..reduce };
        self.push(Op::Reduce(reduce), &operands, TensorType { dtype, ..result })
    }

    /// A value in another type.
    pub(crate) fn cast(&mut self, value: ValueId, dtype: Dtype) -> Result<ValueId> {
        if self.dtype(value) == dtype { Ok(value) } else { self.map([value], dtype, |[value]| value.cast(dtype)) }
    }

    /// A value in another shape of as many elements.
    pub(crate) fn reshape(&mut self, value: ValueId, shape: &[usize]) -> Result<ValueId> {
        self.op("reshape", &[value], &[("shape", extents(shape))])
    }

    /// A scalar operand, or the number in its place, for each element of a shape.
    pub(crate) fn scalar(&mut self, operand: Option<usize>, number: Literal, shape: &[usize]) -> Result<ValueId> {
        let Some(nth) = operand else {
            return self.map_over(shape.to_vec(), [], number.dtype(), |scope, []| scope.literal(number));
        };
        let scalar = self.operands[nth];
        if self.type_of(scalar).elements() != 1 {
            return Err(self.error(format!("inputs[{nth}]"), "one element", format!("{:?}", self.shape(scalar))));
        }
        let scalar = self.reshape(scalar, &[])?;
        self.op("expand", &[scalar], &[("shape", extents(shape))])
    }

    /// Adds a checked operation.
    pub(crate) fn push(&mut self, op: Op, operands: &[ValueId], result: TensorType) -> Result<ValueId> {
        self.graph.push(&self.node.name, op, operands, result)
    }

    /// An error of an added node, as one of the caller's: with the caller's field if it has the same operand or attribute.
    fn reported(&self, op: &str, operands: &[ValueId], error: GraphError) -> GraphError {
        let attribute = error.field.strip_prefix("attributes.");
        let is_of_all = error.field == "inputs" && operands == self.operands;
        if is_of_all || attribute.is_some_and(|name| self.node.attributes.contains_key(name)) {
            return error;
        }
        let nth = error.field.strip_prefix("inputs[").and_then(|field| field.strip_suffix(']')?.parse::<usize>().ok());
        let operand = nth.and_then(|nth| operands.get(nth));
        if let Some(nth) = operand.and_then(|operand| self.operands.iter().position(|own| own == operand)) {
            return GraphError { field: format!("inputs[{nth}]"), ..error };
        }
        let expected = format!("{} for {} of {op}, which is a part of it", error.expected, error.field);
        GraphError { field: "op".to_owned(), expected, ..error }
    }
}

/// Extents or dimensions as an attribute.
pub(crate) fn extents(values: &[usize]) -> Attribute {
    Attribute::Ints(values.iter().map(|value| i64::try_from(*value).unwrap_or(i64::MAX)).collect())
}

/// An element type as an attribute.
pub(crate) fn named(dtype: Dtype) -> Attribute {
    Attribute::Text(dtype.name().to_owned())
}
