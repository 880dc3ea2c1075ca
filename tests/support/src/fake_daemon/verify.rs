//! Comparisons of f32, of which numbers pass if their bits are equal, and verifications.
//!
//! A function returns its first input, but the name of a subject says what happens in every tenth case of a generator: in `wrong` the result is
//! 1 larger, and `raises` has none. The results of `random` differ when it runs again, `refused` is invalid, and `crash` ends the stream after
//! the first chunk. If the call asks for a GPU, it decides the cases that pass.

use std::collections::BTreeMap;

use accelerd_proto::v1::{
    self as proto, KernelDevice, OutputVerdict, tensor_input::Source, verify_header::Subject,
    verify_request::Part as Received, verify_response::Part, verify_service_server::VerifyService,
};
use futures::{StreamExt, stream};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};

use super::{FakeDaemon, Replies, Reply};

/// Cases of a chunk of a generator.
const CHUNK: u64 = 1000;

#[tonic::async_trait]
impl VerifyService for FakeDaemon {
    async fn compare_outputs(
        &self,
        request: Request<proto::CompareOutputsRequest>,
    ) -> Result<Response<proto::CompareOutputsResponse>, Status> {
        let proto::CompareOutputsRequest { actual, expected, policy, .. } = request.into_inner();
        let tolerances = policy.unwrap_or_default().tolerances;
        let outputs = actual.into_iter().zip(expected);
        let outputs: Vec<_> = outputs.map(|(actual, expected)| compare(actual, expected, &tolerances)).collect();
        let passed = outputs.iter().all(|output| output.verdict() == OutputVerdict::Passed);
        Ok(Response::new(proto::CompareOutputsResponse { passed, outputs }))
    }

    async fn verify(&self, request: Request<Streaming<proto::VerifyRequest>>) -> Reply<Replies<proto::VerifyResponse>> {
        self.enter("Verify").await?;
        let mut messages = request.into_inner();
        let first = messages.next().await.transpose()?.unwrap_or_default();
        self.state().verifications.push(first.clone());
        let Some(Received::Header(header)) = first.part else {
            return Err(Status::invalid_argument("expected a header"));
        };
        let subject = subject_name(&header);
        if subject == "refused" {
            let details = ErrorDetails::with_bad_request_violation("header.wasm.module", "expected a module");
            return Err(Status::with_error_details(Code::InvalidArgument, "the module is invalid", details));
        }
        if let Some(generator) = &header.generator {
            let responses = generated(&header, &subject, generator.case_count);
            return Ok(Response::new(stream::iter(responses).boxed()));
        }
        let daemon = self.clone();
        let responses = stream::unfold(Some((messages, Totals::default())), move |state| {
            let daemon = daemon.clone();
            async move { daemon.next_chunk(state?).await }
        });
        Ok(Response::new(responses.boxed()))
    }
}

fn compare(
    actual: proto::TensorInput,
    expected: proto::TensorInput,
    tolerances: &[proto::Tolerance],
) -> proto::OutputComparison {
    let (Some(Source::Value(a)), Some(Source::Value(e))) = (actual.source, expected.source) else {
        return proto::OutputComparison::default();
    };
    let is_comparable = a.shape == e.shape;
    let numbers = |tensor: &proto::Tensor| -> Vec<f32> {
        let (numbers, _) = tensor.data.as_chunks::<4>();
        numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let pairs: Vec<_> = numbers(&a).into_iter().zip(numbers(&e)).collect();
    let mismatches: Vec<_> = (0..)
        .zip(&pairs)
        .filter(|(_, (a, e))| a.to_bits() != e.to_bits())
        .map(|(index, (a, e))| proto::Mismatch {
            index,
            kind: proto::MismatchKind::Tolerance.into(),
            actual: f64::from(*a),
            expected: f64::from(*e),
            actual_bits: a.to_bits().into(),
            expected_bits: e.to_bits().into(),
            errors: None,
        })
        .collect();
    let differences = proto::Differences {
        element_count: pairs.len() as u64,
        failed_count: mismatches.len() as u64,
        mismatches,
        ..proto::Differences::default()
    };
    let verdict = match (is_comparable, differences.failed_count) {
        (false, _) => OutputVerdict::ShapeMismatch,
        (true, 0) => OutputVerdict::Passed,
        (true, _) => OutputVerdict::Mismatch,
    };
    proto::OutputComparison {
        name: actual.name,
        verdict: verdict.into(),
        actual_dtype: a.dtype,
        expected_dtype: e.dtype,
        actual_shape: a.shape,
        expected_shape: e.shape,
        tolerances: tolerances.to_vec(),
        differences: is_comparable.then_some(differences),
        small_output: None,
    }
}

/// Cases of chunks so far, and their comparison.
#[derive(Default)]
struct Totals {
    cases: u64,
    failed: u64,
    output: proto::OutputComparison,
}

type ChunkState = Option<(Streaming<proto::VerifyRequest>, Totals)>;

impl FakeDaemon {
    async fn next_chunk(
        &self,
        (mut messages, mut totals): (Streaming<proto::VerifyRequest>, Totals),
    ) -> Option<(Result<proto::VerifyResponse, Status>, ChunkState)> {
        let message = match messages.next().await {
            Some(Ok(message)) => message,
            Some(Err(status)) => return Some((Err(status), None)),
            None => return Some((Ok(totals.summary()), None)),
        };
        self.state().verifications.push(message.clone());
        let Some(Received::Cases(cases)) = message.part else {
            return Some((Err(Status::invalid_argument("expected cases")), None));
        };
        let response = totals.add(cases);
        Some((Ok(response), Some((messages, totals))))
    }
}

impl Totals {
    /// Compares the first outputs, or an input in place of one that is not given.
    fn add(&mut self, cases: proto::VerifyCases) -> proto::VerifyResponse {
        let input = cases.inputs.into_iter().next();
        let actual = cases.actual.into_iter().next().or_else(|| input.clone()).unwrap_or_default();
        let expected = cases.expected.into_iter().next().or(input).unwrap_or_default();
        let case_count = match &actual.source {
            Some(Source::Value(tensor)) => tensor.shape.first().map_or(0, |extent| extent.unsigned_abs()),
            _ => 0,
        };
        self.output = compare(actual, expected, &[]);
        let failed_count = self.output.differences.as_ref().map_or(case_count, |found| found.failed_count);
        let verdicts = verdicts(self.cases, case_count, failed_count);
        self.cases += case_count;
        self.failed += failed_count;
        verdicts
    }

    fn summary(self) -> proto::VerifyResponse {
        summary(proto::VerifySummary {
            passed: self.failed == 0,
            case_count: self.cases,
            failed_count: self.failed,
            outputs: vec![self.output],
            functions: None,
        })
    }
}

fn verdicts(first_case: u64, case_count: u64, failed_count: u64) -> proto::VerifyResponse {
    let cases = proto::CaseVerdicts { first_case, case_count, failed_count, failed_cases: vec![].into() };
    proto::VerifyResponse { part: Some(Part::Cases(cases)) }
}

fn summary(summary: proto::VerifySummary) -> proto::VerifyResponse {
    proto::VerifyResponse { part: Some(Part::Summary(summary)) }
}

fn subject_name(header: &proto::VerifyHeader) -> String {
    match &header.subject {
        Some(Subject::Kernel(program)) => program.name.clone(),
        Some(Subject::Wasm(function)) => function.function.clone(),
        Some(Subject::GivenOutputs(_)) | None => String::new(),
    }
}

fn generated(
    header: &proto::VerifyHeader,
    subject: &str,
    case_count: u64,
) -> Vec<Result<proto::VerifyResponse, Status>> {
    let failed = if ["wrong", "raises"].contains(&subject) { case_count / 10 } else { 0 };
    let of_chunk = |first: u64| (case_count - first).min(CHUNK);
    let chunks = (0..case_count).step_by(1000);
    let mut responses: Vec<_> = chunks.map(|first| Ok(verdicts(first, of_chunk(first), 0))).collect();
    if subject == "crash" {
        responses.truncate(1);
        responses.push(Err(Status::unavailable("the child process ended")));
        return responses;
    }
    responses.push(Ok(summary(proto::VerifySummary {
        passed: failed == 0,
        case_count,
        failed_count: failed,
        outputs: vec![output(header, case_count, if subject == "wrong" { failed } else { 0 })],
        functions: Some(functions(header, subject, case_count, failed)),
    })));
    responses
}

fn output(header: &proto::VerifyHeader, case_count: u64, failed: u64) -> proto::OutputComparison {
    let distance = proto::LargestDistance { value: 4096, index: 9 };
    let differences = proto::Differences {
        element_count: case_count,
        failed_count: failed,
        max_ulps: (failed > 0).then_some(distance),
        ulp_histogram: if failed > 0 { vec![case_count - failed, 0, failed] } else { vec![case_count] },
        ..Default::default()
    };
    let verdict = if failed > 0 { OutputVerdict::Mismatch } else { OutputVerdict::Passed };
    let extent = i64::try_from(case_count).unwrap_or(i64::MAX);
    proto::OutputComparison {
        name: "result".to_owned(),
        verdict: verdict.into(),
        actual_dtype: proto::Dtype::F64.into(),
        expected_dtype: proto::Dtype::F64.into(),
        actual_shape: vec![extent],
        expected_shape: vec![extent],
        tolerances: header.policy.clone().unwrap_or_default().tolerances,
        differences: Some(differences),
        small_output: None,
    }
}

fn functions(header: &proto::VerifyHeader, subject: &str, case_count: u64, failed: u64) -> proto::FunctionSummary {
    let raised = if subject == "raises" { failed } else { 0 };
    let mut outcomes = BTreeMap::from([("ok".to_owned(), case_count - raised)]);
    if raised > 0 {
        outcomes.insert("unreachable".to_owned(), raised);
    }
    let outcome = if raised > 0 { "unreachable" } else { "ok" };
    let counterexample = proto::Counterexample {
        case_index: 9,
        found: Some(case(1e-300, outcome)),
        shrunk: (!header.skip_shrinking).then(|| case(0.0, outcome)),
        expected_outcome: header.expected_outcome.clone(),
    };
    let is_random = header.check_determinism && subject == "random";
    proto::FunctionSummary {
        subject_outcomes: outcomes,
        reference_outcomes: BTreeMap::from([("ok".to_owned(), case_count)]),
        outcome_mismatch_count: raised,
        nondeterministic_count: if is_random { 3 } else { 0 },
        counterexamples: if failed > 0 { vec![counterexample] } else { vec![] },
        subject_hash: vec![0xab; 32].into(),
        reference_hash: vec![0xcd; 32].into(),
        gpu_decided_count: if header.device() == KernelDevice::Cuda { case_count - failed } else { 0 },
    }
}

fn case(x: f64, outcome: &str) -> proto::CaseResult {
    let named = |name: &str, number: f64| {
        let data = number.to_le_bytes().to_vec().into();
        let value = proto::Tensor { dtype: proto::Dtype::F64.into(), shape: vec![], data };
        proto::NamedTensor { name: name.to_owned(), value: Some(value) }
    };
    proto::CaseResult {
        inputs: vec![named("x", x)],
        actual: if outcome == "ok" { vec![named("result", x + 1.0)] } else { vec![] },
        expected: vec![named("result", x)],
        subject_outcome: outcome.to_owned(),
        reference_outcome: "ok".to_owned(),
    }
}
