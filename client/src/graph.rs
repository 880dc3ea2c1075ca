//! Graphs of tensor operations, recorded here and executed by the daemon in one call.

use std::collections::BTreeMap;

use crate::{
    Client, Error, Matrix, Result,
    call::Method,
    matrix::Element,
    proto::{self, Tensor, tensor_attribute::Value as AttributeValue, tensor_input::Source},
    timing::Timings,
};

const EXECUTE: Method<proto::ExecuteRequest, proto::ExecuteResponse> =
    Method::idempotent("/accelerd.v1.TensorService/Execute");

/// A graph of tensor operations.
///
/// ```no_run
/// # async fn run(client: accelerd_client::Client) -> Result<(), accelerd_client::Error> {
/// use accelerd_client::{Graph, Matrix};
///
/// let mut graph = Graph::default();
/// let x = graph.input(Matrix::new(vec![0.0, 1.0, 2.0, 3.0], 2)?);
/// let e = graph.op("exp", [&x], []);
/// let sums = graph.op("sum", [&e], [("dim", 1.into()), ("keepdim", true.into())]);
/// let outputs = client.execute(&graph, [&sums]).await?;
/// let sums: Matrix = outputs.matrix(0)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graph {
    inputs: Vec<proto::TensorInput>,
    nodes: Vec<proto::TensorNode>,
}

/// A value of a graph: an input, or the result of an operation. It belongs to the graph that returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphValue(String);

/// Value of an attribute of an operation. Booleans, numbers, words and lists of integers convert to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute(AttributeValue);

/// The outputs of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// In the order in which they were asked for.
    pub outputs: Vec<Tensor>,
    /// Server-side timings.
    pub timings: Timings,
}

impl Graph {
    /// An input. Takes a [`Matrix`] without a copy, or a [`MatrixRef`](crate::MatrixRef), or any [`Tensor`].
    pub fn input(&mut self, tensor: impl Into<Tensor>) -> GraphValue {
        let name = format!("input_{}", self.inputs.len());
        let source = Some(Source::Value(tensor.into()));
        self.inputs.push(proto::TensorInput { name: name.clone(), source });
        GraphValue(name)
    }

    /// An operation with its operands and attributes, by PyTorch's names. The daemon checks them when the graph is executed.
    pub fn op<'a, const N: usize>(
        &mut self,
        op: &str,
        operands: impl IntoIterator<Item = &'a GraphValue>,
        attributes: [(&str, Attribute); N],
    ) -> GraphValue {
        let name = format!("{op}_{}", self.nodes.len());
        let inputs = operands.into_iter().map(|operand| operand.0.clone()).collect();
        let attributes: BTreeMap<_, _> = attributes
            .into_iter()
            .map(|(name, Attribute(value))| (name.to_owned(), proto::TensorAttribute { value: Some(value) }))
            .collect();
        self.nodes.push(proto::TensorNode { name: name.clone(), op: op.to_owned(), inputs, attributes });
        GraphValue(name)
    }
}

impl Executed {
    /// An output as a matrix; a vector becomes a matrix with one column.
    pub fn matrix<T: Element>(&self, nth: usize) -> Result<Matrix<T>> {
        Matrix::from_tensor(self.outputs.get(nth).cloned(), &format!("outputs[{nth}]"))
    }
}

impl Client {
    /// Executes a graph, and returns the given values of it.
    pub async fn execute<'a>(
        &self,
        graph: &Graph,
        outputs: impl IntoIterator<Item = &'a GraphValue>,
    ) -> Result<Executed> {
        let outputs: Vec<_> = outputs.into_iter().map(|value| proto::TensorOutput { name: value.0.clone() }).collect();
        let expected = outputs.len();
        let request = proto::ExecuteRequest { inputs: graph.inputs.clone(), nodes: graph.nodes.clone(), outputs };
        let reply = self.unary(EXECUTE, request).await?;
        let outputs = reply.message.outputs;
        if outputs.len() != expected {
            return Err(Error::Malformed(format!("{} outputs, expected {expected}", outputs.len())));
        }
        Ok(Executed { outputs, timings: reply.timings })
    }
}

impl From<bool> for Attribute {
    fn from(value: bool) -> Self {
        Self(AttributeValue::Boolean(value))
    }
}

impl From<i64> for Attribute {
    fn from(value: i64) -> Self {
        Self(AttributeValue::Integer(value))
    }
}

impl From<f64> for Attribute {
    fn from(value: f64) -> Self {
        Self(AttributeValue::Number(value))
    }
}

impl From<&str> for Attribute {
    fn from(value: &str) -> Self {
        Self(AttributeValue::Text(value.to_owned()))
    }
}

impl From<&[i64]> for Attribute {
    fn from(values: &[i64]) -> Self {
        Self(AttributeValue::Integers(proto::TensorIntegers { values: values.to_vec() }))
    }
}
