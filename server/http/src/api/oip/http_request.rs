//! Requests to infer over HTTP: JSON, which the binary data of inputs may follow.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::{datatype::Datatype, elements, infer, parameters::Parameters, tensor::Tensor};
use crate::failure::Failure;

/// The JSON of a request.
#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    parameters: Option<Parameters>,
    inputs: Vec<Input>,
    #[serde(default)]
    outputs: Option<Vec<Output>>,
}

#[derive(Deserialize)]
struct Input {
    name: String,
    shape: Vec<i64>,
    datatype: String,
    #[serde(default)]
    parameters: Option<Parameters>,
    data: Option<Value>,
}

#[derive(Deserialize)]
struct Output {
    name: String,
    #[serde(default)]
    parameters: Option<Parameters>,
}

/// Which outputs are written as binary data.
#[derive(Debug, Default)]
pub(crate) struct BinaryOutputs {
    /// Those that say so themselves, or that they are not.
    named: Vec<(String, bool)>,
    others: bool,
}

impl BinaryOutputs {
    pub(super) fn contains(&self, output: &str) -> bool {
        self.named.iter().find(|(name, _)| name == output).map_or(self.others, |(_, is_binary)| *is_binary)
    }
}

/// Decodes a body whose first `header_length` bytes are JSON.
pub(crate) fn decode(
    body: &Bytes,
    header_length: usize,
    model: String,
    version: String,
) -> Result<(infer::Request, BinaryOutputs), Failure> {
    let malformed = |error: serde_json::Error| Failure::new(StatusCode::BAD_REQUEST, format!("the body: {error}"));
    let header: Header = serde_json::from_slice(&body[..header_length]).map_err(malformed)?;
    let mut binary = body.slice(header_length..);
    let total = binary.len();
    let inputs = header.inputs.into_iter().map(|input| input.decode(&mut binary)).collect::<Result<_, _>>()?;
    if !binary.is_empty() {
        let message =
            format!("expected {} bytes of binary data by binary_data_size, got {total}", total - binary.len());
        return Err(Failure::new(StatusCode::BAD_REQUEST, message));
    }
    let parameters = header.parameters.unwrap_or_default();
    let mut binary_outputs =
        BinaryOutputs { named: vec![], others: parameters.bool("binary_data_output")?.unwrap_or(false) };
    let mut outputs = vec![];
    for Output { name, parameters } in header.outputs.unwrap_or_default() {
        let parameters = parameters.unwrap_or_default();
        parameters.refuse_unsupported(&name)?;
        binary_outputs.named.extend(parameters.bool("binary_data")?.map(|is_binary| (name.clone(), is_binary)));
        outputs.push(name);
    }
    let id = header.id.unwrap_or_default();
    Ok((infer::Request { model, version, id, parameters, inputs, outputs }, binary_outputs))
}

impl Input {
    /// The tensor, whose binary data is the first that is left.
    fn decode(self, binary: &mut Bytes) -> Result<Tensor, Failure> {
        let Self { name, shape, datatype, parameters, data } = self;
        let parameters = parameters.unwrap_or_default();
        parameters.refuse_unsupported(&name)?;
        let datatype = Datatype::named(&name, &datatype)?;
        let data = match (parameters.count("binary_data_size")?, data) {
            (None, Some(data)) => elements::from_json(&name, datatype, &data)?.into(),
            (Some(size), None) => {
                let size = usize::try_from(size).ok().filter(|size| *size <= binary.len()).ok_or_else(|| {
                    let message =
                        format!("binary_data_size is {size}, but {} bytes of binary data are left", binary.len());
                    Failure::invalid(&name, message)
                })?;
                binary.split_to(size)
            }
            (Some(_), Some(_)) => return Err(Failure::invalid(&name, "expected data or binary_data_size, got both")),
            (None, None) => return Err(Failure::invalid(&name, "expected data or binary_data_size, got neither")),
        };
        Tensor::new(name, datatype, shape, data)
    }
}
