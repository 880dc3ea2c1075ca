//! k-means on a GPU: one stream, without a round trip to the host per iteration. The kernels are in `cu/kmeans`.
//!
//! Iterations compare distances in binary16 with f32 accumulation: exact for rows and centres moved by at most one part
//! in 2,048 of each coordinate's distance from the mean. If that is too coarse for the data, because clusters are far
//! smaller than the distances between them, each coordinate is split into two binary16 numbers, 22 bits. The final
//! assignments are nearest in f64: rows whose two best scores differ by less than the error of the fast comparison are
//! assigned exactly. The inertia is summed in f64. All sums have a fixed order: results are deterministic on a device.

use bytemuck::Zeroable;

mod input;
mod kernels;
mod shape;

use input::Input;
pub(crate) use kernels::MODULES;
use kernels::{
    ASSIGN_64, ASSIGN_64_CHECKED, ASSIGN_128, ASSIGN_128_CHECKED, ASSIGN_ANY, ASSIGN_ANY_CHECKED, ASSIGN_EXACT,
    ASSIGN_ROWS, ASSIGN_SPLIT, ASSIGN_SPLIT_CHECKED, AssignParams, BLOCK_THREADS, BLOCK_WARPS, CENTER_ROWS,
    CENTER_THREADS, COLUMN_SUMS, COUNT_LABELS, CenterBuffers, INERTIA, INIT_CHOOSE, INIT_DISTANCES, KMeansState,
    MEAN_AND_SCALE, NARROW_TILE, NORMALISE_ROWS, RESEED_EMPTY, RESET, SCAN_COUNTS, SCATTER_ROWS, SET_CENTERS,
    SORT_THREADS, SORT_WARPS, SUM_SEGMENTS, SUM_SEGMENTS_X4, TRIALS, UPDATE_CENTERS, WIDE_THREADS, WIDE_TILE,
};
use shape::{KMeansShape, word};

use super::{
    random::uniform,
    request::{ClusterRequest, Clusters},
};
use crate::{
    Matrix, OpError,
    cuda::{Args, Buffer, DevicePtr, Grid, Kernel, Worker},
};

/// Iterations between two reads of the state.
const READBACK_INTERVAL: usize = 4;
/// Below this potential relative to the rows' squared norms, one binary16 per coordinate is too coarse: at it, rounding
/// moves a row by at most a hundredth of its distance.
const SPLIT_BELOW: f64 = 1.0 / 1024.0;

/// Clusters the rows of each request.
pub(super) fn cluster(batch: &[&ClusterRequest], worker: &Worker) -> Result<Vec<Clusters>, OpError> {
    batch.iter().map(|request| KMeansRun::new(request, worker)?.best()).collect()
}

/// The precision of the assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    /// One binary16 per coordinate.
    Single,
    /// Two binary16 per coordinate.
    Split,
}

impl Precision {
    /// The squared distance, relative to a row's squared norm, below which it may be a rounding error.
    fn noise(self) -> f32 {
        match self {
            Self::Single => 1.0 / 2048.0,
            Self::Split => 1.0 / 524_288.0,
        }
    }
}

/// One request on the device.
struct KMeansRun<'a> {
    request: &'a ClusterRequest,
    worker: &'a Worker,
    shape: KMeansShape,
    rows: Buffer<f32>,
    mean: Buffer<f32>,
    high: Buffer<u16>,
    low: Option<Low>,
    norms: Buffer<f32>,
    partial_sums: Buffer<f64>,
    state: Buffer<KMeansState>,
    centers: Buffer<f32>,
    centered: Buffer<u16>,
    half_norms: Buffer<f32>,
    labels: Buffer<u32>,
    scores: Buffer<f32>,
    /// The sorted rows; finally the rows to be assigned exactly.
    order: Buffer<u32>,
    counts: Buffer<u32>,
    center_counts: Buffer<u32>,
    center_offsets: Buffer<u32>,
    segment_sums: Buffer<f32>,
    movements: Buffer<f64>,
}

/// The low parts of split coordinates.
struct Low {
    rows: Buffer<u16>,
    centers: Buffer<u16>,
}

impl<'a> KMeansRun<'a> {
    /// Uploads the rows, normalises them if spherical, and centres them.
    fn new(request: &'a ClusterRequest, worker: &'a Worker) -> Result<Self, OpError> {
        let input = Input::of(&request.rows);
        let sm_count = worker.sm_count() as usize;
        let shape = KMeansShape::new(input.count(), input.dim(), request.clusters, sm_count)?;
        let rows = input.upload(worker)?;
        let counts = shape.runs * shape.clusters;
        let partial_sums = worker.alloc((sm_count * 8).max(shape.shares * shape.trials))?;
        let run = Self {
            request,
            worker,
            rows,
            mean: worker.alloc(shape.dim)?,
            high: worker.alloc(shape.count * shape.pitch)?,
            low: None,
            norms: worker.alloc(shape.count)?,
            partial_sums,
            state: worker.alloc_zeroed(1)?,
            centers: worker.alloc(shape.clusters * shape.dim)?,
            centered: worker.alloc_zeroed(shape.padded * shape.pitch)?,
            half_norms: worker.upload_new(&vec![f32::INFINITY; shape.padded])?,
            labels: worker.alloc(shape.count)?,
            scores: worker.alloc(shape.count)?,
            order: worker.alloc(shape.count)?,
            counts: worker.alloc(counts)?,
            center_counts: worker.alloc_zeroed(shape.clusters)?,
            center_offsets: worker.alloc(shape.clusters + 1)?,
            segment_sums: worker.alloc((shape.segments() + shape.clusters) * shape.dim)?,
            movements: worker.alloc(shape.clusters)?,
            shape,
        };
        run.center()?;
        Ok(run)
    }

    fn launch(&self, kernel: &Kernel, grid: Grid, threads: u32, mut args: Args) -> Result<(), OpError> {
        self.worker.launch(kernel, grid, threads, 0, &mut args)
    }

    /// The grid of kernels with a warp per row, grid-stride.
    fn row_grid(&self) -> Grid {
        Grid::x(word(self.shape.count.div_ceil(BLOCK_WARPS).min(self.worker.sm_count() as usize * 8)))
    }

    fn center(&self) -> Result<(), OpError> {
        let KMeansShape { count, dim, .. } = self.shape;
        if self.request.spherical {
            let args = Args::new().ptr(self.rows.ptr()).u32(word(count)).u32(word(dim));
            self.launch(&NORMALISE_ROWS, Grid::x(word(count.div_ceil(BLOCK_WARPS))), BLOCK_THREADS, args)?;
        }
        let blocks = (self.worker.sm_count() as usize * 4).min(count.div_ceil(64));
        let share = count.div_ceil(blocks);
        let sums = self.worker.alloc::<f64>(blocks * dim)?;
        let largest = self.worker.alloc::<f32>(blocks)?;
        let args = Args::new()
            .ptr(self.rows.ptr())
            .ptr(sums.ptr())
            .ptr(largest.ptr())
            .u32(word(count))
            .u32(word(dim))
            .u32(word(share));
        self.launch(&COLUMN_SUMS, Grid::x(word(blocks)), BLOCK_THREADS, args)?;
        let args = Args::new()
            .ptr(sums.ptr())
            .ptr(largest.ptr())
            .ptr(self.mean.ptr())
            .ptr(self.state.ptr())
            .u32(word(count))
            .u32(word(dim))
            .u32(word(blocks));
        self.launch(&MEAN_AND_SCALE, Grid::x(1), WIDE_THREADS, args)?;
        self.center_rows(DevicePtr::NULL)
    }

    fn center_rows(&self, low: DevicePtr<u16>) -> Result<(), OpError> {
        let args = Args::new()
            .ptr(self.rows.ptr())
            .ptr(self.mean.ptr())
            .ptr(self.high.ptr())
            .ptr(low)
            .ptr(self.norms.ptr())
            .ptr(self.partial_sums.ptr())
            .ptr(self.state.ptr())
            .u32(word(self.shape.count))
            .u32(word(self.shape.dim))
            .u32(word(self.shape.pitch));
        self.launch(&CENTER_ROWS, self.row_grid(), BLOCK_THREADS, args)
    }

    /// The result with the least inertia over all initialisations, ties to the first.
    fn best(mut self) -> Result<Clusters, OpError> {
        let mut best: Option<Clusters> = None;
        for start in 0..self.request.init_count.max(1) {
            let state = self.run_once(start as u64)?;
            self.worker.preemption_point()?;
            if best.as_ref().is_none_or(|best| state.inertia < best.inertia) {
                best = Some(self.clusters(&state)?);
            }
        }
        best.ok_or_else(|| OpError::Invalid("expected at least one initialisation".to_owned()))
    }

    fn clusters(&self, state: &KMeansState) -> Result<Clusters, OpError> {
        let centers = self.worker.download(&self.centers, ..)?;
        let centers = Matrix::from_vec(self.shape.clusters, self.shape.dim, centers);
        Ok(Clusters {
            centers: centers.map_err(|e| OpError::Invalid(e.to_string()))?,
            assignments: self.worker.download(&self.labels, ..)?,
            inertia: state.inertia,
            iterations: state.iterations as usize,
            converged: state.done != 0,
        })
    }

    /// One initialisation and its iterations.
    fn run_once(&mut self, start: u64) -> Result<KMeansState, OpError> {
        let KMeansShape { count, dim, .. } = self.shape;
        let args = Args::new().ptr(self.state.ptr()).f64(self.request.tolerance);
        self.launch(&RESET, Grid::x(1), 1, args.u32(word(count)).u32(word(dim)))?;
        let chosen = self.choose_centers(start)?;
        let state = self.state()?;
        let precision =
            if state.potential < SPLIT_BELOW * state.sum_squares { Precision::Split } else { Precision::Single };
        if precision == Precision::Split && self.low.is_none() {
            self.split()?;
        }
        let args =
            Args::new().value(self.center_buffers()).ptr(self.rows.ptr()).ptr(chosen.ptr()).ptr(self.state.ptr());
        self.launch(&SET_CENTERS, Grid::x(word(self.shape.clusters)), CENTER_THREADS, args)?;
        self.iterate(precision)?;
        self.assign(precision, true)?;
        self.finish()?;
        self.state()
    }

    fn state(&self) -> Result<KMeansState, OpError> {
        let mut state = [KMeansState::zeroed()];
        self.worker.download_into(&self.state, 0, &mut state)?;
        Ok(state[0])
    }

    /// Adds the low parts of the centred coordinates.
    fn split(&mut self) -> Result<(), OpError> {
        let rows = self.worker.alloc(self.high.len())?;
        self.center_rows(rows.ptr())?;
        self.low = Some(Low { rows, centers: self.worker.alloc_zeroed(self.centered.len())? });
        Ok(())
    }

    /// Greedy k-means++: the rows that become the initial centres.
    fn choose_centers(&self, start: u64) -> Result<Buffer<u32>, OpError> {
        let KMeansShape { count, clusters, trials, stride, .. } = self.shape;
        let seed = self.request.seed;
        let draw = |step, trial| uniform(seed, start, step as u64, trial as u64);
        let uniforms: Vec<f64> = (1..clusters)
            .flat_map(|step| (0..trials).map(move |trial| (step, trial)))
            .map(|(s, t)| draw(s, t))
            .collect();
        let uniforms = self.worker.upload_new(&uniforms)?;
        let candidates = self.worker.alloc_zeroed::<u32>(trials)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the rows, floored")]
        let first = ((draw(0, 0) * count as f64) as usize).min(count - 1);
        self.worker.upload(&[word(first)], &candidates, 0)?;
        let chosen = self.worker.alloc::<u32>(clusters)?;
        let remaining = [self.worker.alloc::<f32>(trials * stride)?, self.worker.alloc::<f32>(trials * stride)?];
        for step in 0..clusters {
            let now = &remaining[step % 2];
            let before = &remaining[(step + 1) % 2];
            let known = if step == 0 { DevicePtr::NULL } else { before.ptr() };
            let measured = if step == 0 { 1 } else { trials };
            self.distances(&candidates, known, now, measured)?;
            let next = if step + 1 < clusters { trials } else { 0 };
            let draws = uniforms.ptr_at((step * trials).min(uniforms.len()));
            let args = Args::new()
                .ptr(now.ptr())
                .ptr(self.partial_sums.ptr())
                .ptr(draws)
                .ptr(candidates.ptr())
                .ptr(chosen.ptr())
                .ptr(self.state.ptr())
                .u32(word(count))
                .u32(word(stride))
                .u32(word(self.shape.share))
                .u32(word(self.shape.shares))
                .u32(word(measured))
                .u32(word(next))
                .u32(word(step));
            self.launch(&INIT_CHOOSE, Grid::x(1), BLOCK_THREADS, args)?;
        }
        Ok(chosen)
    }

    fn distances(
        &self,
        candidates: &Buffer<u32>,
        known: DevicePtr<f32>,
        remaining: &Buffer<f32>,
        trials: usize,
    ) -> Result<(), OpError> {
        let KMeansShape { count, stride, pitch, share, shares, .. } = self.shape;
        let args = Args::new()
            .ptr(self.high.ptr())
            .ptr(candidates.ptr())
            .ptr(known)
            .ptr(remaining.ptr())
            .ptr(self.partial_sums.ptr())
            .ptr(self.state.ptr())
            .u32(word(count))
            .u32(word(stride))
            .u32(word(pitch))
            .u32(word(share))
            .u32(word(trials));
        let grid = Grid::xy(word(shares), word(trials.div_ceil(TRIALS)));
        self.launch(&INIT_DISTANCES, grid, BLOCK_THREADS, args)
    }

    fn center_buffers(&self) -> CenterBuffers {
        CenterBuffers {
            exact: self.centers.ptr().address(),
            centered: self.centered.ptr().address(),
            low: self.low.as_ref().map_or(0, |low| low.centers.ptr().address()),
            half_norms: self.half_norms.ptr().address(),
            mean: self.mean.ptr().address(),
            clusters: word(self.shape.clusters),
            dim: word(self.shape.dim),
            pitch: word(self.shape.pitch),
            unused: 0,
        }
    }

    /// Iterates to convergence or the limit. The host reads the state every few iterations and launches at most two
    /// such intervals ahead; surplus launches return at once.
    fn iterate(&self, precision: Precision) -> Result<(), OpError> {
        let mut readback = self.worker.async_readback()?;
        for iteration in 0..self.request.max_iterations.max(1) {
            if iteration > 0 && iteration.is_multiple_of(READBACK_INTERVAL) {
                if readback.wait()?.is_some_and(|state: KMeansState| state.done != 0) {
                    return Ok(());
                }
                self.worker.preemption_point()?;
                readback.start(&self.state)?;
            }
            self.assign(precision, false)?;
            self.sort_rows(precision)?;
            self.update_centers()?;
        }
        Ok(())
    }

    fn assign(&self, precision: Precision, checked: bool) -> Result<(), OpError> {
        let KMeansShape { count, dim, clusters, pitch, .. } = self.shape;
        let (kernel, tile) = match (precision, pitch, checked) {
            (Precision::Split, _, false) => (ASSIGN_SPLIT, NARROW_TILE),
            (Precision::Split, _, true) => (ASSIGN_SPLIT_CHECKED, NARROW_TILE),
            (Precision::Single, 64, false) => (ASSIGN_64, NARROW_TILE),
            (Precision::Single, 64, true) => (ASSIGN_64_CHECKED, NARROW_TILE),
            (Precision::Single, 128, false) => (ASSIGN_128, NARROW_TILE),
            (Precision::Single, 128, true) => (ASSIGN_128_CHECKED, NARROW_TILE),
            (Precision::Single, _, false) => (ASSIGN_ANY, WIDE_TILE),
            (Precision::Single, _, true) => (ASSIGN_ANY_CHECKED, WIDE_TILE),
        };
        let assign = AssignParams {
            rows: self.high.ptr().address(),
            rows_low: self.low.as_ref().map_or(0, |low| low.rows.ptr().address()),
            centers: self.centered.ptr().address(),
            centers_low: self.low.as_ref().map_or(0, |low| low.centers.ptr().address()),
            half_norms: self.half_norms.ptr().address(),
            norms: self.norms.ptr().address(),
            labels: self.labels.ptr().address(),
            scores: self.scores.ptr().address(),
            list: self.order.ptr().address(),
            state: self.state.ptr().address(),
            count: word(count),
            tiles: word(clusters.div_ceil(tile)),
            pitch: word(pitch),
            dim: word(dim),
        };
        self.launch(&kernel, Grid::x(word(count.div_ceil(ASSIGN_ROWS))), BLOCK_THREADS, Args::new().value(assign))
    }

    /// Reseeds empty clusters and sorts the rows by centre.
    fn sort_rows(&self, precision: Precision) -> Result<(), OpError> {
        let KMeansShape { count, clusters, run, runs, .. } = self.shape;
        let grid = Grid::x(word(runs.div_ceil(SORT_WARPS)));
        let shared = self.shape.counter_bytes();
        let sizes = |args: Args| {
            args.u32(word(count)).u32(word(clusters)).u32(word(run)).u32(word(runs)).u32(u32::from(shared > 0))
        };
        let args = Args::new().ptr(self.labels.ptr()).ptr(self.counts.ptr()).ptr(self.center_counts.ptr());
        self.worker.launch(&COUNT_LABELS, grid, SORT_THREADS, word(shared), &mut sizes(args.ptr(self.state.ptr())))?;
        let args = Args::new()
            .ptr(self.labels.ptr())
            .ptr(self.scores.ptr())
            .ptr(self.norms.ptr())
            .ptr(self.counts.ptr())
            .ptr(self.center_counts.ptr())
            .ptr(self.center_offsets.ptr())
            .ptr(self.state.ptr())
            .u32(word(count))
            .u32(word(clusters))
            .u32(word(run))
            .f32(precision.noise());
        self.launch(&RESEED_EMPTY, Grid::x(1), WIDE_THREADS, args)?;
        let args = Args::new()
            .ptr(self.counts.ptr())
            .ptr(self.center_offsets.ptr())
            .ptr(self.state.ptr())
            .u32(word(clusters))
            .u32(word(runs));
        self.launch(&SCAN_COUNTS, Grid::x(word(clusters.div_ceil(32))), WIDE_THREADS, args)?;
        let args = Args::new().ptr(self.labels.ptr()).ptr(self.counts.ptr()).ptr(self.order.ptr());
        self.worker.launch(&SCATTER_ROWS, grid, SORT_THREADS, word(shared), &mut sizes(args.ptr(self.state.ptr())))
    }

    /// Moves the centres to the mean of their rows.
    fn update_centers(&self) -> Result<(), OpError> {
        let KMeansShape { count, dim, clusters, .. } = self.shape;
        let (kernel, columns) = if dim.is_multiple_of(4) { (SUM_SEGMENTS_X4, 128) } else { (SUM_SEGMENTS, 32) };
        let args = Args::new()
            .ptr(self.rows.ptr())
            .ptr(self.order.ptr())
            .ptr(self.labels.ptr())
            .ptr(self.segment_sums.ptr())
            .ptr(self.state.ptr())
            .u32(word(count))
            .u32(word(dim));
        let grid = Grid::xy(word(self.shape.segments().div_ceil(BLOCK_WARPS)), word(dim.div_ceil(columns)));
        self.launch(&kernel, grid, BLOCK_THREADS, args)?;
        let args = Args::new()
            .value(self.center_buffers())
            .ptr(self.segment_sums.ptr())
            .ptr(self.center_offsets.ptr())
            .ptr(self.center_counts.ptr())
            .ptr(self.movements.ptr())
            .ptr(self.state.ptr())
            .u32(u32::from(self.request.spherical));
        self.launch(&UPDATE_CENTERS, Grid::x(word(clusters)), CENTER_THREADS, args)
    }

    /// Assigns the ambiguous rows exactly and sums the inertia.
    fn finish(&self) -> Result<(), OpError> {
        let KMeansShape { count, dim, clusters, .. } = self.shape;
        let args = Args::new()
            .ptr(self.rows.ptr())
            .ptr(self.centers.ptr())
            .ptr(self.order.ptr())
            .ptr(self.labels.ptr())
            .ptr(self.state.ptr())
            .u32(word(clusters))
            .u32(word(dim));
        self.launch(&ASSIGN_EXACT, Grid::x(self.worker.sm_count() * 4), BLOCK_THREADS, args)?;
        let args = Args::new()
            .ptr(self.rows.ptr())
            .ptr(self.centers.ptr())
            .ptr(self.labels.ptr())
            .ptr(self.partial_sums.ptr())
            .ptr(self.state.ptr())
            .u32(word(count))
            .u32(word(dim));
        self.launch(&INERTIA, self.row_grid(), BLOCK_THREADS, args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_layout_of_the_kernels() {
        assert_eq!([size_of::<AssignParams>(), size_of::<CenterBuffers>(), size_of::<KMeansState>()], [96, 56, 64]);
    }
}
