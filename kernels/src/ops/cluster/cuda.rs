//! k-means on a GPU: one stream, and no round trip in an iteration. The kernels are described in `cu/kmeans*.cu`.
//!
//! In the iteration, distances are compared by binary16 numbers with f32 sums: exact for rows and centres moved by at
//! most one part in 2,048 of each coordinate's distance from the mean. Where that is too coarse for the data, because
//! clusters are far smaller than the distances between them, two such numbers make one, 22 bits. The answer's
//! assignments are nearest by the f32 numbers in f64: rows whose two best centres the fast comparison cannot tell apart
//! for certain are decided anew. The inertia is summed in f64. All sums have one order: a device repeats its bits.

use bytemuck::{Pod, Zeroable};

mod input;
mod shape;

use input::Input;
use shape::{Shape, word};

use super::{ClusterRequest, Clusters, random::uniform};
use crate::{
    Matrix, OpError,
    cuda::{
        Args, Buffer, DevicePtr, Grid, Kernel, Mailbox, Worker,
        modules::kmeans::{
            ASSIGN_64, ASSIGN_64_CERTAIN, ASSIGN_128, ASSIGN_128_CERTAIN, ASSIGN_ANY, ASSIGN_ANY_CERTAIN, ASSIGN_SPLIT,
            ASSIGN_SPLIT_CERTAIN, CHOOSE, COLUMNS, CONVERT, COUNT, DISTANCES, FINISH, FRAME, INERTIA, OFFSETS, PLACE,
            REFINE, REST, SCATTER, SEED, SUM, SUM_X4, UNIT,
        },
    },
};

/// Candidates that one pass of the start measures, as in the kernels.
const TRIALS: usize = 8;
/// Iterations between two looks at whether the centres rest.
const LOOK_EVERY: usize = 4;
/// Below this share of the rows' squared lengths, distances to the centres are too small for one binary16 a number: at
/// it, rounding moves a row by a hundredth of its distance at most.
const COARSE: f64 = 1.0 / 1024.0;

/// What one run knows, on the device; mirrors `State` in `cu/kmeans.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct State {
    done: u32,
    iterations: u32,
    ticket: u32,
    ambiguous: u32,
    best: u32,
    unused: u32,
    scale: f32,
    widest: f32,
    rest: f64,
    squares: f64,
    potential: f64,
    inertia: f64,
}

/// Arguments of an assignment; mirrors `Assign` in `cu/kmeans.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Assign {
    rows: u64,
    rows_low: u64,
    centers: u64,
    centers_low: u64,
    halves: u64,
    norms: u64,
    labels: u64,
    scores: u64,
    list: u64,
    state: u64,
    count: u32,
    tiles: u32,
    pitch: u32,
    dim: u32,
}

/// Where centres are kept; mirrors `Centers` in `cu/kmeans.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Centers {
    exact: u64,
    framed: u64,
    low: u64,
    halves: u64,
    mean: u64,
    clusters: u32,
    dim: u32,
    pitch: u32,
    unused: u32,
}

/// Clusters the rows of each request.
pub(super) fn cluster(batch: &[&ClusterRequest], worker: &Worker) -> Result<Vec<Clusters>, OpError> {
    batch.iter().map(|request| Run::new(request, worker)?.best()).collect()
}

/// How the assignment compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    /// One binary16 a number.
    Single,
    /// Two.
    Split,
}

impl Precision {
    /// The share of a row's squared length below which its distance to a centre may be a rounding error.
    fn noise(self) -> f32 {
        match self {
            Self::Single => 1.0 / 2048.0,
            Self::Split => 1.0 / 524_288.0,
        }
    }
}

/// Everything of one request on the device.
struct Run<'a> {
    request: &'a ClusterRequest,
    worker: &'a Worker,
    shape: Shape,
    rows: Buffer<f32>,
    mean: Buffer<f32>,
    high: Buffer<u16>,
    low: Option<Low>,
    norms: Buffer<f32>,
    parts: Buffer<f64>,
    state: Buffer<State>,
    centers: Buffer<f32>,
    framed: Buffer<u16>,
    halves: Buffer<f32>,
    labels: Buffer<u32>,
    scores: Buffer<f32>,
    /// The sorted rows; at the end the rows to be decided exactly.
    order: Buffer<u32>,
    counts: Buffer<u32>,
    totals: Buffer<u32>,
    starts: Buffer<u32>,
    pieces: Buffer<f32>,
    moved: Buffer<f64>,
}

/// The second part of split numbers.
struct Low {
    rows: Buffer<u16>,
    centers: Buffer<u16>,
}

impl<'a> Run<'a> {
    /// Brings the rows to the device, to unit length where asked, and into the frame.
    fn new(request: &'a ClusterRequest, worker: &'a Worker) -> Result<Self, OpError> {
        let input = Input::of(&request.rows);
        let units = worker.units() as usize;
        let shape = Shape::new(input.count(), input.dim(), request.clusters, units)?;
        let (rows, counts) = (input.upload(worker)?, shape.runs * shape.clusters);
        let parts = worker.alloc((units * 8).max(shape.shares * shape.trials))?;
        let run = Self {
            request,
            worker,
            rows,
            mean: worker.alloc(shape.dim)?,
            high: worker.alloc(shape.count * shape.pitch)?,
            low: None,
            norms: worker.alloc(shape.count)?,
            parts,
            state: worker.alloc_zeroed(1)?,
            centers: worker.alloc(shape.clusters * shape.dim)?,
            framed: worker.alloc_zeroed(shape.padded * shape.pitch)?,
            halves: worker.upload_new(&vec![f32::INFINITY; shape.padded])?,
            labels: worker.alloc(shape.count)?,
            scores: worker.alloc(shape.count)?,
            order: worker.alloc(shape.count)?,
            counts: worker.alloc(counts)?,
            totals: worker.alloc_zeroed(shape.clusters)?,
            starts: worker.alloc(shape.clusters + 1)?,
            pieces: worker.alloc((shape.segments() + shape.clusters) * shape.dim)?,
            moved: worker.alloc(shape.clusters)?,
            shape,
        };
        run.frame()?;
        Ok(run)
    }

    fn launch(&self, kernel: &Kernel, grid: Grid, threads: u32, mut args: Args) -> Result<(), OpError> {
        self.worker.launch(kernel, grid, threads, 0, &mut args)
    }

    /// Blocks of kernels whose warps take rows in turn.
    fn turns(&self) -> Grid {
        Grid::x(word(self.shape.count.div_ceil(8).min(self.worker.units() as usize * 8)))
    }

    fn frame(&self) -> Result<(), OpError> {
        let Shape { count, dim, .. } = self.shape;
        if self.request.spherical {
            let args = Args::new().ptr(self.rows.ptr()).u32(word(count)).u32(word(dim));
            self.launch(&UNIT, Grid::x(word(count.div_ceil(8))), 256, args)?;
        }
        let blocks = (self.worker.units() as usize * 4).min(count.div_ceil(64));
        let share = count.div_ceil(blocks);
        let sums = self.worker.alloc::<f64>(blocks * dim)?;
        let largest = self.worker.alloc::<f32>(blocks)?;
        let args = Args::new().ptr(self.rows.ptr()).ptr(sums.ptr()).ptr(largest.ptr());
        let args = args.u32(word(count)).u32(word(dim)).u32(word(share));
        self.launch(&COLUMNS, Grid::x(word(blocks)), 256, args)?;
        let args = Args::new().ptr(sums.ptr()).ptr(largest.ptr()).ptr(self.mean.ptr()).ptr(self.state.ptr());
        let args = args.u32(word(count)).u32(word(dim)).u32(word(blocks));
        self.launch(&FRAME, Grid::x(1), 1024, args)?;
        self.convert(DevicePtr::NULL)
    }

    fn convert(&self, low: DevicePtr<u16>) -> Result<(), OpError> {
        let args = Args::new().ptr(self.rows.ptr()).ptr(self.mean.ptr()).ptr(self.high.ptr()).ptr(low);
        let args = args.ptr(self.norms.ptr()).ptr(self.parts.ptr()).ptr(self.state.ptr());
        let args = args.u32(word(self.shape.count)).u32(word(self.shape.dim)).u32(word(self.shape.pitch));
        self.launch(&CONVERT, self.turns(), 256, args)
    }

    /// The start with the least inertia, the first of equals.
    fn best(mut self) -> Result<Clusters, OpError> {
        let mut best: Option<Clusters> = None;
        for start in 0..self.request.starts.max(1) {
            let state = self.once(start as u64)?;
            if best.as_ref().is_none_or(|best| state.inertia < best.inertia) {
                best = Some(self.answer(&state)?);
            }
        }
        best.ok_or_else(|| OpError::Invalid("no start".to_owned()))
    }

    fn answer(&self, state: &State) -> Result<Clusters, OpError> {
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

    /// One start, to the end.
    fn once(&mut self, start: u64) -> Result<State, OpError> {
        let Shape { count, dim, .. } = self.shape;
        let args = Args::new().ptr(self.state.ptr()).f64(self.request.tolerance);
        self.launch(&REST, Grid::x(1), 1, args.u32(word(count)).u32(word(dim)))?;
        let chosen = self.choose(start)?;
        let state = self.state()?;
        let precision = if state.potential < COARSE * state.squares { Precision::Split } else { Precision::Single };
        if precision == Precision::Split && self.low.is_none() {
            self.split()?;
        }
        let args = Args::new().value(self.places()).ptr(self.rows.ptr()).ptr(chosen.ptr()).ptr(self.state.ptr());
        self.launch(&SEED, Grid::x(word(self.shape.clusters)), 128, args)?;
        self.iterate(precision)?;
        self.assign(precision, true)?;
        self.finish()?;
        self.state()
    }

    fn state(&self) -> Result<State, OpError> {
        let mut state = [State::zeroed()];
        self.worker.download_into(&self.state, 0, &mut state)?;
        Ok(state[0])
    }

    /// Adds the second part of every number of the frame.
    fn split(&mut self) -> Result<(), OpError> {
        let rows = self.worker.alloc(self.high.len())?;
        self.convert(rows.ptr())?;
        self.low = Some(Low { rows, centers: self.worker.alloc_zeroed(self.framed.len())? });
        Ok(())
    }

    /// Greedy k-means++: the rows that become the first centres.
    fn choose(&self, start: u64) -> Result<Buffer<u32>, OpError> {
        let Shape { count, clusters, trials, stride, .. } = self.shape;
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
        let left = [self.worker.alloc::<f32>(trials * stride)?, self.worker.alloc::<f32>(trials * stride)?];
        for step in 0..clusters {
            let (now, before) = (&left[step % 2], &left[(step + 1) % 2]);
            let known = if step == 0 { DevicePtr::NULL } else { before.ptr() };
            let measured = if step == 0 { 1 } else { trials };
            self.distances(&candidates, known, now, measured)?;
            let next = if step + 1 < clusters { trials } else { 0 };
            let draws = uniforms.ptr_at((step * trials).min(uniforms.len()));
            let args = Args::new().ptr(now.ptr()).ptr(self.parts.ptr()).ptr(draws);
            let args = args.ptr(candidates.ptr()).ptr(chosen.ptr()).ptr(self.state.ptr());
            let args = args.u32(word(count)).u32(word(stride)).u32(word(self.shape.share));
            let args = args.u32(word(self.shape.shares)).u32(word(measured)).u32(word(next)).u32(word(step));
            self.launch(&CHOOSE, Grid::x(1), 256, args)?;
        }
        Ok(chosen)
    }

    fn distances(
        &self,
        candidates: &Buffer<u32>,
        known: DevicePtr<f32>,
        left: &Buffer<f32>,
        trials: usize,
    ) -> Result<(), OpError> {
        let Shape { count, stride, pitch, share, shares, .. } = self.shape;
        let args = Args::new().ptr(self.high.ptr()).ptr(candidates.ptr()).ptr(known).ptr(left.ptr());
        let args = args.ptr(self.parts.ptr()).ptr(self.state.ptr());
        let args = args.u32(word(count)).u32(word(stride)).u32(word(pitch)).u32(word(share)).u32(word(trials));
        self.launch(&DISTANCES, Grid::xy(word(shares), word(trials.div_ceil(TRIALS))), 256, args)
    }

    fn places(&self) -> Centers {
        Centers {
            exact: self.centers.ptr().address(),
            framed: self.framed.ptr().address(),
            low: self.low.as_ref().map_or(0, |low| low.centers.ptr().address()),
            halves: self.halves.ptr().address(),
            mean: self.mean.ptr().address(),
            clusters: word(self.shape.clusters),
            dim: word(self.shape.dim),
            pitch: word(self.shape.pitch),
            unused: 0,
        }
    }

    /// Iterates until the centres rest, or as often as is allowed. The host looks seldom, and stays at most two looks
    /// ahead of what it knows; what it launched too many returns at once.
    fn iterate(&self, precision: Precision) -> Result<(), OpError> {
        let mut mailbox = Mailbox::new(self.worker)?;
        for iteration in 0..self.request.max_iterations.max(1) {
            if iteration > 0 && iteration.is_multiple_of(LOOK_EVERY) {
                if mailbox.take()?.is_some_and(|state: State| state.done != 0) {
                    return Ok(());
                }
                mailbox.post(&self.state)?;
            }
            self.assign(precision, false)?;
            self.sort(precision)?;
            self.mean()?;
        }
        Ok(())
    }

    fn assign(&self, precision: Precision, certain: bool) -> Result<(), OpError> {
        let Shape { count, dim, clusters, pitch, .. } = self.shape;
        let (kernel, tile) = match (precision, pitch, certain) {
            (Precision::Split, _, false) => (ASSIGN_SPLIT, 64),
            (Precision::Split, _, true) => (ASSIGN_SPLIT_CERTAIN, 64),
            (Precision::Single, 64, false) => (ASSIGN_64, 64),
            (Precision::Single, 64, true) => (ASSIGN_64_CERTAIN, 64),
            (Precision::Single, 128, false) => (ASSIGN_128, 64),
            (Precision::Single, 128, true) => (ASSIGN_128_CERTAIN, 64),
            (Precision::Single, _, false) => (ASSIGN_ANY, 128),
            (Precision::Single, _, true) => (ASSIGN_ANY_CERTAIN, 128),
        };
        let assign = Assign {
            rows: self.high.ptr().address(),
            rows_low: self.low.as_ref().map_or(0, |low| low.rows.ptr().address()),
            centers: self.framed.ptr().address(),
            centers_low: self.low.as_ref().map_or(0, |low| low.centers.ptr().address()),
            halves: self.halves.ptr().address(),
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
        self.launch(&kernel, Grid::x(word(count.div_ceil(256))), 256, Args::new().value(assign))
    }

    /// Sorts the rows by centre, after rows far away have been given to centres without any.
    fn sort(&self, precision: Precision) -> Result<(), OpError> {
        let Shape { count, clusters, run, runs, .. } = self.shape;
        let (grid, shared) = (Grid::x(word(runs.div_ceil(4))), self.shape.counter_bytes());
        let sizes = |args: Args| {
            args.u32(word(count)).u32(word(clusters)).u32(word(run)).u32(word(runs)).u32(u32::from(shared > 0))
        };
        let args = Args::new().ptr(self.labels.ptr()).ptr(self.counts.ptr()).ptr(self.totals.ptr());
        self.worker.launch(&COUNT, grid, 128, word(shared), &mut sizes(args.ptr(self.state.ptr())))?;
        let args = Args::new().ptr(self.labels.ptr()).ptr(self.scores.ptr()).ptr(self.norms.ptr());
        let args = args.ptr(self.counts.ptr()).ptr(self.totals.ptr()).ptr(self.starts.ptr()).ptr(self.state.ptr());
        let args = args.u32(word(count)).u32(word(clusters)).u32(word(run)).f32(precision.noise());
        self.launch(&PLACE, Grid::x(1), 1024, args)?;
        let args = Args::new().ptr(self.counts.ptr()).ptr(self.starts.ptr()).ptr(self.state.ptr());
        let args = args.u32(word(clusters)).u32(word(runs));
        self.launch(&OFFSETS, Grid::x(word(clusters.div_ceil(32))), 1024, args)?;
        let args = Args::new().ptr(self.labels.ptr()).ptr(self.counts.ptr()).ptr(self.order.ptr());
        self.worker.launch(&SCATTER, grid, 128, word(shared), &mut sizes(args.ptr(self.state.ptr())))
    }

    /// Every centre to the mean of its rows.
    fn mean(&self) -> Result<(), OpError> {
        let Shape { count, dim, clusters, .. } = self.shape;
        let (kernel, columns) = if dim.is_multiple_of(4) { (SUM_X4, 128) } else { (SUM, 32) };
        let args = Args::new().ptr(self.rows.ptr()).ptr(self.order.ptr()).ptr(self.labels.ptr());
        let args = args.ptr(self.pieces.ptr()).ptr(self.state.ptr()).u32(word(count)).u32(word(dim));
        let grid = Grid::xy(word(self.shape.segments().div_ceil(8)), word(dim.div_ceil(columns)));
        self.launch(&kernel, grid, 256, args)?;
        let args = Args::new().value(self.places()).ptr(self.pieces.ptr()).ptr(self.starts.ptr());
        let args = args.ptr(self.totals.ptr()).ptr(self.moved.ptr()).ptr(self.state.ptr());
        let args = args.u32(u32::from(self.request.spherical));
        self.launch(&FINISH, Grid::x(word(clusters)), 128, args)
    }

    /// Decides the rows that the last assignment left open, and sums the inertia.
    fn finish(&self) -> Result<(), OpError> {
        let Shape { count, dim, clusters, .. } = self.shape;
        let args = Args::new().ptr(self.rows.ptr()).ptr(self.centers.ptr()).ptr(self.order.ptr());
        let args = args.ptr(self.labels.ptr()).ptr(self.state.ptr()).u32(word(clusters)).u32(word(dim));
        self.launch(&REFINE, Grid::x(self.worker.units() * 4), 256, args)?;
        let args = Args::new().ptr(self.rows.ptr()).ptr(self.centers.ptr()).ptr(self.labels.ptr());
        let args = args.ptr(self.parts.ptr()).ptr(self.state.ptr()).u32(word(count)).u32(word(dim));
        self.launch(&INERTIA, self.turns(), 256, args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_layout_of_the_kernels() {
        assert_eq!([size_of::<Assign>(), size_of::<Centers>(), size_of::<State>()], [96, 56, 64]);
    }
}
