//! A batch of requests on a GPU: sources in slices to the device, columns back, and what the device leaves to the CPU.
//!
//! While the device works on slices, the host packs those behind them, and the columns of those before come back. Two slices
//! are in the kernels at once, each on a stream of its own: while the last long lines of one keep few of the device's units,
//! the other has the rest.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, OnceLock,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use bytes::Bytes;
use rayon::prelude::*;

use super::{
    areas::Areas,
    left::{Batch, Leave},
    slice::{Asked, Back, InLexer, InParser, OnTheWay, Packed, Parsed, pack},
};
use crate::{
    OpError,
    cuda::{Landed, PinnedPool, Worker},
    ops::parse::{
        Outputs, ParseRequest, ParseResponse, SourceResult,
        cpu::{Done, other_text},
        gather::gather,
    },
};

/// Bytes of source that go to the device at once: enough to keep it busy, few enough that the first are back early.
const SLICE_BYTES: usize = 24 << 20;
/// The first one of a request that takes several is smaller, so that the device begins early, and each is at most twice as
/// large as the one before.
const FIRST_BYTES: usize = 6 << 20;
/// Bytes of source below which one thread puts answers together: waking others takes longer.
const SPREAD_BYTES: usize = 256 << 10;
/// Slices that are packed before the device has room for them.
const MOST_PACKED: usize = 4;
/// Slices that are lexed or parsed at once, on two streams: one more than these waits for its turn there.
const MOST_IN_KERNELS: usize = 3;
/// Slices that wait for what the CPU has to do; each keeps its memory on the device, as those under way do.
const MOST_PARSED: usize = 3;
/// Slices whose columns are under way at once.
const MOST_UNDER_WAY: usize = 3;

/// Parses every source of every request.
pub(in crate::ops::parse) fn run(batch: &[&ParseRequest], worker: &Worker) -> Result<Vec<ParseResponse>, OpError> {
    let (device, cpu) = (&**worker.device(), worker.device().cpu());
    let asked = batch.iter().flat_map(|&request| Asked::all(request));
    let all = Batch::new(asked.collect(), device.left(), cpu.threads());
    let wanted = batch.iter().fold(Outputs::default(), |all, request| union(all, request.outputs));
    let (slices, areas) = cpu.scope(|scope| {
        let leave = Leave { batch: &all, scope };
        leave.foresee();
        let plan = cut(batch);
        let pipeline = Pipeline::new(&all.anew, &plan, wanted, worker);
        let pack = |range: Range<usize>| {
            let is_last = range.end == all.sources.len();
            let packed = pack(range, device, leave);
            // Until now those that pack had the threads: the device waits for them.
            if is_last {
                leave.all_hands();
            }
            packed
        };
        packing(&plan, pack, |packed| pipeline.run(&packed, leave))
    })?;
    let bytes: usize = all.sources.iter().map(|source| source.bytes.len()).sum();
    let finished = Finished { batch: &all, slices, areas, pool: device.pinned() };
    let answers = if bytes < SPREAD_BYTES { finished.answers(batch) } else { cpu.install(|| finished.answers(batch)) };
    // To give back what the CPU made takes a while, for which nobody has to wait.
    let Batch { anew, .. } = all;
    cpu.later(move || drop(anew));
    Ok(answers)
}

/// Packs all slices, in their order and at most so many ahead, beside what is done with them; a single one right here.
fn packing<P: Send, R>(
    plan: &[Planned],
    pack: impl Fn(Range<usize>) -> P + Sync,
    run: impl FnOnce(Receiver<P>) -> R,
) -> R {
    let (ready, packed) = sync_channel(MOST_PACKED);
    // Whoever waits for slices may give up, after which none is packed any more.
    let pack_all = |ready: SyncSender<P>| {
        let _ = plan.iter().try_for_each(|slice| ready.send(pack(slice.range.clone())));
    };
    if plan.len() < 2 {
        pack_all(ready);
        return run(packed);
    }
    thread::scope(|threads| {
        threads.spawn(|| pack_all(ready));
        run(packed)
    })
}

fn union(one: Outputs, other: Outputs) -> Outputs {
    Outputs {
        // An outline is made from the tree.
        tree: one.tree || other.tree || other.outline,
        tokens: one.tokens || other.tokens,
        comments: one.comments || other.comments,
        outline: one.outline || other.outline,
        line_starts: one.line_starts || other.line_starts,
    }
}

/// Sources that go to the device at once.
struct Planned {
    range: Range<usize>,
    /// Where the columns of this slice begin those of others: the bytes of source of all of them.
    opens: Option<usize>,
}

/// Parts the sources into what goes to the device at once: several requests, or a part of one.
fn cut(batch: &[&ParseRequest]) -> Vec<Planned> {
    let (mut plan, mut first, mut at, mut bytes) = (vec![], 0, 0, 0);
    for request in batch {
        let own = request.sources.iter().map(Bytes::len).sum();
        if bytes + own > SLICE_BYTES && at > first {
            plan.push(Planned { range: first..at, opens: Some(bytes) });
            (first, bytes) = (at, 0);
        }
        (at, bytes) = (at + request.sources.len(), bytes + own);
        if bytes > SLICE_BYTES {
            cut_one(&request.sources, first, own, &mut plan);
            (first, bytes) = (at, 0);
        }
    }
    if at > first {
        plan.push(Planned { range: first..at, opens: Some(bytes) });
    }
    plan
}

/// Parts the sources of one request, which begin at `first`.
fn cut_one(sources: &[Bytes], mut first: usize, all: usize, plan: &mut Vec<Planned>) {
    let (mut opens, mut bytes, mut most) = (Some(all), 0, FIRST_BYTES);
    let (begin, end) = (first, first + sources.len());
    for (at, source) in (begin..).zip(sources) {
        if bytes + source.len() > most && at > first {
            plan.push(Planned { range: first..at, opens: opens.take() });
            (first, bytes, most) = (at, 0, SLICE_BYTES.min(most * 2));
        }
        bytes += source.len();
    }
    plan.push(Planned { range: first..end, opens });
}

/// Slices on their way through the device.
struct Pipeline<'a> {
    /// What the CPU makes of sources that are left to it.
    anew: &'a [OnceLock<Done>],
    wanted: Outputs,
    worker: &'a Worker,
    areas: Areas<'a>,
    opens: VecDeque<Option<usize>>,
    started: usize,
    in_lexer: VecDeque<InLexer<'a>>,
    in_parser: VecDeque<InParser<'a>>,
    parsed: VecDeque<Parsed<'a>>,
    under_way: VecDeque<OnTheWay<'a>>,
    back: Vec<Back<'a>>,
}

impl<'a> Pipeline<'a> {
    fn new(anew: &'a [OnceLock<Done>], plan: &[Planned], wanted: Outputs, worker: &'a Worker) -> Self {
        Self {
            anew,
            wanted,
            worker,
            areas: Areas::default(),
            opens: plan.iter().map(|slice| slice.opens).collect(),
            started: 0,
            in_lexer: VecDeque::new(),
            in_parser: VecDeque::new(),
            parsed: VecDeque::new(),
            under_way: VecDeque::new(),
            back: vec![],
        }
    }

    /// Takes all slices through. Returns where the columns are.
    fn run(
        mut self,
        packed: &Receiver<Result<Packed<'a>, OpError>>,
        leave: Leave<'_, 'a>,
    ) -> Result<(Vec<Back<'a>>, Vec<Arc<Landed>>), OpError> {
        while self.start(packed)? {
            self.step(leave)?;
        }
        self.bring_whole(0)?;
        self.areas.fill(self.worker);
        self.wait_for_all_but(0)?;
        Ok((self.back, self.areas.wait(self.worker)?))
    }

    /// Launches the lexer of slices that are packed, then starts to bring columns back, and waits for packed slices where a
    /// stream would have nothing to do. Says whether anything is in the kernels.
    fn start(&mut self, packed: &Receiver<Result<Packed<'a>, OpError>>) -> Result<bool, OpError> {
        while self.in_kernels() < MOST_IN_KERNELS {
            let Ok(next) = packed.try_recv() else { break };
            self.lex(next?)?;
        }
        self.bring_whole(MOST_PARSED)?;
        self.wait_for_all_but(MOST_UNDER_WAY)?;
        while self.in_kernels() < 2 {
            let Ok(next) = packed.recv() else { break };
            self.lex(next?)?;
        }
        Ok(self.in_kernels() > 0)
    }

    fn lex(&mut self, packed: Packed<'a>) -> Result<(), OpError> {
        let worker = if self.started.is_multiple_of(2) { self.worker } else { self.worker.twin()? };
        self.in_lexer.push_back(packed.lex(worker)?);
        self.started += 1;
        Ok(())
    }

    fn in_kernels(&self) -> usize {
        self.in_lexer.len() + self.in_parser.len()
    }

    /// Launches the parser of the first slice that is in the lexer, and takes the first one that is in the parser out of it
    /// unless it is alone.
    fn step(&mut self, leave: Leave<'_, 'a>) -> Result<(), OpError> {
        if let Some(first) = self.in_lexer.pop_front() {
            let mut parsing = first.parse(self.wanted)?;
            parsing.leave_early(leave)?;
            self.in_parser.push_back(parsing);
        }
        if self.in_parser.len() < 2 && !self.in_lexer.is_empty() {
            return Ok(());
        }
        if let Some(first) = self.in_parser.pop_front() {
            self.parsed.push_back(first.wait(self.wanted, leave)?);
        }
        Ok(())
    }

    /// Starts to bring back, in their order, slices that the CPU has done its part of, and others until so many are left.
    fn bring_whole(&mut self, most: usize) -> Result<(), OpError> {
        let whole = |first: &Parsed<'_>| first.is_whole(self.anew);
        while self.parsed.len() > most || self.parsed.front().is_some_and(whole) {
            let Some(first) = self.parsed.pop_front() else { break };
            if let Some(bytes) = self.opens.pop_front().flatten() {
                self.areas.open(bytes);
            }
            self.under_way.push_back(first.bring(self.anew, &mut self.areas, self.worker)?);
        }
        Ok(())
    }

    fn wait_for_all_but(&mut self, most: usize) -> Result<(), OpError> {
        while self.under_way.len() > most {
            let first = self.under_way.pop_front().map(OnTheWay::wait).transpose()?;
            self.back.extend(first);
        }
        Ok(())
    }
}

/// Everything that is needed for the answers.
struct Finished<'a> {
    batch: &'a Batch<'a>,
    slices: Vec<Back<'a>>,
    areas: Vec<Arc<Landed>>,
    pool: &'a Arc<PinnedPool>,
}

impl Finished<'_> {
    fn answers(&self, batch: &[&ParseRequest]) -> Vec<ParseResponse> {
        let mut first = 0;
        let answer = |request: &&ParseRequest| {
            let range = first..first + request.sources.len();
            first = range.end;
            self.answer(range, request.outputs)
        };
        batch.iter().map(answer).collect()
    }

    /// The answer to the request of these sources.
    fn answer(&self, range: Range<usize>, wanted: Outputs) -> ParseResponse {
        let result = |at: usize| self.result(at, wanted);
        let bytes: usize = self.batch.sources[range.clone()].iter().map(|source| source.bytes.len()).sum();
        let results = if wanted.outline && bytes >= SPREAD_BYTES {
            range.clone().into_par_iter().map(result).collect()
        } else {
            range.clone().map(result).collect()
        };
        let parts = self.slices.iter().filter_map(|slice| {
            let (own, all) = (slice.range(), &range);
            let sources = own.start.max(all.start)..own.end.min(all.end);
            (!sources.is_empty()).then(|| slice.part(sources, &self.areas))
        });
        ParseResponse { results, columns: gather(parts, wanted, Some(self.pool)) }
    }

    fn slice(&self, at: usize) -> &Back<'_> {
        &self.slices[self.slices.partition_point(|slice| slice.range().end <= at)]
    }

    fn result(&self, at: usize, wanted: Outputs) -> SourceResult {
        if let Some(anew) = self.batch.anew[at].get() {
            return anew.result.clone();
        }
        let slice = self.slice(at);
        SourceResult {
            diagnostic: None,
            counts: slice.counts(at, wanted),
            text: slice.text(at).and_then(other_text),
            outline: if wanted.outline { slice.outline(at, &self.areas) } else { vec![] },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn request(sizes: &[usize]) -> ParseRequest {
        let sources = sizes.iter().map(|&size| vec![b'\n'; size].into()).collect();
        ParseRequest::new(sources, accelerd_parser::Options::default(), Outputs::default())
    }

    #[test]
    fn small_requests_share_a_slice_and_a_large_one_has_slices_of_its_own() {
        const MOST: usize = SLICE_BYTES;
        const FIRST: usize = FIRST_BYTES;
        let growing = [FIRST, 2 * FIRST, 3 * FIRST, FIRST, 1, MOST, 1];
        let requests = [&[1, 2][..], &[MOST - 4], &[], &[2], &growing, &[MOST + 1], &[5]];
        let requests: Vec<_> = requests.into_iter().map(request).collect();
        let plan = cut(&requests.iter().collect::<Vec<_>>());
        let plan: Vec<_> = plan.into_iter().map(|slice| (slice.range, slice.opens)).collect();
        let expected = [
            (0..3, Some(MOST - 1)),
            (3..4, Some(2)),
            (4..5, Some(7 * FIRST + MOST + 2)),
            (5..6, None),
            (6..8, None),
            (8..9, None),
            (9..10, None),
            (10..11, None),
            (11..12, Some(MOST + 1)),
            (12..13, Some(5)),
        ];
        assert_eq!(plan, expected);
        assert!(cut(&[]).is_empty());
    }

    #[test]
    fn slices_are_packed_in_order_and_not_far_ahead() {
        let plan: Vec<_> = (0..20).map(|at| Planned { range: at..at + 1, opens: None }).collect();
        for count in [0, 1, 20] {
            let (begun, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let pack = |range: Range<usize>| {
                begun.fetch_add(1, SeqCst);
                assert!(range.start <= taken.load(SeqCst) + MOST_PACKED + 1);
                range.start
            };
            let run = |packed: Receiver<usize>| {
                let take = |at: usize| {
                    taken.fetch_add(1, SeqCst);
                    at
                };
                packed.iter().map(take).collect::<Vec<_>>()
            };
            assert_eq!(packing(&plan[..count], pack, run), (0..count).collect::<Vec<_>>());
            assert_eq!(begun.into_inner(), count);
        }
    }

    #[test]
    fn packing_ends_when_nobody_wants_more() {
        let plan: Vec<_> = (0..20).map(|at| Planned { range: at..at + 1, opens: None }).collect();
        assert_eq!(packing(&plan, |range| range.start, |packed| packed.recv()), Ok(0));
    }
}
