//! The engine's context of a call: deadline, priority and principal.

use accelerd_engine::{Context, Priority};
use http::{Extensions, HeaderMap};
use tonic::Request;

use crate::{auth::caller::Caller, layers::deadline::Deadline};

/// Metadata key of a call's priority: `low`, `normal` or `high`.
pub const PRIORITY: &str = "accelerd-priority";

/// The context of a request.
pub fn context<T>(request: &Request<T>) -> Context {
    context_of(request.extensions(), request.metadata().as_ref())
}

/// The context of a request with these headers, over any wire.
pub(crate) fn context_of(extensions: &Extensions, headers: &HeaderMap) -> Context {
    let caller = Caller::of(extensions);
    Context {
        deadline: extensions.get::<Deadline>().map(|deadline| deadline.0),
        priority: headers.get(PRIORITY).map_or(Priority::Normal, |value| priority(value.as_bytes())),
        principal: caller.queue_id(),
        sharer: caller.sharer_id(),
        ..Context::default()
    }
}

/// An unknown priority counts as normal.
fn priority(value: &[u8]) -> Priority {
    match value {
        b"low" => Priority::Low,
        b"high" => Priority::High,
        _ => Priority::Normal,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_context_has_deadline_and_priority() {
        let mut request = Request::new(());
        assert_eq!(context(&request).priority, Priority::Normal);
        assert_eq!(context(&request).deadline, None);
        let deadline = Instant::now();
        request.extensions_mut().insert(Deadline(deadline));
        request.metadata_mut().insert(PRIORITY, "high".parse().expect("ascii"));
        assert_eq!(context(&request).priority, Priority::High);
        assert_eq!(context(&request).deadline, Some(deadline));
    }
}
