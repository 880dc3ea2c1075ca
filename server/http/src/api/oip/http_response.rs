//! Responses of inference over HTTP: JSON, which the binary data of outputs may follow.

use axum::response::Response;
use http::HeaderName;
use serde::Serialize;

use super::{elements::Elements, http_request::BinaryOutputs, infer, tensor::Tensor};
use crate::{exchange::Exchange, failure::Failure};

/// The length of the JSON of a body that has binary data.
pub(super) const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// A body with binary data.
pub(super) const BINARY: &str = "application/octet-stream";

#[derive(Serialize)]
struct Header<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    outputs: Vec<Output<'a>>,
}

#[derive(Serialize)]
struct Output<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [i64],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BinarySize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Elements<'a>>,
}

#[derive(Serialize)]
struct BinarySize {
    binary_data_size: usize,
}

/// The response with its outputs in JSON or as binary data.
pub(super) fn respond(
    exchange: &Exchange,
    response: &infer::Response,
    binary_outputs: &BinaryOutputs,
) -> Result<Response, Failure> {
    let is_binary = |output: &&Tensor| binary_outputs.contains(&output.name);
    let output = |output| describe(output, is_binary(&output));
    let outputs = response.outputs.iter().map(output).collect::<Result<_, _>>()?;
    let infer::Response { model, version, id, .. } = response;
    let header = Header { model_name: model, model_version: version, id, outputs };
    if !response.outputs.iter().any(|output| is_binary(&output)) {
        let bytes: usize = response.outputs.iter().map(|output| output.data.len()).sum();
        return exchange.respond(&header, bytes.saturating_mul(3));
    }
    let mut body = serde_json::to_vec(&header).map_err(Failure::internal)?;
    let header_length = body.len();
    response.outputs.iter().filter(is_binary).for_each(|output| body.extend_from_slice(&output.data));
    let mut response = exchange.respond_bytes(body, BINARY)?;
    response.headers_mut().insert(HEADER_LENGTH, header_length.into());
    Ok(response)
}

fn describe(output: &Tensor, is_binary: bool) -> Result<Output<'_>, Failure> {
    let Tensor { name, datatype, shape, data } = output;
    Ok(Output {
        name,
        datatype: datatype.name(),
        shape,
        parameters: is_binary.then_some(BinarySize { binary_data_size: data.len() }),
        data: if is_binary { None } else { Some(Elements::of(output)?) },
    })
}
