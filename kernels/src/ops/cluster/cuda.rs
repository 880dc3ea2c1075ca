//! k-means on a GPU.

use super::{ClusterRequest, Clusters};
use crate::{OpError, cuda};

/// Clusters the rows of each request.
pub(super) fn cluster(_batch: &[&ClusterRequest], worker: &mut cuda::Worker) -> Result<Vec<Clusters>, OpError> {
    Err(OpError::Failed { device: worker.device().info().id, kernel: "kmeans", reason: "not there yet".to_owned() })
}
