//! Chunks of cases that a client sends.

use super::{
    cases::{Cases, Inputs, Named},
    column::{Column, Extent, Port, contains},
    evaluate::CASES,
    header::Header,
    outcome::CaseOutcome,
    outputs::{Decoder, NamedSource, Outputs},
    sides::Side,
};
use crate::{error::ApiError, shown::List};

/// Cases that a client sends.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) actual: Vec<NamedSource>,
    pub(crate) expected: Vec<NamedSource>,
    pub(crate) inputs: Vec<NamedSource>,
    /// Expected outcome of the subject in each case, by name. Empty if the header or the policy decides.
    pub(crate) expected_outcomes: Vec<String>,
    /// Bytes of all.
    pub(crate) bytes: usize,
}

/// Reads a chunk without functions, and the number of its cases.
pub(super) fn decode_given(decoder: &Decoder<'_>, chunk: Chunk) -> Result<(Outputs, usize), ApiError> {
    if !chunk.inputs.is_empty() {
        return Err(ApiError::invalid("cases.inputs", "expected no inputs, for there is no function"));
    }
    if !chunk.expected_outcomes.is_empty() {
        let reason = "expected none, for there is no function";
        return Err(ApiError::invalid("cases.expected_outcomes", reason));
    }
    let sent = decoder.outputs(chunk.actual, chunk.expected)?;
    let count = case_count(sent.outputs.iter().flat_map(|output| {
        [("actual", &output.actual), ("expected", &output.expected)].map(|(list, of)| (list, &output.name, &of.shape))
    }))?;
    Ok((sent, count))
}

/// Reads a chunk for functions.
pub(super) fn decode(decoder: &Decoder<'_>, header: &Header, chunk: Chunk) -> Result<Cases, ApiError> {
    let given = |list: &str, side: &Side, tensors: Vec<NamedSource>| match side {
        Side::Given => decoder.inline_tensors(list, tensors),
        Side::Function(_) if tensors.is_empty() => Ok(vec![]),
        Side::Function(_) => {
            let reason = format!("expected none, for a function computes them, got {}", tensors.len());
            Err(ApiError::invalid(format!("{CASES}{list}"), reason))
        }
    };
    let actual = given("actual", &header.sides.subject, chunk.actual)?;
    let expected = given("expected", &header.sides.reference, chunk.expected)?;
    let inputs = decoder.inline_tensors("inputs", chunk.inputs)?;
    let lists = [("inputs", &inputs), ("actual", &actual), ("expected", &expected)];
    let all = lists.iter().flat_map(|(list, tensors)| tensors.iter().map(|(name, of, _)| (*list, name, &of.shape)));
    let count = case_count(all)?;
    let inputs = Inputs::Columns(columns(&header.sides.inputs, &inputs)?);
    let expected_outcomes = expected_outcomes(header, &chunk.expected_outcomes, count)?;
    Ok(Cases { count, inputs, numbers: None, actual, expected, expected_outcomes })
}

fn expected_outcomes(header: &Header, names: &[String], count: usize) -> Result<Vec<Option<CaseOutcome>>, ApiError> {
    if !names.is_empty() && names.len() != count {
        let reason = format!("expected a name for each of {count} cases, or none, got {}", names.len());
        return Err(ApiError::invalid(format!("{CASES}expected_outcomes"), reason));
    }
    let outcome = |(nth, name): (usize, &String)| {
        header.sides.expected_outcome(&format!("{CASES}expected_outcomes[{nth}]"), name)
    };
    names.iter().enumerate().map(outcome).collect()
}

/// The inputs in the order and the types of the functions.
fn columns(ports: &[Port], tensors: &[Named]) -> Result<Vec<Column>, ApiError> {
    if let Some(nth) = tensors.iter().position(|(name, ..)| ports.iter().all(|port| port.name != *name)) {
        let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
        let reason = format!("expected an input of [{}], got {:?}", names.join(", "), tensors[nth].0);
        return Err(ApiError::invalid(format!("{CASES}inputs[{nth}].name"), reason));
    }
    let column = |port: &Port| {
        let sent = tensors.iter().enumerate().find(|(_, (name, ..))| *name == port.name);
        let Some((nth, (_, of, data))) = sent else {
            return Err(ApiError::invalid(format!("{CASES}inputs"), format!("expected the input {port}, got none")));
        };
        let length = match (&of.shape[1..], port.extent) {
            ([], Extent::Scalar) => Some(None),
            ([length], Extent::List(None)) => Some(Some(*length)),
            ([length], Extent::List(Some(expected))) if *length == expected as usize => Some(Some(*length)),
            _ => None,
        };
        let Some(length) = length.filter(|_| contains(port.dtype, of.dtype)) else {
            let got = format!("{} of shape {:?} for each case", of.dtype, List(&of.shape[1..]));
            let reason = format!("expected {port}, got {got}");
            return Err(ApiError::invalid(format!("{CASES}inputs[{nth}]"), reason));
        };
        Ok(Column { dtype: of.dtype, length, data: data.clone() }.convert(port.dtype))
    };
    ports.iter().map(column).collect()
}

/// The number of cases, which is the first extent of all tensors.
fn case_count<'a>(tensors: impl Iterator<Item = (&'a str, &'a String, &'a Vec<usize>)>) -> Result<usize, ApiError> {
    let mut count = None;
    for (list, name, shape) in tensors {
        let got = shape.first().copied();
        if got.is_none() || got != *count.get_or_insert(got) {
            let expected = count.flatten().map_or("a dimension of cases".to_owned(), |count| format!("{count} cases"));
            let reason = format!("expected {expected}, got shape {:?} for {name:?}", List(shape));
            return Err(ApiError::invalid(format!("{CASES}{list}"), reason));
        }
    }
    Ok(count.flatten().unwrap_or_default())
}
