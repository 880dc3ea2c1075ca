//! Verification of cases that arrive in chunks, or that are generated.
//!
//! Several chunks are evaluated at once, in any order, and their results are added in the order of the cases, so that they depend neither on
//! processes nor on chunks.

use std::{sync::Arc, time::Duration};

use accelerd_engine::Context;
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, ready},
    stream::{self, BoxStream, FuturesOrdered},
};
use tokio::runtime::Handle;

use super::{
    cases::{Cases, Inputs},
    chunks::{Chunk, decode, decode_given},
    counterexamples::{Counterexample, Counterexamples, most_that_fit},
    evaluate::{Evaluated, Evaluator},
    generated::Generated,
    header::{Header, VerificationRequest},
    screen_queue::{ScreenQueue, ScreenedChunk},
    screening::Decided,
    service::VerificationService,
    totals::{CaseVerdicts, Summary, Totals},
};
use crate::{auth::caller::Caller, error::ApiError, kernels::launch::KernelDevice, layers::timing};

/// Intended time of the functions for a generated chunk.
const CHUNK_TIME: Duration = Duration::from_millis(50);

/// The cases of the first generated chunk, from which it is learned how long the functions run.
const FIRST_CHUNK: usize = 1024;

/// Greatest ratio of the next chunk to the last one.
const MAX_GROWTH: usize = 16;

/// A call whose chunks take longer has one process only: others would wait long for those that it has.
const SLOW_CHUNK: Duration = Duration::from_secs(1);

/// The most bytes of chunks that are evaluated at once, but for the last of them.
const BYTES_IN_FLIGHT: usize = 64 << 20;

/// The most cases of a chunk that was screened, if the client wants a bit for each.
const MAX_VERDICTS: u64 = 1 << 20;

/// The chunks of a client. An error of the connection ends the call.
pub(crate) type Chunks<E> = BoxStream<'static, Result<Chunk, E>>;

/// A response of a verification.
pub(crate) enum Answer {
    /// For each chunk.
    Cases(CaseVerdicts),
    /// At last.
    Summary(Summary),
}

/// A verification, once its header has arrived.
struct Pipeline<E> {
    evaluator: Arc<Evaluator>,
    chunks: FuturesOrdered<BoxFuture<'static, Result<EvaluatedChunk, E>>>,
    /// Generated cases that a GPU runs first.
    screens: Option<ScreenQueue>,
    bytes_in_flight: usize,
    /// Cases of all chunks that have begun.
    begun: u64,
    /// True if no further chunks arrive.
    is_complete: bool,
    totals: Totals,
    /// Cases of the next generated chunk.
    chunk_cases: usize,
    /// Time that the functions ran for the last chunk.
    run_time: Option<Duration>,
    /// The most counterexamples that are kept. Known after the first chunk.
    max_counterexamples: usize,
}

struct EvaluatedChunk {
    cases: u64,
    /// The cases that were evaluated, unless there are none.
    evaluated: Option<Evaluated>,
    /// Cases that a GPU has decided instead.
    decided: Option<Decided>,
    /// A chunk that the client sent, or one of generated inputs.
    bytes: usize,
}

impl VerificationService {
    /// Verifies what a header describes: an answer for each chunk, then the summary.
    pub(crate) async fn verify<E: From<ApiError> + Send + 'static>(
        self: &Arc<Self>,
        caller: Caller,
        context: Context,
        header: VerificationRequest,
        chunks: Chunks<E>,
    ) -> Result<BoxStream<'static, Result<Answer, E>>, ApiError> {
        let header = self.header(header, &context).await?;
        let turns = self.sandboxes.turns();
        let screens = self.screens(&header, &context).await?;
        let evaluator = Evaluator { service: Arc::clone(self), caller, context, header, turns };
        Ok(Pipeline::new(evaluator, screens).answers(chunks))
    }

    /// Returns the screens of the cases after the first chunk, each launch in a task of its own, as [`Pipeline::begin`] evaluates chunks.
    async fn screens(&self, header: &Header, context: &Context) -> Result<Option<ScreenQueue>, ApiError> {
        if header.device != KernelDevice::Cuda {
            return Ok(None);
        }
        let screening = Arc::new(self.screening(header, context).await?);
        let first = screening.first_case().max(FIRST_CHUNK as u64);
        let context = context.clone();
        let run = move |first, cases| {
            let handle = Handle::current();
            let screened = Arc::clone(&screening).run(context.clone(), first, cases);
            async move { timing::spawn_on(&handle, screened).await }.boxed()
        };
        let end = header.generated.as_ref().map_or(0, Generated::case_count);
        Ok(Some(ScreenQueue::new(first, end, run)))
    }
}

impl<E: From<ApiError> + Send + 'static> Pipeline<E> {
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

    fn answers(self, chunks: Chunks<E>) -> BoxStream<'static, Result<Answer, E>> {
        let answers = stream::try_unfold(Some((self, chunks)), move |state| async move {
            let Some((mut this, mut chunks)) = state else { return Ok(None) };
            match this.next_verdicts(&mut chunks).await? {
                Some(verdicts) => Ok(Some((Answer::Cases(verdicts), Some((this, chunks))))),
                None => Ok(Some((Answer::Summary(this.summary().await), None))),
            }
        });
        answers.boxed()
    }

    /// The verdicts of the next chunk, unless there is none.
    async fn next_verdicts(&mut self, chunks: &mut Chunks<E>) -> Result<Option<CaseVerdicts>, E> {
        if self.evaluator.header.generated.is_some()
            && let Some(chunk) = chunks.next().now_or_never().flatten()
        {
            chunk?;
            return Err(ApiError::invalid("cases", "expected no cases in a call with a generator").into());
        }
        let evaluated = loop {
            self.generate();
            let is_open = !self.is_complete && self.has_room();
            let is_screening = self.screens.as_ref().is_some_and(ScreenQueue::is_running);
            tokio::select! {
                screened = screened(&mut self.screens), if is_screening => screened?,
                chunk = chunks.next(), if is_open => self.receive(chunk),
                evaluated = self.chunks.next(), if !self.chunks.is_empty() => break evaluated,
                else => break None,
            }
        };
        match evaluated {
            Some(chunk) => Ok(Some(self.add(chunk?)?)),
            None => Ok(None),
        }
    }

    /// Returns true if a further chunk may begin.
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
    fn begin(&mut self, bytes: usize, evaluated: impl Future<Output = Result<Evaluated, ApiError>> + Send + 'static) {
        self.begin_chunk(bytes, evaluated, move |evaluated| {
            let cases = evaluated.count as u64;
            EvaluatedChunk { cases, evaluated: Some(evaluated), decided: None, bytes }
        });
    }

    fn begin_chunk(
        &mut self,
        bytes: usize,
        evaluated: impl Future<Output = Result<Evaluated, ApiError>> + Send + 'static,
        chunk: impl FnOnce(Evaluated) -> EvaluatedChunk + Send + 'static,
    ) {
        self.bytes_in_flight += bytes;
        let handle = Handle::current();
        let chunk = async move { timing::spawn_on(&handle, evaluated).await.map(chunk).map_err(E::from) };
        self.chunks.push_back(chunk.boxed());
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
        let max_verdicts = if self.evaluator.header.case_verdicts { MAX_VERDICTS } else { u64::MAX };
        let most_open = most_open.min(generated.chunk_cases());
        let Some(screens) = &mut self.screens else { return false };
        let Some(ScreenedChunk { count, open, decided }) = screens.take(most_open, max_verdicts) else { return false };
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
    ) -> impl Future<Output = Result<Evaluated, ApiError>> + Send + use<E> {
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

    fn receive(&mut self, chunk: Option<Result<Chunk, E>>) {
        let Some(chunk) = chunk else {
            self.is_complete = true;
            return;
        };
        if let Err(error) = chunk.and_then(|chunk| self.begin_sent(chunk).map_err(E::from)) {
            // It follows the verdicts of the chunks before.
            self.is_complete = true;
            self.chunks.push_back(ready(Err(error)).boxed());
        }
    }

    fn begin_sent(&mut self, chunk: Chunk) -> Result<(), ApiError> {
        let bytes = chunk.bytes;
        let evaluator = Arc::clone(&self.evaluator);
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
    fn add(&mut self, chunk: EvaluatedChunk) -> Result<CaseVerdicts, ApiError> {
        let EvaluatedChunk { cases, evaluated, decided, bytes } = chunk;
        self.bytes_in_flight -= bytes;
        let evaluator = Arc::clone(&self.evaluator);
        let header = &evaluator.header;
        if let Some(evaluated) = &evaluated {
            self.check_first(evaluated)?;
            self.pace(evaluated);
            if header.sides.has_functions() {
                let first_case = self.totals.cases;
                let limit = self.max_counterexamples;
                Counterexamples { header, first_case, limit }.find(evaluated, &mut self.totals.found);
            }
        }
        self.totals.add(header, cases, evaluated, decided)
    }

    /// Checks the outputs of the first chunk, which are those of all.
    fn check_first(&mut self, evaluated: &Evaluated) -> Result<(), ApiError> {
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

    async fn summary(mut self) -> Summary {
        let header = &self.evaluator.header;
        let mut counterexamples: Vec<Counterexample> = vec![];
        for found in std::mem::take(&mut self.totals.found) {
            let found = found.counterexample(&self.evaluator).await;
            let is_known = |before: &Counterexample| before.simplest() == found.simplest();
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
