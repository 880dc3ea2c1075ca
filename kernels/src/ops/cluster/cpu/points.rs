//! The rows in the form that k-means computes with: gathered, and moved and scaled to where f32 is precise.

use std::borrow::Cow;

use rayon::prelude::*;

use super::super::Rows;
use crate::{
    cpu::{exact, products::Floats},
    ops::similarity::View,
};

/// Rows whose sums are taken together.
pub(super) const PIECE: usize = 2048;

/// The rows as they were given.
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
                let dead = view.dead_bits().unwrap_or_default();
                let is_dead = |row: u32| dead.get(row as usize / 32).is_some_and(|word| word >> (row % 32) & 1 == 1);
                let live = (0..).take(view.len()).filter(|&row| !is_dead(row)).collect();
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

/// Rows to compute with: `(given - shift) * scale`, or normalised.
pub(super) struct Points {
    pub(super) dim: usize,
    pub(super) len: usize,
    /// [len][dim], and zeros to the end of the line.
    rows: Floats,
    pub(super) squared_norms: Vec<f32>,
    /// Mean variance of the columns.
    pub(super) variance: f64,
    pub(super) spherical: bool,
    shift: Vec<f64>,
    /// A power of two.
    scale: f64,
}

impl Points {
    pub(super) fn new(source: &Source<'_>, spherical: bool) -> Self {
        let (len, dim) = (source.len(), source.dim());
        let (shift, scale) = if spherical { (vec![0.0; dim], 1.0) } else { frame(source) };
        let mut rows = Floats::zeros(len * dim);
        rows[..len * dim].par_chunks_mut(PIECE * dim.max(1)).enumerate().for_each(|(piece, to)| {
            for (at, to) in to.chunks_exact_mut(dim.max(1)).enumerate() {
                place(source.row(piece * PIECE + at), &shift, if spherical { None } else { Some(scale) }, to);
            }
        });
        let all = rows[..len * dim].par_chunks(dim.max(1));
        #[expect(clippy::cast_possible_truncation, reason = "the rest of the distance is f32 as well")]
        let squared_norms = all.with_min_len(PIECE).map(|row| exact::squared_norm(row) as f32).collect();
        let mut points = Self { dim, len, rows, squared_norms, variance: 0.0, spherical, shift, scale };
        points.variance = points.mean_variance();
        points
    }

    pub(super) fn all(&self) -> &[f32] {
        &self.rows[..self.len * self.dim]
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.rows[row * self.dim..][..self.dim]
    }

    fn mean_variance(&self) -> f64 {
        let count = self.len as f64;
        let rows = || self.all().par_chunks(PIECE * self.dim.max(1));
        let sums = column_sums(rows().map(|piece| piece.chunks_exact(self.dim.max(1))), self.dim, |_, x| x);
        let squares = column_sums(rows().map(|piece| piece.chunks_exact(self.dim.max(1))), self.dim, |at, x| {
            (x - sums[at] / count).powi(2)
        });
        squares.iter().sum::<f64>() / count / self.dim.max(1) as f64
    }

    /// Centres in the units of the rows as they were given.
    #[expect(clippy::cast_possible_truncation, reason = "centres are f32")]
    pub(super) fn restore(&self, centers: &[f32]) -> Vec<f32> {
        let restore = |(x, shift): (&f32, &f64)| (f64::from(*x) / self.scale + shift) as f32;
        centers.chunks_exact(self.dim.max(1)).flat_map(|center| center.iter().zip(&self.shift).map(restore)).collect()
    }

    /// Sum of squared distances of the rows, as they were given or normalised, to their centres.
    pub(super) fn inertia(&self, source: &Source<'_>, centers: &[f32], assignments: &[u32]) -> f64 {
        let distance = |row: usize, cluster: u32| {
            let given = if self.spherical { self.row(row) } else { source.row(row) };
            exact::squared_distance(given, &centers[cluster as usize * self.dim..][..self.dim])
        };
        let piece = |(piece, assignments): (usize, &[u32])| -> f64 {
            assignments.iter().enumerate().map(|(at, &cluster)| distance(piece * PIECE + at, cluster)).sum()
        };
        let sums: Vec<f64> = assignments.par_chunks(PIECE).enumerate().map(piece).collect();
        sums.iter().sum()
    }
}

/// Where the middle of the rows is, and the power of two that brings the farthest column to about 1.
fn frame(source: &Source<'_>) -> (Vec<f64>, f64) {
    let pieces = || (0..source.len().div_ceil(PIECE)).into_par_iter();
    let piece = |at: usize| (at * PIECE..source.len().min((at + 1) * PIECE)).map(|row| source.row(row));
    let mut shift = column_sums(pieces().map(piece), source.dim(), |_, x| x);
    for sum in &mut shift {
        *sum /= source.len() as f64;
    }
    let reach = |row: &[f32]| row.iter().zip(&shift).map(|(x, m)| (f64::from(*x) - m).abs()).fold(0.0, f64::max);
    let reach = pieces().map(|at| piece(at).map(reach).fold(0.0, f64::max)).reduce(|| 0.0, f64::max);
    let scale = if reach > 0.0 { (-reach.log2().ceil()).exp2() } else { 1.0 };
    (shift, scale)
}

/// Sums of a function of each column, piece by piece.
fn column_sums<'a, I: Iterator<Item = &'a [f32]>>(
    pieces: impl IndexedParallelIterator<Item = I>,
    dim: usize,
    of: impl Fn(usize, f64) -> f64 + Sync,
) -> Vec<f64> {
    let sum = |piece: I| {
        let mut sums = vec![0.0; dim];
        for row in piece {
            sums.iter_mut().zip(row).enumerate().for_each(|(at, (sum, x))| *sum += of(at, f64::from(*x)));
        }
        sums
    };
    let parts: Vec<Vec<f64>> = pieces.map(sum).collect();
    let mut sums = vec![0.0; dim];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    sums
}

/// Moves and scales a row, or normalises it.
#[expect(clippy::cast_possible_truncation, reason = "the rows computed with are f32")]
fn place(row: &[f32], shift: &[f64], scale: Option<f64>, to: &mut [f32]) {
    let scale = scale.unwrap_or_else(|| match exact::squared_norm(row) {
        0.0 => 0.0,
        squared_norm => 1.0 / squared_norm.sqrt(),
    });
    for ((to, x), shift) in to.iter_mut().zip(row).zip(shift) {
        *to = ((f64::from(*x) - shift) * scale) as f32;
    }
}
