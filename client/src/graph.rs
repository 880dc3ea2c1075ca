//! Graphs of tensor operations, recorded here and executed by the daemon in one call.

use std::{collections::BTreeMap, time::Duration};

use accelerd_proto::methods::tensor_service;

use crate::{
    Client, Matrix, Result,
    matrix::Element,
    proto::{self, ResidentTensor, Tensor, tensor_attribute::Value as AttributeValue, tensor_input::Source},
    resident::duration,
    timing::Timings,
};

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
    pub(crate) inputs: Vec<proto::TensorInput>,
    pub(crate) nodes: Vec<proto::TensorNode>,
    device: String,
    keep_ttl: Option<Duration>,
    data_parallel: Option<proto::DataParallel>,
}

/// A value of a graph: an input, or the first result of an operation. It belongs to the graph that returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphValue(String);

/// A value to return, or to keep on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphOutput {
    name: String,
    keep: bool,
}

impl GraphValue {
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// The value as an output that stays on the device, instead of being returned.
    pub fn keep(&self) -> GraphOutput {
        GraphOutput { name: self.0.clone(), keep: true }
    }
}

impl From<&GraphValue> for GraphOutput {
    fn from(value: &GraphValue) -> Self {
        Self { name: value.0.clone(), keep: false }
    }
}

/// Value of an attribute of an operation. Booleans, numbers, words and lists of integers convert to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute(AttributeValue);

/// The outputs of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// Those that are returned, in the order in which they were asked for.
    pub outputs: Vec<Tensor>,
    /// Those that are kept, in the order in which they were asked for.
    pub kept: Vec<ResidentTensor>,
    /// Server-side timings.
    pub timings: Timings,
}

impl Graph {
    /// An input. Takes a [`Matrix`] without a copy, or a [`MatrixRef`](crate::MatrixRef), or any [`Tensor`].
    pub fn input(&mut self, tensor: impl Into<Tensor>) -> GraphValue {
        self.source(Source::Value(tensor.into()))
    }

    /// A resident tensor as an input: the daemon reads it in place. The graph runs on the device that holds the most bytes of
    /// such inputs; others are copied for the call where [`Client::copy_tensor`] has not copied them before.
    pub fn resident(&mut self, tensor: &ResidentTensor) -> GraphValue {
        self.source(Source::Handle(tensor.handle.clone()))
    }

    fn source(&mut self, source: Source) -> GraphValue {
        let name = format!("input_{}", self.inputs.len());
        self.inputs.push(proto::TensorInput { name: name.clone(), source: Some(source) });
        GraphValue(name)
    }

    /// Runs the graph on a device, such as `cuda:0`, instead of that of its resident inputs, or any.
    pub fn device(&mut self, device: impl Into<String>) {
        self.device = device.into();
    }

    /// Frees the tensors that the graph keeps once they are not used for this time, instead of the daemon's default.
    pub fn keep_ttl(&mut self, ttl: Duration) {
        self.keep_ttl = Some(ttl);
    }

    /// Runs the graph on several devices, each on a part of the inputs: see [`DataParallel`](crate::DataParallel).
    pub fn data_parallel(&mut self, options: impl Into<proto::DataParallel>) {
        self.data_parallel = Some(options.into());
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

impl GraphValue {
    /// A further result of the same operation, as the indices of `topk`, which are result 1. Result 0 is the value itself.
    #[must_use]
    pub fn result(&self, nth: usize) -> Self {
        if nth == 0 { self.clone() } else { Self(format!("{}:{nth}", self.0)) }
    }
}

impl Executed {
    /// An output as a matrix; a vector becomes a matrix with one column.
    pub fn matrix<T: Element>(&self, nth: usize) -> Result<Matrix<T>> {
        Matrix::from_tensor(self.outputs.get(nth).cloned(), &format!("outputs[{nth}]"))
    }
}

impl Client {
    /// Executes a graph, and returns the given values of it, or keeps those made by [`GraphValue::keep`] on the device. A call that
    /// keeps a value is retried only if the daemon did not execute it. Inputs that exceed a message are uploaded for the call and freed
    /// after it; outputs that exceed one are kept, downloaded and freed.
    pub async fn execute<O: Into<GraphOutput>>(
        &self,
        graph: &Graph,
        outputs: impl IntoIterator<Item = O>,
    ) -> Result<Executed> {
        let outputs = outputs.into_iter().map(Into::into);
        let outputs = outputs.map(|GraphOutput { name, keep }| proto::TensorOutput { name, keep }).collect();
        let request = proto::ExecuteRequest {
            inputs: graph.inputs.clone(),
            nodes: graph.nodes.clone(),
            outputs,
            device: graph.device.clone(),
            keep_ttl: graph.keep_ttl.map(duration),
            data_parallel: graph.data_parallel.clone(),
        };
        self.execute_request(request).await
    }

    /// Executes one operation on tensors at once, and returns its first result. Each call sends its operands: record a [`Graph`] for
    /// operations that read each other's results, for resident operands, and for further results.
    ///
    /// ```no_run
    /// # async fn run(client: accelerd_client::Client) -> Result<(), accelerd_client::Error> {
    /// use accelerd_client::Matrix;
    ///
    /// let x = Matrix::new(vec![0.0_f32, 1.0, 2.0, 3.0], 2)?;
    /// let rows = client.op("softmax", [x], [("dim", 1.into())]).await?;
    /// assert_eq!(rows.shape, [2, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn op<T: Into<Tensor>, const N: usize>(
        &self,
        op: &str,
        operands: impl IntoIterator<Item = T>,
        attributes: [(&str, Attribute); N],
    ) -> Result<Tensor> {
        let mut graph = Graph::default();
        let operands: Vec<_> = operands.into_iter().map(|operand| graph.input(operand)).collect();
        let result = graph.op(op, &operands, attributes);
        let done = self.execute(&graph, [&result]).await?;
        Ok(done.outputs.into_iter().next().expect("an execution returns as many outputs as were asked for"))
    }

    /// Measures an operation on operands that the daemon generates: times, achieved rates, and the share of what the device can do.
    pub async fn benchmark_op(&self, request: proto::BenchmarkOpRequest) -> Result<proto::BenchmarkOpResponse> {
        Ok(self.unary(tensor_service::BENCHMARK_OP, request).await?.message)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_results_are_operands_by_the_name_of_their_operation_and_their_number() {
        let mut graph = Graph::default();
        let x = graph.input(Tensor::default());
        let var = graph.op("var_mean", [&x], []);
        let centred = graph.op("sub", [&x, &var.result(1)], []);
        assert_eq!(graph.nodes[1].inputs, ["input_0", "var_mean_0:1"]);
        assert_eq!((var.result(0), centred.0.as_str()), (var, "sub_1"));
    }
}
