//! Compares tensors on one CPU thread and, if there is one, on a GPU where they are resident: medians, and pairs or bytes a second.
//! `tests/bench/baseline_compare.py` prints the same cases of NumPy.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_kernels::{
    Backend, Choice, DeviceId, Op, OpError, Settings,
    cpu::{Pool, Worker},
    discover,
    ledger::Ledger,
    ops::{
        compare::{Compare, CompareRequest, Pair, Policy, Rules},
        tensor::{TensorAccount, TensorInput, Upload, UploadRequest},
    },
};
use accelerd_tensor::{Dtype, TensorType};
use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::SmallRng};

const SAMPLES: usize = 9;
/// Pairs on the CPU, which no cache holds.
const CPU_PAIRS: usize = 1 << 25;
/// Bytes of each tensor on a GPU.
const GPU_BYTES: usize = 4 << 30;

/// The differences between the tensors of a case.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    dtype: Dtype,
    /// Distance between elements whose last bits differ; 0 if none do.
    near: usize,
    /// Distance between elements with another number; 0 if there are none.
    far: usize,
}

const CASES: [Case; 8] = [
    Case { name: "f32, equal", dtype: Dtype::F32, near: 0, far: 0 },
    Case { name: "f32, all within tolerance", dtype: Dtype::F32, near: 1, far: 0 },
    Case { name: "f32, one in 10,000 mismatches", dtype: Dtype::F32, near: 1, far: 10_000 },
    Case { name: "f32, all mismatch", dtype: Dtype::F32, near: 0, far: 1 },
    Case { name: "f64, all within tolerance", dtype: Dtype::F64, near: 1, far: 0 },
    Case { name: "f16, all within tolerance", dtype: Dtype::F16, near: 1, far: 0 },
    Case { name: "i32, equal", dtype: Dtype::I32, near: 0, far: 0 },
    Case { name: "u8, equal", dtype: Dtype::U8, near: 0, far: 0 },
];

fn main() -> Result<(), OpError> {
    let pool = Pool::start(1).expect("one thread");
    println!("{}, one thread, {CPU_PAIRS} pairs", pool.info().product);
    let mut backend = Backend::Cpu(Worker::new(pool));
    for case in CASES {
        let [actual, expected] = tensors(case, CPU_PAIRS);
        let pair = pair(case, CPU_PAIRS, actual.into(), expected.into());
        let time = median(&CompareRequest::new(vec![pair]), &mut backend)?;
        let rate = CPU_PAIRS as f64 / time.as_secs_f64();
        let bytes = rate * 2.0 * case.dtype.size() as f64;
        println!("{:<32} {:9.3?} {:6.2} G pairs/s {:6.1} GB/s", case.name, time, rate / 1e9, bytes / 1e9);
    }
    let folders = std::env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: Choice::Auto,
        cuda_library_paths: std::env::split_paths(&folders).filter(|path| path != &PathBuf::new()).collect(),
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|error| panic!("{error}"));
    let Some(device) = found.devices.iter().find(|device| device.id() != DeviceId::Cpu) else { return Ok(()) };
    println!("{}, {GPU_BYTES} bytes in each tensor", device.info().product);
    let mut backend = device.open()?;
    let account = TensorAccount::new(&Ledger::new(), 0);
    for case in CASES {
        let pairs = GPU_BYTES / case.dtype.size();
        let part = CPU_PAIRS.min(pairs);
        let inputs = tensors(case, part).map(|part| resident(case.dtype, pairs, &part, &account, &mut backend));
        let [actual, expected] = inputs;
        let request = CompareRequest::new(vec![pair(case, pairs, actual?, expected?)]);
        let time = median(&request, &mut backend)?;
        let rate = 2.0 * GPU_BYTES as f64 / time.as_secs_f64();
        println!("{:<32} {:9.3?} {:6.2} TB/s", case.name, time, rate / 1e12);
    }
    for stats in device.kernel_stats() {
        println!(
            "{:24} {:5} calls {:9.3} ms each",
            stats.name,
            stats.calls,
            stats.nanos as f64 / 1e6 / stats.calls as f64
        );
    }
    Ok(())
}

fn pair(case: Case, elements: usize, actual: TensorInput, expected: TensorInput) -> Pair {
    let rules = Rules { max_ulps: Some(8), ..Policy::of(case.dtype).rules };
    let policy = Policy { rules, ..Policy::exact() };
    Pair { dtype: case.dtype, elements, actual, expected, policy, max_mismatches: 10, rows: 0 }
}

/// Expected numbers between 1 and 2 or small integers, and actual ones.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other types are measured as integers")]
fn tensors(case: Case, pairs: usize) -> [Bytes; 2] {
    let mut random = SmallRng::seed_from_u64(1);
    let size = case.dtype.size();
    let mut actual = Vec::with_capacity(pairs * size);
    let mut expected = Vec::with_capacity(pairs * size);
    let differs = |nth: usize, every: usize| every > 0 && nth.is_multiple_of(every);
    for nth in 0..pairs {
        let bits: u64 = random.random();
        let number = match case.dtype {
            Dtype::F32 => 0x3f80_0000 | (bits & 0x7f_fff0),
            Dtype::F64 => 0x3ff0_0000_0000_0000 | (bits & 0xf_ffff_ffff_fff0),
            Dtype::F16 => 0x3c00 | (bits & 0x3f0),
            _ => bits & 0x7f,
        };
        let near = number + if differs(nth, case.near) { 1 + bits % 5 } else { 0 };
        let other = if differs(nth, case.far) { near ^ (1 << (8 * size - 4)) } else { near };
        expected.extend_from_slice(&number.to_le_bytes()[..size]);
        actual.extend_from_slice(&other.to_le_bytes()[..size]);
    }
    [actual.into(), expected.into()]
}

/// A tensor on a GPU that repeats `part`.
fn resident(
    dtype: Dtype,
    elements: usize,
    part: &Bytes,
    account: &TensorAccount,
    on: &mut Backend,
) -> Result<TensorInput, OpError> {
    let of = TensorType { dtype, shape: vec![elements] };
    let begin = UploadRequest::begin(of, on.device(), account.clone(), part.clone());
    let tensor = Upload::run(&[&begin], on)?.remove(0);
    for index in (part.len()..elements * dtype.size()).step_by(part.len()) {
        Upload::run(&[&UploadRequest::next(Arc::clone(&tensor), index, part.clone())], on)?;
    }
    Ok(TensorInput::Resident(tensor))
}

fn median(request: &CompareRequest, backend: &mut Backend) -> Result<Duration, OpError> {
    Compare::run(&[request], backend)?;
    let sample = |_| {
        let start = Instant::now();
        Compare::run(&[request], backend).map(|_| start.elapsed())
    };
    let mut times = (0..SAMPLES).map(sample).collect::<Result<Vec<_>, _>>()?;
    times.sort_unstable();
    Ok(times[SAMPLES / 2])
}
