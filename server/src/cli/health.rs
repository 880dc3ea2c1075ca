//! `accelerd health`: asks a daemon by `grpc.health.v1`.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use accelerd::Config;
use clap::Args;
use tokio::runtime::Builder;
use tonic::{Request, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::{complain, say};

/// Whom to ask, and for what.
#[derive(Debug, Args)]
pub(super) struct Question {
    /// The health port; the configured one if absent.
    #[arg(long)]
    address: Option<SocketAddr>,
    /// liveness, readiness, or a service's full name; empty for the whole daemon.
    #[arg(long, default_value = "")]
    service: String,
    /// Seconds to wait.
    #[arg(long, default_value_t = 3.0)]
    timeout: f64,
}

impl Question {
    pub(super) fn ask(&self, config: &Config) -> ExitCode {
        let address = self.address.unwrap_or(config.server.health_listen);
        let asked = Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string());
        match asked.and_then(|runtime| runtime.block_on(self.status(reachable(address)))) {
            Ok(ServingStatus::Serving) => say("SERVING"),
            Ok(status) => complain(&status.as_str_name(), 1),
            Err(error) => complain(&format_args!("{address}: {error}"), 1),
        }
    }

    async fn status(&self, address: SocketAddr) -> Result<ServingStatus, String> {
        let timeout = Duration::try_from_secs_f64(self.timeout).map_err(|e| e.to_string())?;
        let endpoint = Endpoint::try_from(format!("http://{address}")).map_err(|e| e.to_string())?;
        let channel = endpoint.connect_timeout(timeout).timeout(timeout).connect().await.map_err(|e| e.to_string())?;
        let request = Request::new(HealthCheckRequest { service: self.service.clone() });
        let response = HealthClient::new(channel).check(request).await.map_err(|status| status.to_string())?;
        Ok(response.get_ref().status())
    }
}

/// A daemon that listens on every address answers on loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback = if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        address.set_ip(loopback);
    }
    address
}
