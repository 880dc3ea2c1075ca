//! k-means over inline rows or a collection.

use crate::{
    Client, Ids, Matrix, Result,
    call::Method,
    proto::{self, Tensor, cluster_request::Input},
    timing::Timings,
};

const CLUSTER: Method<proto::ClusterRequest, proto::ClusterResponse> =
    Method::repeatable("/accelerd.v1.SimilarityService/Cluster");

/// How to cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterOptions {
    /// Clusters to make.
    pub cluster_count: u32,
    /// Lloyd iterations at most; 0 means 100.
    pub max_iterations: u32,
    /// Stops when the centres move less than this share of the data's variance; `None` is the daemon's default.
    pub tolerance: Option<f64>,
    /// Starts to try, the best kept; 0 means 1.
    pub start_count: u32,
    /// Normalise rows and centres.
    pub spherical: bool,
    /// Seed of the starts.
    pub seed: u64,
}

impl ClusterOptions {
    /// So many clusters, all else by default.
    pub fn clusters(cluster_count: u32) -> Self {
        Self { cluster_count, max_iterations: 0, tolerance: None, start_count: 0, spherical: false, seed: 0 }
    }
}

/// The clusters found.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// One row a cluster.
    pub centers: Matrix,
    /// The cluster of each row.
    pub assignments: Matrix<i32>,
    /// Sum of squared distances of rows to their centre.
    pub inertia: f64,
    /// Iterations of the best start.
    pub iteration_count: u32,
    /// Whether the tolerance was reached.
    pub converged: bool,
    /// For a collection: the id of each row.
    pub ids: Option<Ids>,
    /// Where the time went.
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
            start_count: options.start_count,
            spherical: options.spherical,
            seed: options.seed,
        };
        let reply = self.unary(CLUSTER, request).await?;
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
