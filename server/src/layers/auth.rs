//! Identifies the caller and refuses calls before their messages are received.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{Arc, LazyLock},
    task::{Context, Poll},
};

use futures::future::Either;
use http::{Request, Response, header::AUTHORIZATION};
use tonic::body::Body;
use tower::{Layer, Service};

use crate::{auth::Auth, peer::Peer, status};

/// Authorises calls and puts their [`crate::auth::caller::Caller`] into the extensions.
#[derive(Clone, Debug)]
pub(crate) struct AuthLayer(pub(crate) Arc<Auth>);

/// See [`AuthLayer`].
#[derive(Clone, Debug)]
pub(crate) struct AuthService<S> {
    inner: S,
    auth: Arc<Auth>,
}

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AuthService { inner, auth: Arc::clone(&self.0) }
    }
}

impl<S, B> Service<Request<B>> for AuthService<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response<Body>, Infallible>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        static UNKNOWN: LazyLock<Arc<Peer>> = LazyLock::new(Arc::default);
        let peer = request.extensions().get::<Arc<Peer>>().map_or_else(|| Arc::clone(&UNKNOWN), Arc::clone);
        match self.auth.authorize(request.uri().path(), &peer, request.headers()) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                // Nothing after this layer can log the token.
                request.headers_mut().remove(AUTHORIZATION);
                Either::Right(self.inner.call(request))
            }
            Err(refusal) => Either::Left(ready(Ok(status::refused(&refusal).into_http()))),
        }
    }
}
