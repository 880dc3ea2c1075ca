//! Drains a daemon, and resumes it.

use std::time::Duration;

use accelerd_client::Client;
use clap::Args;
use serde::Serialize;

use crate::{
    args::duration,
    error::{CliError, Result},
    format,
    output::{Output, Report},
    renderer::{Renderer, Style},
};

/// Added to the deadline of the call, in which the daemon answers after its own timeout.
const MARGIN: Duration = Duration::from_secs(10);

/// Stop the daemon from accepting work, and wait until what it accepted is done.
///
/// Needs the role admin and the daemon's setting drain.allow_rpc. `accelctl resume` ends the drain. Exits with 1 if work is left.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Maximum time to wait for accepted work [default: the daemon's setting drain.timeout].
    #[arg(long, value_parser = duration, value_name = "TIME")]
    wait: Option<Duration>,
}

/// Let a daemon accept work again after a drain.
#[derive(Debug, Args)]
pub struct ResumeArgs {}

#[derive(Serialize)]
struct Drained {
    complete: bool,
    remaining: u64,
}

impl Report for Drained {
    fn render(&self, renderer: &mut Renderer) {
        if self.complete {
            renderer.line(format!("{}: all accepted work is done", renderer.style(Style::Good, "drained")));
        } else {
            let left = format::plural(self.remaining, "request");
            renderer.line(format!("{}: {left} still running", renderer.style(Style::Warn, "not drained")));
        }
    }
}

#[derive(Serialize)]
struct Resumed {
    resumed: bool,
}

impl Report for Resumed {
    fn render(&self, renderer: &mut Renderer) {
        renderer.line(if self.resumed { "the daemon accepts work again" } else { "the daemon was not draining" });
    }
}

/// Drains. The call's deadline is at least the time to wait.
pub async fn drain(args: &DrainArgs, client: &Client, output: &Output) -> Result {
    let client = match args.wait {
        Some(wait) => client.clone().with_deadline(wait.saturating_add(MARGIN)),
        None => client.clone(),
    };
    let drained = client.drain(args.wait).await?;
    let remaining = drained.remaining_count;
    output.show(&Drained { complete: drained.complete, remaining })?;
    let left = || CliError::Partial(format!("{} still running", format::plural(remaining, "request")));
    if drained.complete { Ok(()) } else { Err(left()) }
}

pub async fn resume(client: &Client, output: &Output) -> Result {
    let resumed = client.resume().await?;
    output.show(&Resumed { resumed })
}
