//! Runs calls: receives and decodes requests, calls handlers and encodes responses, all charged to transport memory.
//!
//! Long work runs off the reactor: large requests are decoded and handled, and large responses encoded, on the offload
//! threads; streams run there entirely.

mod small;
mod stream;
#[cfg(test)]
mod tests;
mod unary;

use std::sync::Arc;

use accelerd_engine::{Arrival, Context};
use bytes::Bytes;
use http::Request;
use http_body::Body as HttpBody;
use prost::Message;
use tokio::runtime::Handle;
use tonic::{Status, codegen::StdError};

pub(super) use self::{
    small::{serve_server_stream, serve_unary},
    stream::{ChargedRequests, Requests, Responses},
};
use super::{
    compression::Encoding,
    cost::{Dimensions, RequestCost},
    decoded_size::decoded_size,
    encode::Encoder,
    receive::{Cardinality, MessageCharge, Received, Receiver},
};
use crate::{
    app::StreamEnds,
    auth::caller::Caller,
    status,
    transport::{call::Call, memory::TransportMemory},
};

/// Runs calls.
#[derive(Clone)]
pub(super) struct CallRunner {
    /// Maximum size of request and response messages in bytes.
    pub(super) limit: usize,
    /// Threads for long work.
    pub(super) offload: Handle,
    pub(super) dimensions: Dimensions,
    /// Refuses large requests before they are received, by the length of the message.
    pub(super) screen: Option<RequestScreen>,
    pub(super) stream_ends: StreamEnds,
}

/// Decides by the length of a request's message and its context whether it is received. What is decided is an extension of the
/// request, of type `Arc<Arrival>`.
pub(super) type RequestScreen = Arc<dyn Fn(u64, &Context) -> Result<Arrival, Status> + Send + Sync>;

/// The call of a request; a new one without memory limit if there is no connection, as in tests.
pub(super) fn call_of<B>(request: &Request<B>) -> Arc<Call> {
    let call = request.extensions().get::<Arc<Call>>().map(Arc::clone);
    call.unwrap_or_else(|| Call::new(TransportMemory::new(u64::MAX)))
}

/// The codecs that the headers of a request select.
struct Codecs {
    request_encoding: Option<Encoding>,
    encoder: Encoder,
}

impl CallRunner {
    /// Response bytes to charge before computing it; 0 for a response above the limit, which the handler refuses with a
    /// field violation.
    fn estimated_response(&self, request: &impl RequestCost) -> usize {
        Some(request.response_bytes(&self.dimensions)).filter(|bytes| *bytes <= self.limit).unwrap_or(0)
    }

    fn codecs<B>(&self, request: &Request<B>) -> Result<Codecs, Status> {
        let encoding = Encoding::of_response(request.headers());
        let encoder = Encoder { call: call_of(request), encoding, limit: self.limit };
        Ok(Codecs { request_encoding: Encoding::of_request(request.headers())?, encoder })
    }

    fn receiver<B>(&self, body: B, caller: Caller, codecs: &Codecs, cardinality: Cardinality) -> Receiver<B>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
    {
        Receiver::new(
            body,
            Arc::clone(&codecs.encoder.call),
            caller,
            cardinality,
            codecs.request_encoding,
            self.limit,
            self.offload.clone(),
        )
    }
}

/// Charges the memory that decoding the request of a method allocates. Returns the bytes.
fn charge_decoded(path: &str, received: &mut Received) -> Result<u64, Status> {
    let bytes = decoded_size(path, &received.message);
    received.charge.grow(bytes)?;
    Ok(bytes)
}

/// Decodes a request whose decoded size is already charged.
fn decode<Q: Message + Default>(received: Received) -> Result<(Q, MessageCharge), Status> {
    let request = Q::decode(received.message).map_err(|error| status::malformed_message(&error.to_string()))?;
    Ok((request, received.charge))
}
