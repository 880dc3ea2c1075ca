//! Verification of cases that arrive in chunks, or that are generated: totals of all, and verdicts of each chunk.

use std::{sync::Arc, time::Duration};

use accelerd_engine::Context;
use accelerd_proto::v1::{self as pb, verify_request::Part, verify_response::Part as Answer};
use futures::{
    FutureExt, StreamExt,
    stream::{self, BoxStream},
};
use tonic::Status;

use super::{
    State,
    cases::{Cases, Inputs, Named},
    column::{Column, Extent, Port, contains},
    counterexamples::Counterexamples,
    evaluate::Evaluator,
    generated::Generated,
    header::Header,
    outputs::{Decoder, Output},
    sides::Side,
    totals::Totals,
};
use crate::{auth::caller::Caller, error::ApiError, grpc::call::Requests};

/// Prefix of the fields of a chunk.
const CASES: &str = "cases.";

/// How long the functions should run for a generated chunk.
const CHUNK_TIME: Duration = Duration::from_millis(100);

/// The cases of the first generated chunk.
const FIRST_CHUNK: usize = 4096;

/// A stream's verification.
pub(super) struct Verification {
    service: Arc<State>,
    caller: Caller,
    context: Context,
    header: Option<Arc<Header>>,
    totals: Totals,
    /// Cases of the next generated chunk.
    chunk_cases: usize,
    /// How long the functions ran for the last chunk.
    run_time: Duration,
}

impl Verification {
    pub(super) fn new(service: Arc<State>, caller: Caller, context: Context) -> Self {
        Self {
            service,
            caller,
            context,
            header: None,
            totals: Totals::default(),
            chunk_cases: FIRST_CHUNK,
            run_time: Duration::ZERO,
        }
    }

    /// A response for each chunk, then the summary.
    pub(super) fn responses(
        self,
        requests: Requests<pb::VerifyRequest>,
    ) -> BoxStream<'static, Result<pb::VerifyResponse, Status>> {
        let responses = stream::try_unfold(Some((self, requests)), |state| async {
            let Some((mut this, mut requests)) = state else { return Ok(None) };
            match this.next_verdicts(&mut requests).await? {
                Some(verdicts) => Ok(Some((answer(Answer::Cases(verdicts)), Some((this, requests))))),
                None => Ok(Some((answer(Answer::Summary(this.summary().await?)), None))),
            }
        });
        responses.boxed()
    }

    /// The verdicts of the next chunk, unless there is none.
    async fn next_verdicts(
        &mut self,
        requests: &mut Requests<pb::VerifyRequest>,
    ) -> Result<Option<pb::CaseVerdicts>, Status> {
        if self.header.is_none() {
            let Some(request) = requests.next().await.transpose()? else { return Err(no_header().into()) };
            let Some(Part::Header(header)) = request.part else { return Err(no_header().into()) };
            self.header = Some(Arc::new(self.service.header(header, &self.context).await?));
        }
        let Some(header) = self.header.clone() else { return Err(no_header().into()) };
        if let Some(generated) = &header.generated {
            if let Some(request) = requests.next().now_or_never().flatten() {
                request?;
                return Err(ApiError::invalid("cases", "expected no cases in a call with a generator").into());
            }
            return self.generate(&header, generated).await;
        }
        let Some(request) = requests.next().await.transpose()? else { return Ok(None) };
        match request.part {
            Some(Part::Cases(cases)) => self.chunk(&header, cases).await.map(Some),
            Some(Part::Header(_)) => {
                Err(ApiError::invalid("header", "expected a header in the first message only").into())
            }
            None => Err(ApiError::invalid("cases", "expected cases, got none").into()),
        }
    }

    /// Evaluates the next generated cases; as many as take about [`CHUNK_TIME`].
    async fn generate(
        &mut self,
        header: &Arc<Header>,
        generated: &Generated,
    ) -> Result<Option<pb::CaseVerdicts>, Status> {
        let Some(cases) = generated.cases(self.totals.cases, self.chunk_cases) else { return Ok(None) };
        let count = cases.count;
        let verdicts = self.evaluate(header, cases).await?;
        let (taken, most) = (self.run_time, count.saturating_mul(2));
        self.chunk_cases = if taken < CHUNK_TIME / 2 {
            most
        } else if taken > CHUNK_TIME * 2 {
            count / 2
        } else {
            count
        };
        self.chunk_cases = self.chunk_cases.max(1);
        Ok(Some(verdicts))
    }

    async fn chunk(&mut self, header: &Arc<Header>, chunk: pb::VerifyCases) -> Result<pb::CaseVerdicts, Status> {
        let decoder = self.service.decoder(&self.caller, &header.policies, CASES);
        if header.sides.has_functions() {
            let cases = decode(&decoder, header, chunk)?;
            return self.evaluate(header, cases).await;
        }
        if !chunk.inputs.is_empty() {
            return Err(ApiError::invalid("cases.inputs", "expected no inputs, for there is no function").into());
        }
        let decoded = decoder.outputs(chunk.actual, chunk.expected)?;
        let cases = case_count(decoded.outputs.iter().flat_map(|output| {
            [("actual", &output.actual), ("expected", &output.expected)]
                .map(|(list, of)| (list, &output.name, &of.shape))
        }))?;
        self.check_first(header, &decoded.outputs, 0)?;
        let evaluated = self.service.evaluate_given(header, decoded.outputs, cases, self.context.clone()).await?;
        Ok(self.totals.add(header, evaluated, cases)?)
    }

    /// Evaluates cases of functions.
    async fn evaluate(&mut self, header: &Arc<Header>, cases: Cases) -> Result<pb::CaseVerdicts, Status> {
        let evaluator = Evaluator {
            service: &self.service,
            decoder: self.service.decoder(&self.caller, &header.policies, CASES),
            header,
            context: &self.context,
            had_turn: !self.totals.is_first(),
        };
        let count = cases.count;
        let evaluated = evaluator.evaluate(cases, header.checks_determinism).await?;
        // Of a counterexample: inputs and outputs of both sides, as it was found and shrunk.
        let results = evaluated.actual.case_bytes(count) + evaluated.expected.case_bytes(count);
        let case_bytes = evaluated.inputs.iter().map(Column::case_bytes).sum::<usize>() + results;
        self.check_first(header, &evaluated.outputs, header.max_counterexamples.saturating_mul(2 * case_bytes))?;
        self.run_time = evaluated.run_time;
        let first_case = self.totals.cases;
        Counterexamples { header, first_case }.find(&evaluated, count, &mut self.totals.found);
        Ok(self.totals.add(header, evaluated, count)?)
    }

    /// Checks the outputs of the first chunk, which are those of all.
    fn check_first(&self, header: &Header, outputs: &[Output], counterexamples: usize) -> Result<(), Status> {
        if !self.totals.is_first() {
            return Ok(());
        }
        header.policies.check_outputs(|name| outputs.iter().any(|output| output.name == name))?;
        self.service.check_response(outputs, header.max_mismatches, |_| 0, counterexamples)
    }

    async fn summary(mut self) -> Result<pb::VerifySummary, Status> {
        let Some(header) = self.header.take() else { return Err(no_header().into()) };
        let evaluator = Evaluator {
            service: &self.service,
            decoder: self.service.decoder(&self.caller, &header.policies, CASES),
            header: &header,
            context: &self.context,
            had_turn: true,
        };
        let mut counterexamples: Vec<pb::Counterexample> = vec![];
        for found in std::mem::take(&mut self.totals.found) {
            let found = found.counterexample(&evaluator).await;
            let simplest = |of: &pb::Counterexample| of.shrunk.clone().or(of.found.clone());
            let is_known = |before: &pb::Counterexample| simplest(before) == simplest(&found);
            if !header.shrinks || !counterexamples.iter().any(is_known) {
                counterexamples.push(found);
            }
        }
        Ok(self.totals.summary(&header, counterexamples))
    }
}

/// Decodes a chunk for functions.
fn decode(decoder: &Decoder<'_>, header: &Header, chunk: pb::VerifyCases) -> Result<Cases, ApiError> {
    let given = |list: &str, side: &Side, tensors: Vec<pb::TensorInput>| match side {
        Side::Given => decoder.inline_tensors(list, tensors),
        Side::Function(_) if tensors.is_empty() => Ok(vec![]),
        Side::Function(_) => {
            let reason = format!("expected none, for a function computes them, got {}", tensors.len());
            Err(ApiError::invalid(format!("{CASES}{list}"), reason))
        }
    };
    let actual = given("actual", &header.sides.subject, chunk.actual)?;
    let expected = given("expected", &header.sides.reference, chunk.expected)?;
    let inputs = decoder.inline_tensors("inputs", chunk.inputs)?;
    let lists = [("inputs", &inputs), ("actual", &actual), ("expected", &expected)];
    let all = lists.iter().flat_map(|(list, tensors)| tensors.iter().map(|(name, of, _)| (*list, name, &of.shape)));
    let count = case_count(all)?;
    let inputs = Inputs::Columns(columns(&header.sides.inputs, &inputs)?);
    Ok(Cases { count, inputs, actual, expected })
}

/// The inputs in the order and the types of the functions.
fn columns(ports: &[Port], tensors: &[Named]) -> Result<Vec<Column>, ApiError> {
    if let Some(nth) = tensors.iter().position(|(name, ..)| ports.iter().all(|port| port.name != *name)) {
        let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
        let reason = format!("expected an input of [{}], got {:?}", names.join(", "), tensors[nth].0);
        return Err(ApiError::invalid(format!("{CASES}inputs[{nth}].name"), reason));
    }
    let column = |port: &Port| {
        let found = tensors.iter().enumerate().find(|(_, (name, ..))| *name == port.name);
        let Some((nth, (_, of, data))) = found else {
            return Err(ApiError::invalid(format!("{CASES}inputs"), format!("expected the input {port}, got none")));
        };
        let length = match (&of.shape[1..], port.extent) {
            ([], Extent::Scalar) => Some(None),
            ([length], Extent::List(None)) => Some(Some(*length)),
            ([length], Extent::List(Some(expected))) if *length == expected as usize => Some(Some(*length)),
            _ => None,
        };
        let Some(length) = length.filter(|_| contains(port.dtype, of.dtype)) else {
            let got = format!("{} of shape {:?} for each case", of.dtype, &of.shape[1..]);
            let reason = format!("expected {port}, got {got}");
            return Err(ApiError::invalid(format!("{CASES}inputs[{nth}]"), reason));
        };
        Ok(Column { dtype: of.dtype, length, data: data.clone() }.convert(port.dtype))
    };
    ports.iter().map(column).collect()
}

/// The number of cases, which is the first extent of all tensors.
fn case_count<'a>(tensors: impl Iterator<Item = (&'a str, &'a String, &'a Vec<usize>)>) -> Result<usize, ApiError> {
    let mut count = None;
    for (list, name, shape) in tensors {
        let got = shape.first().copied();
        if got.is_none() || got != *count.get_or_insert(got) {
            let expected = count.flatten().map_or("a dimension of cases".to_owned(), |count| format!("{count} cases"));
            let reason = format!("expected {expected}, got shape {shape:?} for {name:?}");
            return Err(ApiError::invalid(format!("{CASES}{list}"), reason));
        }
    }
    Ok(count.flatten().unwrap_or_default())
}

fn no_header() -> ApiError {
    ApiError::invalid("header", "expected a header in the first message, got none")
}

fn answer(part: Answer) -> pb::VerifyResponse {
    pb::VerifyResponse { part: Some(part) }
}
