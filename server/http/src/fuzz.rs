//! The decoders of requests, for fuzzing.

use accelerd_proto::{inference::ModelInferRequest, methods::METHODS};
use bytes::Bytes;
use prost::Message;

use crate::{
    api::{
        json_rpc, oip, token_arrays,
        vectors::{Document, Inputs},
    },
    shared::TokenArrays,
};

/// Decodes bytes as a request of the API that the first byte chooses.
pub fn decode(data: &[u8]) {
    let [first, second, body @ ..] = data else { return };
    match first % 5 {
        0 => {
            let length = usize::from(*second).min(body.len());
            let _any = oip::decode(&Bytes::copy_from_slice(body), length, String::new(), String::new());
        }
        1 => {
            let _any = ModelInferRequest::decode(body).map(oip::from_grpc);
        }
        2 => {
            let _any = serde_json::from_slice::<Inputs>(body)
                .map(|inputs| token_arrays::decode(inputs, TokenArrays::default()));
        }
        3 => {
            let _any = serde_json::from_slice::<Vec<Document>>(body);
        }
        _ => {
            let method = &METHODS[usize::from(*second) % METHODS.len()];
            let _any = json_rpc::decode(json_rpc::descriptor(method).input(), body);
        }
    }
}
