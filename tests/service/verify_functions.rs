//! Verification of functions: in Python and of WebAssembly modules, with cases that are sent or generated.

use std::collections::BTreeMap;

use accelerd::config::Config;
use accelerd_proto::v1::{
    self, input_domain,
    verify_header::{Reference, Subject},
    verify_request::Part as Sent,
    verify_response::Part,
};
use tonic::{Code, Status};

use crate::harness::{TestServer, assert_refused, connect};

/// `f(x, n) = 2 x + n`, and more functions for the tests.
const MODULE: &str = r#"(module
    (memory (export "memory") 1)
    (global $count (mut i64) (i64.const 0))
    (func (export "line") (param f64 i64) (result f64)
        (f64.add (f64.mul (local.get 0) (f64.const 2)) (f64.convert_i64_s (local.get 1))))
    (func (export "at_least") (param f64) (result i64)
        (i64.extend_i32_u (f64.ge (local.get 0) (f64.const 1000))))
    (func (export "add") (param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1)))
    (func (export "narrow_add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
    (func (export "quotient") (param i64 i64) (result i64) (i64.div_s (local.get 0) (local.get 1)))
    (func (export "spin") (param f64) (result f64) (loop $again (br $again)) (unreachable))
    (func (export "count") (param f64) (result f64)
        (global.set $count (i64.add (global.get $count) (i64.const 1)))
        (f64.convert_i64_s (global.get $count)))
    (func (export "total") (param $from i32) (param $length i32) (result f64)
        (local $sum f64)
        (block $done (loop $next
            (br_if $done (i32.eqz (local.get $length)))
            (local.set $sum (f64.add (local.get $sum) (f64.load (local.get $from))))
            (local.set $from (i32.add (local.get $from) (i32.const 8)))
            (local.set $length (i32.sub (local.get $length) (i32.const 1)))
            (br $next)))
        (local.get $sum))
    (func $is_magic (param i32) (result i32) (i32.eq (local.get 0) (i32.const 123456789)))
    (func (export "successor") (param i32) (result i32)
        (if (result i32) (call $is_magic (local.get 0)) (then (i32.const 0))
            (else (i32.add (local.get 0) (i32.const 1)))))
    (func (export "spread") (param $x f64) (param $y f64) (param $out i32)
        (f64.store (local.get $out) (f64.add (local.get $x) (local.get $y)))
        (f64.store offset=8 (local.get $out) (f64.sub (local.get $x) (local.get $y)))
        (f64.store offset=16 (local.get $out) (f64.mul (local.get $x) (local.get $y))))
    (func (export "hash") (param i64) (result i64)
        (i64.and (i64.mul (local.get 0) (i64.const 0x85EBCA6B)) (i64.const 0xFFFFFFFF))))"#;

pub(crate) fn wasm(function: &str) -> v1::WasmFunction {
    let module = wat::parse_str(MODULE).expect("valid text");
    v1::WasmFunction { module: module.into(), function: function.to_owned(), ..Default::default() }
}

pub(crate) fn python(source: &str) -> v1::KernelProgram {
    v1::KernelProgram { source: source.to_owned(), ..Default::default() }
}

/// A function in Python against one of [`MODULE`].
fn header(function: &str, source: &str) -> v1::VerifyHeader {
    v1::VerifyHeader {
        subject: Some(Subject::Wasm(wasm(function))),
        reference: Some(Reference::ReferenceKernel(python(source))),
        ..Default::default()
    }
}

fn generated(header: v1::VerifyHeader, case_count: u64) -> Vec<v1::VerifyRequest> {
    let generator = v1::CaseGenerator { case_count, seed: 1, domains: BTreeMap::new() };
    start(v1::VerifyHeader { generator: Some(generator), ..header })
}

pub(crate) fn start(header: v1::VerifyHeader) -> Vec<v1::VerifyRequest> {
    vec![v1::VerifyRequest { part: Some(Sent::Header(header)) }]
}

fn cases(cases: v1::VerifyCases) -> v1::VerifyRequest {
    v1::VerifyRequest { part: Some(Sent::Cases(cases)) }
}

fn doubles(name: &str, shape: &[i64], numbers: &[f64]) -> v1::TensorInput {
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    tensor(name, v1::Dtype::F64, shape, data)
}

fn integers(name: &str, numbers: &[i64]) -> v1::TensorInput {
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    tensor(name, v1::Dtype::I64, &[i64::try_from(numbers.len()).expect("a few")], data)
}

fn tensor(name: &str, dtype: v1::Dtype, shape: &[i64], data: Vec<u8>) -> v1::TensorInput {
    let value = v1::Tensor { dtype: dtype.into(), shape: shape.to_vec(), data: data.into() };
    v1::TensorInput { name: name.to_owned(), source: Some(v1::tensor_input::Source::Value(value)) }
}

fn inputs(inputs: Vec<v1::TensorInput>) -> v1::VerifyCases {
    v1::VerifyCases { inputs, ..Default::default() }
}

/// The verdicts of the chunks and the summary.
async fn verify(
    server: &TestServer,
    sent: Vec<v1::VerifyRequest>,
) -> Result<(Vec<v1::CaseVerdicts>, v1::VerifySummary), Status> {
    let mut answers = server.verify().verify(tokio_stream::iter(sent)).await?.into_inner();
    let mut chunks = vec![];
    while let Some(answer) = answers.message().await? {
        match answer.part.expect("a part") {
            Part::Cases(verdicts) => chunks.push(verdicts),
            Part::Summary(summary) => return Ok((chunks, summary)),
        }
    }
    panic!("a stream ends with a summary")
}

async fn summary(server: &TestServer, sent: Vec<v1::VerifyRequest>) -> (v1::VerifySummary, v1::FunctionSummary) {
    let (_, mut summary) = verify(server, sent).await.expect("valid");
    let functions = summary.functions.take().expect("functions have a summary");
    (summary, functions)
}

pub(crate) fn outcomes(counts: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    counts.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

/// The only value of a tensor, as bits.
fn bits(tensors: &[v1::NamedTensor], name: &str) -> u64 {
    let tensor =
        tensors.iter().find(|tensor| tensor.name == name).expect("it is there").value.as_ref().expect("a tensor");
    let mut bits = [0; 8];
    bits[..tensor.data.len()].copy_from_slice(&tensor.data);
    u64::from_le_bytes(bits)
}

#[tokio::test]
async fn functions_of_warp_are_verified_with_their_types() {
    let server = TestServer::start().await;
    let module = r#"(module
        (func (export "average") (param f32 i32) (result f32)
            (f32.div (local.get 0) (f32.convert_i32_s (local.get 1)))))"#;
    let module = v1::WasmFunction {
        module: wat::parse_str(module).expect("valid text").into(),
        function: "average".to_owned(),
        ..Default::default()
    };
    let against = |source: &str| v1::VerifyHeader {
        subject: Some(Subject::Wasm(module.clone())),
        reference: Some(Reference::ReferenceKernel(v1::KernelProgram {
            source: format!("import warp as wp\n\n@wp.func\ndef average(total: float, n: wp.int32):\n{source}"),
            name: "average".to_owned(),
            ..Default::default()
        })),
        // 0 / 0.
        policy: Some(v1::ComparisonPolicy { nan: v1::NanPolicy::Equal.into(), ..Default::default() }),
        ..Default::default()
    };
    let (equal, _) = summary(&server, generated(against("    return total / float(n)\n"), 20_000)).await;
    assert!(equal.passed, "{equal:?}");
    // Warp's quotient of a negative count, with an error that was planted.
    let planted = "    if n < 0:\n        return total / float(n - 1)\n    return total / float(n)\n";
    let (wrong, functions) = summary(&server, generated(against(planted), 20_000)).await;
    assert!(!wrong.passed);
    let first = &functions.counterexamples[0];
    let simplest = first.shrunk.as_ref().or(first.found.as_ref()).expect("a case");
    let [total, n] = ["total", "n"].map(|name| bits(&simplest.inputs, name));
    // The simplest numbers that show it.
    assert_eq!([total, n], [1.0_f32.to_bits(), (-1_i32).cast_unsigned()].map(u64::from));
}

#[tokio::test]
async fn equal_functions_pass_all_generated_cases() {
    let server = TestServer::start().await;
    let header = header("line", "def line(x: float, n: int) -> float:\n    return 2.0 * x + n\n");
    let (chunks, summary) = verify(&server, generated(header, 20_000)).await.expect("valid");
    assert!(summary.passed, "{summary:?}");
    assert_eq!((summary.case_count, summary.failed_count), (20_000, 0));
    assert_eq!(chunks.iter().map(|chunk| chunk.case_count).sum::<u64>(), 20_000);
    let functions = summary.functions.expect("functions have a summary");
    assert_eq!(outcomes(&functions.subject_outcomes), [("ok", 20_000)]);
    assert_eq!(functions.counterexamples, []);
    assert_eq!((functions.subject_hash.len(), functions.reference_hash.len()), (32, 32));
    assert_ne!(functions.subject_hash, functions.reference_hash);
}

#[tokio::test]
async fn a_wrong_comparison_is_found_and_shrunk_to_its_threshold() {
    let server = TestServer::start().await;
    let header = header("at_least", "def at_least(x: float) -> int:\n    return 1 if x > 1000.0 else 0\n");
    let (summary, functions) = summary(&server, generated(header, 10_000)).await;
    assert!(!summary.passed);
    let first = &functions.counterexamples[0];
    let shrunk = first.shrunk.as_ref().or(first.found.as_ref()).expect("a case");
    assert_eq!(bits(&shrunk.inputs, "x"), 1000_f64.to_bits());
    assert_eq!((bits(&shrunk.actual, "result"), bits(&shrunk.expected, "result")), (1, 0));
}

#[tokio::test]
async fn a_constant_inside_a_module_is_a_case() {
    let server = TestServer::start().await;
    let header = header("successor", "def successor(x: int) -> int:\n    return x + 1\n");
    let (_, functions) = summary(&server, generated(header, 2000)).await;
    let found = functions.counterexamples.iter().map(|one| one.found.as_ref().expect("as it was found"));
    let inputs: Vec<_> = found.map(|case| bits(&case.inputs, "x")).collect();
    assert!(inputs.contains(&123_456_789), "{inputs:?}");
}

#[tokio::test]
async fn the_low_bits_of_a_product_are_those_of_a_module() {
    let server = TestServer::start().await;
    let header = header("hash", "def hash(x: int) -> int:\n    return (x * 0x85EBCA6B) & 0xFFFFFFFF\n");
    let (summary, functions) = summary(&server, generated(header, 20_000)).await;
    assert_eq!((summary.case_count, summary.failed_count), (20_000, 0));
    assert_eq!(outcomes(&functions.reference_outcomes), [("ok", 20_000)]);
}

#[tokio::test]
async fn a_tuple_matches_what_a_function_writes_to_an_address() {
    let server = TestServer::start().await;
    let source = |third: &str| {
        format!("def spread(x: float, y: float) -> tuple[float, float, float]:\n    return x + y, x - y, {third}\n")
    };
    let (first, _) = summary(&server, generated(header("spread", &source("x * y")), 5000)).await;
    assert_eq!((first.case_count, first.failed_count), (5000, 0));
    let (second, functions) = summary(&server, generated(header("spread", &source("y * y")), 5000)).await;
    assert!(second.failed_count > 0);
    let found = functions.counterexamples[0].found.as_ref().expect("as it was found");
    assert_eq!((found.actual.len(), found.expected.len()), (3, 3));
}

#[tokio::test]
async fn an_overflow_that_wraps_is_an_outcome_mismatch() {
    let server = TestServer::start().await;
    let header = header("add", "def add(a: int, b: int) -> int:\n    return a + b\n");
    let (summary, functions) = summary(&server, generated(header, 5_000)).await;
    assert_eq!(summary.failed_count, functions.outcome_mismatch_count);
    assert!(functions.reference_outcomes["invalid_value"] > 0, "{functions:?}");
    let shrunk = functions.counterexamples[0].shrunk.as_ref().expect("random numbers are not simple");
    let sum = i128::from(bits(&shrunk.inputs, "a").cast_signed()) + i128::from(bits(&shrunk.inputs, "b").cast_signed());
    assert!(i64::try_from(sum).is_err(), "{shrunk:?}");
    assert_eq!((shrunk.subject_outcome.as_str(), shrunk.reference_outcome.as_str()), ("ok", "invalid_value"));
    assert!(shrunk.expected.is_empty() && !shrunk.actual.is_empty());
}

#[tokio::test]
async fn cases_in_which_both_sides_fail_pass_unless_the_policy_forbids_it() {
    let server = TestServer::start().await;
    // Python's quotient rounds down; with these numbers both are equal.
    let source = "def quotient(a: int, b: int) -> int:\n    return a // b\n";
    let sent = |policy: v1::OutcomePolicy| {
        let header =
            v1::VerifyHeader { outcome_policy: policy.into(), case_verdicts: true, ..header("quotient", source) };
        let columns = vec![integers("a", &[6, 1, 9, 0]), integers("b", &[3, 0, 2, 0])];
        let mut sent = start(header);
        sent.push(cases(inputs(columns)));
        sent
    };
    let (chunks, summary) = verify(&server, sent(v1::OutcomePolicy::BothOrNeither)).await.expect("valid");
    assert_eq!((summary.passed, summary.case_count, chunks[0].failed_count), (true, 4, 0));
    let functions = summary.functions.expect("functions have a summary");
    assert_eq!(outcomes(&functions.reference_outcomes), [("division_by_zero", 2), ("ok", 2)]);
    assert_eq!(outcomes(&functions.subject_outcomes), [("integer_division_by_zero", 2), ("ok", 2)]);
    let (chunks, summary) = verify(&server, sent(v1::OutcomePolicy::ResultRequired)).await.expect("valid");
    assert_eq!((summary.passed, &chunks[0].failed_cases[..]), (false, &[0b1010][..]));
}

#[tokio::test]
async fn a_narrow_integer_is_compared_as_the_wide_one() {
    let server = TestServer::start().await;
    let header = header("narrow_add", "def add(a: int, b: int) -> int:\n    return a + b\n");
    let (summary, functions) = summary(&server, generated(header, 5_000)).await;
    assert!(!summary.passed, "a sum of 32 bits wraps");
    let shrunk = functions.counterexamples[0].shrunk.as_ref().expect("it can be simpler");
    let dtype = |tensors: &[v1::NamedTensor]| tensors[0].value.as_ref().expect("a tensor").dtype();
    assert_eq!((dtype(&shrunk.inputs), dtype(&shrunk.actual)), (v1::Dtype::I32, v1::Dtype::I64));
    let difference =
        bits(&shrunk.actual, "result").cast_signed().abs_diff(bits(&shrunk.expected, "result").cast_signed());
    assert_eq!(difference, 1 << 32);
}

#[tokio::test]
async fn lists_travel_as_buffers() {
    let server = TestServer::start().await;
    let source = "def total(xs: list[float]) -> float:\n    s = 0.0\n    for i in range(len(xs)):\n        s += xs[i]\n    return s\n";
    let (generated_summary, _) = summary(&server, generated(header("total", source), 2_000)).await;
    let exact = v1::Tolerance { rule: Some(v1::tolerance::Rule::Exact(v1::ExactTolerance {})) };
    let policy =
        v1::ComparisonPolicy { tolerances: vec![exact], nan: v1::NanPolicy::Equal.into(), ..Default::default() };
    let mut sent = start(v1::VerifyHeader { policy: Some(policy), ..header("total", source) });
    sent.push(cases(inputs(vec![doubles("xs", &[2, 3], &[1.0, 2.0, 3.0, 0.1, 0.2, 0.3])])));
    let (sent_summary, _) = summary(&server, sent).await;
    assert!(sent_summary.passed && sent_summary.case_count == 2, "{sent_summary:?}");
    // Sums of the largest numbers are infinite, and of both signs NaN.
    assert!(
        generated_summary.outputs[0].differences.as_ref().expect("compared").counts.expect("counted").mismatch_count
            == 0
    );
}

/// Cases of one list each, for two functions whose results differ by `more`.
fn lists(length: usize, count: usize, more: f64) -> Vec<v1::VerifyRequest> {
    let source = |more: f64| python(&format!("def first(xs: list[float]) -> float:\n    return xs[0] + {more:?}\n"));
    let header = v1::VerifyHeader {
        subject: Some(Subject::Kernel(source(0.0))),
        reference: Some(Reference::ReferenceKernel(source(more))),
        ..Default::default()
    };
    let shape = [1, i64::try_from(length).expect("a length")];
    let case = |nth: usize| {
        let numbers: Vec<_> = (0..length).map(|index| (index % 100 + nth) as f64 + 0.5).collect();
        cases(inputs(vec![doubles("xs", &shape, &numbers)]))
    };
    start(header).into_iter().chain((0..count).map(case)).collect()
}

#[tokio::test]
async fn a_case_of_more_elements_than_can_be_shrunk_is_returned_as_it_was_found() {
    let server = TestServer::start().await;
    for (length, is_shrunk) in [(100, true), (16_385, false)] {
        let (_, functions) = summary(&server, lists(length, 1, 1.0)).await;
        let [counterexample] = &functions.counterexamples[..] else { panic!("one case fails") };
        let found = counterexample.found.as_ref().expect("as it was found").inputs[0].value.as_ref();
        assert_eq!(found.expect("a list").data.len(), 8 * length);
        assert_eq!(counterexample.shrunk.is_some(), is_shrunk, "{length} elements");
    }
}

#[tokio::test]
async fn as_many_counterexamples_are_returned_as_fit_into_a_response() {
    let change = |config: &mut Config| config.server.max_message_bytes = "1MiB".parse().expect("a size");
    let server = TestServer::start_with(change).await;
    for (length, returned) in [(100_000, 1), (60_000, 2), (20_000, 4)] {
        let (summary, functions) = summary(&server, lists(length, 4, 1.0)).await;
        assert_eq!((summary.failed_count, functions.counterexamples.len()), (4, returned), "{length} elements");
    }
    let (passed, _) = summary(&server, lists(100_000, 4, 0.0)).await;
    assert!(passed.passed && passed.case_count == 4, "what passes needs no room");
}

#[tokio::test]
async fn outputs_of_a_client_stand_for_either_side() {
    let server = TestServer::start().await;
    let source = "def line(x: float, n: int) -> float:\n    return 2.0 * x + n\n";
    let columns = || vec![doubles("x", &[2], &[1.0, 2.0]), integers("n", &[1, 1])];
    let given = vec![doubles("result", &[2], &[3.0, 6.0])];
    let as_subject =
        v1::VerifyHeader { subject: Some(Subject::GivenOutputs(v1::GivenOutputs {})), ..header("line", source) };
    let as_reference = v1::VerifyHeader {
        subject: Some(Subject::Kernel(python(source))),
        reference: Some(Reference::ExpectedOutputs(v1::GivenOutputs {})),
        ..header("line", source)
    };
    let of_subject = v1::VerifyCases { inputs: columns(), actual: given.clone(), ..Default::default() };
    let of_reference = v1::VerifyCases { inputs: columns(), expected: given, ..Default::default() };
    for (header, chunk) in [(as_subject, of_subject), (as_reference, of_reference)] {
        let mut sent = start(header);
        sent.push(cases(chunk));
        let (summary, functions) = summary(&server, sent).await;
        assert_eq!((summary.failed_count, functions.counterexamples.len()), (1, 1));
        let found = &functions.counterexamples[0];
        assert_eq!((found.case_index, found.shrunk.is_none()), (1, true), "what a client computed cannot be shrunk");
    }
}

#[tokio::test]
async fn a_function_that_remembers_earlier_cases_is_nondeterministic() {
    let server = TestServer::start().await;
    let counting = |share_instance| {
        let subject = Subject::Wasm(v1::WasmFunction { share_instance, ..wasm("count") });
        let source = "def count(x: float) -> float:\n    return 1.0\n";
        v1::VerifyHeader { subject: Some(subject), check_determinism: true, ..header("count", source) }
    };
    let sent = |header| {
        let mut sent = start(header);
        sent.push(cases(inputs(vec![doubles("x", &[3], &[0.0; 3])])));
        sent.push(cases(inputs(vec![doubles("x", &[1], &[0.0])])));
        sent
    };
    let (alone, functions) = summary(&server, sent(counting(false))).await;
    assert_eq!((alone.passed, functions.nondeterministic_count), (true, 0), "each case has an instance of its own");
    let (shared, _) = summary(&server, sent(counting(true))).await;
    assert_eq!((shared.passed, shared.failed_count), (false, 2), "cases after the first count on");
}

#[tokio::test]
async fn cases_that_do_not_end_are_an_outcome() {
    let server = TestServer::start().await;
    let limits = v1::CaseLimits {
        timeout: Some(prost_types::Duration { seconds: 0, nanos: 5_000_000 }),
        loop_budget: Some(1000),
        ..Default::default()
    };
    let source = "def spin(x: float) -> float:\n    while x == x:\n        x = 0.0\n    return x\n";
    let header = v1::VerifyHeader { limits: Some(limits), ..header("spin", source) };
    let mut sent = start(header);
    sent.push(cases(inputs(vec![doubles("x", &[3], &[1.0, 2.0, f64::NAN])])));
    let (summary, functions) = summary(&server, sent).await;
    assert_eq!(outcomes(&functions.subject_outcomes), [("timeout", 3)]);
    assert_eq!(outcomes(&functions.reference_outcomes), [("loop_budget", 2), ("ok", 1)]);
    assert_eq!((summary.failed_count, functions.outcome_mismatch_count), (1, 1));
    server.assert_serving().await;
}

#[tokio::test]
async fn totals_and_counterexamples_depend_neither_on_processes_nor_on_chunks() {
    let source = "def at_least(x: float) -> int:\n    return 1 if x > 1000.0 or x < -1e300 else 0\n";
    let sent = || {
        let header = v1::VerifyHeader { skip_shrinking: true, ..header("at_least", source) };
        generated(v1::VerifyHeader { max_counterexamples: Some(50), ..header }, 100_000)
    };
    let mut found = vec![];
    for processes in [1, 3] {
        let server = TestServer::start_with(|config| config.sandbox.processes = processes).await;
        let (chunks, summary) = verify(&server, sent()).await.expect("valid");
        assert!(chunks.len() > 2, "{} chunks", chunks.len());
        let next = chunks.iter().scan(0, |next, chunk| Some(std::mem::replace(next, *next + chunk.case_count)));
        assert!(next.zip(&chunks).all(|(first, chunk)| chunk.first_case == first), "chunks are in order");
        found.push(summary);
    }
    assert!(found[0].failed_count > 0);
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn chunks_that_are_sent_ahead_are_answered_in_order_and_an_error_follows_the_verdicts_before_it() {
    let server = TestServer::start_with(|config| config.sandbox.processes = 3).await;
    let source = "def line(x: float, n: int) -> float:\n    return 2.0 * x + n\n";
    let mut sent = start(header("line", source));
    let chunk = |count: usize| {
        let x = vec![1.0; count];
        let n = vec![2; count];
        cases(inputs(vec![doubles("x", &[i64::try_from(count).expect("a few")], &x), integers("n", &n)]))
    };
    sent.extend((1..=20).map(chunk));
    sent.push(cases(inputs(vec![])));
    let mut answers = server.verify().verify(tokio_stream::iter(sent)).await.expect("valid").into_inner();
    let mut first_case = 0;
    for count in 1..=20 {
        let answer = answers.message().await.expect("valid").expect("verdicts");
        let Some(Part::Cases(verdicts)) = answer.part else { panic!("{answer:?}") };
        assert_eq!((verdicts.first_case, verdicts.case_count, verdicts.failed_count), (first_case, count, 0));
        first_case += count;
    }
    assert_refused(answers.message().await, Code::InvalidArgument, "cases.inputs");
}

#[tokio::test]
async fn calls_take_turns_with_a_verification_that_nobody_reads() {
    let server = TestServer::start_with(|config| config.sandbox.processes = 1).await;
    let source = "def same(b: bool) -> bool:\n    return b\n";
    let header = || v1::VerifyHeader {
        subject: Some(Subject::Kernel(python(source))),
        reference: Some(Reference::ReferenceKernel(python(source))),
        case_verdicts: true,
        ..Default::default()
    };
    let many = v1::Tensor { dtype: v1::Dtype::Bool.into(), shape: vec![400_000], data: vec![1; 400_000].into() };
    let many = || inputs(vec![tensor("b", v1::Dtype::Bool, &many.shape, many.data.to_vec())]);
    let sent = start(header()).into_iter().chain((0..16).map(|_| cases(many())));
    let unread = server.verify().verify(tokio_stream::iter(sent.collect::<Vec<_>>())).await.expect("valid");
    // Each waits for a chunk of the other call at most.
    for _ in 0..16 {
        assert!(summary(&server, generated(header(), 10)).await.0.passed);
    }
    drop(unread);
    server.assert_serving().await;
}

#[tokio::test]
async fn generated_cases_that_share_an_instance_are_the_same_in_every_run() {
    let source = "def count(x: float) -> float:\n    return 1.0\n";
    let mut failed = vec![];
    for processes in [1, 3] {
        let server = TestServer::start_with(|config| config.sandbox.processes = processes).await;
        let subject = Subject::Wasm(v1::WasmFunction { share_instance: true, ..wasm("count") });
        let header = v1::VerifyHeader { subject: Some(subject), skip_shrinking: true, ..header("count", source) };
        failed.push(summary(&server, generated(header, 10_000)).await.0.failed_count);
    }
    assert!(failed[0] < 10_000, "the first case of each chunk passes");
    assert_eq!(failed[0], failed[1]);
}

#[tokio::test]
async fn outcomes_are_expected_of_each_case_or_of_all() {
    let server = TestServer::start().await;
    let source = "def quotient(a: int, b: int) -> int:\n    return a // b\n";
    let verified = async |of_all: &str, of_each: &[&str]| {
        let columns = vec![integers("a", &[6, 1, 9]), integers("b", &[3, 0, 3])];
        let expected_outcomes = of_each.iter().map(|name| (*name).to_owned()).collect();
        let header = v1::VerifyHeader {
            expected_outcome: of_all.to_owned(),
            case_verdicts: true,
            outcome_policy: v1::OutcomePolicy::ResultRequired.into(),
            ..header("quotient", source)
        };
        let mut sent = start(header);
        sent.push(cases(v1::VerifyCases { expected_outcomes, ..inputs(columns) }));
        let (chunks, summary) = verify(&server, sent).await.expect("valid");
        (chunks[0].failed_cases.to_vec(), summary.functions.expect("functions have a summary"))
    };
    assert_eq!(verified("", &[]).await.0, [0b010], "the policy decides");
    assert_eq!(verified("", &["", "integer_division_by_zero", ""]).await.0, [0]);
    assert_eq!(verified("ok", &["", "integer_division_by_zero", "unreachable"]).await.0, [0b100]);
    let (failed, functions) = verified("integer_division_by_zero", &[]).await;
    assert_eq!((failed, functions.outcome_mismatch_count), (vec![0b101], 2));
    let first = &functions.counterexamples[0];
    assert_eq!((first.case_index, first.expected_outcome.as_str()), (0, "integer_division_by_zero"));
    let shrunk = first.shrunk.as_ref().expect("zeros are simpler").subject_outcome.clone();
    assert_eq!(shrunk, "ok", "the simpler case fails for the same reason");
}

/// With the default limit of sources. Nothing reads them, and another caller's functions are verified.
#[tokio::test]
async fn a_function_of_ten_megabytes_is_refused_unread() {
    let server = TestServer::start().await;
    let source = "def line(x: float, n: int) -> float:\n    return 2.0 * x + n\n";
    let large = format!("{source}# {}\n", "x".repeat(10_000_000));
    let as_subject = v1::VerifyHeader { subject: Some(Subject::Kernel(python(&large))), ..header("line", source) };
    let read_count = || {
        let lanes = server.daemon.app().engine.stats().lanes;
        lanes.iter().find(|lane| lane.name == "translate").expect("the lane of sources").counts.requests
    };
    for (header, field) in
        [(as_subject, "header.kernel.source"), (header("line", &large), "header.reference_kernel.source")]
    {
        let refused = verify(&server, start(header)).await;
        let expected = format!("{field}: expected at most {} bytes, got {}", 1 << 20, large.len());
        assert_eq!(refused.as_ref().expect_err("it is too long").message(), expected);
        assert_refused(refused, Code::InvalidArgument, field);
    }
    assert_eq!(read_count(), 0, "no source was read");
    let other = TestServer { channel: connect(server.daemon.grpc_addr()).await, ..server };
    assert!(summary(&other, generated(header("line", source), 100)).await.0.passed, "another caller is served");
}

#[tokio::test]
async fn functions_and_cases_that_do_not_fit_are_refused() {
    let server = TestServer::start().await;
    let source = "def line(x: float, n: int) -> float:\n    return 2.0 * x + n\n";
    let good = || header("line", source);
    let domain = |name: &str, domain: v1::InputDomain| v1::VerifyHeader {
        generator: Some(v1::CaseGenerator { case_count: 1, seed: 0, domains: [(name.to_owned(), domain)].into() }),
        ..good()
    };
    let too_many = v1::CaseGenerator { case_count: u64::MAX, ..Default::default() };
    let one = |inputs: Vec<v1::TensorInput>| {
        let mut sent = start(good());
        sent.push(cases(self::inputs(inputs)));
        sent
    };
    let expecting = |name: &str| v1::VerifyHeader { expected_outcome: name.to_owned(), ..good() };
    let one_expecting = |names: &[&str]| {
        let columns = vec![doubles("x", &[1], &[1.0]), integers("n", &[1])];
        let expected_outcomes = names.iter().map(|name| (*name).to_owned()).collect();
        let mut sent = start(good());
        sent.push(cases(v1::VerifyCases { expected_outcomes, ..self::inputs(columns) }));
        sent
    };
    let kernels = |subject: &str, reference: &str| v1::VerifyHeader {
        subject: Some(Subject::Kernel(python(subject))),
        reference: Some(Reference::ReferenceKernel(python(reference))),
        ..Default::default()
    };
    let modules = |subject: &str, reference: &str| v1::VerifyHeader {
        subject: Some(Subject::Wasm(wasm(subject))),
        reference: Some(Reference::ReferenceWasm(wasm(reference))),
        ..Default::default()
    };
    let reversed = v1::InputDomain {
        lower: Some(input_domain::Lower::Min(2.0)),
        upper: Some(input_domain::Upper::Max(1.0)),
        ..Default::default()
    };
    let given = || v1::VerifyHeader { subject: Some(Subject::GivenOutputs(v1::GivenOutputs {})), ..good() };
    let [long, negative] = [1 << 20, -1].map(|seconds| {
        let timeout = Some(prost_types::Duration { seconds, nanos: 0 });
        Some(v1::CaseLimits { timeout, ..Default::default() })
    });
    let invalid = v1::WasmFunction { module: b"\0asm".to_vec().into(), ..wasm("line") };
    let warp = "import warp as wp\n@wp.kernel\ndef k(y: wp.array(dtype=float)):\n    y[wp.tid()] = 1.0\n";
    let with_cases = {
        let mut sent = generated(good(), 1);
        sent.push(cases(inputs(vec![])));
        sent
    };
    for (sent, field) in [
        (start(header("line", "def line(x):\n    return x\n")), "header.reference_kernel.source"),
        (start(header("line", warp)), "header.reference_kernel.name"),
        (start(header("nothing", source)), "header.wasm.function"),
        (start(header("line", "def line(x: float) -> float:\n    return x\n")), "header.wasm.params"),
        (start(v1::VerifyHeader { subject: Some(Subject::Wasm(invalid)), ..good() }), "header.wasm.module"),
        (start(v1::VerifyHeader { limits: long, ..good() }), "header.limits.timeout"),
        (start(v1::VerifyHeader { limits: negative, ..good() }), "got -1s"),
        (start(v1::VerifyHeader { max_counterexamples: Some(u32::MAX), ..good() }), "header.max_counterexamples"),
        (start(v1::VerifyHeader { outcome_policy: 9, ..good() }), "header.outcome_policy"),
        (start(expecting("assertion")), "header.expected_outcome"),
        (start(v1::VerifyHeader { subject: given().subject, ..expecting("ok") }), "header.expected_outcome"),
        (one_expecting(&["ok", "ok"]), "cases.expected_outcomes"),
        (one_expecting(&["traps"]), "cases.expected_outcomes[0]"),
        (start(kernels("def f(x: float) -> float:\n    return x\n", source)), "header.kernel"),
        (start(kernels("def f(x: float, n: float) -> float:\n    return x\n", source)), "header.kernel"),
        (start(modules("line", "at_least")), "header.wasm"),
        (start(v1::VerifyHeader { generator: Some(too_many), ..good() }), "header.generator.case_count"),
        (generated(given(), 1), "header.generator"),
        (start(domain("y", v1::InputDomain::default())), "header.generator.domains[\"y\"]"),
        (start(domain("x", reversed)), "header.generator.domains[\"x\"]"),
        (with_cases, "cases"),
        (one(vec![]), "cases.inputs"),
        (one(vec![doubles("x", &[1], &[1.0])]), "cases.inputs"),
        (one(vec![doubles("x", &[1], &[1.0]), doubles("n", &[1], &[1.0])]), "cases.inputs[1]"),
        (one(vec![doubles("x", &[1, 2], &[1.0; 2]), integers("n", &[1])]), "cases.inputs[0]"),
        (one(vec![doubles("x", &[2], &[1.0; 2]), integers("n", &[1])]), "cases.inputs"),
        (one(vec![doubles("y", &[1], &[1.0]), integers("n", &[1])]), "cases.inputs[0].name"),
    ] {
        assert_refused(verify(&server, sent).await, Code::InvalidArgument, field);
    }
    server.assert_serving().await;
}
