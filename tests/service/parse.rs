//! Parsing Python sources to columns, from a caller's view.

use accelerd::config::ByteSize;
use accelerd_proto::v1::{
    self, NodeField as Field, NodeKind as Kind, ParseOutput, parse_stream_response::Result as Outcome,
};
use bytes::Bytes;
use tonic::Code;

use super::harness::{TestServer, assert_refused};

/// No parent, no name.
const NONE: u32 = u32::MAX;

#[tokio::test]
async fn a_statement_has_the_columns_of_the_protocol_example() {
    let server = TestServer::start().await;
    let answer = server.parse().parse(request(&["x += f(1)"])).await.expect("parses").into_inner();
    let nodes = answer.nodes.expect("the tree is there");
    assert_eq!(
        numbers(&nodes.kinds),
        [Kind::Name, Kind::Name, Kind::Constant, Kind::Call, Kind::AugAssign].map(number)
    );
    assert_eq!(
        numbers(&nodes.fields),
        [Field::Target, Field::Func, Field::Args, Field::Value, Field::Body].map(number)
    );
    assert_eq!(words(&nodes.parents), [4, 3, 3, 4, NONE]);
    assert_eq!(words(&nodes.starts), [0, 5, 7, 5, 0]);
    assert_eq!(words(&nodes.ends), [1, 6, 8, 9, 9]);
    assert_eq!(words(&nodes.aux), [1, 4, 0, 0, v1::Operator::Add as u32]);
    let names = answer.names.expect("with its names");
    assert_eq!((words(&names.starts), words(&names.ends)), (vec![0, 5], vec![1, 6]));
    let values = answer.values.expect("and its values");
    assert_eq!(numbers(&values.tags), [v1::ValueTag::Int as i32]);
    assert_eq!((words(&values.starts), words(&values.ends)), (vec![7], vec![8]));
    let [result] = answer.results.try_into().expect("one source, one result");
    assert_eq!((result.diagnostic, result.node_count, result.name_count, result.value_count), (None, 5, 2, 1));
}

#[tokio::test]
async fn a_syntax_error_does_not_affect_other_sources() {
    let server = TestServer::start().await;
    let answer = server.parse().parse(request(&["a = 1\n", "é = (1\n", "b\n"])).await.expect("parses").into_inner();
    let [first, bad, last] = answer.results.try_into().expect("three sources, three results");
    assert_eq!((first.diagnostic, first.node_count), (None, 3));
    assert_eq!((last.diagnostic, last.node_count), (None, 2));
    let error = bad.diagnostic.expect("it is not closed");
    assert_eq!(error.class(), v1::DiagnosticClass::SyntaxError);
    assert_eq!((error.message.as_str(), error.line, error.column), ("'(' was never closed", 1, 5));
    assert_eq!((error.start, bad.node_count), (5, 0));
}

#[tokio::test]
async fn only_requested_outputs_are_returned() {
    let server = TestServer::start().await;
    let source = "class A:  # one\n    @b\n    def c(self):\n        'text'\n\nimport os.path as p\n";
    let outputs = vec![ParseOutput::Outline.into(), ParseOutput::Comments.into(), ParseOutput::Tokens.into()];
    let request = v1::ParseRequest { outputs, ..request(&[source]) };
    let answer = server.parse().parse(request).await.expect("parses").into_inner();
    assert!(answer.nodes.expect("empty").kinds.is_empty());
    assert!(answer.line_starts.is_empty());
    let comments = answer.comments.expect("asked for");
    assert_eq!((words(&comments.starts), words(&comments.ends)), (vec![10], vec![15]));
    let [result] = answer.results.try_into().expect("one source, one result");
    assert_eq!(answer.tokens.expect("asked for").kinds.len(), result.token_count as usize);
    assert_eq!(result.token_count, 18);
    let told: Vec<_> =
        result.outline.iter().map(|item| (item.name.as_str(), item.line, item.end_line, item.parent)).collect();
    assert_eq!(told, [("A", 1, 4, None), ("c", 2, 4, Some(0)), ("os.path as p", 6, 6, None)]);
    let docstring = &result.outline[1];
    assert_eq!(&source[docstring.docstring_start as usize..docstring.docstring_end as usize], "'text'");
}

#[tokio::test]
async fn the_feature_version_gates_the_grammar() {
    let server = TestServer::start().await;
    let parse = |feature_version| v1::ParseRequest { feature_version, ..request(&["match x:\n    case 1: pass\n"]) };
    for (version, is_python) in [(0, true), (14, true), (10, true), (9, false), (8, false)] {
        let answer = server.parse().parse(parse(version)).await.expect("parses").into_inner();
        assert_eq!(answer.results[0].diagnostic.is_none(), is_python, "3.{version}");
    }
    for version in [7, 15, u32::MAX] {
        assert_refused(server.parse().parse(parse(version)).await, Code::InvalidArgument, "feature_version");
    }
}

#[tokio::test]
async fn sources_in_other_encodings_come_back_as_utf_8() {
    let server = TestServer::start().await;
    let latin = b"# -*- coding: latin-1 -*-\nx = '\xe9'\n".to_vec();
    let sources = vec![Bytes::from(latin), Bytes::from_static(b"x = 1"), Bytes::from_static(b"x = '\xff'")];
    let request = v1::ParseRequest { sources, ..v1::ParseRequest::default() };
    let [latin, plain, broken] =
        server.parse().parse(request).await.expect("parses").into_inner().results.try_into().expect("three results");
    assert_eq!(latin.text.as_deref(), Some("# -*- coding: latin-1 -*-\nx = 'é'\n".as_bytes()));
    assert_eq!(latin.diagnostic, None);
    assert_eq!((plain.text, plain.diagnostic), (None, None));
    assert!(broken.diagnostic.expect("it is no UTF-8").message.starts_with("Non-UTF-8 code"));
}

#[tokio::test]
async fn decoded_text_ignores_encoding_declarations_and_refuses_a_byte_order_mark() {
    let server = TestServer::start().await;
    let cookie = "# coding: latin-1\nx = 'é'\n";
    let mark = "\u{feff}x\n";
    let surrogate = Bytes::from_static(b"x = '\xed\xa0\x80'\n");
    let types = |types: &[v1::SourceType]| types.iter().map(|&one| one.into()).collect();
    let sources = |types| v1::ParseRequest { source_types: types, ..request(&[cookie, mark]) };
    let parsed = |request| async { server.parse().parse(request).await.expect("parses").into_inner().results };

    let text = parsed(sources(types(&[v1::SourceType::Text]))).await;
    assert_eq!((&text[0].text, &text[0].diagnostic), (&None, &None));
    let refused = text[1].diagnostic.clone().expect("text has no byte order mark");
    assert_eq!(refused.message, "invalid non-printable character U+FEFF");
    assert_eq!((refused.line, refused.column, refused.end_lineno, refused.end_offset), (1, 1, Some(1), Some(1)));

    let files = parsed(sources(vec![])).await;
    assert_eq!(files[0].text.as_deref(), Some("# coding: latin-1\nx = 'Ã©'\n".as_bytes()));
    assert_eq!(files[1].diagnostic, None);

    let mixed = parsed(sources(types(&[v1::SourceType::Text, v1::SourceType::File]))).await;
    assert_eq!((&mixed[0].text, &mixed[1].diagnostic), (&None, &None));

    let lone = v1::ParseRequest { sources: vec![surrogate], ..sources(types(&[v1::SourceType::Text])) };
    let refused = parsed(lone).await[0].diagnostic.clone().expect("a lone surrogate");
    assert_eq!(refused.class(), v1::DiagnosticClass::UnicodeEncodeError);
    assert_eq!(refused.message, "'utf-8' codec can't encode character '\\ud800' in position 5: surrogates not allowed");
    assert_eq!((refused.line, refused.lineno), (0, None));
}

#[tokio::test]
async fn a_diagnostic_has_the_positions_of_the_exception() {
    let server = TestServer::start().await;
    let unclosed = request(&["é = (1\n", "# coding: foo\n", "x = (1\n 2)\n", "\0"]);
    let answer = server.parse().parse(unclosed).await.expect("parses").into_inner();
    let told: Vec<_> = answer.results.into_iter().map(|result| result.diagnostic.expect("an error")).collect();
    let numbers =
        |index: usize| (told[index].lineno, told[index].offset, told[index].end_lineno, told[index].end_offset);
    assert_eq!(numbers(0), (Some(1), Some(5), Some(1), Some(0)));
    assert_eq!(numbers(1), (Some(0), Some(-1), None, None));
    assert_eq!((told[1].line, told[1].column, told[1].message.as_str()), (0, 0, "unknown encoding: foo"));
    assert_eq!(numbers(2), (Some(1), Some(6), Some(2), Some(3)));
    assert_eq!(numbers(3), (None, None, None, None));
}

#[tokio::test]
async fn the_mode_selects_the_start_symbol() {
    let server = TestServer::start().await;
    let parse = |mode: v1::ParseMode, source| v1::ParseRequest { mode: mode.into(), ..request(&[source]) };
    let server = &server;
    let parse = &parse;
    let one =
        |mode, source| async move { server.parse().parse(parse(mode, source)).await.expect("parses").into_inner() };
    let eval = one(v1::ParseMode::Eval, "f(1)\n").await;
    let nodes = eval.nodes.expect("the tree is there");
    assert_eq!(numbers(&nodes.kinds), [Kind::Name, Kind::Constant, Kind::Call].map(number));
    assert_eq!((words(&nodes.parents), numbers(&nodes.fields)[2]), (vec![2, 2, NONE], number(Field::Body)));
    let refused = |answer: v1::ParseResponse| answer.results[0].diagnostic.clone().map(|error| error.message);
    assert_eq!(refused(one(v1::ParseMode::Eval, "x = 1").await).as_deref(), Some("invalid syntax"));
    assert_eq!(refused(one(v1::ParseMode::Single, "x = 1\n").await), None);
    let several = refused(one(v1::ParseMode::Single, "x\ny\n").await);
    assert_eq!(several.as_deref(), Some("multiple statements found while compiling a single statement"));
    assert_eq!(refused(one(v1::ParseMode::Exec, "x\ny\n").await), None);
}

#[tokio::test]
async fn invalid_requests_are_refused_by_field() {
    let server = TestServer::start_with(|config| {
        config.limits.max_sources = 2;
        config.limits.max_source_bytes = ByteSize::b(100);
    })
    .await;
    assert_refused(server.parse().parse(request(&[])).await, Code::InvalidArgument, "sources");
    assert_refused(server.parse().parse(request(&["a", "b", "c"])).await, Code::InvalidArgument, "sources");
    let long = "a".repeat(101);
    assert_refused(server.parse().parse(request(&["a", &long])).await, Code::InvalidArgument, "sources[1]");
    let types = v1::ParseRequest { source_types: vec![1, 1], ..request(&["a"]) };
    assert_refused(server.parse().parse(types).await, Code::InvalidArgument, "source_types");
    let types = v1::ParseRequest { source_types: vec![1, 9], ..request(&["a", "b"]) };
    assert_refused(server.parse().parse(types).await, Code::InvalidArgument, "source_types[1]");
    let mode = v1::ParseRequest { mode: 9, ..request(&["a"]) };
    assert_refused(server.parse().parse(mode).await, Code::InvalidArgument, "mode");
    for output in [0, 99] {
        let request = v1::ParseRequest { outputs: vec![output], ..request(&["a"]) };
        assert_refused(server.parse().parse(request).await, Code::InvalidArgument, "outputs[0]");
    }
    server.assert_serving().await;
}

#[tokio::test]
async fn a_response_above_the_message_limit_names_the_remedy() {
    let server = TestServer::start_with(|config| config.server.max_message_bytes = ByteSize::kib(64)).await;
    let source = "x=1\n".repeat(10_000);
    assert_refused(server.parse().parse(request(&[&source])).await, Code::ResourceExhausted, "fewer outputs");
    let outputs = vec![ParseOutput::Outline.into()];
    let outline = v1::ParseRequest { outputs, ..request(&[&source]) };
    server.parse().parse(outline).await.expect("an outline is small");
}

#[tokio::test]
async fn a_stream_answers_each_batch_with_its_sequence_or_error() {
    let server = TestServer::start().await;
    let step = |sequence, sources: &[&str]| v1::ParseStreamRequest { sequence, parse: Some(request(sources)) };
    let steps = vec![
        step(7, &["a = 1"]),
        step(8, &[]),
        v1::ParseStreamRequest { sequence: 9, parse: None },
        step(10, &["b", "c +"]),
    ];
    let stream = server.parse().parse_stream(tokio_stream::iter(steps)).await.expect("streams").into_inner();
    let mut answers: Vec<_> = futures::TryStreamExt::try_collect(stream).await.expect("no failure ends it");
    answers.sort_by_key(|answer: &v1::ParseStreamResponse| answer.sequence);
    let told = answers.into_iter().map(|answer| match answer.result.expect("an outcome") {
        Outcome::Parse(parsed) => (answer.sequence, parsed.results.len(), String::new()),
        Outcome::Error(error) => (answer.sequence, 0, error.message),
    });
    let [one, none, nothing, two] = told.collect::<Vec<_>>().try_into().expect("four answers");
    assert_eq!((one, two), ((7, 1, String::new()), (10, 2, String::new())));
    assert!(none.0 == 8 && none.2.starts_with("sources: "), "{none:?}");
    assert!(nothing.0 == 9 && nothing.2.starts_with("parse: "), "{nothing:?}");
}

#[tokio::test]
async fn hostile_sources_neither_stall_nor_stop_the_daemon() {
    let server = TestServer::start().await;
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    let indented = |depth: usize| {
        (0..depth).fold(String::new(), |text, index| text + &" ".repeat(index) + "if x:\n") + &" ".repeat(depth) + "x"
    };
    let sources = [
        (nested(200), true),
        (nested(201), false),
        (indented(99), true),
        (indented(100), false),
        (format!("[{}]", "1,".repeat(100_000)), true),
        (format!("({}", "x = 1\n".repeat(50_000)), false),
        (format!("x = {}1", "-".repeat(5_000)), true),
        ("\0".to_owned(), false),
        ("'".repeat(100_000), false),
        ("\\\n".repeat(10_000), false),
        ("lambda:".repeat(20_000), false),
    ];
    let texts: Vec<&str> = sources.iter().map(|(text, _)| text.as_str()).collect();
    let answer = server.parse().parse(request(&texts)).await.expect("parses").into_inner();
    for ((text, is_python), result) in sources.iter().zip(&answer.results) {
        assert_eq!(result.diagnostic.is_none(), *is_python, "{:.40}: {:?}", text, result.diagnostic);
    }
    server.assert_serving().await;
}

fn request(sources: &[&str]) -> v1::ParseRequest {
    let sources = sources.iter().map(|source| Bytes::copy_from_slice(source.as_bytes())).collect();
    v1::ParseRequest { sources, ..v1::ParseRequest::default() }
}

fn number<T: Into<i32>>(of: T) -> i32 {
    of.into()
}

fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.iter().map(|&byte| i32::from(byte)).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytemuck::pod_collect_to_vec(bytes)
}
