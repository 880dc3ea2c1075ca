//! `accelerd health`: checks a running daemon through `grpc.health.v1`.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use accelerd::Config;
use clap::Args;
use tokio::runtime::Builder;
use tonic::{Request, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::output::{fail, print};

/// Target of a health check.
#[derive(Debug, Args)]
pub(super) struct HealthCheck {
    /// Address of the health port; defaults to server.health_listen.
    #[arg(long)]
    address: Option<SocketAddr>,
    /// liveness, readiness, or the full name of a service; empty checks the daemon.
    #[arg(long, default_value = "")]
    service: String,
    /// Timeout in seconds.
    #[arg(long, default_value_t = 3.0)]
    timeout: f64,
}

impl HealthCheck {
    pub(super) fn run(&self, config: &Config) -> ExitCode {
        let address = self.address.unwrap_or(config.server.health_listen);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string());
        match runtime.and_then(|runtime| runtime.block_on(self.status(connectable(address)))) {
            Ok(ServingStatus::Serving) => print("SERVING"),
            Ok(status) => fail(&status.as_str_name(), 1),
            Err(error) => fail(&format_args!("{address}: {error}"), 1),
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

/// Replaces the unspecified address, on which a daemon may listen, by loopback.
fn connectable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback = if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        address.set_ip(loopback);
    }
    address
}
