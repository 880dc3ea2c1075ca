//! Graphs of tensor operations as messages: nodes, how they run on several devices, and the size of a response.

use std::collections::BTreeMap;

use accelerd_proto::v1::{self as pb, ShardCombination, tensor_attribute::Value};
use accelerd_tensor::{Attribute, NodeSpec, TensorType};
use bytes::Bytes;
use prost::Message;

use super::tensor_value::value;
use crate::{
    error::ApiError,
    tensors::data_parallel::{Combination, CombinedOutput, DataParallel, SplitInput},
};

/// The most integers of an attribute. They are extents or dimensions, of which a tensor has at most [`MAX_RANK`](accelerd_tensor::MAX_RANK).
const MAX_INTEGERS: usize = 64;

/// Maximum size of the description of a kept tensor, without its shape.
const DESCRIPTION_BYTES: usize = 256;

pub(super) fn node(node: pb::TensorNode) -> Result<NodeSpec, ApiError> {
    let pb::TensorNode { name, op, inputs, attributes: named } = node;
    let attributes = attributes(&name, named)?;
    Ok(NodeSpec { name, op, inputs, attributes })
}

/// The attributes of the node of this name.
pub(super) fn attributes(
    node: &str,
    attributes: BTreeMap<String, pb::TensorAttribute>,
) -> Result<BTreeMap<String, Attribute>, ApiError> {
    let attributes = attributes.into_iter().map(|(key, attribute)| {
        let value = match attribute.value {
            Some(Value::Boolean(value)) => Attribute::Bool(value),
            Some(Value::Integer(value)) => Attribute::Int(value),
            Some(Value::Number(value)) => Attribute::Float(value),
            Some(Value::Text(value)) => Attribute::Text(value),
            Some(Value::Integers(values)) if values.values.len() > MAX_INTEGERS => {
                let reason = format!("expected at most {MAX_INTEGERS} integers, got {}", values.values.len());
                return Err(ApiError::invalid(format!("nodes[{node}].attributes.{key}"), reason));
            }
            Some(Value::Integers(values)) => Attribute::Ints(values.values),
            None => {
                let field = format!("nodes[{node}].attributes.{key}");
                return Err(ApiError::invalid(field, "expected a value, got none"));
            }
        };
        Ok((key, value))
    });
    attributes.collect()
}

/// Returns the settings of a graph that runs on several devices.
pub(super) fn data_parallel(options: pb::DataParallel) -> Result<DataParallel, ApiError> {
    let pb::DataParallel { devices, inputs, outputs } = options;
    let inputs = inputs.into_iter().map(|pb::SplitInput { name, dim }| SplitInput { name, dim }).collect();
    let outputs = outputs.into_iter().enumerate().map(combined_output).collect::<Result<_, _>>()?;
    Ok(DataParallel { devices, inputs, outputs })
}

fn combined_output((nth, output): (usize, pb::CombinedOutput)) -> Result<CombinedOutput, ApiError> {
    let pb::CombinedOutput { name, combination, dim } = output;
    let field = |field: &str| format!("data_parallel.outputs[{nth}].{field}");
    let combination = match ShardCombination::try_from(combination) {
        Ok(ShardCombination::Unspecified | ShardCombination::Concat) => Combination::Concat(dim),
        Ok(ShardCombination::Sum) => Combination::Sum,
        Ok(ShardCombination::Mean) => Combination::Mean,
        Err(_) => {
            let reason = format!("expected a ShardCombination, got {combination}");
            return Err(ApiError::invalid(field("combination"), reason));
        }
    };
    if dim != 0 && matches!(combination, Combination::Sum | Combination::Mean) {
        return Err(ApiError::invalid(field("dim"), format!("expected 0 for a sum or a mean, got {dim}")));
    }
    Ok(CombinedOutput { name, combination })
}

/// The most bytes of a response with outputs of these types, of which some are kept.
pub(super) fn response_bytes(outputs: &[TensorType], keep: &[bool]) -> usize {
    outputs.iter().zip(keep).fold(0_usize, |bytes, (of, keep)| {
        let headers = value(of, Bytes::new()).encoded_len();
        // Two lengths, of the data and of the tensor around it, have at most ten bytes each, and a tag.
        let rest = if *keep { DESCRIPTION_BYTES } else { of.bytes().saturating_add(22) };
        bytes.saturating_add(headers).saturating_add(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(combination: i32, dim: i64) -> Result<Combination, ApiError> {
        let output = pb::CombinedOutput { name: "a".to_owned(), combination, dim };
        let options = pb::DataParallel { outputs: vec![output], ..pb::DataParallel::default() };
        data_parallel(options).map(|mut options| options.outputs.remove(0).combination)
    }

    #[test]
    fn only_concatenation_has_a_dimension() {
        let found = [ShardCombination::Unspecified, ShardCombination::Concat].map(|of| listed(of.into(), -1).ok());
        assert_eq!(found, [Some(Combination::Concat(-1)); 2]);
        assert_eq!(listed(ShardCombination::Sum.into(), 0).ok(), Some(Combination::Sum));
        for (combination, dim, reason) in [
            (ShardCombination::Mean.into(), 1, "dim: expected 0 for a sum or a mean, got 1"),
            (9, 0, "combination: expected a ShardCombination, got 9"),
        ] {
            let refused = listed(combination, dim).expect_err("it is malformed").to_string();
            assert_eq!(refused, format!("data_parallel.outputs[0].{reason}"));
        }
    }
}
