//! Verification of cases that arrive in chunks: totals of all, and verdicts of each.

use std::sync::Arc;

use accelerd_engine::Context;
use accelerd_kernels::ops::compare::Comparison;
use accelerd_proto::v1::{
    self as pb,
    verify_header::{Reference, Subject},
    verify_request::Part,
    verify_response::Part as Answer,
};
use accelerd_tensor::TensorType;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use tonic::Status;

use super::{
    State, comparison,
    outputs::{Output, Outputs},
    policy::Policies,
    verdict,
};
use crate::{auth::caller::Caller, error::ApiError, grpc::call::Requests};

/// Prefix of the fields of a chunk.
const CASES: &str = "cases.";

/// A stream's verification.
pub(super) struct Verification {
    service: Arc<State>,
    caller: Caller,
    context: Context,
    header: Option<Header>,
    totals: Totals,
}

/// A checked header.
struct Header {
    policies: Policies,
    max_mismatches: usize,
    case_verdicts: bool,
}

/// What the chunks so far amount to.
#[derive(Default)]
struct Totals {
    cases: usize,
    failed: u64,
    outputs: Vec<OutputTotal>,
}

/// An output of the chunks so far.
struct OutputTotal {
    /// That of the first chunk, without elements.
    output: Output,
    /// Elements of a case.
    case_elements: u64,
    incomparable: Option<pb::OutputVerdict>,
    compared: Comparison,
}

impl Verification {
    pub(super) fn new(service: Arc<State>, caller: Caller, context: Context) -> Self {
        Self { service, caller, context, header: None, totals: Totals::default() }
    }

    /// A response for each chunk, then the summary.
    pub(super) fn responses(
        self,
        requests: Requests<pb::VerifyRequest>,
    ) -> BoxStream<'static, Result<pb::VerifyResponse, Status>> {
        let responses = stream::try_unfold(Some((self, requests)), |state| async {
            let Some((mut this, mut requests)) = state else { return Ok(None) };
            loop {
                let Some(request) = requests.next().await.transpose()? else {
                    return Ok(Some((answer(Answer::Summary(this.summary()?)), None)));
                };
                if let Some(verdicts) = this.add(request).await? {
                    return Ok(Some((answer(Answer::Cases(verdicts)), Some((this, requests)))));
                }
            }
        });
        responses.boxed()
    }

    /// Handles the header, which has no response, or a chunk.
    async fn add(&mut self, request: pb::VerifyRequest) -> Result<Option<pb::CaseVerdicts>, Status> {
        match (request.part, &self.header) {
            (Some(Part::Header(header)), None) => {
                self.header = Some(self.service.header(header)?);
                Ok(None)
            }
            (Some(Part::Cases(cases)), Some(_)) => self.chunk(cases).await.map(Some),
            (Some(Part::Header(_)), Some(_)) => {
                Err(ApiError::invalid("header", "expected a header in the first message only").into())
            }
            (Some(Part::Cases(_)) | None, None) => Err(no_header().into()),
            (None, Some(_)) => Err(ApiError::invalid("cases", "expected cases, got none").into()),
        }
    }

    async fn chunk(&mut self, chunk: pb::VerifyCases) -> Result<pb::CaseVerdicts, Status> {
        let Some(header) = &self.header else { return Err(no_header().into()) };
        let decoder = self.service.decoder(&self.caller, &header.policies, CASES);
        let decoded = decoder.outputs(chunk.actual, chunk.expected)?;
        let cases = case_count(&decoded)?;
        if self.totals.outputs.is_empty() {
            header.policies.check_outputs(|name| decoded.outputs.iter().any(|output| output.name == name))?;
            self.service.check_response(&decoded, header.max_mismatches, |_| 0)?;
        }
        let pairs = decoded.outputs.iter().map(|output| output.pair(header.max_mismatches, cases)).collect();
        let places = self.totals.places(decoded.outputs)?;
        let compared = self.service.compare(pairs, self.context.clone()).await?;
        let mut failed_cases = vec![0; cases.div_ceil(8)];
        for (place, compared) in places.into_iter().zip(compared) {
            self.totals.outputs[place].append(
                compared,
                self.totals.cases,
                header.max_mismatches,
                cases,
                &mut failed_cases,
            );
        }
        let first_case = self.totals.cases as u64;
        let failed_count = failed_cases.iter().map(|byte: &u8| u64::from(byte.count_ones())).sum();
        self.totals.cases += cases;
        self.totals.failed += failed_count;
        let failed_cases = if header.case_verdicts { failed_cases.into() } else { bytes::Bytes::new() };
        Ok(pb::CaseVerdicts { first_case, case_count: cases as u64, failed_count, failed_cases })
    }

    fn summary(self) -> Result<pb::VerifySummary, Status> {
        if self.header.is_none() {
            return Err(no_header().into());
        }
        let Totals { cases, failed, outputs } = self.totals;
        let outputs = outputs.into_iter().map(|total| total.report(cases)).collect();
        Ok(pb::VerifySummary {
            passed: failed == 0,
            case_count: cases as u64,
            failed_count: failed,
            outputs,
            functions: None,
        })
    }
}

impl State {
    fn header(&self, header: pb::VerifyHeader) -> Result<Header, ApiError> {
        let pb::VerifyHeader { subject, reference, policy, output_policies, max_mismatches, case_verdicts, .. } = header;
        match subject {
            Some(Subject::GivenOutputs(pb::GivenOutputs {})) => {}
            Some(_) => return Err(ApiError::invalid("header.given_outputs", "unimplemented")),
            None => return Err(ApiError::invalid("header.given_outputs", "expected a subject, got none")),
        }
        match reference {
            Some(Reference::ExpectedOutputs(pb::GivenOutputs {})) => {}
            Some(_) => return Err(ApiError::invalid("header.expected_outputs", "unimplemented")),
            None => return Err(ApiError::invalid("header.expected_outputs", "expected a reference, got none")),
        }
        let policies = Policies::new(policy, output_policies)?;
        policies.check_chunks()?;
        let max_mismatches = self.max_mismatches("header.max_mismatches", max_mismatches)?;
        Ok(Header { policies, max_mismatches, case_verdicts })
    }
}

impl Totals {
    /// The positions of a chunk's outputs. Those of the first chunk are new.
    fn places(&mut self, outputs: Vec<Output>) -> Result<Vec<usize>, ApiError> {
        if self.outputs.is_empty() {
            self.outputs = outputs.into_iter().map(OutputTotal::new).collect();
            return Ok((0..self.outputs.len()).collect());
        }
        if outputs.len() != self.outputs.len() {
            let reason =
                format!("expected {} tensors, as in the first chunk, got {}", self.outputs.len(), outputs.len());
            return Err(ApiError::invalid("cases.actual", reason));
        }
        let place = |(nth, output): (usize, &Output)| {
            let place = self.outputs.iter().position(|total| total.output.name == output.name);
            let field = format!("cases.actual[{nth}]");
            let place = place.ok_or_else(|| {
                ApiError::invalid(format!("{field}.name"), "expected the name of an output of the first chunk")
            })?;
            let first = &self.outputs[place].output;
            for (list, of, first) in
                [("actual", &output.actual, &first.actual), ("expected", &output.expected, &first.expected)]
            {
                if (of.dtype, case_shape(of)) != (first.dtype, case_shape(first)) {
                    let expected = format!("{} of shape {:?}", first.dtype, case_shape(first));
                    let got = format!("{} of shape {:?}", of.dtype, case_shape(of));
                    let reason = format!("expected cases of {expected} in {list}, as in the first chunk, got {got}");
                    return Err(ApiError::invalid(field, reason));
                }
            }
            Ok(place)
        };
        outputs.iter().enumerate().map(place).collect()
    }
}

impl OutputTotal {
    fn new(output: Output) -> Self {
        let case = TensorType { dtype: output.expected.dtype, shape: case_shape(&output.expected).to_vec() };
        let case_elements = case.elements() as u64;
        let incomparable = output.incomparable;
        Self { output: output.without_elements(), case_elements, incomparable, compared: Comparison::default() }
    }

    /// Adds the cases of a chunk, `before` of which there are, and marks those that fail.
    fn append(
        &mut self,
        compared: Option<Comparison>,
        before: usize,
        max_mismatches: usize,
        cases: usize,
        failed_cases: &mut [u8],
    ) {
        let Some(mut compared) = compared else {
            (0..cases).for_each(|case| failed_cases[case / 8] |= 1 << (case % 8));
            return;
        };
        for (to, failed) in failed_cases.iter_mut().zip(std::mem::take(&mut compared.failed_rows)) {
            *to |= failed;
        }
        self.compared.append(compared, before as u64 * self.case_elements, max_mismatches);
    }

    fn report(self, cases: usize) -> pb::OutputComparison {
        let Self { output, case_elements, incomparable, compared } = self;
        let all = |of: &TensorType| {
            let shape = [&[cases][..], case_shape(of)].concat();
            TensorType { dtype: of.dtype, shape }
        };
        let verdict = verdict(incomparable, Some(&compared));
        let compared = incomparable.is_none().then_some((cases as u64 * case_elements, compared));
        comparison(&output, &all(&output.actual), &all(&output.expected), verdict, compared)
    }
}

/// The number of cases, which is the first extent of all tensors.
fn case_count(decoded: &Outputs) -> Result<usize, ApiError> {
    let mut count = None;
    for output in &decoded.outputs {
        for (list, of) in [("actual", &output.actual), ("expected", &output.expected)] {
            let got = of.shape.first().copied();
            if got.is_none() || got != *count.get_or_insert(got) {
                let expected =
                    count.flatten().map_or("a dimension of cases".to_owned(), |count| format!("{count} cases"));
                let reason = format!("expected {expected}, got shape {:?} for output {:?}", of.shape, output.name);
                return Err(ApiError::invalid(format!("cases.{list}"), reason));
            }
        }
    }
    Ok(count.flatten().unwrap_or_default())
}

fn case_shape(of: &TensorType) -> &[usize] {
    of.shape.get(1..).unwrap_or_default()
}

fn no_header() -> ApiError {
    ApiError::invalid("header", "expected a header in the first message, got none")
}

fn answer(part: Answer) -> pb::VerifyResponse {
    pb::VerifyResponse { part: Some(part) }
}
