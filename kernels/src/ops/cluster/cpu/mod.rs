//! k-means on the CPU: greedy k-means++ initialisation, then Lloyd's iteration. Sums are taken in f64 over chunks of
//! fixed size in fixed order, so that results do not depend on the number of threads.
//!
//! Rows are assigned to the nearest centre in f32, on rows that were centred and scaled so that rounding errors are
//! relative to their spread. Centres are means in f64, rounded to f32. The inertia is computed in f64 from the original
//! rows.

use super::request::{ClusterRequest, Clusters};
use crate::{
    Matrix, OpError,
    cpu::{Pool, Worker},
};

mod init;
mod lloyd;
mod points;
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
        return Err(OpError::Invalid(format!("expected 1 to {rows} clusters, one per row at most, got {clusters}")));
    }
    let points = pool.time("kmeans_prepare", || Points::new(&source, request.spherical));
    let mut best: Option<Clusters> = None;
    for start in 0..request.init_count.max(1) as u64 {
        let first = pool.time("kmeans_init", || init::choose_centers(&points, clusters, request.seed, start));
        let fit = lloyd::fit(&points, &first, request, pool);
        let found = finish(&source, &points, fit, pool);
        if best.as_ref().is_none_or(|best| found.inertia < best.inertia) {
            best = Some(found);
        }
    }
    Ok(best.expect("at least one initialisation"))
}

/// The clusters in the coordinates of the original rows.
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
