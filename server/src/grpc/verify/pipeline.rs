//! Verification of cases that arrive in chunks, or that are generated.
//!
//! Several chunks are evaluated at once, in any order, and their results are added in the order of the cases, so that they depend neither on
//! processes nor on chunks.

use std::{sync::Arc, time::Duration};

use accelerd_engine::Context;
use accelerd_proto::v1::{self as pb, verify_request::Part, verify_response::Part as Answer};
use futures::{
    FutureExt, StreamExt, TryFutureExt,
    future::{BoxFuture, ready},
    stream::{self, BoxStream, FuturesOrdered},
};
use prost::Message;
use tokio::runtime::Handle;
use tonic::Status;

use super::{
    State,
    cases::{Cases, Inputs},
    chunks::{decode, decode_given},
    counterexamples::{Counterexamples, most_that_fit},
    evaluate::{Evaluated, Evaluator},
    generated::Generated,
    header::Header,
    screen_queue::{ScreenQueue, ScreenedChunk},
    screening::Decided,
    totals::Totals,
};
use crate::{auth::caller::Caller, error::ApiError, grpc::call::Requests, layers::timing};

/// How long the functions should run for a generated chunk.
const CHUNK_TIME: Duration = Duration::from_millis(50);

/// The cases of the first generated chunk, from which it is learned how long the functions run.
const FIRST_CHUNK: usize = 1024;

/// How much larger than the last chunk the next one may be.
const MAX_GROWTH: usize = 16;

/// A call whose chunks take longer has one process only: others would wait long for those that it has.
const SLOW_CHUNK: Duration = Duration::from_secs(1);

/// The most bytes of chunks that are evaluated at once, but for the last of them.
const BYTES_IN_FLIGHT: usize = 64 << 20;

/// The most cases of a chunk that was screened, if the client wants a bit for each.
const MAX_VERDICTS: u64 = 1 << 20;

/// A verification, once its header has arrived.
pub(super) struct Pipeline {
    evaluator: Arc<Evaluator>,
    chunks: FuturesOrdered<BoxFuture<'static, Result<EvaluatedChunk, Status>>>,
    /// Generated cases that a GPU runs first.
    screens: Option<ScreenQueue>,
    bytes_in_flight: usize,
    /// Cases of all chunks that have begun.
    begun: u64,
    /// Whether no further chunks arrive.
    is_complete: bool,
    totals: Totals,
    /// Cases of the next generated chunk.
    chunk_cases: usize,
    /// How long the functions ran for the last chunk.
    run_time: Option<Duration>,
    /// The most counterexamples that are kept. Known after the first chunk.
    max_counterexamples: usize,
}

struct EvaluatedChunk {
    cases: u64,
    /// The cases that were evaluated, unless there are none.
    evaluated: Option<Evaluated>,
    /// What a GPU has decided instead.
    decided: Option<Decided>,
    /// Of what the client sent, or of generated inputs.
    bytes: usize,
}

/// A response for each chunk, then the summary.
pub(super) fn responses(
    service: Arc<State>,
    caller: Caller,
    context: Context,
    mut requests: Requests<pb::VerifyRequest>,
) -> BoxStream<'static, Result<pb::VerifyResponse, Status>> {
    let started = async move {
        let no_header = || ApiError::invalid("header", "expected a header in the first message, got none");
        let Some(request) = requests.next().await.transpose()? else { return Err(no_header().into()) };
        let Some(Part::Header(header)) = request.part else { return Err(no_header().into()) };
        let header = service.header(header, &context).await?;
        let turns = service.sandboxes.turns();
        let screens = service.screens(&header, &context).await?;
        Ok(Pipeline::new(Evaluator { service, caller, context, header, turns }, screens).responses(requests))
    };
    started.try_flatten_stream().boxed()
}

impl State {
    /// What screens the cases after the first chunk, each launch in a task of its own, as [`Pipeline::begin`] evaluates chunks.
    async fn screens(&self, header: &Header, context: &Context) -> Result<Option<ScreenQueue>, ApiError> {
        if header.device != pb::KernelDevice::Cuda {
            return Ok(None);
        }
        let screening = Arc::new(self.screening(header, context).await?);
        let (first, context) = (screening.first_case().max(FIRST_CHUNK as u64), context.clone());
        let run = move |first, cases| {
            let (handle, screened) = (Handle::current(), Arc::clone(&screening).run(context.clone(), first, cases));
            async move { timing::spawn_on(&handle, screened).await }.boxed()
        };
        let end = header.generated.as_ref().map_or(0, Generated::case_count);
        Ok(Some(ScreenQueue::new(first, end, run)))
    }
}

impl Pipeline {
    fn new(evaluator: Evaluator, screens: Option<ScreenQueue>) -> Self {
        Self {
            is_complete: evaluator.header.generated.is_some(),
            evaluator: Arc::new(evaluator),
            chunks: FuturesOrdered::new(),
            screens,
            bytes_in_flight: 0,
            begun: 0,
            totals: Totals::default(),
            chunk_cases: FIRST_CHUNK,
            run_time: None,
            max_counterexamples: 0,
        }
    }

    fn responses(
        self,
        requests: Requests<pb::VerifyRequest>,
    ) -> BoxStream<'static, Result<pb::VerifyResponse, Status>> {
        let answer = |part| pb::VerifyResponse { part: Some(part) };
        let responses = stream::try_unfold(Some((self, requests)), move |state| async move {
            let Some((mut this, mut requests)) = state else { return Ok(None) };
            match this.next_verdicts(&mut requests).await? {
                Some(verdicts) => Ok(Some((answer(Answer::Cases(verdicts)), Some((this, requests))))),
                None => Ok(Some((answer(Answer::Summary(this.summary().await)), None))),
            }
        });
        responses.boxed()
    }

    /// The verdicts of the next chunk, unless there is none.
    async fn next_verdicts(
        &mut self,
        requests: &mut Requests<pb::VerifyRequest>,
    ) -> Result<Option<pb::CaseVerdicts>, Status> {
        if self.evaluator.header.generated.is_some()
            && let Some(request) = requests.next().now_or_never().flatten()
        {
            request?;
            return Err(ApiError::invalid("cases", "expected no cases in a call with a generator").into());
        }
        let evaluated = loop {
            self.generate();
            let is_open = !self.is_complete && self.has_room();
            let is_screening = self.screens.as_ref().is_some_and(ScreenQueue::is_running);
            tokio::select! {
                screened = screened(&mut self.screens), if is_screening => screened?,
                request = requests.next(), if is_open => self.receive(request),
                evaluated = self.chunks.next(), if !self.chunks.is_empty() => break evaluated,
                else => break None,
            }
        };
        evaluated.map(|chunk| self.add(chunk?)).transpose()
    }

    /// Whether a further chunk may begin.
    fn has_room(&self) -> bool {
        let Evaluator { service, header, .. } = &*self.evaluator;
        let chunks = match self.run_time {
            _ if !header.sides.has_functions() => 2,
            None => 1,
            Some(run_time) if run_time > SLOW_CHUNK => 1,
            // While each process runs one, the inputs of another are made, and the results of another are compared.
            Some(_) => service.sandboxes.limits().processes + 2,
        };
        self.chunks.len() < chunks && self.bytes_in_flight < BYTES_IN_FLIGHT
    }

    /// Evaluates a chunk in a task of its own: if the client does not read, no chunk keeps a process that it was given.
    fn begin(&mut self, bytes: usize, evaluated: impl Future<Output = Result<Evaluated, Status>> + Send + 'static) {
        self.begin_chunk(bytes, evaluated, move |evaluated| {
            let cases = evaluated.count as u64;
            EvaluatedChunk { cases, evaluated: Some(evaluated), decided: None, bytes }
        });
    }

    fn begin_chunk(
        &mut self,
        bytes: usize,
        evaluated: impl Future<Output = Result<Evaluated, Status>> + Send + 'static,
        chunk: impl FnOnce(Evaluated) -> EvaluatedChunk + Send + 'static,
    ) {
        self.bytes_in_flight += bytes;
        let handle = Handle::current();
        self.chunks.push_back(async move { timing::spawn_on(&handle, evaluated).await.map(chunk) }.boxed());
    }

    /// Begins generated chunks, as many as there is room for.
    fn generate(&mut self) {
        let evaluator = Arc::clone(&self.evaluator);
        let Some(generated) = &evaluator.header.generated else { return };
        if let Some(screens) = &mut self.screens
            && self.run_time.is_some()
        {
            screens.start();
        }
        while self.has_room() && self.generate_chunk(generated) {}
    }

    /// Begins the next generated chunk. `false` if there is none, or if a GPU screens its cases.
    fn generate_chunk(&mut self, generated: &Generated) -> bool {
        let count = self.next_count(generated);
        match &mut self.screens {
            Some(screens) if screens.first() > self.begun => {
                let before = usize::try_from(screens.first() - self.begun).unwrap_or(usize::MAX);
                self.generate_all(generated, count.min(before))
            }
            Some(screens) if screens.has_cases() => self.generate_open(generated, count),
            Some(_) | None => self.generate_all(generated, count),
        }
    }

    /// Begins a chunk of cases all of which are evaluated.
    fn generate_all(&mut self, generated: &Generated, count: usize) -> bool {
        let Some(cases) = generated.cases(self.begun, count) else { return false };
        self.begun += cases.count as u64;
        let bytes = cases.count * generated.case_bytes();
        let evaluated = self.evaluate_generated(cases, bytes);
        self.begin(bytes, evaluated);
        true
    }

    /// Begins a chunk of screened cases, of which the open ones are evaluated.
    fn generate_open(&mut self, generated: &Generated, most_open: usize) -> bool {
        let most = if self.evaluator.header.case_verdicts { MAX_VERDICTS } else { u64::MAX };
        let most_open = most_open.min(generated.chunk_cases());
        let Some(screens) = &mut self.screens else { return false };
        let Some(ScreenedChunk { count, open, decided }) = screens.take(most_open, most) else { return false };
        self.begun += count;
        if open.is_empty() {
            let chunk = EvaluatedChunk { cases: count, evaluated: None, decided, bytes: 0 };
            self.chunks.push_back(ready(Ok(chunk)).boxed());
            return true;
        }
        let bytes = open.len() * (generated.case_bytes() + size_of::<u64>());
        let cases = Cases::of_functions(open.len(), Inputs::Numbered(open.into()));
        let evaluated = self.evaluate_generated(cases, bytes);
        self.begin_chunk(bytes, evaluated, move |evaluated| EvaluatedChunk {
            cases: count,
            evaluated: Some(evaluated),
            decided,
            bytes,
        });
        true
    }

    /// Evaluates generated cases. Their inputs are made at once if there is memory for it.
    fn evaluate_generated(
        &self,
        cases: Cases,
        bytes: usize,
    ) -> impl Future<Output = Result<Evaluated, Status>> + Send + use<> {
        let evaluator = Arc::clone(&self.evaluator);
        let kibibytes = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        let ahead = Arc::clone(&evaluator.service.generated_ahead).try_acquire_many_owned(kibibytes);
        let reserved = ahead.ok().filter(|_| self.run_time.is_some());
        async move {
            let cases = if reserved.is_some() { evaluator.generate(cases).await? } else { cases };
            evaluator.evaluate(cases, evaluator.header.checks_determinism).await
        }
    }

    /// Cases of the next generated chunk.
    fn next_count(&self, generated: &Generated) -> usize {
        let Evaluator { service, header, .. } = &*self.evaluator;
        if header.sides.share_instances() {
            return FIRST_CHUNK;
        }
        // The last chunks are of equal size, so that no process runs for long after the others.
        let share = generated.left(self.begun).div_ceil(service.sandboxes.limits().processes.max(1));
        self.chunk_cases.min(share.max(FIRST_CHUNK))
    }

    fn receive(&mut self, request: Option<Result<pb::VerifyRequest, Status>>) {
        let Some(request) = request else {
            self.is_complete = true;
            return;
        };
        if let Err(error) = request.and_then(|request| self.begin_sent(request)) {
            // It follows the verdicts of the chunks before.
            self.is_complete = true;
            self.chunks.push_back(ready(Err(error)).boxed());
        }
    }

    fn begin_sent(&mut self, request: pb::VerifyRequest) -> Result<(), Status> {
        let chunk = match request.part {
            Some(Part::Cases(chunk)) => chunk,
            Some(Part::Header(_)) => {
                return Err(ApiError::invalid("header", "expected a header in the first message only").into());
            }
            None => return Err(ApiError::invalid("cases", "expected cases, got none").into()),
        };
        let (bytes, evaluator) = (chunk.encoded_len(), Arc::clone(&self.evaluator));
        if evaluator.header.sides.has_functions() {
            let cases = decode(&evaluator.decoder(), &evaluator.header, chunk)?;
            self.begin(bytes, async move { evaluator.evaluate(cases, evaluator.header.checks_determinism).await });
        } else {
            let (sent, count) = decode_given(&evaluator.decoder(), chunk)?;
            self.begin(bytes, async move { evaluator.evaluate_given(sent, count).await });
        }
        Ok(())
    }

    /// Adds the next chunk in the order of the cases.
    fn add(&mut self, chunk: EvaluatedChunk) -> Result<pb::CaseVerdicts, Status> {
        let EvaluatedChunk { cases, evaluated, decided, bytes } = chunk;
        self.bytes_in_flight -= bytes;
        let evaluator = Arc::clone(&self.evaluator);
        let header = &evaluator.header;
        if let Some(evaluated) = &evaluated {
            self.check_first(evaluated)?;
            self.pace(evaluated);
            if header.sides.has_functions() {
                let (first_case, most) = (self.totals.cases, self.max_counterexamples);
                Counterexamples { header, first_case, most }.find(evaluated, &mut self.totals.found);
            }
        }
        Ok(self.totals.add(header, cases, evaluated, decided)?)
    }

    /// Checks the outputs of the first chunk, which are those of all.
    fn check_first(&mut self, evaluated: &Evaluated) -> Result<(), Status> {
        if !self.totals.is_first() {
            return Ok(());
        }
        let Evaluator { service, header, .. } = &*self.evaluator;
        let outputs = &evaluated.outputs;
        header.policies.check_outputs(|name| outputs.iter().any(|output| output.name == name))?;
        let room = service.check_response(outputs, header.max_mismatches, |_| 0)?;
        self.max_counterexamples = most_that_fit(header, evaluated, room);
        Ok(())
    }

    /// Sizes the next generated chunks so that their functions run for about [`CHUNK_TIME`].
    fn pace(&mut self, evaluated: &Evaluated) {
        let (count, run_time) = (evaluated.count, evaluated.run_time);
        self.run_time = Some(run_time);
        let in_time = count as u128 * CHUNK_TIME.as_nanos() / run_time.as_nanos().max(1);
        self.chunk_cases =
            usize::try_from(in_time).unwrap_or(usize::MAX).clamp(1, count.saturating_mul(MAX_GROWTH).max(1));
    }

    async fn summary(mut self) -> pb::VerifySummary {
        let header = &self.evaluator.header;
        let mut counterexamples: Vec<pb::Counterexample> = vec![];
        for found in std::mem::take(&mut self.totals.found) {
            let found = found.counterexample(&self.evaluator).await;
            let simplest = |of: &pb::Counterexample| of.shrunk.clone().or(of.found.clone());
            let is_known = |before: &pb::Counterexample| simplest(before) == simplest(&found);
            if !header.shrinks || !counterexamples.iter().any(is_known) {
                counterexamples.push(found);
            }
        }
        self.totals.summary(header, counterexamples)
    }
}

/// Waits for cases that are being screened.
async fn screened(screens: &mut Option<ScreenQueue>) -> Result<(), ApiError> {
    match screens {
        Some(screens) => screens.screened().await,
        None => Ok(()),
    }
}
