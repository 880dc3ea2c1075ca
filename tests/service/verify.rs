//! Comparisons of outputs, from a caller's view: verdicts, policies, resident tensors, chunks, and malformed requests.

use accelerd_client::{Client, CompareOptions, Matrix, Policy, UploadOptions};
use accelerd_proto::v1::{
    self, OutputVerdict, tensor_input::Source, tolerance::Rule, verify_header::Reference, verify_header::Subject,
    verify_request::Part as Sent, verify_response::Part,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::harness::{TestServer, assert_refused, tensor};

fn input(name: &str, value: v1::Tensor) -> v1::TensorInput {
    v1::TensorInput { name: name.to_owned(), source: Some(Source::Value(value)) }
}

fn floats(name: &str, shape: &[i64], numbers: &[f32]) -> v1::TensorInput {
    input(name, tensor(shape, numbers))
}

fn close(atol: f64, rtol: f64) -> v1::ComparisonPolicy {
    policy(vec![Rule::Close(v1::CloseTolerance { atol: Some(atol), rtol: Some(rtol) })])
}

fn policy(rules: Vec<Rule>) -> v1::ComparisonPolicy {
    let tolerances = rules.into_iter().map(|rule| v1::Tolerance { rule: Some(rule) }).collect();
    v1::ComparisonPolicy { tolerances, ..Default::default() }
}

fn request(actual: Vec<v1::TensorInput>, expected: Vec<v1::TensorInput>) -> v1::CompareOutputsRequest {
    v1::CompareOutputsRequest { actual, expected, ..Default::default() }
}

async fn compare(server: &TestServer, request: v1::CompareOutputsRequest) -> v1::CompareOutputsResponse {
    server.verify().compare_outputs(request).await.expect("it is valid").into_inner()
}

#[tokio::test]
async fn outputs_are_matched_by_name_and_judged_by_their_policies() {
    let server = TestServer::start().await;
    let numbers = [1.0, f32::NAN, 3.0, 4.0, 0.0, 6.0];
    let actual = vec![
        floats("same", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        floats("other", &[2, 3], &numbers),
        floats("scalar", &[], &[1.0]),
        floats("empty", &[0, 5], &[]),
    ];
    let expected = vec![
        floats("empty", &[0, 5], &[]),
        floats("scalar", &[], &[1.5]),
        floats("other", &[2, 3], &[1.0, f32::NAN, 3.5, 4.0, -0.0, 6.0]),
        floats("same", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ];
    let wide = close(0.5, 0.0);
    let nan = v1::ComparisonPolicy { nan: v1::NanPolicy::Equal.into(), ..close(0.0, 0.1) };
    let request = v1::CompareOutputsRequest {
        output_policies: [("scalar".to_owned(), wide), ("other".to_owned(), nan)].into(),
        row_verdicts: true,
        ..request(actual, expected)
    };
    let compared = compare(&server, request).await;
    let verdicts: Vec<_> = compared.outputs.iter().map(|output| (output.name.as_str(), output.verdict())).collect();
    let passed = OutputVerdict::Passed;
    assert_eq!(verdicts, [("same", passed), ("other", OutputVerdict::Mismatch), ("scalar", passed), ("empty", passed)]);
    assert!(!compared.passed);
    let found = compared.outputs[1].differences.as_ref().expect("compared");
    let counts = found.counts.expect("counts");
    assert_eq!((found.element_count, found.failed_count, &found.failed_rows[..]), (6, 1, &[0b01][..]));
    assert_eq!((counts.equal_count, counts.nan_equal_count, counts.zero_sign_count), (3, 1, 1));
    assert_eq!(found.max_absolute, Some(v1::LargestError { value: 0.5, index: 2 }));
    let sufficient = found.sufficient.expect("tolerances");
    assert_eq!(sufficient.atol.to_bits(), (0.5_f64 - 0.1 * 3.5).to_bits());
    let [mismatch] = &found.mismatches[..] else { panic!("one mismatch") };
    assert_eq!((mismatch.index, mismatch.actual, mismatch.expected), (2, 3.0, 3.5));
    assert_eq!(mismatch.actual_bits, u64::from(3.0_f32.to_bits()));
    assert_eq!(compared.outputs[0].differences.as_ref().expect("compared").ulp_histogram, [6]);
}

#[tokio::test]
async fn elements_in_any_order_are_compared_by_rank() {
    let server = TestServer::start().await;
    let any = |policy| v1::ComparisonPolicy { order: v1::ElementOrder::Any.into(), ..policy };
    let compared = async |actual: &[f32], expected: &[f32], policy: v1::ComparisonPolicy| {
        let shape = |numbers: &[f32]| [i64::try_from(numbers.len()).expect("a few")];
        let lists = request(vec![floats("y", &shape(actual), actual)], vec![floats("y", &shape(expected), expected)]);
        compare(&server, v1::CompareOutputsRequest { policy: Some(policy), row_verdicts: true, ..lists }).await
    };
    let nan = v1::ComparisonPolicy { nan: v1::NanPolicy::Equal.into(), ..close(0.0, 0.0) };
    let shuffled = ([3.0, f32::NAN, -1.0, 1.0], [f32::NAN, 1.0, 3.0, -1.0]);
    assert!(compared(&shuffled.0, &shuffled.1, any(nan.clone())).await.passed);
    assert!(!compared(&shuffled.0, &shuffled.1, nan).await.passed, "the order matters by default");
    // The first could be paired with its equal, but then the others would not pass.
    assert!(compared(&[1.0, 0.0], &[1.0, 2.0], any(close(1.0, 0.0))).await.passed);

    let failing = compared(&[4.0, 1.0, 2.0, 3.0], &[2.0, 3.0, 4.0, 5.0], any(close(0.5, 0.0))).await;
    let found = failing.outputs[0].differences.as_ref().expect("compared");
    assert_eq!((found.failed_count, found.counts.expect("counts").equal_count), (1, 3));
    let [mismatch] = &found.mismatches[..] else { panic!("{found:?}") };
    assert_eq!((mismatch.index, mismatch.actual, mismatch.expected), (3, 1.0, 5.0));
    assert!(found.failed_rows.is_empty(), "ranks are of no row");
    let fewer = compared(&[1.0], &[1.0, 1.0], any(close(0.0, 0.0))).await;
    assert_eq!(fewer.outputs[0].verdict(), OutputVerdict::ShapeMismatch);
    let unknown = v1::CompareOutputsRequest {
        policy: Some(v1::ComparisonPolicy { order: 9, ..Default::default() }),
        ..request(vec![floats("y", &[1], &[1.0])], vec![floats("y", &[1], &[1.0])])
    };
    assert_refused(server.verify().compare_outputs(unknown).await, Code::InvalidArgument, "policy.order");
}

#[tokio::test]
async fn the_elements_of_each_case_are_in_any_order() {
    let server = TestServer::start().await;
    let policy = v1::ComparisonPolicy { order: v1::ElementOrder::Any.into(), ..close(0.0, 0.0) };
    let of_cases = |actual: &[f32], expected: &[f32]| {
        cases(vec![floats("y", &[2, 3], actual)], vec![floats("y", &[2, 3], expected)])
    };
    let sent = vec![
        header(policy),
        of_cases(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3.0, 1.0, 2.0, 6.0, 6.0, 4.0]),
        of_cases(&[1.0, 1.0, 2.0, 7.0, 8.0, 9.0], &[2.0, 1.0, 1.0, 9.0, 8.0, 7.0]),
    ];
    let answers = verify(&server, sent).await.expect("valid");
    let [Part::Cases(first), Part::Cases(second), Part::Summary(summary)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((&first.failed_cases[..], &second.failed_cases[..]), (&[0b10][..], &[0][..]));
    let found = summary.outputs[0].differences.as_ref().expect("compared");
    let [mismatch] = &found.mismatches[..] else { panic!("{found:?}") };
    assert_eq!((mismatch.index, mismatch.actual, mismatch.expected), (5, 5.0, 6.0), "the rank within its case");
}

#[tokio::test]
async fn types_and_shapes_that_differ_are_verdicts() {
    let server = TestServer::start().await;
    let whole = v1::Tensor { dtype: v1::Dtype::I32.into(), ..tensor(&[2], &[1.0, 2.0]) };
    let actual = vec![floats("shape", &[2], &[1.0, 2.0]), input("dtype", whole)];
    let expected = vec![floats("shape", &[2, 1], &[1.0, 2.0]), floats("dtype", &[2], &[1.0, 2.0])];
    let compared = compare(&server, request(actual.clone(), expected.clone())).await;
    let verdicts: Vec<_> = compared.outputs.iter().map(v1::OutputComparison::verdict).collect();
    assert_eq!(verdicts, [OutputVerdict::ShapeMismatch, OutputVerdict::DtypeMismatch]);
    assert!(!compared.passed && compared.outputs.iter().all(|output| output.differences.is_none()));
    let shape = v1::ShapePolicy::SameElementCount.into();
    let lenient = Some(v1::ComparisonPolicy { shape, ..Default::default() });
    let compared = compare(&server, v1::CompareOutputsRequest { policy: lenient, ..request(actual, expected) }).await;
    assert_eq!(compared.outputs[0].verdict(), OutputVerdict::Passed);
}

#[tokio::test]
async fn defaults_are_those_of_torch_testing() {
    let server = TestServer::start().await;
    let expected = [1.0_f32, 1000.0];
    let near = expected.map(|x| x + 1e-5 + 1.2e-6 * x);
    let far = expected.map(|x| x + 2e-5 + 1.4e-6 * x);
    let run = async |actual: &[f32]| {
        compare(&server, request(vec![floats("y", &[2], actual)], vec![floats("y", &[2], &expected)])).await
    };
    assert!(run(&near).await.passed && !run(&far).await.passed);
    let applied = v1::CloseTolerance { atol: Some(1e-5), rtol: Some(1.3e-6) };
    assert_eq!(run(&near).await.outputs[0].tolerances[0].rule, Some(Rule::Close(applied)));
}

#[tokio::test]
async fn zeros_do_not_pass_for_numbers_that_are_smaller_than_the_default_tolerance() {
    let server = TestServer::start().await;
    let expected = [1e-7, 2e-7, 0.0, -8e-7, 0.5];
    let judged = async |actual: &[f32], policy: Option<v1::ComparisonPolicy>| {
        let of = |numbers: &[f32]| vec![floats("y", &[5], numbers)];
        let request = v1::CompareOutputsRequest { policy, ..request(of(actual), of(&expected)) };
        compare(&server, request).await.outputs.remove(0)
    };
    let zeros = judged(&[0.0, 0.0, 0.0, 0.0, 0.5], None).await;
    assert_eq!(zeros.verdict(), OutputVerdict::Passed, "the errors are small next to the largest number");
    assert_eq!(zeros.small_output, None);
    let wrong = judged(&[9e-6, 0.0, 0.0, 0.0, 0.5], None).await;
    assert_eq!(wrong.verdict(), OutputVerdict::Mismatch, "{wrong:?}");
    assert_eq!(wrong.differences.as_ref().map(|differences| differences.failed_count), Some(1));
    let small = wrong.small_output.expect("most numbers are small");
    assert_eq!((small.output.as_str(), small.atol, small.max_norm), ("y", 1e-5, 0.5));
    assert_eq!(wrong.tolerances.len(), 2, "{:?}", wrong.tolerances);
    let given = judged(&[9e-6, 0.0, 0.0, 0.0, 0.5], Some(close(1e-5, 0.0))).await;
    assert_eq!(given.verdict(), OutputVerdict::Passed);
    assert_eq!(given.small_output.map(|small| small.max_norm_rtol), Some(None));
}

#[tokio::test]
async fn zeros_do_not_pass_for_cases_that_are_all_smaller_than_the_default_tolerance() {
    let server = TestServer::start().await;
    let chunk = |y: &[f32], expected: &[f32]| cases(vec![floats("y", &[3], y)], vec![floats("y", &[3], expected)]);
    let judged = async |policy: v1::ComparisonPolicy, actual: &[f32]| {
        let sent = vec![header(policy), chunk(actual, &[1e-7, 2e-7, 3e-7]), chunk(actual, &[1e-7, 2e-7, 3e-7])];
        let answers = verify(&server, sent).await.expect("valid");
        let Some(Part::Summary(summary)) = answers.last().cloned() else { panic!("{answers:?}") };
        summary
    };
    let zeros = judged(v1::ComparisonPolicy::default(), &[0.0; 3]).await;
    assert!(!zeros.passed && zeros.failed_count == 0, "{zeros:?}");
    assert_eq!(zeros.outputs[0].verdict(), OutputVerdict::Mismatch);
    assert!(zeros.outputs[0].small_output.as_ref().is_some_and(|small| small.max_norm_rtol.is_some()));
    assert!(judged(v1::ComparisonPolicy::default(), &[1e-7, 2e-7, 3e-7]).await.passed);
    let given = judged(close(1e-5, 0.0), &[0.0; 3]).await;
    assert!(given.passed && given.outputs[0].small_output.is_some(), "{given:?}");
}

#[tokio::test]
async fn the_rust_client_compares_large_and_resident_tensors() {
    let server = TestServer::start().await;
    let client = Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("the daemon listens");
    let numbers: Vec<f32> = (0..(1_u16 << 10)).map(f32::from).collect();
    let expected = Matrix::new(numbers.repeat(1 << 10), 1 << 10).expect("a matrix");
    let mut changed = numbers.repeat(1 << 10);
    changed[1_000_000] += 1.0;
    let actual = Matrix::new(changed, 1 << 10).expect("a matrix");
    let kept = client.upload(expected.clone(), &UploadOptions::default()).await.expect("it fits");
    let options = CompareOptions::default().policy(Policy::default().exact()).row_verdicts().max_mismatches(3);
    let sent = client.compare([("y", actual.clone())], [("y", expected)], &options).await.expect("valid");
    let resident = client.compare([("y", actual)], [("y", &kept)], &options).await.expect("valid");
    assert_eq!(sent.outputs, resident.outputs);
    let found = sent.outputs[0].differences.as_ref().expect("compared");
    assert_eq!((found.element_count, found.failed_count, found.mismatches[0].index), (1 << 20, 1, 1_000_000));
    let failed: Vec<_> = (0..1024_usize).filter(|row| found.failed_rows[row / 8] >> (row % 8) & 1 == 1).collect();
    assert_eq!(failed, [1_000_000 >> 10]);
    let same = client.compare([("y", &kept)], [("y", &kept)], &options).await.expect("valid");
    assert!(same.passed);
}

#[tokio::test]
async fn malformed_requests_are_refused_by_their_field() {
    let server = TestServer::start_with(|config| {
        config.limits.max_compared_outputs = 2;
        config.limits.max_mismatches = 5;
    })
    .await;
    let y = |name: &str| floats(name, &[1], &[1.0]);
    let good = request(vec![y("y")], vec![y("y")]);
    let with = |policy| v1::CompareOutputsRequest { policy: Some(policy), ..good.clone() };
    let short = v1::Tensor { shape: vec![2], ..tensor(&[1], &[1.0]) };
    let exact = || Rule::Exact(v1::ExactTolerance {});
    let cases = [
        (request(vec![], vec![]), "actual"),
        (request(vec![y("y")], vec![]), "expected"),
        (request(vec![y("a"), y("b"), y("c")], vec![y("a")]), "actual"),
        (request(vec![y("a")], vec![y("b")]), "expected[0].name"),
        (request(vec![y("a"), y("b")], vec![y("b")]), "actual[0].name"),
        (request(vec![y("a"), y("a")], vec![y("a")]), "actual[1].name"),
        (request(vec![y("y")], vec![input("y", short)]), "expected[0].value.data"),
        (request(vec![v1::TensorInput { source: None, ..y("y") }], vec![y("y")]), "actual[0].value"),
        (with(close(-1.0, 0.0)), "policy.tolerances[0].close.atol"),
        (with(close(0.0, f64::NAN)), "policy.tolerances[0].close.rtol"),
        (with(policy(vec![Rule::MaxNorm(v1::MaxNormTolerance { rtol: f64::INFINITY })])), "max_norm.rtol"),
        (with(policy(vec![exact(), exact()])), "policy.tolerances[1]"),
        (with(v1::ComparisonPolicy { nan: 9, ..Default::default() }), "policy.nan"),
        (with(v1::ComparisonPolicy { tolerances: vec![v1::Tolerance { rule: None }], ..Default::default() }), "[0]"),
        (
            v1::CompareOutputsRequest { output_policies: [("z".to_owned(), close(0.0, 0.0))].into(), ..good.clone() },
            "output_policies[z]",
        ),
        (v1::CompareOutputsRequest { max_mismatches: Some(6), ..good.clone() }, "max_mismatches"),
    ];
    for (request, field) in cases {
        assert_refused(server.verify().compare_outputs(request).await, Code::InvalidArgument, field);
    }
    let unknown = v1::TensorInput { source: Some(Source::Handle("0".repeat(32))), ..y("y") };
    let refused = server.verify().compare_outputs(request(vec![unknown], vec![y("y")])).await;
    assert_eq!(refused.expect_err("no such tensor").code(), Code::NotFound);
    let rows = v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![1 << 50, 0], ..Default::default() };
    let empty = request(vec![input("y", rows.clone())], vec![input("y", rows)]);
    let verdicts = v1::CompareOutputsRequest { row_verdicts: true, ..empty };
    assert_refused(server.verify().compare_outputs(verdicts).await, Code::ResourceExhausted, "the response needs");
    server.assert_serving().await;
}

fn header(policy: v1::ComparisonPolicy) -> v1::VerifyRequest {
    let header = v1::VerifyHeader {
        subject: Some(Subject::GivenOutputs(v1::GivenOutputs {})),
        reference: Some(Reference::ExpectedOutputs(v1::GivenOutputs {})),
        policy: Some(policy),
        case_verdicts: true,
        ..Default::default()
    };
    v1::VerifyRequest { part: Some(Sent::Header(header)) }
}

fn cases(actual: Vec<v1::TensorInput>, expected: Vec<v1::TensorInput>) -> v1::VerifyRequest {
    v1::VerifyRequest { part: Some(Sent::Cases(v1::VerifyCases { actual, expected, ..Default::default() })) }
}

async fn verify(server: &TestServer, sent: Vec<v1::VerifyRequest>) -> Result<Vec<Part>, Status> {
    let mut answers = server.verify().verify(tokio_stream::iter(sent)).await?.into_inner();
    let mut parts = vec![];
    while let Some(answer) = answers.message().await? {
        parts.push(answer.part.expect("a part"));
    }
    Ok(parts)
}

#[tokio::test]
async fn chunks_have_verdicts_and_a_summary() {
    let server = TestServer::start().await;
    let chunk = |y: &[f32], z: &[f32]| {
        let count = i64::try_from(z.len()).expect("a few");
        let expected = vec![floats("z", &[count], &vec![1.0; z.len()]), floats("y", &[count, 2], &vec![2.0; y.len()])];
        cases(vec![floats("y", &[count, 2], y), floats("z", &[count], z)], expected)
    };
    let sent = vec![
        header(close(0.1, 0.0)),
        chunk(&[2.0, 2.05, 2.0, 2.5, 2.0, 2.0], &[1.0, 1.0, 3.0]),
        chunk(&[], &[]),
        chunk(&[7.0, 2.0], &[1.0]),
    ];
    let answers = verify(&server, sent).await.expect("valid");
    let [Part::Cases(first), Part::Cases(none), Part::Cases(last), Part::Summary(summary)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!((first.first_case, first.case_count, &first.failed_cases[..]), (0, 3, &[0b110][..]));
    assert_eq!((none.first_case, none.case_count, none.failed_count), (3, 0, 0));
    assert_eq!((last.first_case, last.failed_count, &last.failed_cases[..]), (3, 1, &[1][..]));
    assert_eq!((summary.passed, summary.case_count, summary.failed_count), (false, 4, 3));
    let y = &summary.outputs[0];
    let found = y.differences.as_ref().expect("compared");
    assert_eq!((y.name.as_str(), &y.actual_shape[..], found.element_count), ("y", &[4, 2][..], 8));
    assert_eq!(found.max_absolute, Some(v1::LargestError { value: 5.0, index: 6 }));
    assert_eq!(found.mismatches.iter().map(|mismatch| mismatch.index).collect::<Vec<_>>(), [3, 6]);
    let only_header = verify(&server, vec![header(close(0.0, 0.0))]).await.expect("no case is valid");
    assert_eq!(only_header, [Part::Summary(v1::VerifySummary { passed: true, ..Default::default() })]);
}

#[tokio::test]
async fn a_stream_that_breaks_the_order_or_its_first_chunk_is_refused() {
    let server = TestServer::start().await;
    let chunk =
        |shape: &[i64], numbers: &[f32]| cases(vec![floats("y", shape, numbers)], vec![floats("y", shape, numbers)]);
    let good = || chunk(&[1, 2], &[1.0, 2.0]);
    let other = cases(vec![floats("x", &[1, 2], &[1.0; 2])], vec![floats("x", &[1, 2], &[1.0; 2])]);
    let uneven = cases(vec![floats("y", &[2], &[1.0; 2])], vec![floats("y", &[1], &[1.0])]);
    let relative = policy(vec![Rule::MaxNorm(v1::MaxNormTolerance { rtol: 0.1 })]);
    let start = || header(close(0.0, 0.0));
    let nothing = v1::VerifyRequest { part: Some(Sent::Header(v1::VerifyHeader::default())) };
    for (sent, field) in [
        (vec![], "header"),
        (vec![good()], "header"),
        (vec![start(), start()], "header"),
        (vec![nothing], "header.given_outputs"),
        (vec![header(relative)], "policy.tolerances"),
        (vec![start(), v1::VerifyRequest { part: None }], "cases"),
        (vec![start(), chunk(&[], &[1.0])], "cases.actual"),
        (vec![start(), uneven], "cases.expected"),
        (vec![start(), good(), other], "cases.actual[0].name"),
        (vec![start(), good(), chunk(&[1, 1], &[1.0])], "cases.actual[0]"),
    ] {
        assert_refused(verify(&server, sent).await, Code::InvalidArgument, field);
    }
}

#[tokio::test]
async fn a_stream_that_pauses_gets_its_verdicts_meanwhile_and_may_be_dropped() {
    let server = TestServer::start().await;
    let (sender, sent) = tokio::sync::mpsc::channel(1);
    sender.send(header(close(0.0, 0.0))).await.expect("the call has begun");
    let mut answers = server.verify().verify(ReceiverStream::new(sent)).await.expect("it begins").into_inner();
    for round in 0..3 {
        let y = || vec![floats("y", &[1], &[1.0])];
        sender.send(cases(y(), y())).await.expect("the call goes on");
        let answer = answers.message().await.expect("a verdict").expect("before the next chunk");
        let Some(Part::Cases(verdicts)) = answer.part else { panic!("{answer:?}") };
        assert_eq!((verdicts.first_case, verdicts.failed_count), (round, 0));
    }
    drop(answers);
    server.assert_serving().await;
}
