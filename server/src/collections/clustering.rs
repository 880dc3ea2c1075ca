//! Clusterings of the rows of a request, or of the points of a collection.

use accelerd_collections::check_clusters;
use accelerd_engine::Context;
use accelerd_kernels::{
    Matrix,
    ops::cluster::{ClusterRequest, Clusters, Rows},
};
use accelerd_store::Ids;

use super::service::CollectionService;
use crate::{
    auth::caller::Caller,
    error::{ApiError, Decoded},
    layers::timing,
};

/// Upper bounds of a clustering's parameters, far above practical values.
const MAX_ITERATIONS: u32 = 100_000;
const MAX_INITS: u32 = 1_000;

const DEFAULT_ITERATIONS: usize = 100;
const DEFAULT_INITS: usize = 1;
const DEFAULT_TOLERANCE: f64 = 1e-4;

/// A clustering. Of the numbers, 0 means the default.
pub(crate) struct ClusterCall {
    pub(crate) input: Decoded<ClusterInput>,
    pub(crate) cluster_count: u32,
    pub(crate) max_iterations: u32,
    pub(crate) tolerance: Option<f64>,
    pub(crate) init_count: u32,
    pub(crate) spherical: bool,
    pub(crate) seed: u64,
}

/// The input of a clustering.
pub(crate) enum ClusterInput {
    Rows(Decoded<Matrix>),
    /// The points of the collection of this name.
    Collection(String),
}

/// The parameters of a clustering, checked.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    clusters: usize,
    max_iterations: usize,
    tolerance: f64,
    init_count: usize,
    spherical: bool,
    seed: u64,
}

impl CollectionService {
    /// Clusters rows, or the points of a collection. Returns the ids of the points, too.
    pub(crate) async fn cluster(
        &self,
        caller: &Caller,
        call: ClusterCall,
        context: Context,
    ) -> Result<(Clusters, Option<Ids>), ApiError> {
        let (input, parameters) = call.check()?;
        let request = |rows| parameters.request(rows);
        match input {
            ClusterInput::Rows(rows) => {
                let rows = rows?;
                check_clusters(parameters.clusters, rows.rows())?;
                let done = self.cluster.submit(request(Rows::Inline(rows)), context).await?;
                timing::record(&done);
                Ok((done.response, None))
            }
            ClusterInput::Collection(name) => {
                let collection = self.collection(caller, &name)?;
                let (clusters, ids) = collection.cluster(&self.cluster, request, context).await?;
                Ok((clusters, Some(ids)))
            }
        }
    }
}

impl ClusterCall {
    fn check(self) -> Result<(ClusterInput, Parameters), ApiError> {
        let input = self.input?;
        let tolerance = self.tolerance.unwrap_or(DEFAULT_TOLERANCE);
        if !tolerance.is_finite() || tolerance < 0.0 {
            let reason = format!("expected a finite number of at least 0, got {tolerance}");
            return Err(ApiError::invalid("tolerance", reason));
        }
        let parameters = Parameters {
            clusters: self.cluster_count as usize,
            max_iterations: at_most("max_iterations", self.max_iterations, DEFAULT_ITERATIONS, MAX_ITERATIONS)?,
            tolerance,
            init_count: at_most("init_count", self.init_count, DEFAULT_INITS, MAX_INITS)?,
            spherical: self.spherical,
            seed: self.seed,
        };
        Ok((input, parameters))
    }
}

impl Parameters {
    fn request(self, rows: Rows) -> ClusterRequest {
        let Self { clusters, max_iterations, tolerance, init_count, spherical, seed } = self;
        ClusterRequest { rows, clusters, max_iterations, tolerance, init_count, spherical, seed }
    }
}

fn at_most(field: &str, got: u32, default: usize, max: u32) -> Result<usize, ApiError> {
    match got {
        0 => Ok(default),
        got if got <= max => Ok(got as usize),
        got => Err(ApiError::invalid(field, format!("expected at most {max}, got {got}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> ClusterCall {
        ClusterCall {
            input: Ok(ClusterInput::Collection("points".to_owned())),
            cluster_count: 5,
            max_iterations: 0,
            tolerance: None,
            init_count: 0,
            spherical: false,
            seed: 0,
        }
    }

    #[test]
    fn clustering_parameters_have_defaults_and_bounds() {
        let (_, taken) = call().check().expect("it is good");
        assert_eq!((taken.max_iterations, taken.init_count, taken.tolerance), (100, 1, 1e-4));
        let refused = |call: ClusterCall| call.check().map(|_| ()).expect_err("it must be refused").to_string();
        assert!(refused(ClusterCall { tolerance: Some(-1.0), ..call() }).starts_with("tolerance: "));
        assert!(refused(ClusterCall { init_count: u32::MAX, ..call() }).starts_with("init_count: "));
    }

    #[test]
    fn a_missing_input_is_reported_before_the_parameters_and_bad_rows_after_them() {
        let missing = || Err(ApiError::invalid("input", "expected vectors or a collection, got neither"));
        let bad_rows = || Ok(ClusterInput::Rows(Err(ApiError::invalid("vectors.shape", "expected 2 extents, got 1"))));
        let field = |input, tolerance| match (ClusterCall { input, tolerance, ..call() }).check() {
            Err(ApiError::Invalid { field, .. }) => field,
            other => panic!("it must be refused, got {:?}", other.map(|(_, parameters)| parameters)),
        };
        assert_eq!(field(missing(), Some(-1.0)), "input");
        assert_eq!(field(bad_rows(), Some(-1.0)), "tolerance");
    }
}
