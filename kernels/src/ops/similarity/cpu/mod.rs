//! Search on the CPU.

use super::{FindSimilarRequest, Hits, SearchRequest};
use crate::{OpError, cpu};

pub(super) fn search(_batch: &[&SearchRequest], _worker: &cpu::Worker) -> Result<Vec<Hits>, OpError> {
    Ok(vec![])
}

pub(super) fn find_similar(_batch: &[&FindSimilarRequest], _worker: &cpu::Worker) -> Result<Vec<Hits>, OpError> {
    Ok(vec![])
}
