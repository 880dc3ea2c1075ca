//! `accelerd health`: checks a running daemon through `grpc.health.v1`.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use accelerd::Config;
use clap::Args;
use tokio::runtime::Builder;
use tonic::{Request, codegen::http::uri::Authority, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::output::{fail, print};

/// Target of a health check.
#[derive(Debug, Args)]
pub(super) struct HealthCheck {
    /// Address of the health port, such as localhost:7435; defaults to server.health_listen.
    #[arg(long, value_parser = host_and_port)]
    address: Option<String>,
    /// liveness, readiness, or the full name of a service; empty checks the daemon.
    #[arg(long, default_value = "")]
    service: String,
    /// Timeout in seconds.
    #[arg(long, default_value_t = 3.0)]
    timeout: f64,
}

impl HealthCheck {
    pub(super) fn run(&self, config: &Config) -> ExitCode {
        let address = self.address.clone().unwrap_or_else(|| connectable(config.server.health_listen).to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string());
        match runtime.and_then(|runtime| runtime.block_on(self.status(&address))) {
            Ok(ServingStatus::Serving) => print("SERVING"),
            Ok(status) => fail(&status.as_str_name(), 1),
            Err(error) => fail(&format_args!("{address}: {error}"), 1),
        }
    }

    async fn status(&self, address: &str) -> Result<ServingStatus, String> {
        let timeout = Duration::try_from_secs_f64(self.timeout).map_err(|e| e.to_string())?;
        let endpoint = Endpoint::try_from(format!("http://{address}")).map_err(|e| e.to_string())?;
        let channel = endpoint.connect_timeout(timeout).timeout(timeout).connect().await.map_err(|e| e.to_string())?;
        let request = Request::new(HealthCheckRequest { service: self.service.clone() });
        let response = HealthClient::new(channel).check(request).await.map_err(|status| status.to_string())?;
        Ok(response.get_ref().status())
    }
}

/// An address to connect to, or a name that resolves to one, as of a service of Kubernetes.
fn host_and_port(text: &str) -> Result<String, String> {
    if let Ok(address) = text.parse() {
        return Ok(connectable(address).to_string());
    }
    let authority: Option<Authority> = text.parse().ok();
    let named = authority.filter(|authority| authority.port().is_some() && !text.contains('@'));
    named.map_or_else(|| Err("expected a host and a port, such as localhost:7435".to_owned()), |_| Ok(text.to_owned()))
}

/// Replaces the unspecified address, on which a daemon may listen, by loopback.
fn connectable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback = if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        address.set_ip(loopback);
    }
    address
}
