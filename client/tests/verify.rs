//! Tests of streams of cases against a fake daemon.

use std::time::Duration;

use accelerd_client::{
    Builder, Cases, Client, Code, Domain, Error, KernelDevice, KernelProgram, Matrix, OutcomePolicy, Policy,
    RetryPolicy, Verification, VerifySide, WasmFunction,
    proto::{
        self,
        input_domain::{Lower, Upper},
    },
};
use accelerd_test_support::{FakeDaemon, busy};
use futures::stream;
use tonic::Status;

async fn connected(fake: &FakeDaemon) -> Client {
    let retry = RetryPolicy { first_wait: Duration::from_millis(1), ..RetryPolicy::default() };
    Builder::new(format!("http://{}", fake.listen().await)).retry(retry).connect().await.expect("the fake listens")
}

fn generated(subject: &str) -> Verification {
    Verification::of(WasmFunction::new(vec![1, 2, 3]).name(subject))
        .against(KernelProgram::new("def f(x: float) -> float: ...").name("f"))
        .generate(2500, 7)
}

fn numbers(numbers: &[f32]) -> Matrix {
    Matrix::new(numbers.to_vec(), 1).expect("a column")
}

fn header(fake: &FakeDaemon) -> proto::VerifyHeader {
    match &fake.state().verifications[0].part {
        Some(proto::verify_request::Part::Header(header)) => header.clone(),
        other => panic!("expected a header, got {other:?}"),
    }
}

#[tokio::test]
async fn verdicts_come_by_chunk_and_the_summary_has_counterexamples() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    let mut verdicts = client.verify(&generated("wrong"), stream::empty()).await.expect("it opens");
    let mut chunks = vec![];
    while let Some(chunk) = verdicts.next().await.expect("an answer") {
        chunks.push((chunk.first_case, chunk.case_count));
    }
    assert_eq!(chunks, [(0, 1000), (1000, 1000), (2000, 500)]);
    assert!(verdicts.next().await.expect("the end stays the end").is_none());
    let summary = verdicts.summary().await.expect("an answer");
    assert_eq!((summary.passed, summary.case_count, summary.failed_count), (false, 2500, 250));
    let functions = summary.functions.expect("both sides are functions");
    assert!(functions.counterexamples[0].shrunk.is_some());
}

#[tokio::test]
async fn a_builder_sets_every_field_of_the_header() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    let verification = generated("f")
        .policy(Policy::default().max_ulps(1))
        .output_policy("result", Policy::default().exact())
        .outcomes(OutcomePolicy::ReferenceDefines)
        .domain("x", -1.5..=2.5)
        .domain("n", Domain::from(3..).length(4).allow_nan().allow_infinity())
        .domain("m", ..=9)
        .device(KernelDevice::Cuda)
        .max_mismatches(1)
        .max_counterexamples(2)
        .skip_shrinking()
        .check_determinism()
        .case_verdicts()
        .case_timeout(Duration::from_millis(1500))
        .fuel(3)
        .memory_bytes(4)
        .loop_budget(5);
    let summary = client.verify(&verification, stream::empty()).await.expect("it opens").summary().await;
    let summary = summary.expect("an answer");
    assert!(summary.passed);
    assert_eq!(summary.functions.map(|functions| functions.gpu_decided_count), Some(2500));
    let header = header(&fake);
    let generator = header.generator.expect("it was set");
    assert_eq!((generator.case_count, generator.seed), (2500, 7));
    let [x, n, m] = ["x", "n", "m"].map(|name| generator.domains[name]);
    assert_eq!((x.lower, x.upper), (Some(Lower::Min(-1.5)), Some(Upper::Max(2.5))));
    assert_eq!((n.lower, n.upper, n.length), (Some(Lower::MinInteger(3)), None, Some(4)));
    assert_eq!((n.allow_nan, n.allow_infinity, x.allow_nan), (true, true, false));
    assert_eq!((m.lower, m.upper), (None, Some(Upper::MaxInteger(9))));
    let limits = header.limits.expect("they were set");
    assert_eq!((limits.fuel, limits.memory_bytes, limits.loop_budget), (Some(3), Some(4), Some(5)));
    assert_eq!(limits.timeout, Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }));
    assert_eq!((header.max_mismatches, header.max_counterexamples), (Some(1), Some(2)));
    assert!(header.skip_shrinking && header.check_determinism && header.case_verdicts);
    assert_eq!(header.outcome_policy, i32::from(OutcomePolicy::ReferenceDefines));
    assert_eq!(header.device, i32::from(KernelDevice::Cuda));
    assert!(header.policy.is_some() && header.output_policies.contains_key("result"));
}

#[tokio::test]
async fn chunks_of_given_outputs_are_totalled() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    let chunk = |actual: &[f32], expected: &[f32]| {
        Cases::default().actual("y", numbers(actual)).expected("y", numbers(expected))
    };
    let chunks = [chunk(&[1.0, 2.0], &[1.0, 2.0]), chunk(&[3.0, 4.0, 5.0], &[3.0, 4.5, 5.0])];
    let verdicts = client.verify(&Verification::of(VerifySide::Given), stream::iter(chunks)).await.expect("it opens");
    let summary = verdicts.summary().await.expect("an answer");
    assert_eq!((summary.case_count, summary.failed_count), (5, 1));
    assert_eq!(fake.state().verifications.len(), 3, "a header and two chunks");
}

#[tokio::test]
async fn a_call_is_repeated_until_a_chunk_was_taken() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    fake.fail_next([Status::unavailable("draining"), busy(Some(Duration::from_millis(1)))]);
    client.verify(&generated("f"), stream::empty()).await.expect("the third attempt succeeds");
    assert_eq!(fake.state().calls, ["Verify"; 3]);

    fake.state().calls.clear();
    fake.fail_next([Status::unavailable("draining")]);
    client.verify(&Verification::of(VerifySide::Given), stream::pending()).await.expect("no chunk was taken");
    assert_eq!(fake.state().calls, ["Verify"; 2]);
}

#[tokio::test]
async fn a_stream_that_breaks_is_an_error() {
    let client = connected(&FakeDaemon::default()).await;
    let mut verdicts = client.verify(&generated("crash"), stream::empty()).await.expect("it opens");
    assert!(verdicts.next().await.expect("the first chunk").is_some());
    assert_eq!(verdicts.summary().await.expect_err("the rest is missing").code(), Code::Unavailable);
}

#[tokio::test]
async fn chunks_that_do_not_come_fail_at_the_deadline() {
    let deadline = Duration::from_millis(50);
    let client = connected(&FakeDaemon::default()).await.with_deadline(deadline);
    let never = stream::pending();
    let verdicts = client.verify(&Verification::of(VerifySide::Given), never).await.expect("it opens");
    let error = verdicts.summary().await.expect_err("no chunk comes");
    assert!(matches!(error, Error::Deadline { deadline: told, .. } if told == deadline), "{error:?}");
}
