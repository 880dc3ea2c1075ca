//! Tests of all calls against a daemon in this process.

#[path = "../examples/parse_module.rs"]
mod parse_module;

use std::{env, num::ParseFloatError, process::Command, sync::OnceLock};

use accelerd::{
    config::{BackendKind, Config, HttpListen, environment, load},
    serve::Daemon,
};
use portalis_cuda::{
    ASTNode, Connection, CudaEmbedder, CudaError, CudaParser, CudaVerifier, EmbeddingConfig, ParserConfig, TestCase,
    VerificationConfig,
};
use tokio::runtime::Runtime;

fn config() -> Config {
    let mut config = load(None, environment(), &[]).expect("the settings are valid");
    let free = "127.0.0.1:0".parse().expect("an address");
    config.backend.kind = BackendKind::Cpu;
    config.server.listen = free;
    config.server.admin_listen = free;
    config.server.health_listen = free;
    config.http.listen = HttpListen::At(free);
    config
}

/// Address of a daemon that ends with the process.
fn server() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        let runtime = Runtime::new().expect("a runtime");
        let daemon = runtime.block_on(Daemon::start(config())).expect("the daemon starts");
        let url = format!("http://{}", daemon.grpc_addr());
        Box::leak(Box::new((daemon, runtime)));
        url
    })
}

fn connection() -> Connection {
    Connection::to(server()).expect("the daemon serves")
}

fn parser(config: ParserConfig) -> CudaParser {
    CudaParser::with_connection(config, connection())
}

/// What the program of the example prints, of which the environment names the daemon.
#[test]
fn a_program_with_one_changed_import_runs() {
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command.args(["--exact", "program", "--ignored", "--nocapture"]).env("ACCELERD_SERVER", server());
    let output = command.output().expect("it starts");
    let shown = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{shown}");
    for line in ["Parsed 5 nodes", "Total time: ", "Parse failed: SyntaxError: invalid syntax (1:12)"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
#[ignore = "run by a_program_with_one_changed_import_runs"]
fn program() {
    parse_module::main().expect("the example runs");
}

#[test]
fn nodes_are_linked_and_located() {
    let result = parser(ParserConfig::default()).parse("a = b\nif a:\n    f(a, 'ü')\n").expect("valid");
    let nodes = &result.nodes;
    let row = |kind: &str| nodes.iter().position(|node| node.kind == kind).expect("one of the kind");
    let assign = row("Assign");
    let branch = row("If");
    let call = row("Call");
    assert_eq!(
        (nodes[assign].parent_idx, nodes[assign].next_sibling),
        (u32::MAX, u32::try_from(branch).expect("small"))
    );
    assert_eq!((nodes[branch].line_number, nodes[branch].col_number, nodes[branch].next_sibling), (2, 0, u32::MAX));
    assert_eq!((nodes[call].line_number, nodes[call].col_number), (3, 4));
    assert_eq!((nodes[call].token_start, nodes[call].token_end), (6, 12));
    let children = |row: usize| {
        let link = |row: u32| nodes.get(row as usize).map(|_| row);
        let first = link(nodes[row].first_child);
        std::iter::successors(first, |row| link(nodes[*row as usize].next_sibling)).collect::<Vec<_>>()
    };
    let linked: usize = (0..nodes.len()).map(|row| children(row).len()).sum();
    assert_eq!(linked + 2, nodes.len(), "all but the statements of the module");
    let kinds: Vec<_> = children(call).into_iter().map(|row| nodes[row as usize].kind).collect();
    assert_eq!(kinds, ["Name", "Name", "Constant"]);
}

#[test]
fn metrics_are_measured_if_they_are_collected() {
    let metrics = parser(ParserConfig::default()).parse("a = b").expect("valid").metrics;
    assert!(0.0 < metrics.parsing_time_ms && metrics.parsing_time_ms < metrics.total_time_ms, "{metrics:?}");
    assert_eq!((metrics.nodes_created, metrics.tokens_processed), (3, 3));
    assert!(metrics.gpu_utilization.abs() < f32::EPSILON, "there is no GPU");
    let silent = ParserConfig { collect_metrics: false, ..ParserConfig::default() };
    assert_eq!(parser(silent).parse("a = b").expect("valid").metrics, portalis_cuda::ParserMetrics::default());
}

#[test]
fn a_source_beyond_a_limit_is_an_error_that_names_it() {
    type Limit = (&'static str, fn(u32) -> ParserConfig, u32);
    let limits: [Limit; 3] = [
        ("max_nodes", |max_nodes| ParserConfig { max_nodes, ..ParserConfig::default() }, 6),
        ("max_tokens", |max_tokens| ParserConfig { max_tokens, ..ParserConfig::default() }, 6),
        ("max_depth", |max_depth| ParserConfig { max_depth, ..ParserConfig::default() }, 5),
    ];
    for (name, config, count) in limits {
        let parse = |limit| parser(config(limit)).parse("x = ---1");
        parse(count).expect("it is within the limit");
        let error = parse(count - 1).expect_err("it exceeds the limit").to_string();
        assert_eq!(error, format!("{name}: expected at most {}, got {count}", count - 1));
    }
}

#[test]
fn a_batch_has_a_result_for_each_source() {
    let parser = parser(ParserConfig::default());
    let results = parser.parse_batch(&["x", "", "y = 1"]).expect("valid");
    assert_eq!(results.iter().map(|result| result.nodes.len()).collect::<Vec<_>>(), [2, 0, 3]);
    assert!(results[1].nodes.iter().all(|node: &ASTNode| node.confidence > 0.0));
    assert!(matches!(parser.parse_batch(&["x", "x +="]), Err(CudaError::InvalidSource(_))));
}

/// A table whose row n has the angle n, and an embedder of it.
fn angles() -> (Vec<[f32; 2]>, CudaEmbedder) {
    let rows: Vec<_> = (0..8_u8).map(|n| [f32::from(n).cos() * 2.0, f32::from(n).sin() * 2.0]).collect();
    let config = EmbeddingConfig { vocab_size: 8, embedding_dim: 2, max_sequence_length: 3, seed: 0 };
    let embedder = CudaEmbedder::with_connection(config, Some(rows.as_flattened()), connection());
    (rows, embedder.expect("the sizes fit"))
}

#[test]
fn an_embedding_is_the_mean_of_rows_at_unit_length() {
    let (rows, embedder) = angles();
    let ids = [1, 2, 7, 3, 0, 0, 4, 5, 6, 0, 0, 0, 8, 1, 99];
    let (embeddings, metrics) = embedder.encode(&ids, &[2, 1, 3, 0, 3]).expect("it embeds");
    let expected = |ids: &[usize]| {
        let sum = ids.iter().fold([0.0, 0.0], |sum, id| [sum[0] + rows[*id][0], sum[1] + rows[*id][1]]);
        let norm = f32::hypot(sum[0], sum[1]).max(f32::MIN_POSITIVE);
        sum.map(|x| x / norm)
    };
    let expected = [expected(&[1, 2]), expected(&[3]), expected(&[4, 5, 6]), [0.0, 0.0], expected(&[1])];
    for (actual, expected) in embeddings.iter().zip(expected.as_flattened()) {
        assert!((actual - expected).abs() < 1e-6, "{embeddings:?}");
    }
    assert_eq!((embeddings.len(), metrics.sequences_processed), (10, 5));
    assert!(metrics.throughput_seq_per_sec > 0.0 && metrics.gpu_memory_used_mb.abs() < f32::EPSILON);
    let wrong = embedder.encode(&ids[1..], &[2, 1, 3, 0, 3]).expect_err("an id is missing");
    assert_eq!(wrong.to_string(), "token_ids: expected 15 ids, got 14");
}

#[test]
fn a_random_table_depends_on_its_seed() {
    let embedded = |seed| {
        let config = EmbeddingConfig { vocab_size: 100, embedding_dim: 8, max_sequence_length: 2, seed };
        let embedder = CudaEmbedder::with_connection(config, None, connection()).expect("the sizes fit");
        embedder.encode(&[1, 2, 3, 4], &[2, 2]).expect("it embeds").0
    };
    assert_eq!(embedded(1), embedded(1));
    assert_ne!(embedded(1), embedded(2));
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let config = EmbeddingConfig { vocab_size: 8, embedding_dim: 2, ..EmbeddingConfig::default() };
    let error = CudaEmbedder::with_connection(config.clone(), Some(&[0.0; 15]), connection()).expect_err("too short");
    assert_eq!(error.to_string(), "pretrained_embeddings: expected 16 numbers, got 15");
    let none = EmbeddingConfig { vocab_size: 0, ..config };
    assert!(matches!(CudaEmbedder::with_connection(none, None, connection()), Err(CudaError::InvalidArgument(_))));
}

#[test]
fn similar_rows_have_the_largest_cosine() {
    let (rows, embedder) = angles();
    let found = embedder.find_similar(rows[2..4].as_flattened(), rows.as_flattened(), 2).expect("rows fit");
    let pairs: Vec<_> = found.iter().map(|one| (one.query_idx, one.match_idx)).collect();
    assert_eq!((pairs[0], pairs[2]), ((0, 2), (1, 3)));
    assert!((found[0].similarity_score - 1.0).abs() < 1e-6 && found[1].similarity_score < found[0].similarity_score);
    let error = embedder.find_similar(&rows[0], rows.as_flattened(), 9).expect_err("there are 8 rows");
    assert!(matches!(error, CudaError::InvalidArgument(_)), "{error}");
}

#[test]
fn snippets_that_share_tokens_share_a_cluster() {
    let (_, embedder) = angles();
    let ids = [1, 1, 0, 4, 4, 0, 1, 1, 1, 4, 0, 0];
    let (clusters, centers) = embedder.cluster_code_snippets(&ids, &[2, 2, 3, 1], 2).expect("it clusters");
    assert_eq!((clusters[0], clusters[1]), (clusters[2], clusters[3]));
    assert_ne!(clusters[0], clusters[1]);
    assert_eq!(centers.len(), 4);
}

#[test]
fn a_report_says_which_cases_differ() {
    let verifier = CudaVerifier::with_connection(VerificationConfig::default(), connection());
    let case = |test_id, input, expected_output: &[f64], tolerance| TestCase {
        test_id,
        input,
        expected_output: expected_output.to_vec(),
        tolerance,
    };
    let cases = [
        case(10, "1 2", &[1.0, 2.0], None),
        case(11, "1 2 3", &[1.0, 2.5, 3.5], Some(0.1)),
        case(12, "1 x", &[1.0], None),
        case(13, "1", &[1.05], Some(0.1)),
        case(14, "1", &[1.0, 2.0], None),
    ];
    let parse = |text: &&str| text.split(' ').map(str::parse).collect::<Result<Vec<f64>, ParseFloatError>>();
    let report = verifier.run_test_suite(&cases, parse).expect("the daemon compares");
    let text = "2 of 5 cases pass\ncase 11: 2 of 3 numbers differ, first 2 != 2.5 at 1\n\
                case 12: invalid float literal\ncase 14: expected 2 numbers, got 1";
    assert_eq!(report.to_string(), text);
    assert!(!report.success() && report.failures().count() == 3);
    assert!((report.results[1].diff_percentage - 200.0 / 3.0).abs() < 1e-9);
    assert_eq!((report.metrics.tests_executed, report.metrics.tests_failed), (5, 3));
    assert!(verifier.run_test_suite(&cases[..1], parse).expect("the daemon compares").success());
    assert!(verifier.run_test_suite(&cases[2..3], parse).is_ok_and(|report| !report.success()), "nothing to compare");
}
