//! Lloyd's iteration in plain f64 loops: the reference for every backend.

use crate::Matrix;

/// The result of Lloyd's iteration.
#[derive(Clone, Debug)]
pub struct Polished {
    /// Row-major `[clusters, dimensions]`.
    pub centers: Vec<Vec<f64>>,
    /// The nearest centre of each row, ties to the lowest.
    pub assignments: Vec<u32>,
    /// Sum of squared distances of the rows to their centres.
    pub inertia: f64,
    /// Iterations that moved a centre.
    pub iterations: usize,
}

/// The squared distance of a row to each of `centers`, [clusters, D].
pub fn squared_distances(row: &[f32], centers: &[f32]) -> Vec<f64> {
    let wide = |x: &f32| f64::from(*x);
    centers
        .chunks_exact(row.len())
        .map(|center| row.iter().zip(center).map(|(x, c)| (wide(x) - wide(c)).powi(2)).sum())
        .collect()
}

/// Iterates until no assignment changes, or `max_iterations` times. A centre without rows keeps its position.
pub fn lloyd(rows: &Matrix, centers: &Matrix, max_iterations: usize) -> Polished {
    let dim = rows.cols();
    let data: Vec<Vec<f64>> = widen(rows);
    let mut centers = widen(centers);
    let (mut assignments, mut inertia) = assign(&data, &centers);
    let mut iterations = 0;
    while iterations < max_iterations {
        iterations += 1;
        centers = means(&data, &assignments, &centers, dim);
        let (next, next_inertia) = assign(&data, &centers);
        inertia = next_inertia;
        if next == assignments {
            break;
        }
        assignments = next;
    }
    Polished { centers, assignments, inertia, iterations }
}

fn widen(matrix: &Matrix) -> Vec<Vec<f64>> {
    let cols = matrix.cols().max(1);
    matrix.as_f32().chunks_exact(cols).map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect()
}

fn assign(rows: &[Vec<f64>], centers: &[Vec<f64>]) -> (Vec<u32>, f64) {
    let mut inertia = 0.0;
    let nearest = |row: &Vec<f64>| {
        let mut best = (f64::INFINITY, 0);
        for (index, center) in (0_u32..).zip(centers) {
            let distance: f64 = row.iter().zip(center).map(|(x, c)| (x - c).powi(2)).sum();
            if distance < best.0 {
                best = (distance, index);
            }
        }
        inertia += best.0;
        best.1
    };
    (rows.iter().map(nearest).collect(), inertia)
}

fn means(rows: &[Vec<f64>], assignments: &[u32], old: &[Vec<f64>], dim: usize) -> Vec<Vec<f64>> {
    let mut sums = vec![vec![0.0; dim]; old.len()];
    let mut counts = vec![0_u32; old.len()];
    for (row, &cluster) in rows.iter().zip(assignments) {
        counts[cluster as usize] += 1;
        sums[cluster as usize].iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }
    let mean = |((sum, count), old): ((Vec<f64>, u32), &Vec<f64>)| match count {
        0 => old.clone(),
        count => sum.iter().map(|x| x / f64::from(count)).collect(),
    };
    sums.into_iter().zip(counts).zip(old).map(mean).collect()
}
