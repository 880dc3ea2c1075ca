//! The golden calls of all clients (tests/golden) through the Rust client.

use std::time::Duration;

use accelerd_client::{
    Client, CollectionOptions, CompareOptions, Error, Filter, Graph, Id, KernelProgram, Launch, Matrix, ParseOptions,
    Payload, Policy, SearchOptions, SearchResults, SimilarOptions,
    proto::{KernelDialect, KernelFaultKind, ParseOutput},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::harness::TestServer;

fn case(name: &str) -> Value {
    let cases: Value = serde_json::from_str(include_str!("../golden/cases.json")).expect("the cases are JSON");
    cases[name].clone()
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|problem| panic!("{problem}: {value}"))
}

/// A matrix of the numbers; a list is one row.
fn matrix(value: &Value) -> Matrix {
    let rows: Vec<Vec<f32>> = if value[0].is_array() { read(value) } else { vec![read(value)] };
    let columns = rows[0].len();
    Matrix::new(rows.concat(), columns).expect("the rows have one length")
}

fn assert_close(computed: &[f32], expected: &[f32], tolerance: &Value) {
    let tolerance: f32 = read(tolerance);
    assert_eq!(computed.len(), expected.len());
    let is_close = computed.iter().zip(expected).all(|(computed, expected)| (computed - expected).abs() <= tolerance);
    assert!(is_close, "{computed:?} is not {expected:?}");
}

fn assert_hits(found: &SearchResults, expected: &Value, tolerance: &Value) {
    let hits = &found.results[0];
    let ids: Vec<u64> = expected.as_array().expect("hits").iter().map(|hit| read(&hit["id"])).collect();
    let scores: Vec<f32> = expected.as_array().expect("hits").iter().map(|hit| read(&hit["score"])).collect();
    assert_eq!(
        hits.iter().map(|hit| hit.id.clone()).collect::<Vec<_>>(),
        ids.into_iter().map(Id::Number).collect::<Vec<_>>()
    );
    assert_close(&hits.iter().map(|hit| hit.score).collect::<Vec<_>>(), &scores, tolerance);
}

fn assert_fails(problem: &Error, expected: &Value) {
    let failure = problem.failure().expect("the daemon refuses the call");
    let fields: Vec<&str> = failure.violations.iter().map(|violation| violation.field.as_str()).collect();
    let code = format!("{:?}", failure.code).to_uppercase();
    assert_eq!(code, read::<String>(&expected["code"]).replace('_', ""));
    assert_eq!(failure.message, read::<String>(&expected["message"]));
    assert_eq!(failure.reason, read::<String>(&expected["reason"]));
    assert_eq!(fields, read::<Vec<String>>(&expected["fields"]));
}

async fn connected(server: &TestServer) -> Client {
    Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("the daemon listens")
}

#[tokio::test]
async fn embed() {
    let server = TestServer::start().await;
    let case = case("embed");
    let texts: Vec<String> = read(&case["texts"]);
    let vectors = connected(&server).await.embed(texts).await.expect("embeds").vectors;
    assert_eq!(vectors.dim(), read::<usize>(&case["dimensions"]));
    for (row, expected) in vectors.iter().zip(read::<Vec<Vec<f32>>>(&case["first_components"])) {
        assert_close(&row[..expected.len()], &expected, &case["tolerance"]);
    }
}

#[tokio::test]
async fn search() {
    let server = TestServer::start().await;
    let case = case("search");
    let query = matrix(&case["query"]);
    let collection = connected(&server).await.collection("golden-rust");
    let dimensions = u32::try_from(query.dim()).expect("a few");
    collection.create(&CollectionOptions { dimensions, ..CollectionOptions::default() }).await.expect("is new");
    let payload = |given: &Value| {
        let line: i64 = read(&given["line"]);
        let language: String = read(&given["language"]);
        Payload::from([("language".to_owned(), language.into()), ("line".to_owned(), line.into())])
    };
    let payloads = case["payloads"].as_array().expect("payloads").iter().map(payload).collect();
    let ids: Vec<u64> = read(&case["ids"]);
    collection.upsert_vectors(ids, matrix(&case["vectors"]), payloads).await.expect("writes");
    let language: String = read(&case["where"]["language"]);
    let filter = Filter::new().equals("language", language);
    let count = collection.count(Some(filter.clone())).await.expect("counts");
    assert_eq!(count, read::<u64>(&case["count_where"]));
    let options = SearchOptions::limit(read(&case["k"])).filter(filter);
    let found = collection.search_vectors(query.clone(), &options).await.expect("finds");
    assert_hits(&found, &case["hits"], &case["tolerance"]);
    let deleted: Vec<u64> = read(&case["deleted"]);
    collection.delete_points(Filter::new().ids(deleted)).await.expect("deletes");
    let left = collection.search_vectors(query, &options).await.expect("finds");
    assert_hits(&left, &case["hits_after_delete"], &case["tolerance"]);
}

#[tokio::test]
async fn parse() {
    let server = TestServer::start().await;
    let case = case("parse");
    let sources: [String; 2] = ["source", "broken"].map(|name| read(&case[name]));
    let options = ParseOptions::of([ParseOutput::Tree, ParseOutput::Outline]);
    let batch = connected(&server).await.parse(sources, &options).await.expect("parses");
    let parsed = batch.get(0).expect("one of two");
    assert_eq!(parsed.tree().expect("it is valid").len(), read::<usize>(&case["node_count"]));
    let outline = parsed.outline();
    let found = outline.iter().map(|item| (item.qualified_name(outline), *item.lines.start()));
    let expected = case["outline"].as_array().expect("items").iter();
    let expected = expected.map(|item| (read(&item["qualified_name"]), read(&item["line"])));
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let diagnostic = batch.get(1).and_then(|broken| broken.diagnostic()).expect("it is no Python");
    let expected = &case["diagnostic"];
    assert_eq!(diagnostic.message, read::<String>(&expected["message"]));
    assert_eq!((diagnostic.line, diagnostic.column), (read(&expected["line"]), read(&expected["offset"])));
}

#[tokio::test]
async fn tensor() {
    let server = TestServer::start().await;
    let case = case("tensor");
    let mut graph = Graph::default();
    let [a, b] = ["a", "b"].map(|name| graph.input(matrix(&case[name])));
    let product = graph.op("matmul", [&a, &b], []);
    let softmax = graph.op("softmax", [&product], [("dim", (-1_i64).into())]);
    let done = connected(&server).await.execute(&graph, [&softmax]).await.expect("computes");
    let computed: Matrix = done.matrix(0).expect("f32");
    let expected = matrix(&case["softmax_of_product"]);
    assert_close(computed.as_slice(), expected.as_slice(), &case["tolerance"]);
}

fn saxpy(case: &Value, grid: &str) -> Launch {
    let source: String = read(&case["source"]);
    let name: String = read(&case["name"]);
    let extents: Vec<i64> = read(&case[grid]);
    let a: f32 = read(&case["a"]);
    let array = |name: &str| -> Vec<f32> { read(&case[name]) };
    let program = KernelProgram::new(source).dialect(KernelDialect::Warp).name(name);
    Launch::program(program)
        .grid(extents)
        .argument("a", a)
        .argument("x", vector(array("x")))
        .argument("y", vector(array("y")))
}

/// A tensor of one dimension.
fn vector(values: Vec<f32>) -> accelerd_client::proto::Tensor {
    let length = values.len();
    let extent = i64::try_from(length).expect("a few");
    let mut tensor: accelerd_client::proto::Tensor = Matrix::new(values, length).expect("one row").into();
    tensor.shape = vec![extent];
    tensor
}

#[tokio::test]
async fn kernel() {
    let server = TestServer::start().await;
    let client = connected(&server).await;
    let case = case("kernel");
    let outcome = client.launch(saxpy(&case, "grid")).await.expect("runs");
    let written: Vec<f32> = read(&case["written_y"]);
    assert_eq!(outcome.outputs["y"], vector(written));
    let fault =
        client.launch(saxpy(&case, "faulting_grid")).await.expect("a fault is an outcome").fault.expect("a fault");
    let expected = &case["fault"];
    assert_eq!(KernelFaultKind::from_str_name(&read::<String>(&expected["kind"])), Some(fault.kind()));
    assert_eq!((fault.thread, fault.line), (read(&expected["thread"]), read(&expected["line"])));
    assert_eq!((fault.index, fault.extent), (read(&expected["index"]), read(&expected["extent"])));
}

#[tokio::test]
async fn verify() {
    let server = TestServer::start().await;
    let client = connected(&server).await;
    let case = case("verify");
    let [actual, expected] = ["actual", "expected"].map(|name| vector(read(&case[name])));
    let atol: f64 = read(&case["atol"]);
    let options = |rtol: &str| CompareOptions::default().policy(Policy::default().close(atol, read(&case[rtol])));
    let compared =
        client.compare([("y", actual.clone())], [("y", expected.clone())], &options("rtol")).await.expect("compares");
    assert_eq!(compared.passed, read::<bool>(&case["passed"]));
    let differences = compared.outputs[0].differences.as_ref().expect("they were compared");
    assert_eq!(differences.failed_count, read::<u64>(&case["failed_count"]));
    let mismatch = &differences.mismatches[0];
    let listed = &case["mismatch"];
    assert_eq!(mismatch.index, read::<u64>(&listed["index"]));
    assert_eq!((mismatch.actual, mismatch.expected), (read(&listed["actual"]), read(&listed["expected"])));
    let passing = client.compare([("y", actual)], [("y", expected)], &options("passing_rtol")).await.expect("compares");
    assert!(passing.passed);
}

#[tokio::test]
async fn errors() {
    let server = TestServer::start().await;
    let client = connected(&server).await;
    let cases = case("errors");
    let [find_similar, count, embed] = [0, 1, 2].map(|index| cases[index].clone());
    let rows = matrix(&find_similar["rows"]);
    let similar = SimilarOptions::cosine(read(&find_similar["k"]));
    let problem = client.find_similar(rows.clone(), &rows, &similar).await.expect_err("k is 0");
    assert_fails(&problem, &find_similar);
    let absent: String = read(&count["collection"]);
    let problem = client.collection(absent).count(None).await.expect_err("it is absent");
    assert_fails(&problem, &count);
    let options = accelerd_client::EmbedOptions { model: read(&embed["model"]), ..Default::default() };
    let texts: Vec<String> = read(&embed["texts"]);
    let problem = client.embed_with(texts, &options).await.expect_err("it is absent");
    assert_fails(&problem, &embed);
}

#[tokio::test]
async fn a_deadline_ends_a_call() {
    let server = TestServer::start().await;
    let case = case("slow_kernel");
    let deadline = Duration::from_millis(read(&case["deadline_ms"]));
    let url = format!("http://{}", server.daemon.grpc_addr());
    let client = Client::builder(url).deadline(deadline).connect().await.expect("the daemon listens");
    let source: String = read(&case["source"]);
    let name: String = read(&case["name"]);
    let extents: Vec<i64> = read(&case["grid"]);
    let program = KernelProgram::new(source).dialect(KernelDialect::Warp).name(name);
    let launch = Launch::program(program).grid(extents).argument("y", vector(read(&case["y"])));
    let problem = client.launch(launch).await.expect_err("it takes longer");
    let code = format!("{:?}", problem.code()).to_uppercase();
    assert_eq!(code, read::<String>(&case["code"]).replace('_', ""));
}
