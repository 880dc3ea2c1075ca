//! Benchmarks search and k-means on one CPU thread: medians over random inputs of fixed shapes, or of one search with
//! the given rows, dim, queries and k, or of one k-means with the given rows, dim and clusters.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::{fs, sync::Arc, time::Instant};

use accelerd_kernels::{
    Backend, DeviceId, Matrix, Op,
    cpu::{Pool, Worker},
    ops::{
        cluster::{Cluster, ClusterRequest, Rows},
        similarity::{Corpus, Metric, Search, SearchRequest, Selection, Storage},
    },
};
use rand::{Rng, SeedableRng, rngs::SmallRng};

fn main() {
    let pool = Pool::start(1).expect("one thread");
    let mut backend = Backend::Cpu(Worker::new(Arc::clone(&pool)));
    println!("{}", pool.info().product);
    let shape: Vec<usize> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .filter_map(|argument| argument.parse().ok())
        .collect();
    if let [rows, dim, clusters] = shape[..] {
        return self::clusters(rows, dim, clusters);
    }
    if let [rows, dim, queries, k] = shape[..] {
        let corpus = Corpus::new(dim, Metric::Cosine, Storage::F32, DeviceId::Cpu);
        corpus.append(&normal(rows, dim, 1));
        println!("{:.1} queries/s", queries as f64 / search(&corpus, queries, k, &mut backend));
        return;
    }
    for (rows, dim) in [(100_000, 768), (100_000, 128), (100_000, 1024)] {
        let corpus = Corpus::new(dim, Metric::Cosine, Storage::F32, DeviceId::Cpu);
        corpus.append(&normal(rows, dim, 1));
        for queries in [1, 4, 10, 16, 32, 100, 1024] {
            let seconds = search(&corpus, queries, 10, &mut backend);
            let rate = queries as f64 / seconds;
            let work = (2 * rows * dim * queries) as f64;
            println!(
                "search {rows}x{dim} top-10, {queries:4} queries: {rate:6.0} queries/s {:4.0} GFLOP/s",
                work / seconds / 1e9
            );
        }
        let seconds = search(&corpus, 100, 1000, &mut backend);
        println!("search {rows}x{dim} top-1000, 100 queries: {:6.0} queries/s", 100.0 / seconds);
    }
    for stats in pool.kernel_stats() {
        println!(
            "{:16} {:5} calls {:8.3} ms each",
            stats.name,
            stats.calls,
            stats.nanos as f64 / stats.calls as f64 / 1e6
        );
    }
    clusters(100_000, 128, 256);
}

/// Normally distributed numbers: sums of uniform ones.
fn normal(rows: usize, cols: usize, seed: u64) -> Matrix {
    let mut random = SmallRng::seed_from_u64(seed);
    let one = |_| (0..4).map(|_| random.random_range(-1.0_f32..1.0)).sum();
    Matrix::from_vec(rows, cols, (0..rows * cols).map(one).collect()).expect("the data was made for this shape")
}

/// Median seconds of a call.
fn search(corpus: &Arc<Corpus>, queries: usize, k: usize, backend: &mut Backend) -> f64 {
    let request = SearchRequest {
        corpus: Arc::clone(corpus),
        queries: normal(queries, corpus.dim(), 2),
        k,
        threshold: None,
        selection: Selection::All,
    };
    median(if queries > 100 { 3 } else { 9 }, || drop(Search::run(&[&request], backend).expect("searched")))
}

fn clusters(rows: usize, dim: usize, clusters: usize) {
    let pool = Pool::start(1).expect("one thread");
    let mut backend = Backend::Cpu(Worker::new(Arc::clone(&pool)));
    let request = ClusterRequest {
        rows: Rows::Inline(normal(rows, dim, 3)),
        clusters,
        max_iterations: 20,
        tolerance: 0.0,
        init_count: 1,
        spherical: false,
        seed: 1,
    };
    let mut inertia = vec![];
    let seconds = median(3, || {
        let found = Cluster::run(&[&request], &mut backend).expect("clustered");
        inertia.extend(found.iter().map(|clusters| clusters.inertia));
    });
    println!("k-means {rows}x{dim}, k = {clusters}, 20 iterations: {seconds:.2} s, inertia {inertia:?}");
    for stats in pool.kernel_stats() {
        println!("{:16} {:5} calls {:8.3} s in all", stats.name, stats.calls, stats.nanos as f64 / 1e9);
    }
}

/// Median CPU seconds of a call, which other load on the machine disturbs less than wall time.
fn median(times: usize, mut work: impl FnMut()) -> f64 {
    work();
    let started = Instant::now();
    let mut taken: Vec<f64> = (0..times)
        .map(|_| {
            let start = cpu_seconds(started);
            work();
            cpu_seconds(started) - start
        })
        .collect();
    taken.sort_by(f64::total_cmp);
    taken[times / 2]
}

/// CPU time summed over this process's threads, or wall time if the system does not report it.
fn cpu_seconds(started: Instant) -> f64 {
    let nanos = |task: fs::DirEntry| {
        let listed = fs::read_to_string(task.path().join("schedstat")).ok()?;
        listed.split(' ').next()?.parse::<f64>().ok()
    };
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let sum: f64 = tasks.filter_map(nanos).sum();
    if sum > 0.0 { sum / 1e9 } else { started.elapsed().as_secs_f64() }
}
