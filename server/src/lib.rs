//! The accelerd daemon as a library: settings, services, layers, telemetry, lifecycle.

mod admin;
mod app;
pub mod auth;
mod collections;
pub mod config;
mod device_liveness;
mod devices;
pub mod embedder;
pub mod error;
pub mod grpc;
pub mod health;
pub mod hub;
mod kernels;
pub mod layers;
mod ledger;
pub mod lifecycle;
mod listen;
mod metric_callbacks;
pub mod peer;
mod reload;
mod resident_memory;
mod restart;
pub mod sandbox;
mod series_limit;
pub mod serve;
mod shown;
mod start;
pub mod status;
pub mod telemetry;
mod tensors;
mod tls;
pub mod transport;
mod verification;

pub use app::{App, StartError};
pub use config::Config;
pub use serve::{Daemon, Drained};
