//! Whether the daemon is well.

use std::time::Duration;

use accelerd_client::{Client, RetryPolicy};
use clap::Args;
use serde::Serialize;

use crate::{
    args::Global,
    error::{CliError, Result},
    human,
    page::{Page, Paint},
    screen::{Report, Screen},
};

/// Ask whether the daemon takes work; exits with 0 if it does.
#[derive(Debug, Args)]
pub struct HealthArgs {
    /// A service such as accelerd.v1.EmbedService; without it, the daemon as a whole.
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
    fn render(&self, page: &mut Page) {
        let state =
            if self.serving { page.paint(Paint::Good, "serving") } else { page.paint(Paint::Bad, "not serving") };
        page.line(format!("{state}  {}", self.server));
        let uptime = human::time(Duration::try_from_secs_f64(self.uptime_seconds).unwrap_or_default());
        let mut facts = vec![("version", self.version.clone()), ("up", uptime), ("devices", self.devices.join(", "))];
        if !self.fallback_reason.is_empty() {
            facts.push(("no GPU", self.fallback_reason.clone()));
        }
        page.facts(facts);
    }
}

/// Asks once: a probe wants the truth of now.
pub async fn run(args: &HealthArgs, global: &Global, screen: &Screen) -> Result {
    let builder = Client::builder(&global.server).deadline(global.timeout).retry(RetryPolicy::NEVER);
    let client = builder.connect().await?;
    let serving = client.health(&args.service).await?;
    let (stats, devices) = futures::try_join!(client.stats(), client.devices())?;
    let name = |device: &accelerd_client::proto::Device| format!("{} ({})", device.name, device.product);
    screen.show(&Health {
        server: global.server.clone(),
        serving,
        version: stats.version,
        uptime_seconds: super::stats::seconds(stats.uptime.as_ref()),
        devices: devices.devices.iter().map(name).collect(),
        fallback_reason: devices.fallback_reason,
    })?;
    let named = if args.service.is_empty() { "the daemon" } else { &args.service };
    if serving { Ok(()) } else { Err(CliError::NotServing(named.to_owned())) }
}
