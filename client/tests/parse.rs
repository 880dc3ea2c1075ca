//! Tests of parsing: columns written from CPython's trees, and invalid columns.

use std::{fs, path::Path};

use accelerd_client::{
    Client, Context, Diagnostic, DumpOptions, Error, Literal, Node, OutlineItem, ParseOptions, ParsedBatch, Position,
    proto::{self, NodeField, NodeKind, Operator, ParseOutput, TokenKind},
};
use accelerd_test_support::FakeDaemon;
use bytes::Bytes;
use futures::{TryStreamExt, stream};
use prost::Message;

const PRETTY: DumpOptions = DumpOptions { attributes: true, indent: Some(2) };
const PLAIN: DumpOptions = DumpOptions { attributes: false, indent: None };
const NONE: u32 = u32::MAX;

async fn connected(fake: &FakeDaemon) -> Client {
    Client::connect(format!("http://{}", fake.listen().await)).await.expect("the fake listens")
}

/// Parses one source with a prepared response.
async fn answered(source: impl Into<Bytes>, response: proto::ParseResponse) -> Result<ParsedBatch, Error> {
    let fake = FakeDaemon::default();
    let source = source.into();
    fake.state().answers.insert(source.clone(), response);
    connected(&fake).await.parse([source], &ParseOptions::default()).await
}

fn numbers(column: impl IntoIterator<Item = usize>) -> Bytes {
    column.into_iter().flat_map(|number| u32::try_from(number).unwrap_or(NONE).to_le_bytes()).collect()
}

type Row = (NodeKind, NodeField, usize, usize, usize, usize);

/// A response for one source from rows; names and values are positions in the text.
fn response(
    rows: &[Row],
    names: &[(usize, usize)],
    values: &[(proto::ValueTag, usize, usize)],
) -> proto::ParseResponse {
    let small = |number: i32| u8::try_from(number).expect("kinds and fields are small");
    let result = proto::SourceResult {
        node_count: u32::try_from(rows.len()).expect("few rows"),
        name_count: u32::try_from(names.len()).expect("few names"),
        value_count: u32::try_from(values.len()).expect("few values"),
        ..Default::default()
    };
    proto::ParseResponse {
        results: vec![result],
        nodes: Some(proto::NodeColumns {
            kinds: rows.iter().map(|row| small(row.0.into())).collect(),
            fields: rows.iter().map(|row| small(row.1.into())).collect(),
            parents: numbers(rows.iter().map(|row| row.2)),
            starts: numbers(rows.iter().map(|row| row.3)),
            ends: numbers(rows.iter().map(|row| row.4)),
            aux: numbers(rows.iter().map(|row| row.5)),
        }),
        names: Some(proto::SpanColumns {
            starts: numbers(names.iter().map(|name| name.0)),
            ends: numbers(names.iter().map(|name| name.1)),
        }),
        values: Some(proto::ValueColumns {
            tags: values.iter().map(|value| small(value.0.into())).collect(),
            starts: numbers(values.iter().map(|value| value.1)),
            ends: numbers(values.iter().map(|value| value.2)),
        }),
        ..Default::default()
    }
}

/// The example of `ParseResponse`: `x += f(1)`.
fn example() -> proto::ParseResponse {
    let none = NONE as usize;
    let rows = [
        (NodeKind::Name, NodeField::Target, 4, 0, 1, 1),
        (NodeKind::Name, NodeField::Func, 3, 5, 6, 4),
        (NodeKind::Constant, NodeField::Args, 3, 7, 8, 0),
        (NodeKind::Call, NodeField::Value, 4, 5, 9, 0),
        (NodeKind::AugAssign, NodeField::Body, none, 0, 9, Operator::Add as usize),
    ];
    response(&rows, &[(0, 1), (5, 6)], &[(proto::ValueTag::Int, 7, 8)])
}

#[tokio::test]
async fn dumps_are_those_of_cpython() {
    for name in ["constructs", "lines"] {
        let read = |end: &str| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.{end}"));
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let answer = proto::ParseResponse::decode(read("response").as_slice()).expect("a response");
        let batch = answered(read("py"), answer).await.expect("it fits");
        let parsed = batch.get(0).expect("one source");
        let dumps = [PLAIN, PRETTY].map(|options| parsed.dump(&options).expect("it is valid"));
        let expected = String::from_utf8(read("dump")).expect("UTF-8");
        for (got, expected) in dumps.join("\n").lines().zip(expected.lines()) {
            assert_eq!(got, expected, "{name}");
        }
        assert_eq!(dumps.join("\n") + "\n", expected, "{name}");
    }
}

#[tokio::test]
async fn nodes_have_their_parents_places_names_and_values() {
    let batch = answered("x += f(1)", example()).await.expect("it fits");
    let parsed = batch.get(0).expect("one source");
    let tree = parsed.tree().expect("it is valid");
    let statement = tree.body().next().expect("one statement");
    assert_eq!((statement.class(), statement.operator(), statement.parent()), ("AugAssign", Some(Operator::Add), None));
    let target = statement.child(NodeField::Target).expect("a target");
    assert_eq!((target.name(), target.context()), (Some("x"), Some(Context::Store)));
    let call = statement.child(NodeField::Value).expect("a value");
    assert_eq!((call.text(), call.start()), (&b"f(1)"[..], Position { line: 1, column: 5 }));
    assert_eq!(call.children().map(Node::field).collect::<Vec<_>>(), [NodeField::Func, NodeField::Args]);
    let argument = call.child(NodeField::Args).expect("an argument");
    let Some(Literal::Int(one)) = argument.literal() else { panic!("{:?}", argument.literal()) };
    assert_eq!((one.to_u128(), argument.parent(), argument.row()), (Some(1), Some(call), 2));
    assert_eq!((call.name(), call.literal(), call.operator(), call.context()), (None, None, None, None));
    assert_eq!(tree.nodes().len(), 5);
    assert_eq!(format!("{call:?}"), "Call@5..9");
}

#[tokio::test]
async fn columns_of_wrong_length_are_rejected() {
    let lies: [fn(&mut proto::ParseResponse); 7] = [
        |answer| answer.results.clear(),
        |answer| answer.results[0].node_count += 1,
        |answer| answer.results[0].value_count = u32::MAX,
        |answer| answer.extra = Bytes::from_static(b"more"),
        |answer| answer.names = None,
        |answer| answer.line_starts = Bytes::from_static(&[0; 4]),
        |answer| answer.nodes.as_mut().expect("nodes").aux = Bytes::from_static(&[0; 19]),
    ];
    for lie in lies {
        let mut answer = example();
        lie(&mut answer);
        let error = answered("x += f(1)", answer).await.expect_err("it lies");
        assert!(matches!(error, Error::Malformed(_)), "{error}");
    }
}

#[tokio::test]
async fn invalid_references_are_harmless() {
    let far = 1_000_000;
    let rows = [
        (NodeKind::Name, NodeField::Value, far, far, far + 9, 4 * far),
        (NodeKind::Constant, NodeField::Value, 2, 9, 1, 7),
        (NodeKind::Expr, NodeField::Body, NONE as usize, 0, far, 0),
        // A cycle without a root.
        (NodeKind::Await, NodeField::Value, 4, 0, 1, 0),
        (NodeKind::Await, NodeField::Value, 3, 0, 1, 0),
        (NodeKind::ClassDef, NodeField::Body, NONE as usize, 0, 1, 0),
    ];
    let batch = answered("x", response(&rows, &[(7, 3)], &[])).await.expect("its shape is right");
    let tree = batch.get(0).and_then(|parsed| parsed.tree()).expect("it is valid");
    assert_eq!(tree.dump(&PLAIN), "Module(body=[Expr(value=Constant(value=?)), ClassDef(name='?')])");
    assert!(tree.nodes().all(|node| node.text().len() <= 1 && node.name().is_none()));
}

#[tokio::test]
async fn a_tree_may_be_deeper_than_the_stack() {
    let depth = 300_000;
    let rows: Vec<Row> = (0..depth)
        .map(|row| (NodeKind::Await, NodeField::Value, if row + 1 < depth { row + 1 } else { NONE as usize }, 0, 1, 0))
        .collect();
    let batch = answered("x", response(&rows, &[], &[])).await.expect("it fits");
    let dump = batch.get(0).and_then(|parsed| parsed.dump(&PLAIN)).expect("it is valid");
    assert!(dump.starts_with("Module(body=[Await(value=Await(") && dump.ends_with("))])"));
}

#[tokio::test]
async fn each_source_has_its_diagnostic_and_slices() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    let outputs =
        [ParseOutput::Outline, ParseOutput::Tokens, ParseOutput::Comments, ParseOutput::LineStarts, ParseOutput::Tree];
    let sources = ["import os  # one", "class A:\n    def f(self):\n        \"\"\"Doc.\"\"\"\n", "a b\n", ""];
    let batch = client.parse(sources, &ParseOptions::of(outputs)).await.expect("it answers");
    assert_eq!(
        (batch.len(), batch.iter().map(|parsed| parsed.is_valid()).collect::<Vec<_>>()),
        (4, vec![true, true, false, true])
    );

    let first = batch.get(0).expect("it is there");
    assert_eq!(first.comments().map(|comment| comment.text).collect::<Vec<_>>(), [b"# one"]);
    let tokens: Vec<_> = first.tokens().map(|token| (token.kind, token.text)).collect();
    assert_eq!(tokens[1], (TokenKind::Name, &b"os"[..]));

    let second = batch.get(1).expect("it is there");
    let names: Vec<_> = second.outline().iter().map(|item| item.qualified_name(second.outline())).collect();
    assert_eq!(names, ["A", "A.f"]);
    let method: &OutlineItem = &second.outline()[1];
    assert_eq!((method.lines.clone(), method.parent, method.is_function()), (2..=3, Some(0), true));
    assert_eq!(second.slice(method.docstring.clone().expect("it has one")), b"\"\"\"Doc.\"\"\"");
    assert_eq!(second.lines().position(13), Position { line: 2, column: 4 });

    let third = batch.get(2).expect("it is there");
    assert_eq!(third.diagnostic().map(ToString::to_string).as_deref(), Some("1:1: invalid syntax"));
    assert_eq!(third.diagnostic().map(Diagnostic::class_name), Some("SyntaxError"));
    assert!(third.tree().is_none());
    assert_eq!(batch.get(3).and_then(|empty| empty.dump(&PLAIN)).as_deref(), Some("Module()"));
    assert!(batch.get(4).is_none());
}

#[tokio::test]
async fn trees_are_present_only_if_requested() {
    let client = connected(&FakeDaemon::default()).await;
    let batch = client.parse(["pass"], &ParseOptions::of([ParseOutput::Outline])).await.expect("it answers");
    assert!(batch.iter().all(|parsed| parsed.is_valid() && parsed.tree().is_none()));
    let batch = client.parse(["pass\npass"], &ParseOptions::default()).await.expect("it answers");
    let parsed = batch.get(0).expect("one source");
    assert!(parsed.tree().is_some());
    assert_eq!((parsed.lines().len(), parsed.tokens().len()), (2, 0));
}

#[tokio::test]
async fn responses_in_any_order_find_their_sources() {
    let client = connected(&FakeDaemon::default()).await;
    let batches = vec![vec![Bytes::from("one = 1")], vec![], vec![Bytes::from("a"), Bytes::from("b = 2")]];
    let outcomes = client.parse_stream(stream::iter(batches), &ParseOptions::default()).await.expect("it opens");
    let outcomes: Vec<_> = outcomes.try_collect().await.expect("each batch is answered");
    assert_eq!(outcomes.iter().map(|outcome| outcome.sequence).collect::<Vec<_>>(), [1, 0, 2]);
    let first = outcomes[1].result.as_ref().expect("it was parsed");
    assert_eq!(first.get(0).map(|parsed| parsed.text()), Some(&b"one = 1"[..]));
    assert!(outcomes[0].result.is_err());
    let last = outcomes[2].result.as_ref().expect("it was parsed");
    assert_eq!(last.iter().map(|parsed| parsed.is_valid()).collect::<Vec<_>>(), [false, true]);
}
