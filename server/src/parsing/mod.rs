//! Parsing of Python sources: checks requests, submits them to the lane, and counts results.

mod metrics;
mod service;

pub(crate) use self::service::{ParsingService, SourceBatch};
