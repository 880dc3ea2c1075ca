//! The accelerd daemon as a library: configuration, services, layers, telemetry, lifecycle.

mod admin;
pub mod collections;
pub mod config;
pub mod embedder;
pub mod error;
pub mod grpc;
pub mod health;
pub mod hub;
pub mod layers;
pub mod lifecycle;
mod listen;
mod loss;
mod observe;
pub mod serve;
pub mod telemetry;
pub mod transport;

pub use config::Config;
pub use serve::{Daemon, Drained, StartError};
