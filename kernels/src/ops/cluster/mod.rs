//! k-means with greedy k-means++ initialisation.

use crate::{Backend, DeviceId, Op, OpError, Size, op::product};

mod cpu;
pub(crate) mod cuda;
pub mod oracle;
mod random;
mod request;

pub use request::{ClusterRequest, Clusters, Rows};

/// k-means.
#[derive(Debug)]
pub struct Cluster;

/// Iterations that a cost assumes where the limit is higher: most data converges to the default tolerance in 10 to 30.
const EXPECTED_ITERATIONS: usize = 20;

impl Op for Cluster {
    const NAME: &'static str = "cluster";
    type Request = ClusterRequest;
    type Response = Clusters;
    type Key = ();

    fn key(_request: &ClusterRequest) {}

    /// Inline rows, or the centres of resident ones: a request does not hold rows that are resident anyway. The bytes are
    /// those of rows, centres, assignments and distances on a device.
    fn size(request: &ClusterRequest) -> Size {
        let (rows, dim) = request.shape();
        let items = match &request.rows {
            Rows::Inline(_) => rows,
            Rows::Corpus(_) => request.clusters,
        };
        let numbers = (rows as u64).saturating_add(request.clusters as u64).saturating_mul(dim as u64);
        let bytes = numbers.saturating_mul(4).saturating_add((rows as u64).saturating_mul(8));
        Size { items: (items as u64).max(1), bytes }
    }

    /// Inline rows and the result, or the result alone.
    fn held_bytes(request: &ClusterRequest) -> u64 {
        match &request.rows {
            Rows::Inline(_) => Self::size(request).bytes,
            Rows::Corpus(_) => request.result_bytes(),
        }
    }

    /// Multiply-adds of rows with centres: candidates and expected iterations of each initialisation, and the passes that
    /// prepare the rows.
    fn cost(request: &ClusterRequest) -> u64 {
        let (rows, dim) = request.shape();
        let passes = random::trials(request.clusters) + request.max_iterations.clamp(1, EXPECTED_ITERATIONS) + 1;
        let each = product([request.clusters, passes, request.init_count.max(1)]).saturating_add(1);
        product([rows, dim]).saturating_mul(each).max(1)
    }

    fn device_affinity(request: &ClusterRequest) -> Option<DeviceId> {
        match &request.rows {
            Rows::Inline(_) => None,
            Rows::Corpus(corpus) => Some(corpus.device()),
        }
    }

    /// Rows are sent, or a corpus has their originals in host memory.
    fn cpu_fallback(_request: &ClusterRequest) -> bool {
        true
    }

    fn run(batch: &[&ClusterRequest], on: &mut Backend) -> Result<Vec<Clusters>, OpError> {
        match on {
            Backend::Cpu(worker) => cpu::cluster(batch, worker),
            Backend::Cuda(worker) => cuda::cluster(batch, worker),
        }
    }
}
