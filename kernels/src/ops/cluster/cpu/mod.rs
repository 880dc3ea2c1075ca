//! k-means on the CPU: greedy k-means++ initialisation, then Lloyd's iteration. Sums are taken in f64 over chunks of
//! fixed size in fixed order, so that results do not depend on the number of threads. Chunks of rows are distributed in slices.
//!
//! Rows are assigned to the nearest centre in f32, on rows that were centred and scaled so that rounding errors are
//! relative to their spread. Centres are means in f64, rounded to f32. The inertia is computed in f64 from the original
//! rows.

use super::request::{ClusterRequest, Clusters};
use crate::{Matrix, OpError, cpu::Worker};

mod init;
mod lloyd;
mod points;
#[cfg(test)]
mod tests;

use lloyd::Fit;
use points::{Points, Source};

/// Clusters the rows of each request.
pub(super) fn cluster(batch: &[&ClusterRequest], worker: &Worker) -> Result<Vec<Clusters>, OpError> {
    batch.iter().map(|request| one(request, worker)).collect()
}

fn one(request: &ClusterRequest, worker: &Worker) -> Result<Clusters, OpError> {
    let pool = worker.pool();
    let source = Source::new(&request.rows);
    let rows = source.len();
    let clusters = request.clusters;
    if clusters == 0 || clusters > rows {
        return Err(OpError::Invalid(format!("expected 1 to {rows} clusters, one per row at most, got {clusters}")));
    }
    let points = pool.time_inline("kmeans_prepare", || Points::new(&source, request.spherical, worker))?;
    let mut best: Option<Clusters> = None;
    for start in 0..request.init_count.max(1) as u64 {
        let choose = || init::choose_centers(&points, clusters, request.seed, start, worker);
        let first = pool.time_inline("kmeans_init", choose)?;
        let fit = lloyd::fit(&points, &first, request, worker)?;
        let found = finish(&source, &points, fit, worker)?;
        if best.as_ref().is_none_or(|best| found.inertia < best.inertia) {
            best = Some(found);
        }
    }
    Ok(best.expect("at least one initialisation"))
}

/// The clusters in the coordinates of the original rows.
fn finish(source: &Source<'_>, points: &Points, fit: Fit, worker: &Worker) -> Result<Clusters, OpError> {
    let centers = points.restore(&fit.centers);
    let inertia = || points.inertia(source, &centers, &fit.assignments, worker);
    let inertia = worker.pool().time_inline("kmeans_inertia", inertia)?;
    let clusters = centers.len() / points.dim.max(1);
    Ok(Clusters {
        centers: Matrix::from_vec(clusters, points.dim, centers).expect("whole centres"),
        assignments: fit.assignments,
        inertia,
        iterations: fit.iterations,
        converged: fit.converged,
    })
}
