//! Lloyd's iteration: rows to their nearest centre, centres to the mean of their rows.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use rayon::prelude::*;

use super::{
    super::ClusterRequest,
    points::{PIECE, Points},
};
use crate::cpu::{
    Pool, exact,
    products::{BLOCK_BYTES, Far, Floats, Packed},
    simd::{self, Isa, Kernel, Lanes},
};

/// Where the iteration arrived, in the units of [`Points`].
pub(super) struct Fit {
    /// [clusters][dim].
    pub(super) centers: Vec<f32>,
    pub(super) assignments: Vec<u32>,
    pub(super) iterations: usize,
    pub(super) converged: bool,
}

/// The nearest centre of each row, and its squared distance.
#[derive(PartialEq)]
struct Nearest {
    clusters: Vec<u32>,
    distances: Vec<f32>,
}

/// Iterates from centres on these rows, until no row changes its cluster, or the centres move by no more than the
/// tolerance, or as often as the request allows.
pub(super) fn fit(points: &Points, first: &[usize], request: &ClusterRequest, pool: &Pool) -> Fit {
    let tolerance = request.tolerance * points.variance;
    let mut centers: Vec<f32> = first.iter().flat_map(|&row| points.row(row)).copied().collect();
    let mut before: Option<Nearest> = None;
    let mut iterations = 0;
    loop {
        let nearest = pool.time("kmeans_assign", || assign(points, &centers));
        let settled = before.is_some_and(|before| before.clusters == nearest.clusters);
        if settled || iterations == request.max_iterations.max(1) {
            return Fit { centers, assignments: nearest.clusters, iterations, converged: settled };
        }
        let moved = pool.time("kmeans_update", || update(points, &nearest, &mut centers));
        iterations += 1;
        if moved <= tolerance {
            let nearest = pool.time("kmeans_assign", || assign(points, &centers));
            return Fit { centers, assignments: nearest.clusters, iterations, converged: true };
        }
        before = Some(nearest);
    }
}

/// Bytes of centres that are packed together.
const GROUP_BYTES: usize = 512 << 10;
/// Most centres that are packed together: their products with a block must stay in the cache as well.
const GROUP: usize = 288;

/// Centres that are packed together.
struct Group {
    first: u32,
    packed: Packed,
    /// Minus half of the squared norms; minus infinity to the end of the last vector.
    offsets: Floats,
}

fn groups(dim: usize, centers: &[f32], isa: Isa) -> Vec<Group> {
    let most = (GROUP_BYTES / size_of::<f32>() / dim.max(1) / 48 * 48).clamp(48, GROUP);
    let group = |(at, centers): (usize, &[f32])| {
        let packed = Packed::new(isa, dim, centers.len() / dim.max(1), centers);
        let mut offsets = Floats::zeros(packed.columns());
        offsets.fill(f32::NEG_INFINITY);
        #[expect(clippy::cast_possible_truncation, reason = "the product is f32 as well")]
        let half = |center: &[f32]| -(exact::squared_norm(center) / 2.0) as f32;
        offsets.iter_mut().zip(centers.chunks_exact(dim.max(1))).for_each(|(offset, center)| *offset = half(center));
        Group { first: u32::try_from(at * most).expect("centres are counted in u32"), packed, offsets }
    };
    centers.chunks(most * dim.max(1)).enumerate().map(group).collect()
}

fn assign(points: &Points, centers: &[f32]) -> Nearest {
    let (dim, isa) = (points.dim, Isa::best());
    let groups = groups(dim, centers, isa);
    let block = (BLOCK_BYTES / size_of::<f32>() / dim.max(1)).clamp(8, 256);
    let columns = groups.iter().map(|group| group.packed.columns()).max().unwrap_or(0);
    let mut nearest = Nearest { clusters: vec![0; points.len], distances: vec![f32::NEG_INFINITY; points.len] };
    let pieces = nearest.clusters.par_chunks_mut(PIECE).zip(nearest.distances.par_chunks_mut(PIECE)).enumerate();
    pieces.for_each_init(
        || Floats::zeros(block * columns),
        |tile, (piece, (clusters, best))| {
            for group in &groups {
                for (at, (clusters, best)) in clusters.chunks_mut(block).zip(best.chunks_mut(block)).enumerate() {
                    let first = piece * PIECE + at * block;
                    group.packed.multiply(&points.all()[first * dim..][..best.len() * dim], tile, Far::Rows);
                    isa.run(Choose { group, products: tile, clusters, best });
                }
            }
            let norms = &points.squared_norms[piece * PIECE..];
            best.iter_mut().zip(norms).for_each(|(best, norm)| *best = (norm - 2.0 * *best).max(0.0));
        },
    );
    nearest
}

/// Takes the centre with the largest `x.c - |c|^2 / 2`, the first of equals, where it beats what was best before.
struct Choose<'a> {
    group: &'a Group,
    /// [rows][columns].
    products: &'a [f32],
    clusters: &'a mut [u32],
    best: &'a mut [f32],
}

impl Kernel for Choose<'_> {
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
                        let at = u32::try_from(from).expect("a group is small") + equal.trailing_zeros();
                        *cluster = self.group.first + at;
                        break;
                    }
                }
            }
        }
    }
}

/// Moves centres to the mean of their rows; returns the sum of their squared movements.
fn update(points: &Points, nearest: &Nearest, centers: &mut [f32]) -> f64 {
    let dim = points.dim.max(1);
    let mut sums = Sums::new(points, nearest, centers.len() / dim);
    sums.fill_empty(points, nearest);
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
    moved
}

/// Rows of one cluster whose sum is taken by one thread.
const SEGMENT: usize = 1024;

/// Sums and numbers of the rows of each cluster.
struct Sums {
    sums: Vec<Vec<f64>>,
    counts: Vec<usize>,
}

impl Sums {
    fn new(points: &Points, nearest: &Nearest, clusters: usize) -> Self {
        let (order, counts) = by_cluster(&nearest.clusters, clusters);
        let mut segments = vec![];
        let mut rest = order.as_slice();
        for (cluster, &count) in counts.iter().enumerate() {
            let (mine, others) = rest.split_at(count);
            segments.extend(mine.chunks(SEGMENT).map(|rows| (cluster, rows)));
            rest = others;
        }
        let parts: Vec<_> =
            segments.par_iter().map(|&(cluster, rows)| (cluster, Isa::best().run(Add { points, rows }))).collect();
        let mut sums = vec![vec![0.0; points.dim]; clusters];
        for (cluster, part) in parts {
            sums[cluster].iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
        }
        Self { sums, counts }
    }

    /// Gives each cluster without rows the row that is farthest from its centre, of those whose cluster has others.
    fn fill_empty(&mut self, points: &Points, nearest: &Nearest) {
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

    /// What a cluster's sum is multiplied with; `None` where its centre stays.
    fn factor(&self, cluster: usize, spherical: bool) -> Option<f64> {
        let length = if spherical {
            self.sums[cluster].iter().map(|x| x * x).sum::<f64>().sqrt()
        } else {
            self.counts[cluster] as f64
        };
        (length > 0.0).then(|| 1.0 / length)
    }
}

/// The rows cluster by cluster, each in ascending order, and how many each cluster has.
fn by_cluster(assignments: &[u32], clusters: usize) -> (Vec<u32>, Vec<usize>) {
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
        let place = &mut next[cluster as usize];
        order[*place] = row;
        *place += 1;
    }
    (order, counts)
}

/// The sum of some rows, in f64.
struct Add<'a> {
    points: &'a Points,
    rows: &'a [u32],
}

impl Kernel for Add<'_> {
    type Out = Vec<f64>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Vec<f64> {
        let mut sums = vec![0.0; self.points.dim];
        for (at, &row) in self.rows.iter().enumerate() {
            if let Some(&soon) = self.rows.get(at + 4) {
                simd::prefetch_with(lanes, self.points.row(soon as usize));
            }
            for (sum, x) in sums.iter_mut().zip(self.points.row(row as usize)) {
                *sum += f64::from(*x);
            }
        }
        sums
    }
}
