//! Benchmarks search on a GPU: wall time of whole requests, time per stage, and results checked against f64 on the CPU.
//!
//! `search_bench [--quick] [--check] [--storage bf16,f32,i8,f16] [--n 1000000] [--dim 768] [--queries 1,16,100,1024]
//! [--k 10] [--metric cosine] [--no-wgmma] [--runs 50] [--libraries FOLDER] [--cache FOLDER] [--build sm_90]`
//!
//! `--build` only fills the cache of compiled kernels. `--check` only checks searches of many kinds, in small shapes or
//! in the shape of `--n` and `--dim`. Otherwise the output is a table and a line of JSON per shape.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_kernels::{
    Backend, Choice, Device, DeviceId, LoadProgress, Matrix, Op, Settings, cuda, discover,
    ops::{
        self,
        similarity::{
            Corpus, FindSimilar, FindSimilarRequest, Hit, Metric, Search, SearchRequest, Selection, Storage,
            allow_wgmma, oracle, trace_stages,
        },
    },
};

fn main() {
    let options = Options::parse();
    allow_wgmma(!options.flag("no-wgmma"));
    let settings = Settings {
        choice: Choice::Cuda,
        cuda_library_paths: options.list("libraries", "").into_iter().map(PathBuf::from).collect(),
        kernel_cache: options.value("cache").map(PathBuf::from),
        ..Settings::default()
    };
    if let Some(arch) = options.value("build") {
        return build(arch, &settings);
    }
    let start = Instant::now();
    let found = discover(&settings).unwrap_or_else(|reason| panic!("no GPU to measure: {reason}"));
    let device = found.devices.first().expect("CUDA was asked for");
    println!("{} {:?}, opened in {:.1?}", device.info().product, device.info().compute_capability, start.elapsed());
    let mut bench = Bench { backend: device.open().expect("a worker"), affinity: device.id(), wrong: 0 };
    bench.check(&options);
    if !options.flag("check") {
        bench.measure(&options);
        bench.inline();
        print_kernels(device);
    }
    println!("{}", if bench.wrong == 0 { "every checked result is exact" } else { "SOME RESULTS ARE WRONG" });
    std::process::exit(i32::from(bench.wrong != 0));
}

/// Fills the cache of compiled kernels; needs no GPU.
fn build(arch: &str, settings: &Settings) {
    let arch = arch.parse().unwrap_or_else(|reason| panic!("{reason}"));
    let cache = settings.kernel_cache.as_deref().expect("--build needs --cache");
    let built = cuda::compile_kernels(
        &ops::modules(),
        &[arch],
        cuda::KernelFolder::Cache,
        cache,
        &settings.cuda_library_paths,
        &LoadProgress::default(),
    );
    for one in built.unwrap_or_else(|reason| panic!("{reason}")) {
        println!("{:24} {:8} bytes{}", one.module, one.bytes, if one.cached { ", cached" } else { "" });
    }
}

/// Command-line options, `--name value` and `--name`.
struct Options(HashMap<String, String>);

impl Options {
    fn parse() -> Self {
        let mut known = HashMap::new();
        let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench").peekable();
        while let Some(name) = arguments.next() {
            let value = arguments.next_if(|next| !next.starts_with("--")).unwrap_or_default();
            known.insert(name.trim_start_matches('-').to_owned(), value);
        }
        Self(known)
    }

    fn flag(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn list(&self, name: &str, default: &str) -> Vec<String> {
        let text = self.value(name).unwrap_or(default);
        text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    fn numbers(&self, name: &str, default: &str) -> Vec<usize> {
        let number = |text: &String| text.parse().unwrap_or_else(|_| panic!("--{name} takes numbers, got {text}"));
        self.list(name, default).iter().map(number).collect()
    }
}

fn storage(name: &str) -> Storage {
    match name {
        "f32" => Storage::F32,
        "f16" => Storage::F16,
        "bf16" => Storage::Bf16,
        "i8" => Storage::I8,
        other => panic!("--storage takes f32, f16, bf16 and i8, got {other}"),
    }
}

fn metric(name: &str) -> Metric {
    match name {
        "cosine" => Metric::Cosine,
        "dot" => Metric::Dot,
        "l2" => Metric::SquaredL2,
        other => panic!("--metric takes cosine, dot and l2, got {other}"),
    }
}

struct Bench {
    backend: Backend,
    affinity: DeviceId,
    wrong: usize,
}

impl Bench {
    fn corpus(&self, rows: &Matrix, metric: Metric, storage: Storage) -> Arc<Corpus> {
        let corpus = Corpus::new(rows.cols(), metric, storage, self.affinity);
        corpus.append(rows);
        corpus
    }

    fn search(&mut self, request: &SearchRequest) -> Vec<Vec<Hit>> {
        let hits = Search::run(&[request], &mut self.backend).unwrap_or_else(|error| panic!("{error}"));
        hits.into_iter().flat_map(|hits| hits.lists).collect()
    }

    fn compare(&mut self, what: &str, got: &[Hit], expected: &[Hit]) {
        if got != expected {
            self.wrong += 1;
            let index = got.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(got.len().min(expected.len()));
            println!(
                "WRONG {what}: {} hits, expected {}; first difference at {index}: {:?}, expected {:?}",
                got.len(),
                expected.len(),
                got.get(index),
                expected.get(index)
            );
        }
    }

    /// Checks small searches of many shapes, with equal, zero and deleted rows, masks, lists and thresholds.
    fn check(&mut self, options: &Options) {
        let start = Instant::now();
        let before = self.wrong;
        let quick = options.flag("quick");
        let mut cases = 0;
        let one = |name, default| options.numbers(name, default)[0];
        let shapes = match (options.flag("check") && options.flag("n"), quick) {
            (true, _) => vec![(one("n", ""), one("dim", "8"))],
            (false, true) => vec![(1000, 70), (70_001, 100)],
            (false, false) => vec![(1, 1), (33, 3), (1000, 70), (5000, 1), (70_001, 100), (90_000, 257)],
        };
        for (n, dim) in shapes {
            let mut data = normal(n, dim, 1).as_f32().to_vec();
            for row in (0..n).step_by(97) {
                data.copy_within(0..dim, row * dim);
            }
            data[(n / 2) * dim..][..dim].fill(0.0);
            let rows = Matrix::from_vec(n, dim, data).expect("the shape");
            for metric in [Metric::Cosine, Metric::Dot, Metric::SquaredL2] {
                for name in options.list("storage", "f32,f16,bf16,i8") {
                    let corpus = self.corpus(&rows, metric, storage(&name));
                    corpus.delete(&(0..n).step_by(11).skip(1).map(small).collect::<Vec<_>>());
                    for queries in options.numbers("queries", "1,3,5,17,130") {
                        for warpgroups in [true, false] {
                            allow_wgmma(warpgroups);
                            cases += self.check_corpus(&corpus, &rows, queries, quick);
                        }
                    }
                    allow_wgmma(true);
                }
            }
        }
        println!("checked {cases} searches, {} wrong, in {:.1?}", self.wrong - before, start.elapsed());
    }

    fn check_corpus(&mut self, corpus: &Arc<Corpus>, rows: &Matrix, queries: usize, quick: bool) -> usize {
        let n = rows.rows();
        let dim = rows.cols();
        let metric = corpus.metric();
        let mut asked = normal(queries, dim, 2).as_f32().to_vec();
        asked[..dim].copy_from_slice(&rows.as_f32()[..dim]);
        let asked = Matrix::from_vec(queries, dim, asked).expect("the shape");
        let half = Arc::new((0..small(n.div_ceil(32))).map(|word| word.wrapping_mul(0x9e37_79b9)).collect::<Vec<_>>());
        let list = Arc::new((0..small(n)).step_by(7).collect::<Vec<_>>());
        let deleted = |row: u32| row.is_multiple_of(11) && row >= 11;
        let selections: [(Selection, &dyn Fn(u32) -> bool); 3] = [
            (Selection::All, &|_| true),
            (Selection::Mask(Arc::clone(&half)), &|row| half[row as usize / 32] >> (row % 32) & 1 == 1),
            (Selection::Rows(Arc::clone(&list)), &|row| row.is_multiple_of(7)),
        ];
        let mut cases = 0;
        for (selection, selected) in selections {
            for (k, threshold) in
                [(1, None), (10, Some(if metric == Metric::SquaredL2 { 150.0 } else { 0.2 })), (300, None)]
            {
                if quick && k == 1 {
                    continue;
                }
                let request = SearchRequest {
                    corpus: Arc::clone(corpus),
                    queries: asked.clone(),
                    k,
                    threshold,
                    selection: selection.clone(),
                };
                let found = self.search(&request);
                for index in [0, queries / 2, queries - 1] {
                    let query =
                        Matrix::from_vec(1, dim, asked.as_f32()[index * dim..][..dim].to_vec()).expect("the shape");
                    let allowed = |row: u32| !deleted(row) && selected(row);
                    let expected = oracle::search(&query, rows, metric, k, threshold, allowed);
                    let what = format!(
                        "{n}x{dim} {metric:?} {:?} {queries} queries k {k} {threshold:?} query {index} selection {}",
                        corpus.storage(),
                        match selection {
                            Selection::All => "all",
                            Selection::Mask(_) => "mask",
                            Selection::Rows(_) => "rows",
                        }
                    );
                    self.compare(&what, &found[index], &expected[0]);
                }
                cases += 1;
            }
        }
        cases
    }

    fn measure(&mut self, options: &Options) {
        let quick = options.flag("quick");
        let runs = options.numbers("runs", if quick { "15" } else { "50" })[0];
        let metric = metric(options.value("metric").unwrap_or("cosine"));
        for n in options.numbers("n", "1000000") {
            for dim in options.numbers("dim", if quick { "768" } else { "768,128" }) {
                let rows = normal(n, dim, 3);
                let maximum = options.numbers("queries", "1,16,100,1024").into_iter().max().unwrap_or(1);
                let queries = normal(maximum, dim, 4);
                let mut expected = Expected { rows: &rows, queries: &queries, metric, known: HashMap::new() };
                for name in options.list("storage", "bf16,f32,i8,f16") {
                    let corpus = self.corpus(&rows, metric, storage(&name));
                    let start = Instant::now();
                    let nothing = Matrix::from_vec(0, dim, vec![]).expect("no rows");
                    self.search(&request(&corpus, nothing, 1));
                    println!("\n{n} x {dim} {name} {metric:?}: on the device after {:.1?}", start.elapsed());
                    for count in options.numbers("queries", "1,16,100,1024") {
                        for k in options.numbers("k", if quick { "10" } else { "10,100" }) {
                            self.measure_one(&corpus, &mut expected, &name, count, k, runs);
                        }
                    }
                }
            }
        }
    }

    fn measure_one(
        &mut self,
        corpus: &Arc<Corpus>,
        expected: &mut Expected<'_>,
        name: &str,
        count: usize,
        k: usize,
        runs: usize,
    ) {
        let n = corpus.len();
        let dim = corpus.dim();
        let data = expected.queries.as_f32()[..count * dim].to_vec();
        let request = request(corpus, Matrix::from_vec(count, dim, data).expect("the shape"), k);
        let found = self.search(&request);
        for at in [0, count / 2, count - 1] {
            self.compare(
                &format!("{n}x{dim} {name} {count} queries k {k} query {at}"),
                &found[at],
                &expected.hits(at, k),
            );
        }
        (0..3).for_each(|_| drop(self.search(&request)));
        let mut times: Vec<_> = (0..runs)
            .map(|_| {
                let start = Instant::now();
                self.search(&request);
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        let at = |percent: usize| milliseconds(times[(times.len() - 1) * percent / 100]);
        let median = at(50);
        let low = at(10);
        let high = at(90);
        let stages = self.stages(&request);
        let goal = goal(name, n, dim, count, k);
        let verdict =
            goal.map_or(String::new(), |goal| format!("goal {goal} {}", if median <= goal { "met" } else { "MISSED" }));
        println!("{count:5} queries top-{k:<4} {median:8.3} ms ({low:.3} to {high:.3}) {verdict}");
        let parts: Vec<_> = stages.iter().map(|(stage, time)| format!("{stage} {:.0}", time * 1000.0)).collect();
        println!("        us, each synchronised: {}", parts.join(", "));
        let parts: Vec<_> = stages.iter().map(|(stage, time)| format!("\"{stage}\":{time:.4}")).collect();
        println!(
            "{{\"storage\":\"{name}\",\"n\":{n},\"dim\":{dim},\"queries\":{count},\"k\":{k},\"metric\":\"{:?}\",\
             \"median_ms\":{median:.4},\"p10_ms\":{low:.4},\"p90_ms\":{high:.4},\"stages_ms\":{{{}}}}}",
            corpus.metric(),
            parts.join(",")
        );
    }

    /// Median milliseconds of each stage, in order.
    fn stages(&mut self, request: &SearchRequest) -> Vec<(String, f64)> {
        let mut order: Vec<String> = vec![];
        let mut times: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for _ in 0..7 {
            let mut seen: HashMap<&str, usize> = HashMap::new();
            for (name, time) in trace_stages(|| drop(self.search(request))) {
                let nth = seen.entry(name).or_insert(0);
                *nth += 1;
                let name = if *nth == 1 { name.to_owned() } else { format!("{name}{nth}") };
                if !order.contains(&name) {
                    order.push(name.clone());
                }
                times.entry(name).or_default().push(time);
            }
        }
        let median = |name: String| {
            let all = times.get_mut(&name).map(std::mem::take).unwrap_or_default();
            let mut all = all;
            all.sort_unstable();
            (name, milliseconds(all[all.len() / 2]))
        };
        order.into_iter().map(median).collect()
    }

    /// Inline corpora, including their upload.
    fn inline(&mut self) {
        println!();
        for (n, dim, queries) in [(1000, 768, 1), (10_000, 768, 1), (10_000, 768, 100), (100_000, 768, 100)] {
            let request = FindSimilarRequest {
                queries: normal(queries, dim, 6),
                corpus: normal(n, dim, 5),
                metric: Metric::Cosine,
                k: 10,
                threshold: None,
            };
            let mut run = || {
                let start = Instant::now();
                let hits = FindSimilar::run(&[&request], &mut self.backend).unwrap_or_else(|error| panic!("{error}"));
                (start.elapsed(), hits)
            };
            let (_, hits) = run();
            let mut times: Vec<_> = (0..9).map(|_| milliseconds(run().0)).collect();
            times.sort_by(f64::total_cmp);
            println!("inline {n} x {dim}, {queries} queries top-10: {:.3} ms with its upload", times[4]);
            let query = Matrix::from_vec(1, dim, request.queries.as_f32()[..dim].to_vec()).expect("the shape");
            let expected = oracle::search(&query, &request.corpus, Metric::Cosine, 10, None, |_| true);
            self.compare(&format!("inline {n}x{dim} {queries} queries"), &hits[0].lists[0], &expected[0]);
        }
    }
}

/// Reference results in f64 on all threads, computed lazily.
struct Expected<'a> {
    rows: &'a Matrix,
    queries: &'a Matrix,
    metric: Metric,
    known: HashMap<usize, Vec<Hit>>,
}

impl Expected<'_> {
    const MOST: usize = 1024;

    fn hits(&mut self, index: usize, k: usize) -> Vec<Hit> {
        let rows = self.rows.as_f32();
        let queries = self.queries.as_f32();
        let metric = self.metric;
        let dim = self.rows.cols();
        let query = &queries[index * dim..][..dim];
        let best = self.known.entry(index).or_insert_with(|| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let each = self.rows.rows().div_ceil(threads);
            let better = |a: &Hit, b: &Hit| -> Ordering {
                let order =
                    if metric == Metric::SquaredL2 { a.score.total_cmp(&b.score) } else { b.score.total_cmp(&a.score) };
                order.then(a.row.cmp(&b.row))
            };
            let mut all: Vec<Hit> = std::thread::scope(|scope| {
                let score = |part: usize, rows: &[f32]| -> Vec<Hit> {
                    let rows = rows.chunks_exact(dim).enumerate();
                    let mut hits: Vec<_> = rows
                        .map(|(i, row)| Hit { row: small(part * each + i), score: oracle::score(metric, query, row) })
                        .collect();
                    hits.sort_unstable_by(better);
                    hits.truncate(Self::MOST);
                    hits
                };
                let parts = rows.chunks(each * dim).enumerate();
                let running: Vec<_> = parts.map(|(part, rows)| scope.spawn(move || score(part, rows))).collect();
                running.into_iter().flat_map(|one| one.join().expect("no thread panics")).collect()
            });
            all.sort_unstable_by(better);
            all.truncate(Self::MOST);
            all
        });
        best[..k.min(best.len())].to_vec()
    }
}

fn request(corpus: &Arc<Corpus>, queries: Matrix, k: usize) -> SearchRequest {
    SearchRequest { corpus: Arc::clone(corpus), queries, k, threshold: None, selection: Selection::All }
}

/// The target in milliseconds on an H200, if there is one.
fn goal(storage: &str, n: usize, dim: usize, queries: usize, k: usize) -> Option<f64> {
    match (storage, n, dim, queries, k) {
        ("f32", 1_000_000, 768, 1, 10) => Some(0.78),
        ("bf16", 1_000_000, 768, 1, 10) => Some(0.42),
        ("i8", 1_000_000, 768, 1, 10) => Some(0.26),
        ("bf16", 1_000_000, 768, 16, 10) => Some(0.50),
        ("bf16", 1_000_000, 768, 100, 10) => Some(0.65),
        ("bf16", 1_000_000, 768, 1024, 10) => Some(3.5),
        ("bf16", 1_000_000, 128, 100, 10) => Some(0.53),
        ("bf16", 1_000_000, 128, 1024, 10) => Some(4.6),
        _ => None,
    }
}

/// The device's kernel times over all shapes.
fn print_kernels(device: &Device) {
    println!("\nkernels, over everything above:");
    for stats in device.kernel_stats() {
        let each = stats.nanos as f64 / stats.calls as f64 / 1e6;
        println!("  {:32} {:6} calls {each:9.4} ms each", stats.name, stats.calls);
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("rows are counted in u32")
}

/// Approximately normal numbers, each the sum of four uniform ones, generated on all threads.
fn normal(rows: usize, cols: usize, seed: u64) -> Matrix {
    let mut data = vec![0.0_f32; rows * cols];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let each = data.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (part, data) in data.chunks_mut(each).enumerate() {
            scope.spawn(move || {
                let mut state = ((seed << 32) | (part as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for number in data {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let parts = [state, state >> 16, state >> 32, state >> 48].map(|part| (part & 0xffff) as f32);
                    *number = parts.iter().sum::<f32>() / 32_768.0 - 4.0;
                }
            });
        }
    });
    Matrix::from_vec(rows, cols, data).expect("the data was made for this shape")
}
