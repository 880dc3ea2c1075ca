//! Global options.

use accelerd_client::{Builder, Priority};
use clap::{Args, ValueEnum};

use crate::{connection::Connection, error::Result};

/// Global options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    #[command(flatten)]
    pub connection: Connection,
    /// Print one JSON document, or one per line for streams.
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress bars and no notes; `index` prints no summary either.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// When to use colours; NO_COLOR disables them too.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Priority of the calls in the daemon's queues: low, normal or high.
    #[arg(long, global = true, default_value_t = Priority::Normal, value_name = "PRIORITY")]
    pub priority: Priority,
}

impl Global {
    /// Returns a client's builder with these options.
    pub fn builder(&self) -> Result<Builder> {
        Ok(self.connection.builder()?.priority(self.priority))
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
