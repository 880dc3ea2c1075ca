//! Greedy k-means++: each step samples candidate rows with probability proportional to their squared distance from the
//! nearest centre so far, and keeps the candidate that lowers the sum of those distances most (Arthur and
//! Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007; the number of candidates is
//! scikit-learn's).
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::points::{CHUNK_ROWS, Points};
use crate::{
    OpError,
    cpu::{
        Worker,
        gemm::{AlignedF32, PackedMatrix, Prefetch, ROW_BLOCK_BYTES},
        simd::{Isa, Lanes, WithSimd},
        slices::{READ_COST, SLICE, Schedule, is_tiny},
    },
    op::product,
    ops::cluster::random,
};

/// The rows that become the initial centres. A slice does as many steps as fit, or a part of one.
pub(super) fn choose_centers(
    points: &Points,
    clusters: usize,
    seed: u64,
    start: u64,
    worker: &Worker,
) -> Result<Vec<usize>, OpError> {
    let mut seeding = Seeding::new(points, random::trials(clusters));
    let mut chosen = Vec::with_capacity(clusters);
    let mut step = |schedule: Schedule<'_>| -> Result<(), OpError> {
        let uniform = |trial| random::uniform(seed, start, chosen.len() as u64, trial);
        let candidates: Vec<usize> = match chosen.len() {
            0 => vec![uniform_row(uniform(0), points.len)],
            _ => (0..random::trials(clusters) as u64).map(|trial| seeding.sample(uniform(trial))).collect(),
        };
        seeding.evaluate(&candidates, schedule)?;
        chosen.push(seeding.keep_best());
        Ok(())
    };
    let cost = step_cost(points.dim, points.len, random::trials(clusters)).max(1);
    let steps = usize::try_from(SLICE.saturating_mul(worker.pool().threads() as u64) / cost).unwrap_or(usize::MAX);
    for first in (0..clusters).step_by(steps.max(1)) {
        let count = steps.max(1).min(clusters - first);
        if is_tiny(cost.saturating_mul(count as u64)) {
            (0..count).try_for_each(|_| step(Schedule::Inline))?;
        } else if steps > 0 {
            worker.pool().install(|| (0..count).try_for_each(|_| step(Schedule::Slice)))?;
        } else {
            step(Schedule::Slices(worker))?;
        }
        worker.preemption_point()?;
    }
    Ok(chosen)
}

/// Multiply-adds of the distances of `rows` rows to the candidates of a step.
fn step_cost(dim: usize, rows: usize, trials: usize) -> u64 {
    product([rows, dim]).saturating_mul((trials.next_multiple_of(16) as u64).max(READ_COST))
}

/// The row that a number in [0, 1) selects uniformly.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number of rows")]
fn uniform_row(uniform: f64, rows: usize) -> usize {
    ((uniform * rows as f64) as usize).min(rows - 1)
}

/// The state between steps: for each row and each candidate of the last step, the squared distance to the nearest of
/// that candidate and the centres before it. The column of the kept candidate is the current one.
struct Seeding<'a> {
    points: &'a Points,
    candidates: Vec<usize>,
    /// [rows][columns].
    nearest: AlignedF32,
    columns: usize,
    /// The sums of `nearest` over each chunk of rows, by candidate.
    sums: Vec<Vec<f64>>,
    kept: usize,
}

impl<'a> Seeding<'a> {
    fn new(points: &'a Points, trials: usize) -> Self {
        let columns = trials.next_multiple_of(16);
        let mut nearest = AlignedF32::zeros(points.len * columns);
        nearest.fill(f32::MAX);
        let sums = vec![vec![]; points.len.div_ceil(CHUNK_ROWS)];
        Self { points, candidates: vec![], nearest, columns, sums, kept: 0 }
    }

    /// Samples a row with probability proportional to its squared distance, or uniformly if all distances are 0.
    fn sample(&self, uniform: f64) -> usize {
        let total: f64 = self.sums.iter().map(|sums| sums[self.kept]).sum();
        let mut target = uniform * total;
        if target.partial_cmp(&0.0).is_none() || total <= 0.0 {
            return uniform_row(uniform, self.points.len);
        }
        let mut last = 0;
        for (chunk, sums) in self.sums.iter().enumerate() {
            let sum = sums[self.kept];
            if sum > 0.0 {
                last = chunk;
                if target < sum {
                    break;
                }
                target -= sum;
            }
        }
        self.sample_chunk(last, target)
    }

    fn sample_chunk(&self, chunk: usize, mut target: f64) -> usize {
        let rows = chunk * CHUNK_ROWS..self.points.len.min((chunk + 1) * CHUNK_ROWS);
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

    /// Computes the distances of all rows to the candidates.
    fn evaluate(&mut self, candidates: &[usize], schedule: Schedule<'_>) -> Result<(), OpError> {
        let Self { points, nearest, columns, sums, kept, .. } = self;
        let dim = points.dim;
        let columns = *columns;
        let kept = *kept;
        let isa = Isa::best();
        let vectors: Vec<f32> = candidates.iter().flat_map(|&row| points.row(row)).copied().collect();
        let norms: Vec<f32> = candidates.iter().map(|&row| points.squared_norms[row]).collect();
        let norms = AlignedF32::copy(&norms, columns);
        let packed = PackedMatrix::new(isa, dim, candidates.len(), &vectors);
        let block = (ROW_BLOCK_BYTES / size_of::<f32>() / dim.max(1)).clamp(8, 256);
        let chunks = nearest[..points.len * columns].chunks_mut(CHUNK_ROWS * columns).zip(sums).enumerate();
        schedule.for_each(
            chunks.collect(),
            |_| step_cost(dim, CHUNK_ROWS, candidates.len()),
            || AlignedF32::zeros(block * columns),
            |tile, (chunk, (nearest, sums))| {
                *sums = vec![0.0; columns];
                for (index, nearest) in nearest.chunks_mut(block * columns).enumerate() {
                    let first = chunk * CHUNK_ROWS + index * block;
                    let rows = nearest.len() / columns;
                    packed.multiply(&points.all()[first * dim..][..rows * dim], tile, Prefetch::Rows);
                    let row_norms = &points.squared_norms[first..][..rows];
                    let count = candidates.len();
                    isa.run(TrialDistances {
                        products: tile,
                        norms: &norms,
                        row_norms,
                        nearest,
                        columns,
                        count,
                        kept,
                        sums,
                    });
                }
            },
        )?;
        self.candidates = candidates.to_vec();
        Ok(())
    }

    /// Makes the candidate with the least sum a centre, ties to the first, and returns its row.
    fn keep_best(&mut self) -> usize {
        let total = |candidate: usize| -> f64 { self.sums.iter().map(|sums| sums[candidate]).sum() };
        let totals: Vec<f64> = (0..self.candidates.len()).map(total).collect();
        self.kept = (0..totals.len()).min_by(|&a, &b| totals[a].total_cmp(&totals[b])).unwrap_or(0);
        self.candidates[self.kept]
    }
}

/// Turns inner products into distances, takes the minimum with the nearest so far, and sums.
struct TrialDistances<'a> {
    /// [rows][columns].
    products: &'a [f32],
    /// Squared norms of the candidates, [columns].
    norms: &'a [f32],
    row_norms: &'a [f32],
    /// [rows][columns]: column `kept` is the nearest so far.
    nearest: &'a mut [f32],
    columns: usize,
    count: usize,
    kept: usize,
    sums: &'a mut [f64],
}

impl WithSimd for TrialDistances<'_> {
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
                // SAFETY: all have `columns` or `used` numbers, multiples of WIDTH above `from`.
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
