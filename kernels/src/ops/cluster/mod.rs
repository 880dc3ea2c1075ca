//! k-means with greedy k-means++ initialisation.

use crate::{Backend, DeviceId, Op, OpError, Size};

mod cpu;
pub(crate) mod cuda;
pub mod oracle;
mod random;
mod request;

pub use request::{ClusterRequest, Clusters, Rows};

/// k-means.
#[derive(Debug)]
pub struct Cluster;

impl Op for Cluster {
    const NAME: &'static str = "cluster";
    type Request = ClusterRequest;
    type Response = Clusters;
    type Key = ();

    fn key(_request: &ClusterRequest) {}

    fn size(request: &ClusterRequest) -> Size {
        let (rows, dim) = match &request.rows {
            Rows::Inline(rows) => (rows.rows(), rows.cols()),
            Rows::Corpus(corpus) => (corpus.len(), corpus.dim()),
        };
        let numbers = (rows as u64).saturating_add(request.clusters as u64).saturating_mul(dim as u64);
        Size { items: (rows as u64).max(1), bytes: numbers.saturating_mul(4).saturating_add(8 * rows as u64) }
    }

    fn device_affinity(request: &ClusterRequest) -> Option<DeviceId> {
        match &request.rows {
            Rows::Inline(_) => None,
            Rows::Corpus(corpus) => Some(corpus.device()),
        }
    }

    fn run(batch: &[&ClusterRequest], on: &mut Backend) -> Result<Vec<Clusters>, OpError> {
        match on {
            Backend::Cpu(worker) => cpu::cluster(batch, worker),
            Backend::Cuda(worker) => cuda::cluster(batch, worker),
        }
    }
}
