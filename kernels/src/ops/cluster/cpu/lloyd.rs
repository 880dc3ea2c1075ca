//! Lloyd's iteration: assign rows to their nearest centre, move centres to the mean of their rows.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::points::{CHUNK_ROWS, Points};
use crate::{
    OpError,
    cpu::{
        Worker, f64_sums,
        gemm::{AlignedF32, PackedMatrix, Prefetch, ROW_BLOCK_BYTES},
        simd::{self, Isa, Lanes, WithSimd},
        slices::{READ_COST, SLICE},
    },
    op::product,
    ops::cluster::request::ClusterRequest,
};

/// The result of the iteration, in the coordinates of [`Points`].
pub(super) struct Fit {
    /// [clusters][dim].
    pub(super) centers: Vec<f32>,
    pub(super) assignments: Vec<u32>,
    pub(super) iterations: usize,
    pub(super) converged: bool,
}

/// The nearest centre of each row, and its squared distance.
#[derive(PartialEq)]
struct Assignment {
    clusters: Vec<u32>,
    distances: Vec<f32>,
}

/// Iterates from centres on the rows `first` until no assignment changes, the centres move by at most the tolerance, or
/// the request's limit is reached.
pub(super) fn fit(points: &Points, first: &[usize], request: &ClusterRequest, worker: &Worker) -> Result<Fit, OpError> {
    let pool = worker.pool();
    let tolerance = request.tolerance * points.variance;
    let mut centers: Vec<f32> = first.iter().flat_map(|&row| points.row(row)).copied().collect();
    let mut before: Option<Assignment> = None;
    let mut iterations = 0;
    loop {
        let nearest = pool.time_inline("kmeans_assign", || assign(points, &centers, worker))?;
        let converged = before.is_some_and(|before| before.clusters == nearest.clusters);
        if converged || iterations == request.max_iterations.max(1) {
            return Ok(Fit { centers, assignments: nearest.clusters, iterations, converged });
        }
        let moved = pool.time_inline("kmeans_update", || update(points, &nearest, &mut centers, worker))?;
        iterations += 1;
        if moved <= tolerance {
            let nearest = pool.time_inline("kmeans_assign", || assign(points, &centers, worker))?;
            return Ok(Fit { centers, assignments: nearest.clusters, iterations, converged: true });
        }
        before = Some(nearest);
    }
}

/// Bytes of centres that are packed together.
const GROUP_BYTES: usize = 512 << 10;
/// The most centres that are packed together, so that their inner products with a block stay in the cache too.
const GROUP_CENTERS: usize = 288;

/// Centres that are packed together.
struct CenterGroup {
    first: u32,
    packed: PackedMatrix,
    /// -|c|^2 / 2, padded with minus infinity.
    offsets: AlignedF32,
}

fn groups(dim: usize, centers: &[f32], isa: Isa) -> Vec<CenterGroup> {
    let maximum = (GROUP_BYTES / size_of::<f32>() / dim.max(1) / 48 * 48).clamp(48, GROUP_CENTERS);
    let group = |(index, centers): (usize, &[f32])| {
        let packed = PackedMatrix::new(isa, dim, centers.len() / dim.max(1), centers);
        let mut offsets = AlignedF32::zeros(packed.columns());
        offsets.fill(f32::NEG_INFINITY);
        #[expect(clippy::cast_possible_truncation, reason = "the product is f32 as well")]
        let half = |center: &[f32]| -(f64_sums::squared_norm(center) / 2.0) as f32;
        offsets.iter_mut().zip(centers.chunks_exact(dim.max(1))).for_each(|(offset, center)| *offset = half(center));
        CenterGroup { first: u32::try_from(index * maximum).expect("centres are counted in u32"), packed, offsets }
    };
    centers.chunks(maximum * dim.max(1)).enumerate().map(group).collect()
}

fn assign(points: &Points, centers: &[f32], worker: &Worker) -> Result<Assignment, OpError> {
    let dim = points.dim;
    let isa = Isa::best();
    let groups = groups(dim, centers, isa);
    let block = (ROW_BLOCK_BYTES / size_of::<f32>() / dim.max(1)).clamp(8, 256);
    let columns = groups.iter().map(|group| group.packed.columns()).max().unwrap_or(0);
    let mut nearest = Assignment { clusters: vec![0; points.len], distances: vec![f32::NEG_INFINITY; points.len] };
    // A chunk of rows meets as many centres as fit a slice, then the next chunk does.
    let group_cost = product([CHUNK_ROWS, dim, columns]).max(1);
    let per_pass = usize::try_from(SLICE / group_cost).unwrap_or(usize::MAX).max(1);
    for (pass, some) in groups.chunks(per_pass).enumerate() {
        let is_last = (pass + 1) * per_pass >= groups.len();
        let Assignment { clusters, distances } = &mut nearest;
        let chunks = clusters.chunks_mut(CHUNK_ROWS).zip(distances.chunks_mut(CHUNK_ROWS)).enumerate().collect();
        let cost = group_cost.saturating_mul(some.len() as u64);
        let tile = || AlignedF32::zeros(block * columns);
        worker.for_each(
            chunks,
            |_| cost,
            tile,
            |tile, (chunk, (clusters, best))| {
                for group in some {
                    for (index, (clusters, best)) in clusters.chunks_mut(block).zip(best.chunks_mut(block)).enumerate()
                    {
                        let first = chunk * CHUNK_ROWS + index * block;
                        group.packed.multiply(&points.all()[first * dim..][..best.len() * dim], tile, Prefetch::Rows);
                        isa.run(AssignTile { group, products: tile, clusters, best });
                    }
                }
                if is_last {
                    let norms = &points.squared_norms[chunk * CHUNK_ROWS..];
                    best.iter_mut().zip(norms).for_each(|(best, norm)| *best = (norm - 2.0 * *best).max(0.0));
                }
            },
        )?;
    }
    Ok(nearest)
}

/// Assigns rows to the centre with the largest `x.c - |c|^2 / 2`, ties to the first, if it exceeds the best so far.
struct AssignTile<'a> {
    group: &'a CenterGroup,
    /// [rows][columns].
    products: &'a [f32],
    clusters: &'a mut [u32],
    best: &'a mut [f32],
}

impl WithSimd for AssignTile<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let offsets = &self.group.offsets;
        let columns = self.group.packed.columns();
        assert!(columns.is_multiple_of(L::WIDTH) && offsets.len() >= columns);
        let rows = self.products.chunks_exact(columns).zip(self.clusters.iter_mut().zip(self.best));
        for (products, (cluster, best)) in rows {
            // SAFETY: both have `columns` numbers, a multiple of WIDTH above `from`.
            let score = |from: usize| unsafe {
                lanes.add(lanes.load(products.as_ptr().add(from)), lanes.load(offsets.as_ptr().add(from)))
            };
            let highest = (0..columns)
                .step_by(L::WIDTH)
                .fold(lanes.splat(f32::NEG_INFINITY), |high, from| lanes.max(score(from), high));
            let highest = lanes.largest(highest);
            if highest > *best {
                *best = highest;
                let same = lanes.splat(highest);
                for from in (0..columns).step_by(L::WIDTH) {
                    let equal = lanes.equal(score(from), same);
                    if equal != 0 {
                        let index = u32::try_from(from).expect("a group is small") + equal.trailing_zeros();
                        *cluster = self.group.first + index;
                        break;
                    }
                }
            }
        }
    }
}

/// Moves centres to the mean of their rows and returns the sum of squared movements.
fn update(points: &Points, nearest: &Assignment, centers: &mut [f32], worker: &Worker) -> Result<f64, OpError> {
    let dim = points.dim.max(1);
    let mut sums = ClusterSums::new(points, nearest, centers.len() / dim, worker)?;
    sums.reseed_empty(points, nearest);
    let mut moved = 0.0;
    for (cluster, center) in centers.chunks_exact_mut(dim).enumerate() {
        let Some(factor) = sums.factor(cluster, points.spherical) else { continue };
        for (x, sum) in center.iter_mut().zip(&sums.sums[cluster]) {
            #[expect(clippy::cast_possible_truncation, reason = "centres are f32")]
            let next = (sum * factor) as f32;
            moved += (f64::from(next) - f64::from(*x)).powi(2);
            *x = next;
        }
    }
    Ok(moved)
}

/// Rows of one cluster that one task sums.
const SEGMENT: usize = 1024;

/// The sum and the number of the rows of each cluster.
struct ClusterSums {
    sums: Vec<Vec<f64>>,
    counts: Vec<usize>,
}

impl ClusterSums {
    fn new(points: &Points, nearest: &Assignment, clusters: usize, worker: &Worker) -> Result<Self, OpError> {
        let (order, counts) = sort_by_cluster(&nearest.clusters, clusters);
        let mut segments = vec![];
        let mut rest = order.as_slice();
        for (cluster, &count) in counts.iter().enumerate() {
            let (mine, others) = rest.split_at(count);
            segments.extend(mine.chunks(SEGMENT).map(|rows| (cluster, rows)));
            rest = others;
        }
        let cost = |(_, rows): &(usize, &[u32])| READ_COST.saturating_mul(product([rows.len(), points.dim]));
        let parts =
            worker.map(segments, cost, |(cluster, rows)| (cluster, Isa::best().run(SumRows { points, rows })))?;
        let mut sums = vec![vec![0.0; points.dim]; clusters];
        for (cluster, part) in parts {
            sums[cluster].iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
        }
        Ok(Self { sums, counts })
    }

    /// Gives each empty cluster the row farthest from its centre, among rows that are not the last of their cluster.
    fn reseed_empty(&mut self, points: &Points, nearest: &Assignment) {
        let empty: Vec<usize> = (0..self.counts.len()).filter(|&cluster| self.counts[cluster] == 0).collect();
        if empty.is_empty() {
            return;
        }
        let distance = |row: u32| nearest.distances[row as usize];
        let mut rows: Vec<u32> = (0..).take(points.len).filter(|&row| distance(row) > 0.0).collect();
        rows.sort_unstable_by(|&a, &b| distance(b).total_cmp(&distance(a)).then(a.cmp(&b)));
        let mut rows = rows.into_iter();
        for cluster in empty {
            let others = |row: &u32| self.counts[nearest.clusters[*row as usize] as usize] > 1;
            let Some(row) = rows.find(others) else { return };
            let from = nearest.clusters[row as usize] as usize;
            let numbers = points.row(row as usize);
            self.sums[from].iter_mut().zip(numbers).for_each(|(sum, x)| *sum -= f64::from(*x));
            self.sums[cluster] = numbers.iter().map(|x| f64::from(*x)).collect();
            self.counts[from] -= 1;
            self.counts[cluster] = 1;
        }
    }

    /// The factor from a cluster's sum to its centre; `None` if the centre stays.
    fn factor(&self, cluster: usize, spherical: bool) -> Option<f64> {
        let length = if spherical {
            self.sums[cluster].iter().map(|x| x * x).sum::<f64>().sqrt()
        } else {
            self.counts[cluster] as f64
        };
        (length > 0.0).then(|| 1.0 / length)
    }
}

/// The rows sorted by cluster, ascending within one, and the number of rows of each cluster.
fn sort_by_cluster(assignments: &[u32], clusters: usize) -> (Vec<u32>, Vec<usize>) {
    let mut counts = vec![0; clusters];
    for &cluster in assignments {
        counts[cluster as usize] += 1;
    }
    let mut next: Vec<usize> = counts
        .iter()
        .scan(0, |end, count| {
            let first = *end;
            *end += count;
            Some(first)
        })
        .collect();
    let mut order = vec![0; assignments.len()];
    for (row, &cluster) in (0..).zip(assignments) {
        let position = &mut next[cluster as usize];
        order[*position] = row;
        *position += 1;
    }
    (order, counts)
}

/// The sum of the given rows, in f64.
struct SumRows<'a> {
    points: &'a Points,
    rows: &'a [u32],
}

impl WithSimd for SumRows<'_> {
    type Out = Vec<f64>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Vec<f64> {
        let mut sums = vec![0.0; self.points.dim];
        for (index, &row) in self.rows.iter().enumerate() {
            if let Some(&soon) = self.rows.get(index + 4) {
                simd::prefetch_with(lanes, self.points.row(soon as usize));
            }
            for (sum, x) in sums.iter_mut().zip(self.points.row(row as usize)) {
                *sum += f64::from(*x);
            }
        }
        sums
    }
}
