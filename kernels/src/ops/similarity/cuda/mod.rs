//! Search on a GPU.

use super::{FindSimilarRequest, Hits, SearchRequest};
use crate::{OpError, cuda};

/// Searches resident corpora.
pub(super) fn search(_batch: &[&SearchRequest], worker: &mut cuda::Worker) -> Result<Vec<Hits>, OpError> {
    Err(unsupported(worker))
}

/// Searches inline corpora.
pub(super) fn find_similar(_batch: &[&FindSimilarRequest], worker: &mut cuda::Worker) -> Result<Vec<Hits>, OpError> {
    Err(unsupported(worker))
}

fn unsupported(worker: &cuda::Worker) -> OpError {
    OpError::Failed { device: worker.device().info().id, kernel: "search", reason: "not there yet".to_owned() }
}
