//! Comparison on a GPU: one launch for each pair of tensors, after one for the largest expected number if the policy needs it.
//!
//! The kernel marks tiles with mismatches. The first mismatches are listed by judging the first of these tiles on the host.

use std::borrow::Cow;

use bytemuck::{Pod, Zeroable};

use super::{
    Pair,
    block::Block,
    comparison::{BUCKETS, Class, Comparison, Counts, Largest},
    element::{Element, dispatch},
    judge::Judge,
    policy::{Combination, InfinityPolicy, NanPolicy},
};
use crate::{
    OpError,
    cuda::{Args, Buffer, COMMON, Grid, Kernel, Module, Source, Worker, cu, launch_structs},
    ops::tensor::TensorInput,
};

launch_structs! {
    header LAUNCH = "launch/compare.cuh";

    const COMPARE_THREADS: u32 = 256;
    /// Bytes of each tensor that a block compares at a time.
    const TILE_BYTES: usize = 16384;
    /// Counters: the buckets of the histogram, then the classes, of which pairs with equal bits are the rest.
    const HISTOGRAM_BUCKETS: usize = 65;
    const CLASSES: usize = 7;

    /// Bits of `flags`.
    const HAS_CLOSE: u32 = 1;
    const HAS_MAX_ULPS: u32 = 2;
    const HAS_MAX_NORM: u32 = 4;
    const ALL_RULES: u32 = 8;
    const NAN_EQUALS: u32 = 16;
    const NAN_SAME_BITS: u32 = 32;
    const INFINITY_FORBIDDEN: u32 = 64;
    const DISTINGUISH_ZERO_SIGN: u32 = 128;
    const MARK_ROWS: u32 = 256;

    /// Parameters of a comparison.
    struct Params {
        elements: u64,
        /// At least 1.
        row_elements: u64,
        max_ulps: u64,
        atol: f64,
        rtol: f64,
        /// Bounds the absolute error by this multiple of the largest expected number.
        max_norm: f64,
        flags: u32,
        reserved: u32,
    }
}

const _: () = assert!(HISTOGRAM_BUCKETS == BUCKETS && CLASSES == Class::InfinityMismatch as usize + 1);

/// Blocks for each multiprocessor, which take tiles in turn: a multiple of 2, 3, 4 and 6, of which as many as registers allow run at once.
const BLOCKS: usize = 12;

const ELEMENT: Source = cu!("compare/element.cuh");

const COMPARE_PARAMS: &[usize] = &[8, 8, 8, 8, 8, 8, size_of::<Params>()];
const NORM_PARAMS: &[usize] = &[8, 8, 8];

/// The kernels of an element type.
struct Kernels {
    compare: Kernel,
    norm: Kernel,
}

macro_rules! kernels {
    ($($constant:ident: $name:literal),*) => {
        $(const $constant: Kernels = Kernels {
            compare: Kernel { name: concat!("compare_", $name), params: COMPARE_PARAMS },
            norm: Kernel { name: concat!("compare_norm_", $name), params: NORM_PARAMS },
        };)*
        static MODULE: Module = Module {
            name: "compare",
            source: cu!("compare/compare.cu"),
            headers: &[COMMON, ELEMENT, LAUNCH],
            defines: &[],
            kernels: &[$($constant.compare, $constant.norm),*],
        };
    };
}

kernels!(
    BOOL: "bool", U8: "u8", I8: "i8", U16: "u16", I16: "i16", U32: "u32", I32: "i32", U64: "u64", I64: "i64", F16: "f16",
    BF16: "bf16", F32: "f32", F64: "f64"
);

pub(crate) static MODULES: &[&Module] = &[&MODULE];

/// Words of the kernel's `Totals`: the histogram, the classes, and the bits of norm, excess and ratio.
const TOTALS: usize = BUCKETS + CLASSES + 3;

/// The kernel's `Largest`: a number by its bits.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawLargest {
    value: u64,
    index: u64,
}

/// The maxima of a block: absolute and relative errors, and distances.
type Maxima = [RawLargest; 3];

/// Compares pairs of tensors.
pub(super) fn run(pairs: &[&Pair], worker: &Worker) -> Result<Vec<Comparison>, OpError> {
    let compared = launch_all(pairs, worker);
    // Another worker may free a resident tensor next.
    let is_shared = pairs.iter().any(|pair| pair.actual.device().is_some() || pair.expected.device().is_some());
    let synchronized = if is_shared { worker.synchronize() } else { Ok(()) };
    compared.and_then(|compared| synchronized.map(|()| compared))
}

fn launch_all(pairs: &[&Pair], worker: &Worker) -> Result<Vec<Comparison>, OpError> {
    let mut launched = vec![];
    for pair in pairs {
        if !launched.is_empty() {
            worker.preemption_point()?;
        }
        launched.push(Launched::new(pair, worker)?);
    }
    launched.into_iter().map(|launched| launched.finish(worker)).collect()
}

/// A comparison that is under way.
struct Launched<'a> {
    pair: &'a Pair,
    actual: Tensor<'a>,
    expected: Tensor<'a>,
    /// See [`TOTALS`].
    totals: Buffer<u64>,
    maxima: Buffer<Maxima>,
    /// A bit for each tile with a mismatch.
    tiles: Buffer<u32>,
    /// A bit for each row with a mismatch.
    rows: Buffer<u32>,
}

/// A tensor in device memory.
enum Tensor<'a> {
    Uploaded { buffer: Buffer<u8>, host: &'a [u8] },
    Resident(&'a Buffer<u8>),
}

impl<'a> Tensor<'a> {
    fn new(input: &'a TensorInput, worker: &Worker) -> Result<Self, OpError> {
        match input {
            TensorInput::Inline(host) => Ok(Self::Uploaded { buffer: worker.upload_new(host)?, host }),
            TensorInput::Resident(tensor) => tensor.on(worker).map(Self::Resident),
        }
    }

    fn buffer(&self) -> &Buffer<u8> {
        match self {
            Self::Uploaded { buffer, .. } => buffer,
            Self::Resident(buffer) => buffer,
        }
    }

    /// Bytes of it on the host.
    fn read(&self, range: std::ops::Range<usize>, worker: &Worker) -> Result<Cow<'a, [u8]>, OpError> {
        match self {
            Self::Uploaded { host, .. } => Ok(Cow::Borrowed(&host[range])),
            Self::Resident(buffer) => worker.download(buffer, range).map(Cow::Owned),
        }
    }
}

impl<'a> Launched<'a> {
    fn new(pair: &'a Pair, worker: &Worker) -> Result<Self, OpError> {
        let bytes = pair.elements * pair.dtype.size();
        let tiles = bytes.div_ceil(TILE_BYTES);
        let blocks = tiles.min(BLOCKS * worker.sm_count() as usize);
        let launched = Self {
            pair,
            actual: Tensor::new(&pair.actual, worker)?,
            expected: Tensor::new(&pair.expected, worker)?,
            totals: worker.alloc_zeroed(TOTALS)?,
            maxima: worker.alloc_zeroed(blocks)?,
            tiles: worker.alloc_zeroed(tiles.div_ceil(32))?,
            rows: worker.alloc_zeroed(pair.rows.div_ceil(32))?,
        };
        let grid = Grid::x(u32::try_from(blocks).expect("a few blocks for each multiprocessor"));
        let actual = launched.actual.buffer().ptr();
        let expected = launched.expected.buffer().ptr();
        let kernels = kernels(pair.dtype);
        if pair.policy.rules.max_norm.is_some() {
            let mut args = Args::new().ptr(expected).ptr(launched.totals.ptr()).u64(pair.elements as u64);
            worker.launch(&kernels.norm, grid, COMPARE_THREADS, 0, &mut args)?;
        }
        let mut args = Args::new()
            .ptr(actual)
            .ptr(expected)
            .ptr(launched.totals.ptr())
            .ptr(launched.maxima.ptr())
            .ptr(launched.tiles.ptr())
            .ptr(launched.rows.ptr())
            .value(params(pair));
        worker.launch(&kernels.compare, grid, COMPARE_THREADS, 0, &mut args)?;
        Ok(launched)
    }

    fn finish(self, worker: &Worker) -> Result<Comparison, OpError> {
        let mut compared = comparison(&worker.download(&self.totals, ..)?, self.pair);
        for block in worker.download(&self.maxima, ..)? {
            add_maxima(&mut compared, &block);
        }
        let mut rows = vec![0_u32; self.rows.len()];
        worker.download_into(&self.rows, 0, &mut rows)?;
        compared.failed_rows = bytemuck::cast_slice(&rows)[..self.pair.rows.div_ceil(8)].to_vec();
        if compared.failed > 0 && self.pair.max_mismatches > 0 {
            self.list_mismatches(&mut compared, worker)?;
        }
        Ok(compared)
    }

    fn list_mismatches(&self, compared: &mut Comparison, worker: &Worker) -> Result<(), OpError> {
        let pair = self.pair;
        let judge = pair.judge(|| Ok(compared.norm))?;
        let bytes = pair.elements * pair.dtype.size();
        let marks = worker.download(&self.tiles, ..)?;
        let tiles = (0..bytes.div_ceil(TILE_BYTES)).filter(|tile| marks[tile / 32] >> (tile % 32) & 1 == 1);
        for tile in tiles {
            let range = tile * TILE_BYTES..bytes.min((tile + 1) * TILE_BYTES);
            let start = (range.start / pair.dtype.size()) as u64;
            let actual = self.actual.read(range.clone(), worker)?;
            let expected = self.expected.read(range, worker)?;
            let judge = Judge { max_mismatches: pair.max_mismatches - compared.mismatches.len(), ..judge };
            let mut tile = Comparison::default();
            dispatch!(pair.dtype, judge_tile(&judge, &actual, &expected, start, &mut tile));
            compared.mismatches.append(&mut tile.mismatches);
            if compared.mismatches.len() == pair.max_mismatches {
                break;
            }
        }
        Ok(())
    }
}

fn judge_tile<T: Element>(judge: &Judge, actual: &[u8], expected: &[u8], start: u64, to: &mut Comparison) {
    judge.judge(Block::<T> { actual: T::raw(actual), expected: T::raw(expected), start }, to, None);
}

/// The result without maxima, mismatches and rows.
fn comparison(totals: &[u64], pair: &Pair) -> Comparison {
    let (histogram, rest) = totals.split_at(BUCKETS);
    let (classes, numbers) = rest.split_at(CLASSES);
    let count = |class: Class| classes[class as usize];
    let counts = Counts {
        equal: pair.elements as u64 - classes.iter().sum::<u64>(),
        zero_sign: count(Class::ZeroSign),
        within_tolerance: count(Class::WithinTolerance),
        mismatch: count(Class::Mismatch),
        nan_equal: count(Class::NanEqual),
        nan_mismatch: count(Class::NanMismatch),
        infinity_mismatch: count(Class::InfinityMismatch),
    };
    let zeros = if pair.policy.distinguish_zero_sign { counts.zero_sign } else { 0 };
    let failed = counts.mismatch + counts.nan_mismatch + counts.infinity_mismatch + zeros;
    let [norm, excess, ratio] = [0, 1, 2].map(|nth| f64::from_bits(numbers[nth]));
    let mut result = Comparison { counts, failed, excess, ratio, norm, ..Comparison::default() };
    result.histogram.copy_from_slice(histogram);
    result.histogram[0] = counts.equal + counts.zero_sign;
    result
}

/// Merges the maxima of a block: of equal ones, the first place counts.
fn add_maxima(to: &mut Comparison, [absolute, relative, ulps]: &Maxima) {
    fn add<T: Copy>(to: &mut Option<Largest<T>>, new: RawLargest, from_bits: fn(u64) -> T, bits: fn(T) -> u64) {
        let is_larger = match to {
            None => new.value > 0,
            Some(before) => (bits(before.value), new.index) < (new.value, before.index),
        };
        if is_larger {
            *to = Some(Largest { value: from_bits(new.value), index: new.index });
        }
    }
    add(&mut to.max_absolute, *absolute, f64::from_bits, f64::to_bits);
    add(&mut to.max_relative, *relative, f64::from_bits, f64::to_bits);
    add(&mut to.max_ulps, *ulps, |ulps| ulps, |ulps| ulps);
}

fn params(pair: &Pair) -> Params {
    let policy = &pair.policy;
    let rules = &pair.policy.rules;
    let tolerances = rules.tolerances();
    let flags = [
        (HAS_CLOSE, rules.close.is_some()),
        (HAS_MAX_ULPS, rules.max_ulps.is_some()),
        (HAS_MAX_NORM, rules.max_norm.is_some()),
        (ALL_RULES, rules.combination == Combination::All),
        (NAN_EQUALS, policy.nan == NanPolicy::Equal),
        (NAN_SAME_BITS, policy.nan == NanPolicy::SameBits),
        (INFINITY_FORBIDDEN, policy.infinity == InfinityPolicy::Forbidden),
        (DISTINGUISH_ZERO_SIGN, policy.distinguish_zero_sign),
        (MARK_ROWS, pair.rows > 0),
    ];
    Params {
        elements: pair.elements as u64,
        row_elements: pair.elements.checked_div(pair.rows).unwrap_or_default().max(1) as u64,
        max_ulps: rules.max_ulps.unwrap_or_default(),
        atol: tolerances.atol,
        rtol: tolerances.rtol,
        max_norm: rules.max_norm.unwrap_or_default(),
        flags: flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).sum(),
        reserved: 0,
    }
}

fn kernels(dtype: accelerd_ir::Dtype) -> Kernels {
    use accelerd_ir::Dtype;
    match dtype {
        Dtype::Bool => BOOL,
        Dtype::U8 => U8,
        Dtype::I8 => I8,
        Dtype::U16 => U16,
        Dtype::I16 => I16,
        Dtype::U32 => U32,
        Dtype::I32 => I32,
        Dtype::U64 => U64,
        Dtype::I64 => I64,
        Dtype::F16 => F16,
        Dtype::Bf16 => BF16,
        Dtype::F32 => F32,
        Dtype::F64 => F64,
    }
}
