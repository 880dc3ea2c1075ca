//! What the daemon runs on, how it fares, and whether it is well.

use std::time::Duration;

use futures::{StreamExt, stream::BoxStream};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus};

use crate::{
    Client, Result,
    call::{Method, last},
    proto,
};

const LIST_DEVICES: Method<proto::ListDevicesRequest, proto::ListDevicesResponse> =
    Method::repeatable("/accelerd.v1.DeviceService/ListDevices");
const GET_STATS: Method<proto::GetStatsRequest, proto::GetStatsResponse> =
    Method::repeatable("/accelerd.v1.DeviceService/GetStats");
const WATCH: Method<proto::WatchRequest, proto::WatchResponse> = Method::repeatable("/accelerd.v1.DeviceService/Watch");
const EXPORT_REPORT: Method<proto::ExportReportRequest, proto::ExportReportResponse> =
    Method::repeatable("/accelerd.v1.DeviceService/ExportReport");
const DRAIN: Method<proto::DrainRequest, proto::DrainResponse> = Method::repeatable("/accelerd.v1.DeviceService/Drain");
const RESUME: Method<proto::ResumeRequest, proto::ResumeResponse> =
    Method::repeatable("/accelerd.v1.DeviceService/Resume");
const CHECK: Method<HealthCheckRequest, HealthCheckResponse> = Method::repeatable("/grpc.health.v1.Health/Check");

/// The devices of a daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Devices {
    /// The CPU pool last.
    pub devices: Vec<proto::Device>,
    /// Why no GPU is used, when none is.
    pub fallback_reason: String,
}

/// A length of time as the protocol has it; one too long for it becomes the longest.
fn to_wire(duration: Duration) -> prost_types::Duration {
    let longest = prost_types::Duration { seconds: i64::MAX, nanos: 0 };
    prost_types::Duration::try_from(duration).unwrap_or(longest)
}

impl Client {
    /// The devices in use.
    pub async fn devices(&self) -> Result<Devices> {
        let list = self.unary(LIST_DEVICES, proto::ListDevicesRequest {}).await?.message;
        Ok(Devices { devices: list.devices, fallback_reason: list.fallback_reason })
    }

    /// Queues, batches, pools and kernel times since the daemon's start.
    pub async fn stats(&self) -> Result<proto::GetStatsResponse> {
        Ok(self.unary(GET_STATS, proto::GetStatsRequest {}).await?.message)
    }

    /// The same again and again, until the stream is dropped.
    pub async fn watch(&self, interval: Duration) -> Result<BoxStream<'static, Result<proto::GetStatsResponse>>> {
        let request = proto::WatchRequest { interval: Some(to_wire(interval)) };
        let samples = self.server_stream(WATCH, request).await?;
        Ok(samples.map(|sample| sample.map(|sample| sample.stats.unwrap_or_default()).map_err(last)).boxed())
    }

    /// Everything the daemon knows of itself, as one JSON document.
    pub async fn export_report(&self) -> Result<String> {
        Ok(self.unary(EXPORT_REPORT, proto::ExportReportRequest {}).await?.message.json)
    }

    /// Stops taking new work and finishes what was accepted; `None` waits as long as the daemon is configured to.
    pub async fn drain(&self, timeout: Option<Duration>) -> Result<proto::DrainResponse> {
        Ok(self.unary(DRAIN, proto::DrainRequest { timeout: timeout.map(to_wire) }).await?.message)
    }

    /// Ends a drain; whether there was one.
    pub async fn resume(&self) -> Result<bool> {
        Ok(self.unary(RESUME, proto::ResumeRequest {}).await?.message.resumed)
    }

    /// Whether a service, or with an empty name the whole daemon, takes calls. A service it does not have is an error.
    pub async fn health(&self, service: impl Into<String>) -> Result<bool> {
        let answer = self.unary(CHECK, HealthCheckRequest { service: service.into() }).await?.message;
        Ok(answer.status == i32::from(ServingStatus::Serving))
    }
}
