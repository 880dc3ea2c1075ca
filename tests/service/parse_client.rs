//! Parsing through the Rust client: the tree equals CPython's.

use accelerd_client::{Client, DumpOptions, ParseOptions, Position, proto::ParseOutput};
use futures::{TryStreamExt, stream};

use super::harness::TestServer;

async fn connected(server: &TestServer) -> Client {
    Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("the daemon listens")
}

/// A source and its dumps, shared with the client's tests; embedded, because the binary also runs without its sources.
macro_rules! golden {
    ($name:literal) => {
        (
            &include_bytes!(concat!("../../client/tests/golden/", $name, ".py"))[..],
            include_str!(concat!("../../client/tests/golden/", $name, ".dump")),
        )
    };
}

#[tokio::test]
async fn dumps_equal_cpythons() {
    let server = TestServer::start().await;
    let client = connected(&server).await;
    let (sources, dumps): (Vec<_>, Vec<_>) = [golden!("constructs"), golden!("lines")].into_iter().unzip();
    let batch = client.parse(sources, &ParseOptions::default().feature_version(13)).await.expect("it answers");
    for (expected, parsed) in dumps.into_iter().zip(&batch) {
        let tree = parsed.tree().unwrap_or_else(|| panic!("{:?}", parsed.diagnostic()));
        let pretty = DumpOptions { attributes: true, indent: Some(2) };
        let got = [DumpOptions::default(), pretty].map(|options| tree.dump(&options)).join("\n");
        for (got, expected) in got.lines().zip(expected.lines()) {
            assert_eq!(got, expected);
        }
        assert_eq!(got.lines().count(), expected.lines().count());
    }
}

#[tokio::test]
async fn a_source_has_all_outputs_or_its_error() {
    let server = TestServer::start().await;
    let all = [ParseOutput::Tree, ParseOutput::Outline, ParseOutput::Tokens, ParseOutput::Comments];
    let sources = ["# é\nclass A:\n    'doc'\n    def f(self): ...\n", "def f(:\n"];
    let batch = connected(&server).await.parse(sources, &ParseOptions::of(all)).await.expect("it answers");
    let parsed = batch.get(0).expect("one of two");
    let outline = parsed.outline();
    assert_eq!(outline[1].qualified_name(outline), "A.f");
    assert_eq!(outline[0].docstring.clone().map(|span| parsed.slice(span)), Some(&b"'doc'"[..]));
    assert_eq!(parsed.comments().map(|comment| comment.text).collect::<Vec<_>>(), ["# é".as_bytes()]);
    assert_eq!(parsed.tokens().next().map(|token| token.text), Some(&b"class"[..]));
    let tree = parsed.tree().expect("it is valid");
    let class = tree.body().next().expect("one statement");
    assert_eq!((class.name(), class.start()), (Some("A"), Position { line: 2, column: 0 }));
    let error = batch.get(1).and_then(|wrong| wrong.diagnostic()).expect("it is no Python");
    assert_eq!(error.to_string(), "1:7: invalid syntax");
}

#[tokio::test]
async fn a_stream_answers_each_batch() {
    let server = TestServer::start().await;
    let batches = (0..20).map(|n| vec![format!("x{n} = {n}\n").into(), "pass".into()]);
    let client = connected(&server).await;
    let outcomes: Vec<_> = client
        .parse_stream(stream::iter(batches), &ParseOptions::default())
        .await
        .expect("it opens")
        .try_collect()
        .await
        .expect("each batch is answered");
    assert_eq!(outcomes.len(), 20);
    for outcome in outcomes {
        let batch = outcome.result.expect("it was parsed");
        let dump = batch.get(0).and_then(|parsed| parsed.dump(&DumpOptions::default())).expect("it is valid");
        let n = outcome.sequence;
        assert_eq!(
            dump,
            format!("Module(body=[Assign(targets=[Name(id='x{n}', ctx=Store())], value=Constant(value={n}))])")
        );
    }
}
