//! Calls with one request and one response.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use prost::Message;
use tonic::{Status, body::Body, codegen::StdError};

use super::{CallRunner, charge_decoded, decode};
use crate::{
    auth::caller::Caller,
    grpc::{
        context::context_of,
        cost::RequestCost,
        receive::{Cardinality, MessageCharge, Screen},
    },
    layers::timing,
    transport::call::SMALL_CALL_BYTES,
};

/// Maximum size of a response that is compressed on the reactor.
const MAX_INLINE_COMPRESSION: usize = 4 << 10;

impl CallRunner {
    /// Runs a unary call.
    pub(in crate::grpc) async fn unary<B, Q, R, F>(
        self,
        request: Request<B>,
        handler: impl FnOnce(tonic::Request<Q>) -> F + Send + 'static,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
        Q: Message + Default + RequestCost + 'static,
        R: Message + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
    {
        self.charged_unary(request, |request, charge| run_handler(handler(request), charge)).await
    }

    /// As [`Self::unary`], of a handler that releases the request's charge itself.
    pub(in crate::grpc) async fn charged_unary<B, Q, R, F>(
        self,
        request: Request<B>,
        handler: impl FnOnce(tonic::Request<Q>, MessageCharge) -> F + Send + 'static,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
        Q: Message + Default + RequestCost + 'static,
        R: Message + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
    {
        self.try_unary(request, handler).await.unwrap_or_else(Status::into_http)
    }

    async fn try_unary<B, Q, R, F>(
        &self,
        request: Request<B>,
        handler: impl FnOnce(tonic::Request<Q>, MessageCharge) -> F + Send + 'static,
    ) -> Result<Response<Body>, Status>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
        Q: Message + Default + RequestCost + 'static,
        R: Message + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
    {
        let codecs = self.codecs(&request)?;
        let (mut parts, body) = request.into_parts();
        let caller = Caller::of(&parts.extensions);
        let screen = self.screen.clone().map(|screen| -> Screen {
            let context = context_of(&parts.extensions, &parts.headers);
            Box::new(move |length| screen(length, &context))
        });
        let receiver = self.receiver(body, caller, &codecs, Cardinality::Unary).with_screen(screen);
        let mut received = receiver.unary().await?;
        if let Some(arrival) = received.arrival.take() {
            parts.extensions.insert(Arc::new(arrival));
        }
        let encoder = codecs.encoder;
        // Estimating the decoded size of a large message takes long, too.
        let is_small = received.message.len() as u64 <= SMALL_CALL_BYTES;
        let decoded_bytes = if is_small { charge_decoded(parts.uri.path(), &mut received)? } else { 0 };
        if !is_small || decoded_bytes > SMALL_CALL_BYTES {
            let runner = self.clone();
            let work = async move {
                if !is_small {
                    charge_decoded(parts.uri.path(), &mut received)?;
                }
                let (message, charge) = decode::<Q>(received)?;
                let response_charge = encoder.charge(runner.estimated_response(&message))?;
                let request = Request::from_parts(parts, message);
                let response = handler(tonic::Request::from_http(request), charge).await?;
                encoder.respond(response, response_charge)
            };
            return timing::spawn_on(&self.offload, work).await;
        }
        let (message, charge) = decode::<Q>(received)?;
        let response_charge = encoder.charge(self.estimated_response(&message))?;
        let is_cheap = message.is_cheap();
        let handling = handler(tonic::Request::from_http(Request::from_parts(parts, message)), charge);
        if !is_cheap {
            let work = async move { encoder.respond(handling.await?, response_charge) };
            return timing::spawn_on(&self.offload, work).await;
        }
        let response = handling.await?;
        let inline = if encoder.encoding.is_some() { MAX_INLINE_COMPRESSION } else { to_usize(SMALL_CALL_BYTES) };
        let length = response.get_ref().encoded_len();
        // Charged before it queues for a thread: the number of queued responses is not bounded.
        let response_charge = encoder.resize(response_charge, length)?;
        if length <= inline {
            return encoder.respond(response, response_charge);
        }
        timing::spawn_on(&self.offload, async move { encoder.respond(response, response_charge) }).await
    }
}

/// Runs a handler and releases the request's charge when it completes.
async fn run_handler<R>(
    handler: impl Future<Output = Result<tonic::Response<R>, Status>>,
    charge: MessageCharge,
) -> Result<tonic::Response<R>, Status> {
    let response = handler.await;
    drop(charge);
    response
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
