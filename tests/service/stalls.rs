//! Sources that take long to parse, and their effect on other clients.

use accelerd::config::{ByteSize, Config};
use accelerd_proto::v1::{self, DiagnosticClass, ParseOutput};
use bytes::Bytes;
use futures::{StreamExt, stream::FuturesUnordered};
use tonic::Code;

use super::harness::{TestServer, assert_refused, connect};

/// The smallest CPU backend: one thread and one worker.
fn smallest(config: &mut Config) {
    config.backend.cpu_threads = 1;
    config.backend.cpu_workers = 1;
}

fn request(sources: Vec<Bytes>, outputs: &[ParseOutput]) -> v1::ParseRequest {
    let outputs = outputs.iter().map(|&one| one.into()).collect();
    v1::ParseRequest { sources, outputs, ..v1::ParseRequest::default() }
}

async fn parse(server: &TestServer, sources: Vec<String>) -> v1::ParseResponse {
    let sources = sources.into_iter().map(Bytes::from).collect();
    server.parse().parse(request(sources, &[])).await.expect("parses").into_inner()
}

async fn diagnostic(server: &TestServer, source: String) -> Option<(DiagnosticClass, String, u32)> {
    let [result] = parse(server, vec![source]).await.results.try_into().expect("one source, one result");
    result.diagnostic.map(|error| (error.class(), error.message, error.line))
}

/// Five megabytes of consecutive functions.
fn large_file() -> String {
    let function =
        "def f(a, b=1, *c):\n    if a in b:\n        return {a: [b, 'text', 1.5], **c}\n    yield a.b(c)[0]\n\n";
    function.repeat(5_000_000 / function.len() + 1)
}

#[tokio::test]
async fn five_megabytes_in_one_file_are_one_tree() {
    let server = TestServer::start_with(smallest).await;
    let file = large_file();
    let one = large_file()[..large_file().find("\n\n").expect("ends") + 2].to_owned();
    let functions = u32::try_from(file.len() / one.len()).expect("some thousands");
    let whole = parse(&server, vec![file]).await;
    let part = parse(&server, vec![one]).await;
    let whole_tree = whole.nodes.expect("a tree");
    let part_tree = part.nodes.expect("a tree");
    assert_eq!(whole.results[0].node_count, part.results[0].node_count * functions);
    assert_eq!(whole.results[0].line_count, (part.results[0].line_count - 1) * functions + 1);
    assert_eq!(whole_tree.kinds, part_tree.kinds.repeat(functions as usize));
    assert_eq!(whole_tree.fields, part_tree.fields.repeat(functions as usize));
    assert_eq!(whole.results[0].diagnostic, None);
}

#[tokio::test]
async fn a_literal_of_a_hundred_thousand_elements_has_them_all() {
    let server = TestServer::start_with(smallest).await;
    let elements =
        (0..100_000).map(|index| [index.to_string(), if index % 10 == 9 { ",\n" } else { ", " }.into()].concat());
    let elements: String = elements.collect();
    for [open, close] in [["[", "]"], ["{", "}"], ["(", ")"], ["f(", ")"]] {
        let parsed = parse(&server, vec![format!("{open}{elements}{close}\n")]).await;
        let nodes = parsed.nodes.expect("a tree");
        let constants = nodes.kinds.iter().filter(|&&kind| i32::from(kind) == v1::NodeKind::Constant as i32).count();
        assert_eq!((parsed.results[0].diagnostic.as_ref(), constants), (None, 100_000), "{open}");
        assert_eq!(parsed.results[0].value_count, 100_000);
    }
}

#[tokio::test]
async fn each_of_ten_thousand_tiny_files_has_its_own_tree() {
    let server = TestServer::start_with(smallest).await;
    let is_bad = |index: usize| index % 1000 == 7;
    let file = |index: usize| {
        if is_bad(index) { format!("v{index} = = {index}\n") } else { format!("v{index} = {index}  # {index}\n") }
    };
    let parsed = parse(&server, (0..10_000).map(file).collect()).await;
    assert_eq!(parsed.results.len(), 10_000);
    for (index, result) in parsed.results.iter().enumerate() {
        let expected = if is_bad(index) { (Some("invalid syntax"), 0, 0) } else { (None, 3, 1) };
        let message = result.diagnostic.as_ref().map(|error| error.message.as_str());
        assert_eq!((message, result.node_count, result.name_count), expected, "file {index}");
    }
}

#[tokio::test]
async fn brackets_nest_at_most_two_hundred_deep() {
    let server = TestServer::start_with(smallest).await;
    for [open, close] in ["()", "[]", "{}"].map(|pair| pair.split_at(1)).map(|(open, close)| [open, close]) {
        let nested = |depth: usize| format!("{}1{}\n", open.repeat(depth), close.repeat(depth));
        assert_eq!(diagnostic(&server, nested(200)).await, None);
        let refused = (DiagnosticClass::SyntaxError, "too many nested parentheses".to_owned(), 1);
        assert_eq!(diagnostic(&server, nested(201)).await, Some(refused));
    }
}

#[tokio::test]
async fn blocks_nest_at_most_ninety_nine_deep() {
    let server = TestServer::start_with(smallest).await;
    let indented = |depth: usize| {
        (0..depth).fold(String::new(), |text, index| text + &" ".repeat(index) + "if x:\n") + &" ".repeat(depth) + "x\n"
    };
    assert_eq!(diagnostic(&server, indented(99)).await, None);
    let refused = (DiagnosticClass::IndentationError, "too many levels of indentation".to_owned(), 101);
    assert_eq!(diagnostic(&server, indented(100)).await, Some(refused));
}

#[tokio::test]
async fn an_unclosed_bracket_is_reported_where_it_opens() {
    let server = TestServer::start_with(smallest).await;
    let refused = (DiagnosticClass::SyntaxError, "'(' was never closed".to_owned(), 1);
    let calls = "f(a, b)[0],\n".repeat(400_000);
    assert_eq!(diagnostic(&server, format!("x = (\n{calls}")).await, Some(refused.clone()));
    // The next token is invalid too; the bracket is reported first.
    let found = diagnostic(&server, format!("x = (1\n{}", "y = f(2)\n".repeat(400_000))).await;
    assert_eq!(found, Some(refused));
}

/// Requests that take long for different reasons and have short responses.
fn long_requests() -> Vec<v1::ParseRequest> {
    let file = Bytes::from(large_file());
    let elements = Bytes::from(format!("[{}]\n", "1, ".repeat(1_000_000)));
    let unclosed = Bytes::from(format!("x = (\n{}", "f(a, b)[0],\n".repeat(400_000)));
    let tiny = (0..10_000)
        .map(|index| Bytes::from(format!("def f{index}(x):\n    return x + {index}\n# {index}\n")))
        .collect();
    let one = |source: &Bytes| vec![source.clone()];
    let all = [one(&file), one(&elements), one(&unclosed), tiny, vec![file; 3]];
    all.into_iter().map(|sources| request(sources, &[ParseOutput::Comments])).collect()
}

/// Completed and running batches of the parse lane.
fn batches(server: &TestServer) -> (u64, u64) {
    let stats = server.daemon.app().engine.stats();
    let lane = stats.lanes.into_iter().find(|lane| lane.name == "parse").expect("the parse lane");
    (lane.counts.batches, lane.running_batches)
}

/// One client always has long requests in flight; another sends small ones. A small request that waited for a long
/// batch sees that batch counted before its own response; one that did not sees only its own batch.
#[tokio::test(flavor = "multi_thread")]
async fn long_requests_of_one_client_do_not_delay_small_ones_of_another() {
    const ENOUGH: usize = 40;
    let server = TestServer::start_with(smallest).await;
    let other = v1::parse_service_client::ParseServiceClient::new(connect(server.daemon.grpc_addr()).await);
    let flood = tokio::spawn({
        let client = server.parse();
        async move {
            let requests = long_requests();
            let call = |index: usize| {
                let mut client = client.clone();
                let request = requests[index % requests.len()].clone();
                async move { client.parse(request).await.map(|_| ()) }
            };
            let mut under_way: FuturesUnordered<_> = (0..4).map(call).collect();
            let mut sent = 4;
            while let Some(answer) = under_way.next().await {
                answer.expect("long requests are answered");
                under_way.push(call(sent));
                sent += 1;
            }
        }
    });
    let mut seen = 0;
    let mut alone = 0;
    while seen < ENOUGH {
        assert!(!flood.is_finished(), "it goes on for ever");
        let (before, running) = batches(&server);
        let small = request(vec![Bytes::from_static(b"x = 1\n")], &[]);
        let answer = other.clone().parse(small).await.expect("small requests are answered").into_inner();
        assert_eq!(answer.results[0].node_count, 3);
        if running > 0 {
            seen += 1;
            alone += usize::from(batches(&server).0 == before + 1);
        }
    }
    flood.abort();
    assert!(alone * 2 > ENOUGH, "{alone} of {ENOUGH} small requests did not wait for a long batch to end");
}

#[tokio::test]
async fn a_source_above_the_limit_is_refused_before_it_is_parsed() {
    let server = TestServer::start_with(|config| config.limits.max_source_bytes = ByteSize::mib(4)).await;
    let refused = server.parse().parse(request(vec![large_file().into()], &[])).await;
    assert_refused(refused, Code::InvalidArgument, "sources[0]");
    assert_eq!(batches(&server), (0, 0));
}
