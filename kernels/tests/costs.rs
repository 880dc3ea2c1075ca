//! The cost of a request is proportional to the work that it asks for, at least 1, and never overflows.

use std::sync::Arc;

use accelerd_kernels::{
    DeviceId, Matrix, Op, Size,
    ops::{
        cluster::{Cluster, ClusterRequest, Rows},
        embed::{Embed, EmbedRequest, Table},
        encode::{Encode, samples},
        parse::{Options, Outputs, Parse, ParseRequest},
        similarity::{Corpus, FindSimilar, FindSimilarRequest, Metric, Search, SearchRequest, Selection, Storage},
    },
};

fn zeros(rows: usize, dim: usize) -> Matrix {
    Matrix::from_vec(rows, dim, vec![0.0; rows * dim]).expect("as many numbers")
}

fn corpus(rows: usize, dim: usize) -> Arc<Corpus> {
    let corpus = Corpus::new(dim, Metric::Dot, Storage::F32, DeviceId::Cpu);
    corpus.append(&zeros(rows, dim));
    corpus
}

fn search(rows: usize, dim: usize, queries: usize, selection: Selection) -> u64 {
    let corpus = corpus(rows, dim);
    let queries = zeros(queries, dim);
    Search::cost(&SearchRequest { corpus, queries, k: 10, threshold: None, selection })
}

#[test]
fn a_search_costs_selected_rows_by_dims_by_queries() {
    assert_eq!(search(300, 8, 5, Selection::All), 300 * 8 * 5);
    assert_eq!(search(300, 8, 5, Selection::Mask(Arc::new(vec![0b1011, 0, u32::MAX]))), 35 * 8 * 5);
    assert_eq!(search(40, 8, 5, Selection::Mask(Arc::new(vec![1; 1000]))), 2 * 8 * 5, "the mask of a larger corpus");
    assert_eq!(search(300, 8, 5, Selection::Rows(Arc::new(vec![7, 299, 300, 4000]))), 2 * 8 * 5);
    assert_eq!(search(300, 8, 0, Selection::All), 1, "no query");
    assert_eq!(search(0, 8, 5, Selection::All), 1, "no row");
}

#[test]
fn a_search_of_inline_rows_costs_rows_by_dims_by_queries() {
    let cost = |rows, dim, queries| {
        let queries = zeros(queries, dim);
        let corpus = zeros(rows, dim);
        FindSimilar::cost(&FindSimilarRequest { queries, corpus, metric: Metric::Dot, k: 1, threshold: None })
    };
    assert_eq!(cost(300, 8, 5), 300 * 8 * 5);
    assert_eq!(cost(1, 0, 1), 1);
}

#[test]
fn an_embedding_costs_tokens_and_texts_by_dimensions() {
    let table = Arc::new(Table::new(64, vec![0; 64 * 9], vec![1.0; 9]));
    let cost = |ids: usize, offsets: Vec<u32>, dimensions| {
        let table = Arc::clone(&table);
        Embed::cost(&EmbedRequest { table, ids: vec![0; ids], offsets, dimensions, normalize: true })
    };
    assert_eq!(cost(70, vec![0, 30, 70], 64), 72 * 64);
    assert_eq!(cost(70, vec![0, 30, 70], 16), 72 * 16);
    assert_eq!(cost(0, vec![], 64), 1);
}

#[test]
fn a_forward_pass_costs_its_multiply_adds() {
    let config = samples::bert();
    let hidden = config.hidden as u64;
    let inner = config.intermediate as u64;
    let qkv = config.qkv_width() as u64;
    let heads = config.attention_width() as u64;
    let encoder = Arc::new(samples::encoder(config.clone()).expect("a fit description"));
    let cost = |lengths: &[usize]| Encode::cost(&samples::request(&encoder, lengths));
    let token = hidden * qkv + heads * hidden + 2 * hidden * inner;
    let layer = |tokens: u64| tokens * token + 2 * heads * tokens * tokens;
    let sequence = |tokens: u64| config.layers as u64 * layer(tokens) + tokens * hidden;
    assert_eq!(cost(&[9]), sequence(9));
    assert_eq!(cost(&[9, 0, 4]), sequence(9) + sequence(4), "sequences add up");
    assert_eq!(cost(&[]), 1);
}

#[test]
fn every_architecture_costs_more_for_more_tokens() {
    for (name, encoder) in samples::all().expect("fit samples") {
        let cost = |lengths: &[usize]| Encode::cost(&samples::request(&encoder, lengths));
        assert!(cost(&[2]) >= 2 * cost(&[1]), "{name}");
        assert_eq!(cost(&[1; 100]), 100 * cost(&[1]), "{name}");
    }
}

#[test]
fn parsing_costs_bytes_of_source() {
    let cost = |sources: &[&'static str]| {
        let sources = sources.iter().map(|source| source.as_bytes().into()).collect();
        Parse::cost(&ParseRequest::new(sources, Options::version(14), Outputs::default()))
    };
    assert_eq!(cost(&["x = 1\n", "", "y\n"]), 8);
    assert_eq!(cost(&[""]), 1);
}

fn clustering(rows: Rows, clusters: usize) -> ClusterRequest {
    ClusterRequest { rows, clusters, max_iterations: 10, tolerance: 0.0, init_count: 1, spherical: false, seed: 1 }
}

#[test]
fn a_clustering_costs_rows_by_dims_by_clusters_by_passes() {
    let of = |rows, dim| clustering(Rows::Inline(zeros(rows, dim)), 1);
    // Two candidates a centre, ten iterations and a last assignment, and one pass to prepare the rows.
    assert_eq!(Cluster::cost(&of(100, 8)), 100 * 8 * (2 + 10 + 1 + 1));
    assert_eq!(Cluster::cost(&of(300, 16)), 6 * Cluster::cost(&of(100, 8)));
    let more = ClusterRequest { init_count: 3, ..of(100, 8) };
    assert_eq!(Cluster::cost(&more), 100 * 8 * (3 * 13 + 1));
    let eight = ClusterRequest { clusters: 8, ..of(100, 8) };
    assert_eq!(Cluster::cost(&eight), 100 * 8 * (8 * (4 + 10 + 1) + 1));
    let limits = [100, 1_000_000].map(|max_iterations| ClusterRequest { max_iterations, ..of(100, 8) });
    assert_eq!(Cluster::cost(&limits[0]), Cluster::cost(&limits[1]), "iterations that are not expected cost nothing");
    assert_eq!(Cluster::cost(&of(0, 8)), 1);
}

#[test]
fn costs_do_not_overflow() {
    let request = ClusterRequest { init_count: usize::MAX, ..clustering(Rows::Inline(zeros(10, 10)), usize::MAX) };
    assert_eq!(Cluster::cost(&request), u64::MAX);
    assert_eq!(Cluster::size(&request).bytes, u64::MAX);
}

#[test]
fn clustering_a_corpus_is_sized_by_its_result_and_not_by_the_resident_rows() {
    let request = clustering(Rows::Corpus(corpus(5000, 8)), 20);
    let bytes = 4 * 8 * (5000 + 20) + 8 * 5000;
    assert_eq!(Cluster::size(&request), Size { items: 20, bytes }, "a device needs room for the rows");
    assert_eq!(Cluster::held_bytes(&request), 4 * 8 * 20 + 4 * 5000);
    let inline = clustering(Rows::Inline(zeros(5000, 8)), 20);
    assert_eq!(Cluster::size(&inline), Size { items: 5000, bytes });
    assert_eq!(Cluster::held_bytes(&inline), bytes);
}
