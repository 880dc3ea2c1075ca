//! Pooling: a thread for each result, or for several of windows of 2 x 2.

use accelerd_ir::scalar::cuda::ctype;
use accelerd_tensor::{Divisor, Dtype, PoolKind, PoolStep, PoolWindows, View, Windows};

use super::{
    buffers::{Address, BufferSizes},
    launches::{Argument, Launch, Launches, blocks_x},
    prelude::{NO_FMA, PRELUDE},
};
use crate::{
    OpError,
    cuda::{COMMON, Grid, JitSource, Source, cu, launch_structs},
};

launch_structs! {
    header LAUNCH = "tensor/pool_launch.cuh";

    /// Planes of height times width, and of rows times columns in the output.
    struct Pool {
        input: u64,
        output: u64,
        planes: i64,
        height: i64,
        width: i64,
        rows: i64,
        columns: i64,
    }
}

const HEADERS: &[Source] = &[COMMON, PRELUDE, LAUNCH, cu!("tensor/pack.cuh"), cu!("tensor/pool.cuh")];
const THREADS: usize = 256;
/// The widest access of a thread.
const VECTOR_BYTES: usize = 16;

/// The launch of a step; none if there is no result.
pub(super) fn prepare(step: &PoolStep, sizes: &BufferSizes) -> Result<Launches, OpError> {
    let (&[planes, height, width], &[images, rows, columns]) =
        (&step.input.layout.shape[..], &step.output.layout.shape[..])
    else {
        return Err(invalid("images of three dimensions"));
    };
    let dtype = step.input.dtype;
    let is_number = dtype.is_float() || (dtype.is_integer() && step.kind == PoolKind::Max);
    let is_fitting = |view: &View| view.dtype == dtype && view.layout.is_contiguous();
    if planes != images || !is_number || ![&step.input, &step.output].into_iter().all(is_fitting) {
        return Err(invalid("contiguous images of one type of numbers"));
    }
    let input = sizes.address(&step.input)?;
    let output = sizes.address_mut(&step.output)?;
    let results = step.output.layout.elements();
    if results == 0 {
        return Ok(Launches::default());
    }
    let schedule = Schedule::of(step, [input, output]);
    let per_thread = if let Schedule::Pairs { vector } = schedule { vector / 2 } else { 1 };
    let signed = |extent: usize| extent.cast_signed() as i64;
    let pool = Pool {
        input: 0,
        output: 0,
        planes: signed(planes),
        height: signed(height),
        width: signed(width),
        rows: signed(rows),
        columns: signed(columns),
    };
    Ok(Launches::one(Launch::new(
        schedule.source(dtype, step.kind, u32::try_from(results).is_err()),
        Grid::x(blocks_x((results / per_thread).div_ceil(THREADS))?),
        u32::try_from(THREADS).expect("a small constant"),
        Argument::structure(pool, &[input, output]),
    )))
}

/// Which elements a thread combines.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Schedule {
    /// Those of a window.
    Windows(Windows),
    /// `vector` elements of each of two rows, whose 2 x 2 windows do not overlap.
    Pairs { vector: usize },
    /// Those of a window whose size depends on its position.
    Adaptive,
}

impl Schedule {
    fn of(step: &PoolStep, addresses: [Address; 2]) -> Self {
        let PoolWindows::Sliding(windows) = step.windows else { return Self::Adaptive };
        let input = &step.input.layout.shape;
        let output = &step.output.layout.shape;
        let vector = VECTOR_BYTES / step.input.dtype.size();
        let is_pairs = windows == Windows { kernel: [2; 2], stride: [2; 2], padding: [0; 2], dilation: [1; 2] }
            && 2 * output[1] <= input[1]
            && 2 * output[2] == input[2]
            && input[2].is_multiple_of(vector)
            && addresses.into_iter().all(|address| address.is_aligned(VECTOR_BYTES));
        if is_pairs { Self::Pairs { vector } } else { Self::Windows(windows) }
    }

    fn source(self, dtype: Dtype, kind: PoolKind, is_wide: bool) -> JitSource {
        let pool = match kind {
            PoolKind::Max => "MaxPool".to_owned(),
            PoolKind::Average(Divisor::Number(number)) => format!("AveragePool<{number}, false>"),
            PoolKind::Average(divisor) => format!("AveragePool<0, {}>", divisor == Divisor::Padded),
        };
        let (windows, call) = match self {
            Self::Windows(windows) => (constants(&windows), format!("pool_windows<{pool}, Windows>(pool)")),
            Self::Pairs { vector } => (String::new(), format!("pool_pairs<{pool}, {vector}>(pool)")),
            Self::Adaptive => (String::new(), format!("pool_adaptive<{pool}>(pool)")),
        };
        let element = ctype(dtype);
        let compute = ctype(dtype.compute());
        let [widen, narrow] = if dtype.compute() == dtype {
            ["x".to_owned(), "x".to_owned()]
        } else {
            [format!("ir::{dtype}_to_f32(x)"), format!("ir::f32_to_{dtype}(x)")]
        };
        let index = if is_wide { "u64" } else { "u32" };
        let text = format!(
            "#include \"ir/prelude.cuh\"\n#include \"common/common.cuh\"\n\ntypedef {element} Element;\ntypedef {compute} \
             Compute;\ntypedef {index} Index;\n__device__ __forceinline__ Compute widen(Element x) {{ return {widen}; \
             }}\n__device__ __forceinline__ Element narrow(Compute x) {{ return {narrow}; }}\n#define LEAST {}\n{windows}#include \
             \"tensor/pool.cuh\"\n\nextern \"C\" __global__ void __launch_bounds__({THREADS}) tensor_pool(const Pool pool) {{\n    \
             {call};\n}}\n",
            least(dtype)
        );
        let options = vec![NO_FMA.to_owned()];
        JitSource { template: "tensor_pool", text, headers: HEADERS, options, params: vec![size_of::<Pool>()] }
    }
}

/// C++ of a type with the numbers of windows.
fn constants(windows: &Windows) -> String {
    let pairs = [
        ("KERNEL", windows.kernel),
        ("STRIDE", windows.stride),
        ("PADDING", windows.padding),
        ("DILATION", windows.dilation),
    ];
    let members: Vec<_> = pairs.iter().map(|(name, [y, x])| format!("{name}_Y = {y}, {name}_X = {x}")).collect();
    format!("struct Windows {{\n    static constexpr i64 {};\n}};\n", members.join(", "))
}

/// C++ of the least value of a type of numbers, of type `Compute`.
fn least(dtype: Dtype) -> String {
    if dtype.is_float() {
        return "Compute(-INFINITY)".to_owned();
    }
    let bits = 8 * dtype.size();
    if dtype.is_signed() { format!("Compute(1ull << {})", bits - 1) } else { "Compute(0)".to_owned() }
}

fn invalid(expected: &str) -> OpError {
    OpError::Invalid(format!("pooling: expected {expected}"))
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::{Layout, Location};

    use super::{super::compile::compiles, *};

    fn sliding(kernel: usize, stride: usize, padding: usize) -> PoolWindows {
        let windows = Windows { kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2], dilation: [1; 2] };
        PoolWindows::Sliding(windows)
    }

    fn step(dtype: Dtype, input: [usize; 3], output: [usize; 3], windows: PoolWindows, kind: PoolKind) -> PoolStep {
        let view = |location, shape: &[usize]| View { location, dtype, layout: Layout::contiguous(shape) };
        PoolStep { input: view(Location::Input(0), &input), windows, kind, output: view(Location::Output(0), &output) }
    }

    fn launches(step: &PoolStep) -> Result<Launches, OpError> {
        prepare(step, &BufferSizes::new(&[1 << 39], &[1 << 39], 0))
    }

    #[test]
    fn windows_of_2_by_2_are_read_in_vectors() {
        let of = |input, output, windows| {
            let launches =
                launches(&step(Dtype::F32, input, output, windows, PoolKind::Max)).expect("consistent views");
            let call = |launch: &Launch| (launch.source.text.contains("pool_pairs<MaxPool, 4>"), launch.grid.x);
            launches.launches.first().map(call)
        };
        assert_eq!(of([2048, 128, 128], [2048, 64, 64], sliding(2, 2, 0)), Some((true, 16384)));
        assert_eq!(of([2048, 129, 128], [2048, 64, 64], sliding(2, 2, 0)), Some((true, 16384)), "an odd row is left");
        assert_eq!(of([2048, 128, 130], [2048, 64, 65], sliding(2, 2, 0)), Some((false, 33280)), "no whole vectors");
        assert_eq!(of([2, 127, 128], [2, 64, 64], sliding(2, 2, 0)), Some((false, 32)), "half a window at the end");
        assert_eq!(of([2, 128, 128], [2, 65, 65], sliding(2, 2, 1)), Some((false, 34)));
        assert_eq!(of([0, 128, 128], [0, 64, 64], sliding(2, 2, 0)), None);
    }

    #[test]
    fn a_step_that_does_not_fit_its_views_is_an_error() {
        let good = step(Dtype::F32, [2, 8, 8], [2, 4, 4], sliding(2, 2, 0), PoolKind::Max);
        assert!(launches(&good).is_ok());
        let wrongs: [fn(&mut PoolStep); 6] = [
            |step| step.output.dtype = Dtype::F16,
            |step| step.output.layout = Layout::contiguous(&[1, 4, 4]),
            |step| step.input.layout = Layout::contiguous(&[8, 8]),
            |step| step.input.layout = step.input.layout.permuted(&[0, 2, 1]),
            |step| step.output.location = Location::Input(0),
            |step| (step.input.dtype, step.output.dtype) = (Dtype::Bool, Dtype::Bool),
        ];
        for (nth, wrong) in wrongs.iter().enumerate() {
            let mut step = good.clone();
            wrong(&mut step);
            assert!(matches!(launches(&step), Err(OpError::Invalid(_))), "{nth}");
        }
        let average = PoolKind::Average(Divisor::Elements);
        assert!(launches(&step(Dtype::I32, [2, 8, 8], [2, 4, 4], sliding(2, 2, 0), average)).is_err());
    }

    #[test]
    fn every_type_and_schedule_compiles() {
        let averages = [Divisor::Elements, Divisor::Padded, Divisor::Number(-3)].map(PoolKind::Average);
        let mut sources = vec![];
        let cases = [
            ([3, 64, 64], [3, 32, 32], sliding(2, 2, 0)),
            ([3, 9, 9], [3, 5, 5], sliding(3, 2, 1)),
            ([3, 90, 90], [3, 2, 2], sliding(40, 40, 0)),
            ([3, 9, 9], [3, 4, 4], PoolWindows::Adaptive),
        ];
        for (nth, dtype) in Dtype::ALL.into_iter().filter(|dtype| *dtype != Dtype::Bool).enumerate() {
            for (index, (input, output, windows)) in cases.into_iter().enumerate() {
                let mut kinds = vec![PoolKind::Max];
                kinds.extend(dtype.is_float().then(|| averages[(nth + index) % averages.len()]));
                for kind in kinds {
                    let launches = launches(&step(dtype, input, output, windows, kind)).expect("consistent views");
                    sources.extend(launches.launches.into_iter().map(|launch| launch.source));
                }
            }
        }
        let wide = Schedule::Adaptive.source(Dtype::F32, PoolKind::Max, true);
        sources.push(wide);
        compiles(&sources);
    }
}
