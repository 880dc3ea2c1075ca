//! A request of inference and its response, as both wires have them, and what they are checked for.

use accelerd_proto::v1 as pb;

use super::{datatype::Datatype, parameters::Parameters, tensor::Tensor};
use crate::failure::Failure;

/// The input of encoders.
pub(super) const TEXT: &str = "text";
/// Their output.
pub(super) const EMBEDDING: &str = "embedding";
/// The inputs of rerankers.
pub(super) const QUERY: &str = "query";
pub(super) const DOCUMENTS: &str = "documents";
/// Their output.
pub(super) const SCORES: &str = "scores";

/// A request to infer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(super) model: String,
    /// Empty means the newest.
    pub(super) version: String,
    pub(super) id: String,
    pub(super) parameters: Parameters,
    pub(super) inputs: Vec<Tensor>,
    /// Names of the outputs to return; none means all.
    pub(super) outputs: Vec<String>,
}

/// The outputs of a model.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) model: String,
    pub(super) version: String,
    pub(super) id: String,
    pub(super) outputs: Vec<Tensor>,
}

/// A tensor of a service as an output.
pub(super) fn of_service(name: &str, tensor: pb::Tensor) -> Result<Tensor, Failure> {
    let datatype =
        Datatype::of(tensor.dtype()).ok_or_else(|| Failure::internal(format!("{name} has an unknown type")))?;
    Ok(Tensor { name: name.to_owned(), datatype, shape: tensor.shape, data: tensor.data })
}

/// The inputs of a model in the order of their names, each once and no other.
pub(super) fn take_inputs(inputs: Vec<Tensor>, names: &[&str]) -> Result<Vec<Tensor>, Failure> {
    let mut taken = vec![None; names.len()];
    for input in inputs {
        let index = names.iter().position(|name| *name == input.name);
        let index = index.ok_or_else(|| unknown("input", &input.name, names))?;
        if taken[index].replace(input).is_some() {
            return Err(Failure::invalid(names[index], "expected one input of this name, got two"));
        }
    }
    let missing = |name: &str| Failure::invalid(name, "expected an input of this name, got none");
    taken.into_iter().zip(names).map(|(input, name)| input.ok_or_else(|| missing(name))).collect()
}

/// As [`take_inputs`], of names that are known.
pub(super) fn take_fixed<const N: usize>(inputs: Vec<Tensor>, names: [&str; N]) -> Result<[Tensor; N], Failure> {
    let taken = take_inputs(inputs, &names)?;
    Ok(taken.try_into().expect("one for each name"))
}

/// Refuses outputs that a model does not have, and those that are asked for twice.
pub(super) fn check_outputs(asked: &[String], names: &[&str]) -> Result<(), Failure> {
    for (index, name) in asked.iter().enumerate() {
        if !names.contains(&name.as_str()) {
            return Err(unknown("output", name, names));
        }
        if asked[..index].contains(name) {
            return Err(Failure::invalid(name, "expected to be asked for once, got twice"));
        }
    }
    Ok(())
}

fn unknown(kind: &str, name: &str, names: &[&str]) -> Failure {
    Failure::invalid(name, format!("unknown {kind}; the model has {}", names.join(", ")))
}
