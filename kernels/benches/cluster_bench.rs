//! Benchmarks k-means on a GPU, initialisation and iterations separately: `cluster_bench [ROWS] [DIM]` (1000000 128),
//! with NVRTC from `ACCELERD_CUDA_LIBRARY_PATH`. The output is a line of JSON per result.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::time::Instant;

use accelerd_kernels::{
    Backend, Choice, Matrix, Op, Settings, discover,
    ops::cluster::{Cluster, ClusterRequest, Clusters, Rows},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

const RUNS: usize = 7;

fn main() {
    let mut arguments =
        std::env::args().skip(1).filter(|argument| argument != "--bench").map(|a| a.parse::<usize>().expect("a count"));
    let rows = arguments.next().unwrap_or(1_000_000);
    let dim = arguments.next().unwrap_or(128);
    let folders = std::env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: Choice::Cuda,
        cuda_library_paths: std::env::split_paths(&folders).collect(),
        staging_bytes: 64 << 20,
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|e| panic!("{e}"));
    let device = found.devices.first().expect("CUDA was asked for");
    let mut backend = device.open().expect("a worker");
    for clusters in [256, 1024] {
        measure(&mut backend, rows, dim, clusters);
    }
    for kernel in device.kernel_stats() {
        let each = kernel.nanos as f64 / kernel.calls.max(1) as f64 / 1e3;
        println!("{:32} {:6} calls {each:10.1} us each", kernel.name, kernel.calls);
    }
}

/// The time of 20 iterations is the difference between 21 and 1: both include upload, initialisation and final
/// assignment.
fn measure(backend: &mut Backend, rows: usize, dim: usize, clusters: usize) {
    let mut random = StdRng::seed_from_u64(clusters as u64);
    let data = (0..rows * dim).map(|_| (0..4).map(|_| random.random_range(-0.866_f32..0.866)).sum()).collect();
    let data = Matrix::from_vec(rows, dim, data).expect("the data was made for this shape");
    let request = |iterations| ClusterRequest {
        rows: Rows::Inline(data.clone()),
        clusters,
        max_iterations: iterations,
        tolerance: 0.0,
        init_count: 1,
        spherical: false,
        seed: 7,
    };
    let mut timed = |iterations| {
        let request = request(iterations);
        let mut times: Vec<f64> = (0..RUNS)
            .map(|_| {
                let start = Instant::now();
                run(backend, &request);
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[RUNS / 2]
    };
    let one = timed(1);
    let many = timed(21);
    let inertia = run(backend, &request(20)).inertia;
    println!(
        "{{\"op\":\"kmeans\",\"rows\":{rows},\"dim\":{dim},\"clusters\":{clusters},\"iterations\":20,\
         \"iterations_ms\":{:.3},\"whole_ms\":{many:.3},\"upload_start_and_end_ms\":{one:.3},\"inertia\":{inertia}}}",
        many - one
    );
}

fn run(backend: &mut Backend, request: &ClusterRequest) -> Clusters {
    Cluster::run(&[request], backend).expect("k-means runs").remove(0)
}
