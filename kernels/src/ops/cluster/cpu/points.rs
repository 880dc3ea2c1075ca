//! The rows in the form that k-means computes with: gathered, centred and scaled to where f32 is precise.

use std::borrow::Cow;

use crate::{
    OpError,
    cpu::{Worker, f64_sums, gemm::AlignedF32, slices::READ_COST},
    op::product,
    ops::{cluster::request::Rows, similarity::View},
};

/// Rows that are summed together. Partial sums are then added in order, so that results do not depend on the threads.
pub(super) const CHUNK_ROWS: usize = 2048;

/// The original rows.
pub(super) enum Source<'a> {
    Inline { rows: Cow<'a, [f32]>, len: usize, dim: usize },
    Corpus { view: View, live: Vec<u32> },
}

impl<'a> Source<'a> {
    pub(super) fn new(rows: &'a Rows) -> Self {
        match rows {
            Rows::Inline(matrix) => Self::Inline { rows: matrix.as_f32(), len: matrix.rows(), dim: matrix.cols() },
            Rows::Corpus(corpus) => {
                let view = corpus.view();
                let deleted = view.deleted_bits().unwrap_or_default();
                let is_deleted =
                    |row: u32| deleted.get(row as usize / 32).is_some_and(|word| word >> (row % 32) & 1 == 1);
                let live = (0..).take(view.len()).filter(|&row| !is_deleted(row)).collect();
                Self::Corpus { view, live }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Inline { len, .. } => *len,
            Self::Corpus { live, .. } => live.len(),
        }
    }

    fn dim(&self) -> usize {
        match self {
            Self::Inline { dim, .. } => *dim,
            Self::Corpus { view, .. } => view.dim(),
        }
    }

    fn row(&self, row: usize) -> &[f32] {
        match self {
            Self::Inline { rows, dim, .. } => &rows[row * dim..][..*dim],
            Self::Corpus { view, live } => view.row(live[row] as usize),
        }
    }
}

/// The rows to compute with: `(row - mean) * scale`, or the normalised rows.
pub(super) struct Points {
    pub(super) dim: usize,
    pub(super) len: usize,
    /// [len][dim].
    rows: AlignedF32,
    pub(super) squared_norms: Vec<f32>,
    /// The mean variance of the columns.
    pub(super) variance: f64,
    pub(super) spherical: bool,
    mean: Vec<f64>,
    /// A power of two.
    scale: f64,
}

impl Points {
    pub(super) fn new(source: &Source<'_>, spherical: bool, worker: &Worker) -> Result<Self, OpError> {
        let len = source.len();
        let dim = source.dim();
        let (mean, scale) = if spherical { (vec![0.0; dim], 1.0) } else { mean_and_scale(source, worker)? };
        let mut rows = AlignedF32::zeros(len * dim);
        let mut squared_norms = vec![0.0; len];
        let chunks = rows[..len * dim].chunks_mut(CHUNK_ROWS * dim.max(1)).zip(squared_norms.chunks_mut(CHUNK_ROWS));
        let prepare = |chunk: usize, rows: &mut [f32], norms: &mut [f32]| {
            for (index, (to, norm)) in rows.chunks_exact_mut(dim.max(1)).zip(norms).enumerate() {
                transform(
                    source.row(chunk * CHUNK_ROWS + index),
                    &mean,
                    if spherical { None } else { Some(scale) },
                    to,
                );
                #[expect(clippy::cast_possible_truncation, reason = "the rest of the distance is f32 as well")]
                let squared_norm = f64_sums::squared_norm(to) as f32;
                *norm = squared_norm;
            }
        };
        let work = |(): &mut (), (chunk, (rows, norms)): (usize, (&mut [f32], &mut [f32]))| prepare(chunk, rows, norms);
        worker.for_each(chunks.enumerate().collect(), |_| pass_cost(dim), || (), work)?;
        let mut points = Self { dim, len, rows, squared_norms, variance: 0.0, spherical, mean, scale };
        points.variance = points.mean_variance(worker)?;
        Ok(points)
    }

    pub(super) fn all(&self) -> &[f32] {
        &self.rows[..self.len * self.dim]
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.rows[row * self.dim..][..self.dim]
    }

    fn mean_variance(&self, worker: &Worker) -> Result<f64, OpError> {
        let count = self.len as f64;
        let rows = || self.all().chunks(CHUNK_ROWS * self.dim.max(1)).map(|chunk| chunk.chunks_exact(self.dim.max(1)));
        let sums = column_sums(rows().collect(), self.dim, |_, x| x, worker)?;
        let squares = column_sums(rows().collect(), self.dim, |index, x| (x - sums[index] / count).powi(2), worker)?;
        Ok(squares.iter().sum::<f64>() / count / self.dim.max(1) as f64)
    }

    /// Transforms centres back to the coordinates of the original rows.
    #[expect(clippy::cast_possible_truncation, reason = "centres are f32")]
    pub(super) fn restore(&self, centers: &[f32]) -> Vec<f32> {
        let restore = |(x, mean): (&f32, &f64)| (f64::from(*x) / self.scale + mean) as f32;
        centers.chunks_exact(self.dim.max(1)).flat_map(|center| center.iter().zip(&self.mean).map(restore)).collect()
    }

    /// Sum of squared distances of the original or normalised rows to their centres.
    pub(super) fn inertia(
        &self,
        source: &Source<'_>,
        centers: &[f32],
        assignments: &[u32],
        worker: &Worker,
    ) -> Result<f64, OpError> {
        let distance = |row: usize, cluster: u32| {
            let given = if self.spherical { self.row(row) } else { source.row(row) };
            f64_sums::squared_distance(given, &centers[cluster as usize * self.dim..][..self.dim])
        };
        let chunk = |(chunk, assignments): (usize, &[u32])| -> f64 {
            assignments.iter().enumerate().map(|(index, &cluster)| distance(chunk * CHUNK_ROWS + index, cluster)).sum()
        };
        let chunks = assignments.chunks(CHUNK_ROWS).enumerate().collect();
        let sums: Vec<f64> = worker.map(chunks, |_| pass_cost(self.dim), chunk)?;
        Ok(sums.iter().sum())
    }
}

/// The mean of the rows, and the power of two that scales the largest centred coordinate to about 1.
fn mean_and_scale(source: &Source<'_>, worker: &Worker) -> Result<(Vec<f64>, f64), OpError> {
    let chunks = 0..source.len().div_ceil(CHUNK_ROWS);
    let chunk =
        |index: usize| (index * CHUNK_ROWS..source.len().min((index + 1) * CHUNK_ROWS)).map(|row| source.row(row));
    let mut mean = column_sums(chunks.clone().map(chunk).collect(), source.dim(), |_, x| x, worker)?;
    for sum in &mut mean {
        *sum /= source.len() as f64;
    }
    let reach = |row: &[f32]| row.iter().zip(&mean).map(|(x, m)| (f64::from(*x) - m).abs()).fold(0.0, f64::max);
    let of_chunk = |index: usize| chunk(index).map(reach).fold(0.0, f64::max);
    let reaches = worker.map(chunks.collect(), |_| pass_cost(source.dim()), of_chunk)?;
    let reach = reaches.into_iter().fold(0.0, f64::max);
    let scale = if reach > 0.0 { (-reach.log2().ceil()).exp2() } else { 1.0 };
    Ok((mean, scale))
}

/// Column sums of a function of each number, chunk by chunk.
fn column_sums<'a, I: Iterator<Item = &'a [f32]> + Send>(
    chunks: Vec<I>,
    dim: usize,
    of: impl Fn(usize, f64) -> f64 + Sync + Send,
    worker: &Worker,
) -> Result<Vec<f64>, OpError> {
    let sum = |chunk: I| {
        let mut sums = vec![0.0; dim];
        for row in chunk {
            sums.iter_mut().zip(row).enumerate().for_each(|(index, (sum, x))| *sum += of(index, f64::from(*x)));
        }
        sums
    };
    let parts: Vec<Vec<f64>> = worker.map(chunks, |_| pass_cost(dim), sum)?;
    let mut sums = vec![0.0; dim];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    Ok(sums)
}

/// The cost of a pass over a chunk of rows.
fn pass_cost(dim: usize) -> u64 {
    READ_COST.saturating_mul(product([CHUNK_ROWS, dim]))
}

/// Centres and scales a row, or normalises it if there is no scale.
#[expect(clippy::cast_possible_truncation, reason = "the rows to compute with are f32")]
fn transform(row: &[f32], mean: &[f64], scale: Option<f64>, to: &mut [f32]) {
    let scale = scale.unwrap_or_else(|| match f64_sums::squared_norm(row) {
        0.0 => 0.0,
        squared_norm => 1.0 / squared_norm.sqrt(),
    });
    for ((to, x), mean) in to.iter_mut().zip(row).zip(mean) {
        *to = ((f64::from(*x) - mean) * scale) as f32;
    }
}
