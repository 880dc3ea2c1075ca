//! k-means over inline rows or a collection.

use accelerd_proto::methods::similarity_service;

use crate::{
    Client, Ids, Matrix, Result,
    proto::{self, Tensor, cluster_request::Input},
    timing::Timings,
};

/// Options of k-means.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterOptions {
    /// Number of clusters.
    pub cluster_count: u32,
    /// Maximum Lloyd iterations; 0 means 100.
    pub max_iterations: u32,
    /// Stops when the squared movement of the centers falls below this fraction of the data's variance; `None` means the
    /// daemon's default.
    pub tolerance: Option<f64>,
    /// Initialisations to run, of which the result with the lowest inertia is returned; 0 means 1.
    pub init_count: u32,
    /// True to normalise rows and centers (spherical k-means).
    pub spherical: bool,
    /// Seed of the initialisations.
    pub seed: u64,
}

impl ClusterOptions {
    /// Options for this many clusters.
    pub fn clusters(cluster_count: u32) -> Self {
        Self { cluster_count, max_iterations: 0, tolerance: None, init_count: 0, spherical: false, seed: 0 }
    }
}

/// Result of k-means.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// One row per cluster.
    pub centers: Matrix,
    /// The cluster of each row.
    pub assignments: Matrix<i32>,
    /// Sum of squared distances of the rows to their centers.
    pub inertia: f64,
    /// Iterations of the best initialisation.
    pub iteration_count: u32,
    /// True if the tolerance was reached.
    pub converged: bool,
    /// Id of each row, if the rows are those of a collection.
    pub ids: Option<Ids>,
    /// Server-side timings.
    pub timings: Timings,
}

impl Client {
    /// Clusters rows.
    pub async fn cluster(&self, vectors: impl Into<Tensor>, options: &ClusterOptions) -> Result<Clusters> {
        self.cluster_input(Input::Vectors(vectors.into()), options).await
    }

    /// Clusters all points of a collection.
    pub async fn cluster_collection(&self, name: impl Into<String>, options: &ClusterOptions) -> Result<Clusters> {
        self.cluster_input(Input::Collection(name.into()), options).await
    }

    async fn cluster_input(&self, input: Input, options: &ClusterOptions) -> Result<Clusters> {
        let request = proto::ClusterRequest {
            input: Some(input),
            cluster_count: options.cluster_count,
            max_iterations: options.max_iterations,
            tolerance: options.tolerance,
            init_count: options.init_count,
            spherical: options.spherical,
            seed: options.seed,
        };
        let reply = self.unary(similarity_service::CLUSTER, request).await?;
        let clusters = reply.message;
        Ok(Clusters {
            centers: Matrix::from_tensor(clusters.centers, "centers")?,
            assignments: Matrix::from_tensor(clusters.assignments, "assignments")?,
            inertia: clusters.inertia,
            iteration_count: clusters.iteration_count,
            converged: clusters.converged,
            ids: clusters.ids.map(Into::into),
            timings: reply.timings,
        })
    }
}
