//! Combination of the outputs of shards to one tensor each, by a graph of its own, which reads them.

use std::collections::HashMap;

use accelerd_tensor::{Attribute, Dtype, GraphSpec, NodeSpec, TensorType};
use bytes::Bytes;

use super::{shown, split::dimension};
use crate::error::ApiError;

/// Combination of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combination {
    /// Along a dimension, which may count from the end.
    Concat(i64),
    Sum,
    /// Weighted by the sizes of parts.
    Mean,
}

/// An output that is combined in a way that the caller chooses.
#[derive(Clone, Debug)]
pub(crate) struct CombinedOutput {
    pub(crate) name: String,
    pub(crate) combination: Combination,
}

/// Returns the combination of each output, by the list of a request.
pub(super) fn combinations(listed: &[CombinedOutput], outputs: &[String]) -> Result<Vec<Combination>, ApiError> {
    let mut by_output: HashMap<_, _> = outputs.iter().map(|name| (name.as_str(), None)).collect();
    for (nth, CombinedOutput { name, combination }) in listed.iter().enumerate() {
        let invalid = |reason| ApiError::invalid(format!("data_parallel.outputs[{nth}].name"), reason);
        let place = by_output.get_mut(name.as_str());
        let place = place.ok_or_else(|| invalid(format!("expected the name of an output, got {}", shown(name))))?;
        if place.replace(*combination).is_some() {
            return Err(invalid(format!("expected each output once, got {} again", shown(name))));
        }
    }
    let combination = |name: &String| by_output[name.as_str()].unwrap_or(Combination::Concat(0));
    Ok(outputs.iter().map(combination).collect())
}

impl Combination {
    /// Checks that the values of the shards of an output can be combined, and returns the type of the result.
    pub(super) fn result(self, output: usize, shards: &[&TensorType]) -> Result<TensorType, ApiError> {
        let refused = |reason: String| ApiError::invalid(format!("outputs[{output}]"), reason);
        let first = shards[0];
        let mut result = first.clone();
        // The dimension in which shards may differ.
        let concat = match self {
            Self::Concat(dim) => {
                let hint = |reason| refused(format!("{reason}; data_parallel.outputs says how outputs are combined"));
                Some(dimension(dim, first.shape.len()).map_err(hint)?)
            }
            Self::Sum if first.dtype == Dtype::Bool => {
                return Err(refused("expected numbers to add, got bool".to_owned()));
            }
            Self::Mean if !first.dtype.is_float() => {
                return Err(refused(format!("expected floating-point numbers to average, got {}", first.dtype)));
            }
            Self::Sum | Self::Mean => None,
        };
        for (nth, shard) in shards.iter().enumerate().skip(1) {
            let is_equal = |dim: usize| Some(dim) == concat || first.shape[dim] == shard.shape[dim];
            let fits = shard.shape.len() == first.shape.len() && (0..first.shape.len()).all(is_equal);
            if !fits {
                let but = concat.map(|dim| format!(" but for dimension {dim}")).unwrap_or_default();
                return Err(refused(format!(
                    "expected the shape {:?}{but}, as of shard 0, got {:?} of shard {nth}",
                    first.shape, shard.shape
                )));
            }
            if let Some(dim) = concat {
                result.shape[dim] = result.shape[dim].saturating_add(shard.shape[dim]);
            }
        }
        Ok(result)
    }
}

/// An output to combine.
#[derive(Debug)]
pub(super) struct Combined<'a> {
    pub(super) combination: Combination,
    /// The type of its value of each shard.
    pub(super) shards: Vec<&'a TensorType>,
}

/// The graph that combines outputs. Its inputs are the values of all shards of the first output, then those of the next, and at last the
/// [`weights`].
pub(super) fn graph(outputs: &[Combined<'_>]) -> GraphSpec {
    let mut graph = GraphSpec::default();
    for (nth, output) in outputs.iter().enumerate() {
        let values: Vec<_> = (0..output.shards.len()).map(|shard| format!("output {nth} of shard {shard}")).collect();
        graph.inputs.extend(values.iter().cloned().zip(output.shards.iter().copied().cloned()));
        let combined = match output.combination {
            Combination::Concat(dim) => add_node(&mut graph, "concat", values, [("dim", Attribute::Int(dim))]),
            Combination::Sum => reduced(&mut graph, &values, output.shards[0].dtype, false),
            Combination::Mean => reduced(&mut graph, &values, output.shards[0].dtype, true),
        };
        graph.outputs.push(combined);
    }
    let count = outputs.first().map_or(0, |output| output.shards.len());
    let names = (0..count).map(weight_of).chain([TOTAL.to_owned()]);
    graph.inputs.extend(names.map(|name| (name, TensorType { dtype: Dtype::F64, shape: vec![] })));
    graph
}

/// The name of the sum of all weights.
const TOTAL: &str = "weight of all";

fn weight_of(shard: usize) -> String {
    format!("weight of shard {shard}")
}

/// The weights of shards, by the sizes of their parts, and the sum of all. As operands they are no constants of kernels, which would be
/// compiled for each batch of another size.
pub(super) fn weights(sizes: impl Iterator<Item = usize> + Clone) -> Vec<Bytes> {
    let total = sizes.clone().sum();
    #[expect(clippy::cast_precision_loss, reason = "extents in memory are below 2^53")]
    let scalar = |size: usize| Bytes::copy_from_slice(&(size as f64).to_le_bytes());
    sizes.chain([total]).map(scalar).collect()
}

/// The sum, or the weighted mean, of values.
fn reduced(graph: &mut GraphSpec, values: &[String], dtype: Dtype, is_mean: bool) -> String {
    // Integers wrap in any order.
    let accumulator = if dtype.is_float() { Dtype::F64 } else { dtype };
    let cast = |graph: &mut GraphSpec, value: String, to: Dtype| {
        add_node(graph, "to", vec![value], [("dtype", Attribute::Text(to.name().to_owned()))])
    };
    let mut sum: Option<String> = None;
    for (shard, value) in values.iter().enumerate() {
        let mut term = cast(graph, value.clone(), accumulator);
        if is_mean {
            term = add_node(graph, "mul", vec![term, weight_of(shard)], []);
        }
        sum = Some(match sum {
            None => term,
            Some(sum) => add_node(graph, "add", vec![sum, term], []),
        });
    }
    let mut sum = sum.unwrap_or_default();
    if is_mean {
        sum = add_node(graph, "div", vec![sum, TOTAL.to_owned()], []);
    }
    cast(graph, sum, dtype)
}

/// Adds an operation, and returns its name.
fn add_node<const N: usize>(
    graph: &mut GraphSpec,
    op: &str,
    inputs: Vec<String>,
    attributes: [(&str, Attribute); N],
) -> String {
    let name = format!("{op} {}", graph.nodes.len());
    let attributes = attributes.map(|(key, value)| (key.to_owned(), value)).into();
    graph.nodes.push(NodeSpec { name: name.clone(), op: op.to_owned(), inputs, attributes });
    name
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::ops::tensor::oracle;
    use accelerd_tensor::{Graph, Plan};

    use super::*;

    fn of(dtype: Dtype, shape: &[usize]) -> TensorType {
        TensorType { dtype, shape: shape.to_vec() }
    }

    fn listed(name: &str, combination: Combination) -> CombinedOutput {
        CombinedOutput { name: name.to_owned(), combination }
    }

    /// Combines values of shards with parts of these sizes, by the oracle.
    fn combined(combination: Combination, shards: &[(TensorType, Vec<u8>)], sizes: &[usize]) -> Vec<u8> {
        let types: Vec<_> = shards.iter().map(|(of, _)| of).collect();
        let result = combination.result(0, &types).expect("they fit");
        let graph = graph(&[Combined { combination, shards: types }]);
        let plan = Plan::new(&Graph::new(&graph).expect("a valid graph"));
        assert_eq!(plan.outputs, [result], "the type that is announced");
        let weights = weights(sizes.iter().copied());
        let inputs: Vec<_> =
            shards.iter().map(|(_, data)| &data[..]).chain(weights.iter().map(|data| &data[..])).collect();
        oracle::execute(&plan, &inputs).remove(0)
    }

    fn f32s(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn outputs_are_concatenated_along_dimension_0_unless_they_are_listed() {
        let outputs = ["a", "b", "c", "d", "b"].map(str::to_owned);
        let mean = Combination::Mean;
        let all = [listed("b", mean), listed("c", Combination::Concat(-1)), listed("d", Combination::Sum)];
        let found = combinations(&all, &outputs).expect("each is an output");
        assert_eq!(found, [Combination::Concat(0), mean, Combination::Concat(-1), Combination::Sum, mean]);
        let cases = [
            (vec![listed("z", Combination::Sum)], "[0].name: expected the name of an output, got \"z\""),
            (vec![all[0].clone(), all[0].clone()], "[1].name: expected each output once, got \"b\" again"),
        ];
        for (listed, reason) in cases {
            let refused = combinations(&listed, &outputs).expect_err("it is malformed");
            assert_eq!(refused.to_string(), format!("data_parallel.outputs{reason}"));
        }
    }

    #[test]
    fn parts_are_concatenated_along_any_dimension() {
        let a = of(Dtype::U8, &[2, 2]);
        let b = of(Dtype::U8, &[2, 1]);
        let shards = [(a, vec![1, 2, 4, 5]), (b, vec![3, 6])];
        assert_eq!(combined(Combination::Concat(1), &shards, &[2, 1]), [1, 2, 3, 4, 5, 6]);
        assert_eq!(combined(Combination::Concat(-1), &shards, &[2, 1]), [1, 2, 3, 4, 5, 6]);
        let rows = [(of(Dtype::U8, &[1, 2]), vec![1, 2]), (of(Dtype::U8, &[0, 2]), vec![])];
        assert_eq!(combined(Combination::Concat(0), &rows, &[1, 0]), [1, 2]);
    }

    #[test]
    fn sums_are_rounded_once_and_means_are_weighted_by_the_sizes_of_parts() {
        let vector = of(Dtype::F32, &[2]);
        let terms = [[1e8, 1.0], [1.0, 2.0], [-1e8, 4.0]].map(|values| (vector.clone(), f32s(&values)));
        assert_eq!(combined(Combination::Sum, &terms, &[1, 1, 1]), f32s(&[1.0, 7.0]), "no term is lost");
        let means = [[1.0, -2.0], [4.0, 7.0]].map(|values| (vector.clone(), f32s(&values)));
        assert_eq!(combined(Combination::Mean, &means, &[2, 1]), f32s(&[2.0, 1.0]));
        let equal = [[0.1, 0.3]; 3].map(|values| (vector.clone(), f32s(&values)));
        assert_eq!(combined(Combination::Mean, &equal, &[5, 5, 4]), f32s(&[0.1, 0.3]), "the mean of equal values");
        let integers = [[200], [100]].map(|values| (of(Dtype::U8, &[]), values.to_vec()));
        assert_eq!(combined(Combination::Sum, &integers, &[1, 1]), [44], "integers wrap");
    }

    #[test]
    fn values_that_do_not_fit_are_refused_by_their_output() {
        let f32 = |shape: &[usize]| of(Dtype::F32, shape);
        let cases = [
            (
                Combination::Concat(0),
                [f32(&[]), f32(&[])],
                "a tensor with a dimension, got a scalar; data_parallel.outputs says how outputs are combined",
            ),
            (
                Combination::Concat(0),
                [f32(&[2, 3]), f32(&[1, 2])],
                "the shape [2, 3] but for dimension 0, as of shard 0, got [1, 2] of shard 1",
            ),
            (Combination::Sum, [f32(&[2]), f32(&[1])], "the shape [2], as of shard 0, got [1] of shard 1"),
            (Combination::Sum, [of(Dtype::Bool, &[]), of(Dtype::Bool, &[])], "numbers to add, got bool"),
            (
                Combination::Mean,
                [of(Dtype::I64, &[]), of(Dtype::I64, &[])],
                "floating-point numbers to average, got i64",
            ),
        ];
        for (combination, shards, reason) in cases {
            let refused = combination.result(3, &[&shards[0], &shards[1]]).expect_err("they do not fit");
            assert_eq!(refused.to_string(), format!("outputs[3]: expected {reason}"));
        }
    }
}
