//! Measures generated kernels on a GPU: compilation, loading from disk, lookup, launch, and the bandwidth of ten
//! elementwise operations on 128 M floats in one kernel. Exits with 1 if a result is wrong.
//!
//! `ACCELERD_CUDA_LIBRARY_PATH` lists folders of NVRTC.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::{
    env,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use accelerd_kernels::{
    Backend, Choice, Device, OpError, Settings,
    cuda::{Args, Buffer, Grid, JitSource, LaunchConfig, Source, Worker},
    discover,
};

const HEADERS: &[Source] = &[Source { path: "common/common.cuh", text: include_str!("../cu/common/common.cuh") }];
const ELEMENTS: usize = 128 << 20;
const RUNS: u32 = 20;

/// Without dynamic shared memory.
fn config(grid: Grid, block_threads: u32) -> LaunchConfig {
    LaunchConfig { pdl: false, grid, block_threads, shared_bytes: 0, moved_bytes: 0 }
}

fn main() {
    let cache = tempfile::tempdir().expect("a temporary folder");
    let correct = [1_u32, 2].map(|process| {
        println!("{}", if process == 1 { "empty cache" } else { "kernel on disk" });
        bench(cache.path()).unwrap_or_else(|e| panic!("{e}"))
    });
    println!("{}", if correct == [true; 2] { "every checked result is right" } else { "SOME RESULTS ARE WRONG" });
    std::process::exit(i32::from(correct != [true; 2]));
}

/// Reopens the device, so that only the disk keeps kernels between two calls.
fn bench(cache: &Path) -> Result<bool, OpError> {
    let device = open(cache);
    let Backend::Cuda(worker) = device.open()? else { panic!("CUDA was asked for") };
    let source = chain("v[i]");
    // The first compilation of a process loads the compiler.
    time("  compiler's first kernel", || worker.jit(&chain("v[i] + 1.0f")))?;
    time("  first use of a kernel", || worker.jit(&source))?;
    time("  next use", || worker.jit(&source))?;
    let kernel = worker.jit(&source)?;

    let input: Vec<f32> = (0..ELEMENTS).map(|i| (i % 4093) as f32 / 1024.0 - 2.0).collect();
    let x = worker.upload_new(&input)?;
    let y = worker.alloc::<f32>(ELEMENTS)?;
    let (threads, _) = worker.potential_block_size(&kernel, 0)?;
    let active = worker.max_active_blocks(&kernel, threads, 0)?;
    let grid = Grid::x(worker.sm_count() * active);
    let args = || Args::new().ptr(x.ptr()).ptr(y.ptr()).u64(ELEMENTS as u64 / 4);
    let launch = |times| (0..times).try_for_each(|_| worker.launch_jit(&kernel, &config(grid, threads), &mut args()));
    launch(3)?;
    worker.synchronize()?;

    let start = Instant::now();
    launch(RUNS)?;
    let enqueued = start.elapsed() / RUNS;
    worker.synchronize()?;
    println!("  {threads} threads, {active} blocks on each multiprocessor; launch call {enqueued:.1?}");
    print_bandwidth("ten operations", start.elapsed() / RUNS);
    let (graph, ()) = worker.record(|| launch(RUNS))?;
    drop(kernel);
    worker.replay(&graph)?;
    worker.synchronize()?;
    copy(&worker, &x, &y)?;
    let correct = check(&worker, &input, &chain("v[i]"), &x)?;
    let stats = device.kernel_stats();
    let counted: Vec<_> = stats.iter().filter(|one| one.name == "tensor_elementwise").collect();
    println!("  statistics {counted:?}");
    Ok(correct && counted.len() == 1 && counted[0].calls == 3 + 2 * u64::from(RUNS) + 1)
}

fn open(cache: &Path) -> Device {
    let folders = env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: Choice::Cuda,
        cuda_library_paths: env::split_paths(&folders).filter(|path| path != &PathBuf::new()).collect(),
        kernel_cache: Some(cache.to_owned()),
        staging_bytes: 64 << 20,
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|reason| panic!("no GPU to measure: {reason}"));
    found.devices.into_iter().next().expect("CUDA was asked for")
}

/// Ten operations on vectors of four floats.
fn chain(first: &str) -> JitSource {
    let text = format!(
        "#include \"common/common.cuh\"\n\
         extern \"C\" __global__ void tensor_elementwise(const float4* __restrict__ x, float4* __restrict__ y, u64 n) {{\n\
         for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < n; at += (u64)gridDim.x * blockDim.x) {{\n\
         float4 packed = x[at];\n\
         float* v = &packed.x;\n\
         #pragma unroll\n\
         for (int i = 0; i < 4; ++i) {{\n\
         float a = {first};\n\
         a = a * 1.5f;\n\
         a = a + 0.25f;\n\
         a = fmaxf(a, -1.0f);\n\
         a = a * a;\n\
         a = a - 0.5f;\n\
         a = fabsf(a);\n\
         a = sqrtf(a);\n\
         a = fminf(a, 3.0f);\n\
         a = 1.0f / (1.0f + a);\n\
         v[i] = -a;\n\
         }}\n\
         y[at] = packed;\n\
         }}\n\
         }}\n"
    );
    JitSource { template: "tensor_elementwise", text, headers: HEADERS, options: vec![], params: vec![8, 8, 8] }
}

/// The same in f64.
fn expected(x: f32) -> f64 {
    let a = (f64::from(x) * 1.5 + 0.25).max(-1.0);
    -1.0 / (1.0 + (a * a - 0.5).abs().sqrt().min(3.0))
}

/// Runs the kernel once more, on fresh memory, and compares all elements.
fn check(worker: &Worker, input: &[f32], source: &JitSource, x: &Buffer<f32>) -> Result<bool, OpError> {
    let kernel = worker.jit(source)?;
    let y = worker.alloc_zeroed::<f32>(input.len())?;
    let mut args = Args::new().ptr(x.ptr()).ptr(y.ptr()).u64(input.len() as u64 / 4);
    worker.launch_jit(&kernel, &config(Grid::x(worker.sm_count()), 256), &mut args)?;
    let wrong_sizes = worker.launch_jit(&kernel, &config(Grid::x(1), 256), &mut Args::new().ptr(x.ptr()));
    let broken = JitSource { text: "oops".to_owned(), ..source.clone() };
    let errors = [wrong_sizes.expect_err("one argument of three"), worker.jit(&broken).expect_err("no kernel")];
    for error in &errors {
        println!("  refused: {error}");
    }
    let output = worker.download(&y, ..)?;
    // The square root near zero amplifies the rounding of its argument.
    let is_close = |(x, y): (&f32, &f32)| (f64::from(*y) - expected(*x)).abs() <= 1e-3;
    let named = errors.iter().all(|error| error.to_string().starts_with("tensor_elementwise failed"));
    Ok(named && input.iter().zip(&output).all(is_close))
}

fn copy(worker: &Worker, from: &Buffer<f32>, to: &Buffer<f32>) -> Result<(), OpError> {
    worker.copy(from, to, ELEMENTS)?;
    worker.synchronize()?;
    let start = Instant::now();
    (0..RUNS).try_for_each(|_| worker.copy(from, to, ELEMENTS))?;
    worker.synchronize()?;
    print_bandwidth("copy", start.elapsed() / RUNS);
    Ok(())
}

/// Bytes read and written, over the time.
fn print_bandwidth(what: &str, time: Duration) {
    let rate = 2.0 * size_of::<f32>() as f64 * ELEMENTS as f64 / time.as_secs_f64();
    println!("  {what}: {time:.1?}, {:.2} TB/s", rate / 1e12);
}

fn time<T>(what: &str, work: impl FnOnce() -> Result<T, OpError>) -> Result<T, OpError> {
    let start = Instant::now();
    let done = work();
    println!("{what}: {:.1?}", start.elapsed());
    done
}
