//! The daemon as its operators see it: devices, statistics, a report, drain.

mod drain;
pub(crate) mod memory;
mod report;
mod service;
pub(crate) mod stats;

pub(crate) use self::service::DaemonService;
