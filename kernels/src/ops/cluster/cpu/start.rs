//! Greedy k-means++: each step draws a few rows with a chance proportional to their squared distance from the centres so
//! far, and keeps the one that lowers the sum of those distances most (Arthur and Vassilvitskii, "k-means++: the
//! advantages of careful seeding", SODA 2007; with as many trials as scikit-learn takes).
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use rayon::prelude::*;

use super::{
    points::{PIECE, Points},
    random,
};
use crate::cpu::{
    products::{BLOCK_BYTES, Far, Floats, Packed},
    simd::{Isa, Kernel, Lanes},
};

/// The rows that `clusters` centres start from.
pub(super) fn centers(points: &Points, clusters: usize, seed: u64, start: u64) -> Vec<usize> {
    let mut steps = Steps::new(points, random::trials(clusters));
    let mut chosen = Vec::with_capacity(clusters);
    steps.evaluate(&[pick(random::uniform(seed, start, 0, 0), points.len)]);
    chosen.push(steps.keep_best());
    for step in 1..clusters as u64 {
        let draw = |trial| steps.draw(random::uniform(seed, start, step, trial));
        let candidates: Vec<usize> = (0..random::trials(clusters) as u64).map(draw).collect();
        steps.evaluate(&candidates);
        chosen.push(steps.keep_best());
    }
    chosen
}

/// A row by a number in [0, 1).
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number of rows")]
fn pick(uniform: f64, rows: usize) -> usize {
    ((uniform * rows as f64) as usize).min(rows - 1)
}

/// The state between steps: for each row and each candidate of the last step, the squared distance to the nearest of the
/// centres so far and that candidate. The candidate that was kept tells which column holds.
struct Steps<'a> {
    points: &'a Points,
    candidates: Vec<usize>,
    /// [rows][columns].
    nearest: Floats,
    columns: usize,
    /// The sums of `nearest` over each piece of rows, by candidate.
    sums: Vec<Vec<f64>>,
    kept: usize,
}

impl<'a> Steps<'a> {
    fn new(points: &'a Points, trials: usize) -> Self {
        let columns = trials.next_multiple_of(16);
        let mut nearest = Floats::zeros(points.len * columns);
        nearest.fill(f32::MAX);
        let sums = vec![vec![]; points.len.div_ceil(PIECE)];
        Self { points, candidates: vec![], nearest, columns, sums, kept: 0 }
    }

    /// A row, with a chance proportional to its distance; any, where all distances are 0.
    fn draw(&self, uniform: f64) -> usize {
        let total: f64 = self.sums.iter().map(|sums| sums[self.kept]).sum();
        let mut target = uniform * total;
        if target.partial_cmp(&0.0).is_none() || total <= 0.0 {
            return pick(uniform, self.points.len);
        }
        let mut last = 0;
        for (piece, sums) in self.sums.iter().enumerate() {
            let sum = sums[self.kept];
            if sum > 0.0 {
                last = piece;
                if target < sum {
                    break;
                }
                target -= sum;
            }
        }
        self.draw_in(last, target)
    }

    fn draw_in(&self, piece: usize, mut target: f64) -> usize {
        let rows = piece * PIECE..self.points.len.min((piece + 1) * PIECE);
        let mut last = rows.start;
        for row in rows {
            let distance = f64::from(self.nearest[row * self.columns + self.kept]);
            if distance > 0.0 {
                last = row;
                if target < distance {
                    break;
                }
                target -= distance;
            }
        }
        last
    }

    /// Measures all rows against the candidates.
    fn evaluate(&mut self, candidates: &[usize]) {
        let Self { points, nearest, columns, sums, kept, .. } = self;
        let (dim, columns, kept) = (points.dim, *columns, *kept);
        let isa = Isa::best();
        let vectors: Vec<f32> = candidates.iter().flat_map(|&row| points.row(row)).copied().collect();
        let norms: Vec<f32> = candidates.iter().map(|&row| points.squared_norms[row]).collect();
        let norms = Floats::copy(&norms, columns);
        let packed = Packed::new(isa, dim, candidates.len(), &vectors);
        let block = (BLOCK_BYTES / size_of::<f32>() / dim.max(1)).clamp(8, 256);
        let pieces = nearest[..points.len * columns].par_chunks_mut(PIECE * columns).zip(sums).enumerate();
        pieces.for_each_init(
            || Floats::zeros(block * columns),
            |tile, (piece, (nearest, sums))| {
                *sums = vec![0.0; columns];
                for (at, nearest) in nearest.chunks_mut(block * columns).enumerate() {
                    let (first, rows) = (piece * PIECE + at * block, nearest.len() / columns);
                    packed.multiply(&points.all()[first * dim..][..rows * dim], tile, Far::Rows);
                    let row_norms = &points.squared_norms[first..][..rows];
                    let count = candidates.len();
                    isa.run(Trials { products: tile, norms: &norms, row_norms, nearest, columns, count, kept, sums });
                }
            },
        );
        self.candidates = candidates.to_vec();
    }

    /// Makes the candidate with the least sum a centre; the first, where several have it.
    fn keep_best(&mut self) -> usize {
        let total = |candidate: usize| -> f64 { self.sums.iter().map(|sums| sums[candidate]).sum() };
        let totals: Vec<f64> = (0..self.candidates.len()).map(total).collect();
        self.kept = (0..totals.len()).min_by(|&a, &b| totals[a].total_cmp(&totals[b])).unwrap_or(0);
        self.candidates[self.kept]
    }
}

/// Turns products into distances, and takes the nearest and the sums.
struct Trials<'a> {
    /// [rows][columns].
    products: &'a [f32],
    /// Of the candidates, [columns].
    norms: &'a [f32],
    row_norms: &'a [f32],
    /// [rows][columns]: column `kept` is what was nearest so far.
    nearest: &'a mut [f32],
    columns: usize,
    count: usize,
    kept: usize,
    sums: &'a mut [f64],
}

impl Kernel for Trials<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let columns = self.columns;
        assert!(columns.is_multiple_of(L::WIDTH) && self.norms.len() >= columns && self.sums.len() >= columns);
        let used = self.count.next_multiple_of(L::WIDTH);
        let mut sums = [0.0_f32; 64];
        assert!(used <= sums.len() && used <= columns);
        let rows = self.products.chunks_exact(columns).zip(self.nearest.chunks_exact_mut(columns)).zip(self.row_norms);
        for ((products, nearest), &row_norm) in rows {
            let so_far = lanes.splat(nearest[self.kept]);
            for from in (0..used).step_by(L::WIDTH) {
                // SAFETY: all have room for `columns` numbers or for `used`, a multiple of WIDTH above `from`.
                unsafe {
                    let norms = lanes.add(lanes.load(self.norms.as_ptr().add(from)), lanes.splat(row_norm));
                    let product = lanes.load(products.as_ptr().add(from));
                    let distance = lanes.max(lanes.mul_add(product, lanes.splat(-2.0), norms), lanes.zero());
                    let least = lanes.min(distance, so_far);
                    lanes.store(nearest.as_mut_ptr().add(from), least);
                    let sum = sums.as_mut_ptr().add(from);
                    lanes.store(sum, lanes.add(lanes.load(sum), least));
                }
            }
        }
        self.sums.iter_mut().zip(sums).for_each(|(to, sum)| *to += f64::from(sum));
    }
}
