//! Calls with a stream of requests: a task receives, charges and decodes them while a handler runs.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use accelerd_engine::Context;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use http::{Request, Response};
use http_body::Body as HttpBody;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{Status, body::Body, codegen::StdError};
use tracing::Instrument;

use super::{CallRunner, charge_decoded, decode};
use crate::{
    auth::caller::Caller,
    grpc::{
        context::context,
        cost::RequestCost,
        encode::Encoder,
        receive::{Cardinality, MessageCharge, Received, Receiver},
    },
    layers::timing,
    status,
    transport::call::Charge,
};

/// The requests of a stream.
pub(in crate::grpc) type Requests<Q> = BoxStream<'static, Result<Q, Status>>;

/// The responses of a stream.
pub(in crate::grpc) type Responses<R> = BoxStream<'static, Result<R, Status>>;

/// The requests of a stream with their charges, which are dropped once a request is handled.
pub(in crate::grpc) type ChargedRequests<Q> = BoxStream<'static, Result<(Q, MessageCharge), Status>>;

/// A request of a stream, its charge, and the charge of its response.
type ChargedRequest<Q> = (Q, MessageCharge, Charge);

/// A stream of requests that a task receives until it is dropped.
struct ReceivedStream<Q> {
    caller: Caller,
    context: Context,
    requests: mpsc::Receiver<Result<ChargedRequest<Q>, Status>>,
    encoder: Encoder,
    receiving: AbortOnDropHandle<()>,
}

impl CallRunner {
    /// Runs a bidirectional stream. When the daemon closes, the requests end with an error.
    pub(in crate::grpc) fn stream<B, Q, R>(
        self,
        request: Request<B>,
        handler: impl FnOnce(Caller, Context, Requests<Q>) -> Responses<R> + Send + 'static,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
        Q: Message + Default + RequestCost + 'static,
        R: Message + 'static,
    {
        let ReceivedStream { caller, context, requests, encoder, receiving } =
            match self.received_stream(request, self.stream_ends.closing.clone()) {
                Ok(received) => received,
                Err(status) => return status.into_http(),
            };
        let (sender, messages) = mpsc::channel(1);
        let responder = encoder.clone();
        let end = self.stream_ends.timeout.clone();
        let run = async move {
            let _receiving = receiving;
            let pending = Arc::new(PendingCharges::default());
            let mut responses = handler(caller, context, pending.requests(requests));
            loop {
                let response = tokio::select! {
                    biased;
                    response = responses.next() => match response {
                        Some(response) => response,
                        None => return,
                    },
                    () = end.cancelled() => Err(status::draining()),
                };
                let charge = pending.pop();
                let encoded = response.and_then(|response| encoder.encode(response, charge));
                let is_last = encoded.is_err();
                if sender.send(encoded).await.is_err() || is_last {
                    return;
                }
            }
        };
        let task = AbortOnDropHandle::new(self.offload.spawn(run.in_current_span()));
        responder.respond_with(messages, task)
    }

    /// Runs a call with a stream of requests and one response. Each request comes with its charge.
    pub(in crate::grpc) async fn client_stream<B, Q, R, F>(
        self,
        request: Request<B>,
        handler: impl FnOnce(Caller, Context, ChargedRequests<Q>) -> F + Send + 'static,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
        Q: Message + Default + RequestCost + 'static,
        R: Message + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
    {
        let ReceivedStream { caller, context, requests, encoder, receiving } =
            match self.received_stream(request, CancellationToken::new()) {
                Ok(received) => received,
                Err(status) => return status.into_http(),
            };
        let run = async move {
            let _receiving = receiving;
            let requests = ReceiverStream::new(requests).map(|received| {
                let (request, charge, _response): ChargedRequest<Q> = received?;
                Ok((request, charge))
            });
            let response = handler(caller, context, requests.boxed()).await?;
            encoder.respond(response, encoder.charge(0)?)
        };
        timing::spawn_on(&self.offload, run).await.unwrap_or_else(Status::into_http)
    }

    /// Starts the task that receives a stream of requests. It is a task of its own, so that a slow handler does not make the
    /// client look stalled.
    fn received_stream<B, Q>(
        &self,
        request: Request<B>,
        closing: CancellationToken,
    ) -> Result<ReceivedStream<Q>, Status>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
        Q: Message + Default + RequestCost + 'static,
    {
        let codecs = self.codecs(&request)?;
        let path = request.uri().path().to_owned();
        let (parts, body) = request.into_parts();
        let caller = Caller::of(&parts.extensions);
        let context = context(&tonic::Request::from_http(Request::from_parts(parts, ())));
        let receiver = self.receiver(body, caller.clone(), &codecs, Cardinality::Stream);
        let (sender, requests) = mpsc::channel(1);
        let receive = receive(path, receiver, self.clone(), codecs.encoder.clone(), sender, closing).in_current_span();
        let receiving = AbortOnDropHandle::new(self.offload.spawn(receive));
        Ok(ReceivedStream { caller, context, requests, encoder: codecs.encoder, receiving })
    }
}

/// The charges of a stream's requests without a response and of their responses, oldest first. Each response releases the
/// oldest, even if responses are sent in another order.
#[derive(Debug, Default)]
struct PendingCharges(Mutex<VecDeque<(MessageCharge, Charge)>>);

impl PendingCharges {
    /// The requests as they are received; keeps their charges.
    fn requests<Q: Send + 'static>(
        self: &Arc<Self>,
        received: mpsc::Receiver<Result<ChargedRequest<Q>, Status>>,
    ) -> BoxStream<'static, Result<Q, Status>> {
        let pending = Arc::clone(self);
        let requests = ReceiverStream::new(received).map(move |received| {
            let (request, charge, response) = received?;
            pending.0.lock().unwrap_or_else(PoisonError::into_inner).push_back((charge, response));
            Ok(request)
        });
        requests.boxed()
    }

    /// Releases the oldest request's charge and returns that of its response.
    fn pop(&self) -> Option<Charge> {
        let (_request, response) = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        Some(response)
    }
}

/// Receives and decodes the requests of a stream until the first error, or until the daemon closes.
async fn receive<B, Q>(
    path: String,
    mut receiver: Receiver<B>,
    runner: CallRunner,
    encoder: Encoder,
    requests: mpsc::Sender<Result<ChargedRequest<Q>, Status>>,
    closing: CancellationToken,
) where
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
    Q: Message + Default + RequestCost,
{
    let charge_and_decode = async |mut received: Received| {
        charge_decoded(&path, &mut received)?;
        let (request, charge) = decode::<Q>(received)?;
        let response = encoder.charge_or_wait(runner.estimated_response(&request)).await?;
        Ok((request, charge, response))
    };
    loop {
        let received = tokio::select! {
            biased;
            () = closing.cancelled() => Err(status::draining()),
            received = receiver.next() => received,
        };
        let request = match received {
            Ok(None) => return,
            Ok(Some(received)) => charge_and_decode(received).await,
            Err(status) => Err(status),
        };
        let is_last = request.is_err();
        if requests.send(request).await.is_err() || is_last {
            return;
        }
    }
}
