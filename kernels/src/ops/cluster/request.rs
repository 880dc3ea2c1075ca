//! The request and the result of k-means.

use std::sync::Arc;

use crate::{Matrix, op::product, ops::similarity::Corpus};

/// The rows to cluster.
#[derive(Clone, Debug)]
pub enum Rows {
    /// [N, D], finite.
    Inline(Matrix),
    /// The live rows of a corpus, in ascending order.
    Corpus(Arc<Corpus>),
}

/// A k-means problem.
#[derive(Clone, Debug)]
pub struct ClusterRequest {
    /// The rows to cluster.
    pub rows: Rows,
    /// The number of clusters, 1 to the number of rows.
    pub clusters: usize,
    /// The most Lloyd iterations, at least 1.
    pub max_iterations: usize,
    /// Stops when the squared movement of the centres is at most this share of the mean variance of the columns.
    pub tolerance: f64,
    /// The number of initialisations to try; the result with the least inertia is kept.
    pub init_count: usize,
    /// Normalise rows and centres.
    pub spherical: bool,
    /// The seed of the initialisations.
    pub seed: u64,
}

impl ClusterRequest {
    /// Rows and columns; deleted rows of a corpus count.
    pub(super) fn shape(&self) -> (usize, usize) {
        match &self.rows {
            Rows::Inline(rows) => (rows.rows(), rows.cols()),
            Rows::Corpus(corpus) => (corpus.len(), corpus.dim()),
        }
    }

    /// Bytes of the centres and assignments.
    pub(super) fn result_bytes(&self) -> u64 {
        let (rows, dim) = self.shape();
        product([self.clusters, dim, size_of::<f32>()]).saturating_add(product([rows, size_of::<u32>()]))
    }
}

/// The result of k-means.
#[derive(Clone, Debug)]
pub struct Clusters {
    /// [clusters, D].
    pub centers: Matrix,
    /// The cluster of each row.
    pub assignments: Vec<u32>,
    /// Sum of squared distances of the rows to their centres.
    pub inertia: f64,
    /// Iterations of the best initialisation.
    pub iterations: usize,
    /// True if the tolerance was reached.
    pub converged: bool,
}
