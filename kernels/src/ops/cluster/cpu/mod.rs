//! k-means on the CPU: Lloyd's iteration over greedy k-means++ starts. Sums are taken in f64 over pieces of fixed size in
//! fixed order, so that answers do not depend on the number of threads.
//!
//! A row goes to the centre that is nearest in f32: within rounding of the nearest, on rows that were centred and scaled
//! so that rounding is relative to their spread. Centres are means in f64, rounded to f32; the inertia is measured in f64
//! from the rows as they were given.

use super::{ClusterRequest, Clusters, random};
use crate::{
    Matrix, OpError,
    cpu::{Pool, Worker},
};

mod lloyd;
mod points;
mod start;
#[cfg(test)]
mod tests;

use lloyd::Fit;
use points::{Points, Source};

/// Clusters the rows of each request.
pub(super) fn cluster(batch: &[&ClusterRequest], worker: &Worker) -> Result<Vec<Clusters>, OpError> {
    batch.iter().map(|request| one(request, worker.pool())).collect()
}

fn one(request: &ClusterRequest, pool: &Pool) -> Result<Clusters, OpError> {
    let source = Source::new(&request.rows);
    let (rows, clusters) = (source.len(), request.clusters);
    if clusters == 0 || clusters > rows {
        return Err(OpError::Invalid(format!("{clusters} clusters asked for, of {rows} rows")));
    }
    let points = pool.time("kmeans_prepare", || Points::new(&source, request.spherical));
    let mut best: Option<Clusters> = None;
    for start in 0..request.starts.max(1) as u64 {
        let first = pool.time("kmeans_start", || start::centers(&points, clusters, request.seed, start));
        let fit = lloyd::fit(&points, &first, request, pool);
        let found = finish(&source, &points, fit, pool);
        if best.as_ref().is_none_or(|best| found.inertia < best.inertia) {
            best = Some(found);
        }
    }
    Ok(best.expect("there is at least one start"))
}

/// The clusters in the units of the rows as they were given.
fn finish(source: &Source<'_>, points: &Points, fit: Fit, pool: &Pool) -> Clusters {
    let centers = points.restore(&fit.centers);
    let inertia = pool.time("kmeans_inertia", || points.inertia(source, &centers, &fit.assignments));
    let clusters = centers.len() / points.dim.max(1);
    Clusters {
        centers: Matrix::from_vec(clusters, points.dim, centers).expect("whole centres"),
        assignments: fit.assignments,
        inertia,
        iterations: fit.iterations,
        converged: fit.converged,
    }
}
