//! Checks the daemon's health.

use std::time::Duration;

use accelerd_client::RetryPolicy;
use clap::Args;
use serde::Serialize;

use crate::{
    connection::Connection,
    error::{CliError, Result},
    format,
    output::{Output, Report},
    renderer::{Renderer, Style},
};

/// Check whether the daemon is serving; exits with 0 if it is.
#[derive(Debug, Args)]
pub struct HealthArgs {
    /// A service such as accelerd.v1.EmbedService [default: the whole daemon].
    #[arg(long, default_value = "", hide_default_value = true)]
    service: String,
}

#[derive(Serialize)]
struct Health {
    server: String,
    serving: bool,
    version: String,
    uptime_seconds: f64,
    devices: Vec<String>,
    fallback_reason: String,
}

impl Report for Health {
    fn render(&self, renderer: &mut Renderer) {
        let state = if self.serving {
            renderer.style(Style::Good, "serving")
        } else {
            renderer.style(Style::Bad, "not serving")
        };
        renderer.line(format!("{state}  {}", self.server));
        let uptime = format::time(Duration::try_from_secs_f64(self.uptime_seconds).unwrap_or_default());
        let mut facts =
            vec![("version", self.version.clone()), ("uptime", uptime), ("devices", self.devices.join(", "))];
        if !self.fallback_reason.is_empty() {
            facts.push(("no GPU", self.fallback_reason.clone()));
        }
        renderer.facts(facts);
    }
}

/// Checks once, without retries: a probe needs the current state.
pub async fn run(args: &HealthArgs, connection: &Connection, output: &Output) -> Result {
    let client = connection.builder()?.retry(RetryPolicy::NEVER).connect().await?;
    let serving = client.health(&args.service).await?;
    let (stats, devices) = futures::try_join!(client.stats(), client.devices())?;
    let name = |device: &accelerd_client::proto::Device| format!("{} ({})", device.name, device.product);
    output.show(&Health {
        server: connection.server.clone(),
        serving,
        version: stats.version,
        uptime_seconds: super::stats::seconds(stats.uptime.as_ref()),
        devices: devices.devices.iter().map(name).collect(),
        fallback_reason: devices.fallback_reason,
    })?;
    let named = if args.service.is_empty() { "the daemon" } else { &args.service };
    if serving { Ok(()) } else { Err(CliError::NotServing(named.to_owned())) }
}
