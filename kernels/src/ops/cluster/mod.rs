//! k-means with greedy k-means++ starts.

use std::sync::Arc;

use crate::{Backend, DeviceId, Matrix, Op, OpError, Size, ops::similarity::Corpus};

mod cpu;
mod cuda;
pub mod oracle;
mod random;

/// The rows to cluster.
#[derive(Clone, Debug)]
pub enum Rows {
    /// [N, D], finite.
    Inline(Matrix),
    /// The live rows of a corpus, in ascending order.
    Corpus(Arc<Corpus>),
}

/// What to cluster and how.
#[derive(Clone, Debug)]
pub struct ClusterRequest {
    /// The rows.
    pub rows: Rows,
    /// Clusters, 1 to the number of rows.
    pub clusters: usize,
    /// Lloyd iterations at most, at least 1.
    pub max_iterations: usize,
    /// Stops when the squared movement of the centres is at most this share of the mean variance of the columns.
    pub tolerance: f64,
    /// Starts to try; the one with the least inertia is kept.
    pub starts: usize,
    /// Normalise rows and centres.
    pub spherical: bool,
    /// Seed of the starts.
    pub seed: u64,
}

/// The clusters.
#[derive(Clone, Debug)]
pub struct Clusters {
    /// [clusters, D].
    pub centers: Matrix,
    /// The cluster of each row.
    pub assignments: Vec<u32>,
    /// Sum of squared distances to the centres.
    pub inertia: f64,
    /// Iterations of the best start.
    pub iterations: usize,
    /// Whether the tolerance was reached.
    pub converged: bool,
}

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

    fn home(request: &ClusterRequest) -> Option<DeviceId> {
        match &request.rows {
            Rows::Inline(_) => None,
            Rows::Corpus(corpus) => Some(corpus.home()),
        }
    }

    fn run(batch: &[&ClusterRequest], on: &mut Backend) -> Result<Vec<Clusters>, OpError> {
        match on {
            Backend::Cpu(worker) => cpu::cluster(batch, worker),
            Backend::Cuda(worker) => cuda::cluster(batch, worker),
        }
    }
}
