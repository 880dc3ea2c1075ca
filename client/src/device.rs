//! Devices, statistics, drain and health of a daemon.

use std::time::Duration;

use accelerd_proto::methods::{Rpc, device_service};
use futures::{StreamExt, stream::BoxStream};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus};

use crate::{Client, Result, call::final_error, proto};

const CHECK: Rpc<HealthCheckRequest, HealthCheckResponse> = Rpc::new("/grpc.health.v1.Health/Check", true);

/// The devices of a daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Devices {
    /// The GPUs, then the CPU worker pool.
    pub devices: Vec<proto::Device>,
    /// Why no GPU is in use; empty if one is.
    pub fallback_reason: String,
}

/// Converts a duration; one that is too long for the protocol saturates.
fn to_wire(duration: Duration) -> prost_types::Duration {
    let longest = prost_types::Duration { seconds: i64::MAX, nanos: 0 };
    prost_types::Duration::try_from(duration).unwrap_or(longest)
}

impl Client {
    /// Returns the devices in use.
    pub async fn devices(&self) -> Result<Devices> {
        let list = self.unary(device_service::LIST_DEVICES, proto::ListDevicesRequest {}).await?.message;
        Ok(Devices { devices: list.devices, fallback_reason: list.fallback_reason })
    }

    /// Returns statistics of queues, batches, memory pools and kernels since the daemon's start.
    pub async fn stats(&self) -> Result<proto::GetStatsResponse> {
        Ok(self.unary(device_service::GET_STATS, proto::GetStatsRequest {}).await?.message)
    }

    /// Streams statistics at an interval until the stream is dropped.
    pub async fn watch(&self, interval: Duration) -> Result<BoxStream<'static, Result<proto::GetStatsResponse>>> {
        let request = proto::WatchRequest { interval: Some(to_wire(interval)) };
        let samples = self.server_stream(device_service::WATCH, request).await?;
        Ok(samples.map(|sample| sample.map(|sample| sample.stats.unwrap_or_default()).map_err(final_error)).boxed())
    }

    /// Returns devices, statistics and settings as one JSON document.
    pub async fn export_report(&self) -> Result<String> {
        Ok(self.unary(device_service::EXPORT_REPORT, proto::ExportReportRequest {}).await?.message.json)
    }

    /// Stops accepting work and completes the accepted requests; `None` means the daemon's configured timeout.
    pub async fn drain(&self, timeout: Option<Duration>) -> Result<proto::DrainResponse> {
        Ok(self.unary(device_service::DRAIN, proto::DrainRequest { timeout: timeout.map(to_wire) }).await?.message)
    }

    /// Ends a drain. Returns whether the daemon was draining or drained.
    pub async fn resume(&self) -> Result<bool> {
        Ok(self.unary(device_service::RESUME, proto::ResumeRequest {}).await?.message.resumed)
    }

    /// Returns whether a service is serving; an empty name means the whole daemon. An unknown service is an error.
    pub async fn health(&self, service: impl Into<String>) -> Result<bool> {
        let response = self.unary(CHECK, HealthCheckRequest { service: service.into() }).await?.message;
        Ok(response.status == i32::from(ServingStatus::Serving))
    }
}
