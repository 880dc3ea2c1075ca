//! Every operation on the CPU passes preemption points: its results do not depend on them, it ends where the hook says so,
//! and its worker computes the next batch as if nothing had happened.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use accelerd_kernels::{
    Backend, DeviceId, Matrix, Op, OpError,
    cpu::{Pool, Worker},
    ops::{
        cluster::{Cluster, ClusterRequest, Rows},
        embed::{Embed, EmbedRequest, Table},
        encode::{Encode, EncoderConfig, samples},
        parse::{Options, Outputs, Parse, ParseRequest},
        similarity::{Corpus, FindSimilar, FindSimilarRequest, Metric, Search, SearchRequest, Selection, Storage},
        tensor::{Execute, ExecuteRequest},
    },
};
use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};
use rand::{Rng, SeedableRng, rngs::SmallRng};

fn backend(threads: usize) -> Backend {
    Backend::Cpu(Worker::new(Pool::start(threads).expect("threads")))
}

fn numbers(rows: usize, dim: usize, seed: u64) -> Matrix {
    let mut random = SmallRng::seed_from_u64(seed);
    let numbers = (0..rows * dim).map(|_| random.random_range(-1.0_f32..1.0)).collect();
    Matrix::from_vec(rows, dim, numbers).expect("as many numbers")
}

/// Runs a batch that takes at least `slices` slices: without a hook, with one that counts, and with one that breaks early or
/// late and then lets the same batch through.
fn check<O: Op>(batch: &[O::Request], slices: usize, bits: impl Fn(&O::Response) -> Vec<u8>) {
    let batch: Vec<_> = batch.iter().collect();
    let run = |backend: &mut Backend| -> Result<Vec<Vec<u8>>, OpError> {
        Ok(O::run(&batch, backend)?.iter().map(&bits).collect())
    };
    let expected = run(&mut backend(8)).expect("computed");
    for threads in [1, 2] {
        let mut backend = backend(threads);
        assert!(run(&mut backend).expect("computed") == expected, "{} on {threads} threads", O::NAME);
        let passed = Arc::new(AtomicUsize::new(0));
        let end = Arc::new(AtomicUsize::new(usize::MAX));
        let count = Arc::clone(&passed);
        let last = Arc::clone(&end);
        backend.set_preemption(Arc::new(move || {
            let breaks = count.fetch_add(1, SeqCst) + 1 == last.load(SeqCst);
            if breaks { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }));
        assert!(run(&mut backend).expect("computed") == expected, "{}: a hook that continues changes nothing", O::NAME);
        let points = passed.load(SeqCst);
        assert!(points >= slices, "{}: {points} points on {threads} threads", O::NAME);
        for index in [1, slices / 2, slices] {
            passed.store(0, SeqCst);
            end.store(index, SeqCst);
            assert_eq!(run(&mut backend).err(), Some(OpError::Cancelled), "{} at point {index}", O::NAME);
            assert_eq!(passed.load(SeqCst), index, "nothing runs on");
            end.store(usize::MAX, SeqCst);
            assert!(run(&mut backend).expect("computed") == expected, "{} after it was cancelled", O::NAME);
        }
    }
}

fn hits(hits: &accelerd_kernels::ops::similarity::Hits) -> Vec<u8> {
    let hits = hits.lists.iter().flatten();
    hits.flat_map(|hit| [hit.row.to_le_bytes(), hit.score.to_bits().to_le_bytes()].concat()).collect()
}

fn corpus(rows: usize, dim: usize) -> Arc<Corpus> {
    let corpus = Corpus::new(dim, Metric::Cosine, Storage::F32, DeviceId::Cpu);
    corpus.append(&numbers(rows, dim, 1));
    corpus.delete(&[3, 4, 5, 600]);
    corpus
}

fn search(corpus: &Arc<Corpus>, queries: usize, selection: Selection) -> SearchRequest {
    let queries = numbers(queries, corpus.dim(), 2);
    SearchRequest { corpus: Arc::clone(corpus), queries, k: 10, threshold: None, selection }
}

#[test]
fn a_search_is_cut_into_spans_of_rows_and_passes_of_queries() {
    let corpus = corpus(20_000, 96);
    let listed = Selection::Rows(Arc::new((0..20_000).filter(|row| row % 7 < 5).collect()));
    check::<Search>(&[search(&corpus, 1100, Selection::All), search(&corpus, 40, listed)], 6, hits);
}

#[test]
fn a_search_of_listed_rows_is_cut_into_parts_of_the_list() {
    let corpus = corpus(20_000, 96);
    let listed = Selection::Rows(Arc::new((0..20_000).filter(|row| row % 7 < 5).collect()));
    check::<Search>(&[search(&corpus, 700, listed)], 3, hits);
}

#[test]
fn a_search_of_inline_rows_is_cut_into_spans() {
    for metric in [Metric::Dot, Metric::SquaredL2] {
        let queries = numbers(900, 96, 2);
        let corpus = numbers(12_000, 96, 1);
        check::<FindSimilar>(&[FindSimilarRequest { queries, corpus, metric, k: 40, threshold: None }], 3, hits);
    }
}

#[test]
fn a_static_embedding_is_cut_into_texts() {
    let rows = 500_u32;
    let tokens = 1_200_000_u32;
    let value = |index: usize| (index.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0].cast_signed();
    let table = Table::new(256, (0..rows as usize * 256).map(value).collect(), vec![0.01; rows as usize]);
    let request = EmbedRequest {
        table: Arc::new(table),
        ids: (0..tokens).map(|index| index.wrapping_mul(2_654_435_761) % rows).collect(),
        offsets: (0..=tokens).step_by(100).collect(),
        dimensions: 256,
        normalize: true,
    };
    check::<Embed>(&[request], 4, |vectors| bytes(vectors));
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect()
}

fn shape(hidden: usize, heads: usize) -> EncoderConfig {
    EncoderConfig {
        layers: 2,
        hidden,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        intermediate: 4 * hidden,
        max_tokens: 2800,
        ..samples::bert()
    }
}

fn encode(config: EncoderConfig, lengths: &[usize], slices: usize) {
    let encoder = Arc::new(samples::encoder(config).expect("a fit description"));
    check::<Encode>(&[samples::request(&encoder, lengths)], slices, |encoded| encoded.bytes.to_vec());
}

#[test]
fn an_encoder_is_cut_between_steps_of_its_groups() {
    encode(shape(128, 4), &[100; 40], 5);
}

#[test]
fn an_encoder_of_wide_layers_is_cut_between_blocks_of_tokens() {
    encode(EncoderConfig { layers: 1, intermediate: 6144, ..shape(512, 8) }, &[300, 200, 40], 6);
}

#[test]
fn one_long_sequence_is_cut_between_blocks_of_queries() {
    encode(EncoderConfig { layers: 1, ..shape(128, 2) }, &[2700], 3);
}

fn clustering(rows: Rows, clusters: usize) -> ClusterRequest {
    ClusterRequest { rows, clusters, max_iterations: 2, tolerance: 0.0, init_count: 1, spherical: false, seed: 1 }
}

fn clusters(found: &accelerd_kernels::ops::cluster::Clusters) -> Vec<u8> {
    let assignments = found.assignments.iter().flat_map(|cluster| cluster.to_le_bytes());
    found.centers.bytes().iter().copied().chain(assignments).chain(found.inertia.to_bits().to_le_bytes()).collect()
}

#[test]
fn a_clustering_is_cut_between_stages_and_chunks_of_rows() {
    check::<Cluster>(&[clustering(Rows::Corpus(corpus(20_000, 64)), 512)], 12, clusters);
}

#[test]
fn a_clustering_with_many_wide_centres_is_cut_between_groups_of_them() {
    check::<Cluster>(&[clustering(Rows::Inline(numbers(3000, 512, 5)), 480)], 10, clusters);
}

#[test]
fn parsing_is_cut_between_sources() {
    let source = |index: usize| {
        let line =
            |line: usize| format!("def f_{line}(a, b={index}):\n    return [a * x + b for x in range({line})]\n\n");
        (0..10 + index * 7 % 90).map(line).collect::<String>().into()
    };
    let outputs = Outputs { tree: true, outline: true, tokens: true, comments: true, line_starts: true };
    let request =
        |from: usize, to: usize| ParseRequest::new((from..to).map(source).collect(), Options::version(14), outputs);
    let batch = [request(0, 10), request(10, 700), request(700, 701), request(0, 0), request(701, 1000)];
    check::<Parse>(&batch, 4, |parsed| format!("{:?}", (&parsed.results, &parsed.columns)).into_bytes());
}

/// An element is read where another is written, so that each sum is a step of its own, and on one thread one of several slices.
#[test]
fn a_graph_is_cut_between_steps_and_parts_of_a_step() {
    const ELEMENTS: usize = 6_000_000;
    let node = |name: String, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]| NodeSpec {
        name,
        op: op.to_owned(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    };
    let mut nodes = vec![node("n0".to_owned(), "neg", &["x"], &[])];
    for nth in 0..3 {
        let [before, erf, flipped] = ["n", "e", "f"].map(|name| format!("{name}{nth}"));
        nodes.push(node(erf.clone(), "erf", &[&before], &[]));
        nodes.push(node(flipped.clone(), "flip", &[&erf], &[("dims", Attribute::Ints(vec![0]))]));
        nodes.push(node(format!("n{}", nth + 1), "add", &[&erf, &flipped], &[]));
    }
    nodes.push(node("sum".to_owned(), "sum", &["n3"], &[]));
    let inputs = vec![("x".to_owned(), TensorType { dtype: Dtype::F32, shape: vec![ELEMENTS] })];
    let spec = GraphSpec { inputs, nodes, outputs: vec!["sum".to_owned(), "e1".to_owned()] };
    let plan = Arc::new(Plan::new(&Graph::new(&spec).expect("a graph")));
    assert_eq!(plan.steps.len(), 4, "the last sum is a part of the reduction");
    let x = numbers(1, ELEMENTS, 7).bytes().clone();
    check::<Execute>(&[ExecuteRequest::new(plan, vec![x])], 4, |executed| executed.returned.concat());
}
