//! The service of devices and statistics.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream, stream::BoxStream};
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    report::report,
    stats::{self, DaemonStats, DeviceStatus},
};
use crate::{
    app::App,
    auth::caller::Caller,
    error::{ApiError, RequestedTime},
};

/// Permitted intervals of a watch.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Interval of a watch if the request does not set one.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// A time within bounds.
pub(super) fn within(
    field: &str,
    requested: Result<Duration, String>,
    bounds: &RangeInclusive<Duration>,
) -> Result<Duration, ApiError> {
    let got = match requested {
        Ok(time) if bounds.contains(&time) => return Ok(time),
        Ok(time) => format!("{time:?}"),
        Err(negative) => negative,
    };
    Err(ApiError::invalid(field, format!("expected {:?} to {:?}, got {got}", bounds.start(), bounds.end())))
}

/// The daemon as its operators see it.
#[derive(Debug)]
pub(crate) struct DaemonService {
    pub(super) app: Arc<App>,
}

impl DaemonService {
    pub(crate) fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app) }
    }

    pub(crate) fn devices(&self) -> Vec<DeviceStatus> {
        stats::devices(&self.app)
    }

    /// Why no GPU is used; `None` if one is.
    pub(crate) fn fallback_reason(&self) -> Option<&str> {
        self.app.fallback.as_deref()
    }

    pub(crate) fn stats(&self) -> DaemonStats {
        DaemonStats::now(&self.app)
    }

    /// Statistics at an interval, until the daemon closes.
    pub(crate) fn watch(&self, requested: RequestedTime) -> Result<BoxStream<'static, DaemonStats>, ApiError> {
        let requested = within("interval", requested.unwrap_or(Ok(DEFAULT_INTERVAL)), &INTERVALS)?;
        let mut ticks = interval(requested);
        // A slow reader gets the newest sample, not the missed ones.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let samples = stream::unfold((ticks, Arc::clone(&self.app)), |(mut ticks, app)| async move {
            ticks.tick().await;
            Some((DaemonStats::now(&app), (ticks, app)))
        });
        Ok(samples.take_until(self.app.stream_ends.closing.clone().cancelled_owned()).boxed())
    }

    /// A full report as JSON: the models that the caller may use, and the settings if it is an administrator.
    pub(crate) fn report(&self, caller: &Caller) -> Value {
        report(&self.app, caller)
    }
}
