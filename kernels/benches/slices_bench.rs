//! Benchmarks long operations on the CPU, which run in slices: `slices_bench [THREADS] [NAME...]`. Prints the medians of CPU
//! and wall seconds of a run, the number of preemption points, and the median and the longest time between two of them.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::{
    fs,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use accelerd_kernels::{
    Backend, DeviceId, Matrix, Op,
    cpu::{Pool, Worker},
    ops::{
        cluster::{Cluster, ClusterRequest, Rows},
        embed::{Embed, EmbedRequest, Table},
        encode::{Encode, EncoderConfig, samples},
        parse::{Options, Outputs, Parse, ParseRequest},
        similarity::{Corpus, FindSimilar, FindSimilarRequest, Metric, Search, SearchRequest, Selection, Storage},
    },
};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// The daemon's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Timed runs.
const RUNS: usize = 5;

/// A machine's CPU, and the times at which its worker passed a preemption point.
struct Bench {
    backend: Backend,
    passed: Arc<Mutex<Vec<Instant>>>,
    names: Vec<String>,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let threads = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1);
    let names = words.into_iter().filter(|word| word.parse::<usize>().is_err()).collect();
    let pool = Pool::start(threads).expect("threads");
    println!("{}, {threads} threads", pool.info().product);
    let passed = Arc::new(Mutex::new(vec![]));
    let times = Arc::clone(&passed);
    let mut backend = Backend::Cpu(Worker::new(pool));
    backend.set_preemption(Arc::new(move || {
        times.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        ControlFlow::Continue(())
    }));
    let mut bench = Bench { backend, passed, names };
    bench.encode("minilm", 6, 384, &[128; 64]);
    bench.encode("minilm-long", 6, 384, &[512; 8]);
    bench.encode("bert", 12, 768, &[128; 8]);
    bench.encode("bert-one", 12, 768, &[512]);
    bench.search();
    bench.cluster();
    bench.parse();
    bench.embed();
}

impl Bench {
    fn encode(&mut self, name: &str, layers: usize, hidden: usize, lengths: &[usize]) {
        if !self.wants(name) {
            return;
        }
        let config = EncoderConfig {
            vocabulary: 30_522,
            hidden,
            layers,
            heads: 12,
            kv_heads: 12,
            head_dim: hidden / 12,
            intermediate: 4 * hidden,
            max_tokens: 512,
            epsilon: 1e-12,
            ..samples::bert()
        };
        let encoder = Arc::new(samples::encoder(config).expect("a fit description"));
        self.measure::<Encode>(name, &samples::request(&encoder, lengths));
    }

    fn search(&mut self) {
        let rows = normal(100_000, 256, 1);
        let corpus = Corpus::new(256, Metric::Cosine, Storage::F32, DeviceId::Cpu);
        corpus.append(&rows);
        for (name, queries, selection) in [
            ("search-1", 1, Selection::All),
            ("search-16", 16, Selection::All),
            ("search-256", 256, Selection::All),
            ("search-some", 256, Selection::Rows(Arc::new((0..100_000).step_by(5).collect()))),
        ] {
            let corpus = Arc::clone(&corpus);
            let queries = normal(queries, 256, 2);
            self.measure::<Search>(name, &SearchRequest { corpus, queries, k: 10, threshold: None, selection });
        }
        let queries = normal(64, 256, 2);
        let request = FindSimilarRequest { queries, corpus: rows, metric: Metric::Dot, k: 10, threshold: None };
        self.measure::<FindSimilar>("find-similar", &request);
    }

    fn cluster(&mut self) {
        let rows = Rows::Inline(normal(100_000, 128, 3));
        for (name, clusters) in [("kmeans-16", 16), ("kmeans-256", 256)] {
            let request = ClusterRequest {
                rows: rows.clone(),
                clusters,
                max_iterations: 10,
                tolerance: 0.0,
                init_count: 1,
                spherical: false,
                seed: 1,
            };
            self.measure::<Cluster>(name, &request);
        }
    }

    fn parse(&mut self) {
        let source = |index: usize| {
            let function =
                |line: usize| format!("def f_{line}(a, b={index}):\n    return [a * x + b for x in range({line})]\n\n");
            (0..10 + index * 7 % 300).map(function).collect::<String>().into()
        };
        let outputs = Outputs { tree: true, ..Outputs::default() };
        self.measure::<Parse>(
            "parse",
            &ParseRequest::new((0..1500).map(source).collect(), Options::version(14), outputs),
        );
    }

    fn embed(&mut self) {
        let rows = 30_000_u32;
        let tokens = 1_u32 << 20;
        let dim = 256;
        let value = |index: usize| (index.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0].cast_signed();
        let table = Table::new(dim, (0..rows as usize * dim).map(value).collect(), vec![0.01; rows as usize]);
        let request = EmbedRequest {
            table: Arc::new(table),
            ids: (0..tokens).map(|index| index.wrapping_mul(2_654_435_761) % rows).collect(),
            offsets: (0..=tokens).step_by(128).collect(),
            dimensions: dim,
            normalize: true,
        };
        self.measure::<Embed>("embed", &request);
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|given| name.starts_with(given.as_str()))
    }

    fn measure<O: Op>(&mut self, name: &str, request: &O::Request) {
        if !self.wants(name) {
            return;
        }
        let mut runs = vec![];
        let mut gaps = vec![];
        for run in 0..=RUNS {
            self.times().clear();
            let cpu = cpu_seconds();
            let start = Instant::now();
            drop(O::run(&[request], &mut self.backend).unwrap_or_else(|e| panic!("{e}")));
            if run > 0 {
                runs.push((cpu_seconds() - cpu, start.elapsed().as_secs_f64()));
                let times = std::mem::take(&mut *self.times());
                let ends = [&[start][..], &times, &[Instant::now()]].concat();
                gaps.extend(ends.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e3));
            }
        }
        let cpu = median(runs.iter().map(|run| run.0).collect());
        let wall = median(runs.iter().map(|run| run.1).collect());
        let longest = gaps.iter().copied().fold(0.0, f64::max);
        println!(
            "{name:14} cpu {cpu:8.4} s  wall {wall:8.4} s  points {:6}  between two: median {:8.3} ms, longest {longest:8.3} ms",
            gaps.len() / RUNS - 1,
            median(gaps),
        );
    }

    fn times(&self) -> std::sync::MutexGuard<'_, Vec<Instant>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Normally distributed numbers: sums of uniform ones.
fn normal(rows: usize, cols: usize, seed: u64) -> Matrix {
    let mut random = SmallRng::seed_from_u64(seed);
    let one = |_| (0..4).map(|_| random.random_range(-1.0_f32..1.0)).sum();
    Matrix::from_vec(rows, cols, (0..rows * cols).map(one).collect()).expect("the data was made for this shape")
}

/// CPU time summed over this process's threads, which other load on the machine disturbs less than wall time.
fn cpu_seconds() -> f64 {
    let nanos = |task: fs::DirEntry| {
        let listed = fs::read_to_string(task.path().join("schedstat")).ok()?;
        listed.split(' ').next()?.parse::<f64>().ok()
    };
    fs::read_dir("/proc/self/task").expect("a Linux machine").flatten().filter_map(nanos).sum::<f64>() / 1e9
}
