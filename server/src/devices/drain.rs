//! Drains and resumes at a caller's request.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use accelerd_engine::{Drained, SubmitError};

use super::{DaemonService, service::within};
use crate::{
    auth::caller::Caller,
    error::{ApiError, RequestedTime},
    sandbox::Sandboxes,
};

/// Permitted timeouts of a drain, as of the setting.
const TIMEOUTS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(24 * 3600);

impl DaemonService {
    /// Stops accepting work, and waits until accepted work is done or the timeout is over; without one, that of the settings.
    /// Continues if the future is dropped.
    pub(crate) async fn drain(&self, caller: &Caller, timeout: RequestedTime) -> Result<Drained, ApiError> {
        let drain = &self.app.config.drain;
        check_allowed(drain.allow_rpc)?;
        let timeout = within("timeout", timeout.unwrap_or(Ok(drain.timeout)), &TIMEOUTS)?;
        tracing::warn!(?timeout, "draining at a client's request");
        caller.record_change("");
        let ticket = self.app.health.begin_drain();
        let app = Arc::clone(&self.app);
        let draining = self.app.offload.handle().spawn(async move {
            let (drained, in_sandbox) = tokio::join!(app.engine.drain(timeout), app.drain_sandboxes(timeout));
            let grace = app.config.drain.liveness_grace;
            if grace.is_zero() {
                app.health.end_drain(ticket);
            } else {
                let health = app.health.clone();
                let closing = app.stream_ends.closing.clone();
                tokio::spawn(async move {
                    if closing.run_until_cancelled(tokio::time::sleep(grace)).await.is_some() {
                        health.end_drain(ticket);
                    }
                });
            }
            Drained { complete: drained.complete && in_sandbox == 0, remaining: drained.remaining + in_sandbox }
        });
        draining.await.map_err(|error| ApiError::Unavailable(error.to_string()))
    }

    /// Accepts work again. Returns false if the daemon was not draining.
    pub(crate) fn resume(&self, caller: &Caller) -> Result<bool, ApiError> {
        check_allowed(self.app.config.drain.allow_rpc)?;
        let resumed = self.app.health.resume().ok_or(ApiError::Submit(SubmitError::Draining))?;
        if resumed {
            self.app.engine.resume();
            self.app.all_sandboxes().for_each(Sandboxes::resume);
            tracing::warn!("resumed at a client's request");
            caller.record_change("");
        }
        Ok(resumed)
    }
}

/// Checks `drain.allow_rpc`: a drain affects all clients.
fn check_allowed(allowed: bool) -> Result<(), ApiError> {
    let reason = "clients may not drain or resume this daemon: the setting drain.allow_rpc is false";
    if allowed { Ok(()) } else { Err(ApiError::Denied(reason.to_owned())) }
}
