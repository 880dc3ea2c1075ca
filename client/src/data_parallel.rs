//! Graphs on several devices, each of which executes one on a part of the inputs.

use crate::{
    GraphValue,
    proto::{self, ShardCombination},
};

/// Which inputs of a graph are split over which devices, and how outputs are combined, for
/// [`Graph::data_parallel`](crate::Graph::data_parallel).
///
/// ```
/// # fn run(mut graph: accelerd_client::Graph, x: accelerd_client::GraphValue, loss: accelerd_client::GraphValue) {
/// use accelerd_client::DataParallel;
///
/// graph.data_parallel(DataParallel::default().devices(["cuda:0", "cuda:1"]).split(&x, 0).mean(&loss));
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataParallel(proto::DataParallel);

impl DataParallel {
    /// The device of each part, in order, instead of all GPUs in use. One that is named twice gets two parts.
    #[must_use]
    pub fn devices<D: Into<String>>(mut self, devices: impl IntoIterator<Item = D>) -> Self {
        self.0.devices = devices.into_iter().map(Into::into).collect();
        self
    }

    /// Splits an input along a dimension, as that of a batch; a negative one counts from the end. Inputs that are not split are given to
    /// every device.
    #[must_use]
    pub fn split(mut self, input: &GraphValue, dim: i64) -> Self {
        self.0.inputs.push(proto::SplitInput { name: input.name().to_owned(), dim });
        self
    }

    /// Concatenates an output along a dimension. Outputs of which nothing is said are concatenated along dimension 0.
    #[must_use]
    pub fn concat(self, output: &GraphValue, dim: i64) -> Self {
        self.combined(output, ShardCombination::Concat, dim)
    }

    /// Adds an output up over the parts.
    #[must_use]
    pub fn sum(self, output: &GraphValue) -> Self {
        self.combined(output, ShardCombination::Sum, 0)
    }

    /// Averages an output over the parts, weighted by their sizes: of means over parts, such as losses and their gradients, it is the mean
    /// over the whole.
    #[must_use]
    pub fn mean(self, output: &GraphValue) -> Self {
        self.combined(output, ShardCombination::Mean, 0)
    }

    fn combined(mut self, output: &GraphValue, combination: ShardCombination, dim: i64) -> Self {
        let combination = combination.into();
        self.0.outputs.push(proto::CombinedOutput { name: output.name().to_owned(), combination, dim });
        self
    }
}

impl From<DataParallel> for proto::DataParallel {
    fn from(options: DataParallel) -> Self {
        options.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, proto::Tensor};

    #[test]
    fn inputs_and_outputs_are_listed_by_their_names() {
        let mut graph = Graph::default();
        let x = graph.input(Tensor::default());
        let y = graph.op("topk", [&x], []);
        let options = DataParallel::default().devices(["cpu"; 2]).split(&x, -1).concat(&y.result(1), 1).sum(&y);
        let output = |name: &str, combination: ShardCombination, dim| proto::CombinedOutput {
            name: name.to_owned(),
            combination: combination.into(),
            dim,
        };
        let expected = proto::DataParallel {
            devices: vec!["cpu".to_owned(); 2],
            inputs: vec![proto::SplitInput { name: "input_0".to_owned(), dim: -1 }],
            outputs: vec![output("topk_0:1", ShardCombination::Concat, 1), output("topk_0", ShardCombination::Sum, 0)],
        };
        assert_eq!(proto::DataParallel::from(options), expected);
    }
}
