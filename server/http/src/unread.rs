//! A request that is answered before its body is read, as one of an unknown path: the connection closes, since the rest of the body is in
//! the way of the next request. The response says so, or a client would use the connection again and fail.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use axum::{body::Body, extract::Request, middleware::Next, response::Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body::{Body as _, Frame, SizeHint};

/// A body that records whether it is read to its end.
struct Tracked {
    body: Body,
    ended: Arc<AtomicBool>,
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.ended.store(frame.is_none() || self.body.is_end_stream(), Relaxed);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Announces the end of the connection if a response precedes the end of the request.
pub(crate) async fn close_after(request: Request, next: Next) -> Response {
    let ended = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let tracked = |body| Body::new(Tracked { body, ended: Arc::clone(&ended) });
    let mut response = next.run(request.map(tracked)).await;
    if !ended.load(Relaxed) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::{Router, middleware::from_fn, routing::post};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_connection_closes_after_a_body_that_is_not_read() {
        let read = post(|body: String| async move { body });
        let routes = Router::new().route("/read", read).route("/", post(|| async {})).layer(from_fn(close_after));
        for (path, body, closes) in
            [("/read", "text", false), ("/", "text", true), ("/", "", false), ("/none", "x", true)]
        {
            let request = Request::post(path).body(Body::from(body)).expect("a request");
            let response = routes.clone().oneshot(request).await.expect("a response");
            assert_eq!(response.headers().contains_key("connection"), closes, "{path} {body}");
        }
    }
}
