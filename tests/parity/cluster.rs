//! k-means: the result is a fixed point of Lloyd's iteration, as good as the oracle's, and deterministic for a seed.

use accelerd_kernels::{
    Backend, Matrix,
    ops::cluster::{Cluster, ClusterRequest, Clusters, Rows, oracle},
};
use accelerd_parity::{random, run_batch, with_outliers};
use rand::Rng;

use super::Case;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("cluster::separated_blobs_are_found", blobs),
        Case::new("cluster::as_many_clusters_as_rows", all_rows),
        Case::new("cluster::equal_rows_leave_no_cluster_undefined", equal_rows),
        Case::new("cluster::spherical_centers_have_unit_length", spherical),
    ];
    for (rows, dim, clusters) in
        [(1, 1, 1), (33, 3, 4), (1025, 31, 7), (5000, 128, 33), (20_000, 64, 256), (30_000, 17, 300)]
    {
        cases.push(Case::new(format!("cluster::rows_{rows}_dim_{dim}_clusters_{clusters}"), move |backend| {
            let request = request(numbers(rows, dim, 1), clusters, 25);
            let answer = run(backend, &request)?;
            consistent(&request, &answer)?;
            repeatable(backend, &request, &answer)
        }));
    }
    cases
}

fn numbers(rows: usize, cols: usize, seed: u64) -> Matrix {
    let data = with_outliers(&mut random(seed + 7 * rows as u64 + cols as u64), rows * cols);
    Matrix::from_vec(rows, cols, data).expect("the data was made for this shape")
}

fn request(rows: Matrix, clusters: usize, max_iterations: usize) -> ClusterRequest {
    let rows = Rows::Inline(rows);
    ClusterRequest { rows, clusters, max_iterations, tolerance: 1e-4, init_count: 1, spherical: false, seed: 42 }
}

fn run(backend: &mut Backend, request: &ClusterRequest) -> Result<Clusters, String> {
    let mut answers = run_batch::<Cluster>(std::slice::from_ref(request), backend).map_err(|e| e.to_string())?;
    answers.pop().ok_or_else(|| "no answer".to_owned())
}

fn inline(request: &ClusterRequest) -> &Matrix {
    match &request.rows {
        Rows::Inline(rows) => rows,
        Rows::Corpus(_) => unreachable!("these cases are inline"),
    }
}

/// Assignments are nearest, the inertia is right, and at most 1% above that of Lloyd's iteration in f64 from the same
/// centres.
fn consistent(request: &ClusterRequest, answer: &Clusters) -> Result<(), String> {
    let rows = inline(request);
    if answer.assignments.len() != rows.rows() || answer.centers.rows() != request.clusters {
        return Err("shape of the answer".to_owned());
    }
    let data = rows.as_f32();
    let centers = answer.centers.as_f32();
    let mut inertia = 0.0;
    for (row, assigned) in data.chunks(rows.cols()).zip(&answer.assignments) {
        let distances = oracle::squared_distances(row, &centers);
        let mine = distances[*assigned as usize];
        let nearest = distances.iter().copied().fold(f64::INFINITY, f64::min);
        let scale: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() + nearest;
        if mine > nearest + 1e-3 * scale {
            return Err(format!("a row is {mine} from its centre, and {nearest} from another"));
        }
        inertia += mine;
    }
    if (inertia - answer.inertia).abs() > 1e-5 * inertia.max(1e-6) {
        return Err(format!("inertia {} reported, {inertia} measured", answer.inertia));
    }
    let polished = oracle::lloyd(rows, &answer.centers, request.max_iterations);
    if answer.inertia > polished.inertia * 1.01 + 1e-6 {
        return Err(format!("inertia {}, Lloyd in f64 goes on to {}", answer.inertia, polished.inertia));
    }
    Ok(())
}

fn repeatable(backend: &mut Backend, request: &ClusterRequest, answer: &Clusters) -> Result<(), String> {
    let again = run(backend, request)?;
    if again.assignments != answer.assignments || again.centers.bytes() != answer.centers.bytes() {
        return Err("the same seed gave another answer".to_owned());
    }
    Ok(())
}

fn blobs(backend: &mut Backend) -> Result<(), String> {
    let blobs = 20;
    let each = 150;
    let dim = 16;
    let mut random = random(3);
    let centers: Vec<f32> = (0..blobs * dim).map(|_| random.random_range(-100.0..100.0)).collect();
    let data = (0..blobs * each * dim).map(|i| {
        let row = i / dim;
        let column = i % dim;
        centers[row % blobs * dim + column] + random.random_range(-1.0_f32..1.0)
    });
    let rows = Matrix::from_vec(blobs * each, dim, data.collect()).expect("the data was made for this shape");
    let request = ClusterRequest { init_count: 3, ..request(rows, blobs, 50) };
    let answer = run(backend, &request)?;
    consistent(&request, &answer)?;
    for row in 0..blobs * each {
        if answer.assignments[row] != answer.assignments[row % blobs] {
            return Err(format!("row {row} is not with its blob"));
        }
    }
    Ok(())
}

fn all_rows(backend: &mut Backend) -> Result<(), String> {
    let answer = run(backend, &request(numbers(40, 5, 4), 40, 10))?;
    if answer.inertia > 1e-3 {
        return Err(format!("every row has a centre of its own, and the inertia is {}", answer.inertia));
    }
    Ok(())
}

fn equal_rows(backend: &mut Backend) -> Result<(), String> {
    let rows = Matrix::from_vec(100, 4, vec![2.5; 400]).expect("100 rows");
    let answer = run(backend, &request(rows, 5, 10))?;
    if answer.centers.first_non_finite().is_some() || answer.inertia != 0.0 {
        return Err(format!("centres {:?}, inertia {}", answer.centers.as_f32(), answer.inertia));
    }
    Ok(())
}

fn spherical(backend: &mut Backend) -> Result<(), String> {
    let request = ClusterRequest { spherical: true, ..request(numbers(2000, 24, 5), 12, 20) };
    let answer = run(backend, &request)?;
    for center in answer.centers.as_f32().chunks(24) {
        let length: f32 = center.iter().map(|x| x * x).sum::<f32>().sqrt();
        if (length - 1.0).abs() > 1e-5 {
            return Err(format!("a centre has length {length}"));
        }
    }
    Ok(())
}
