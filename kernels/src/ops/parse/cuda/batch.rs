//! A batch of requests on a GPU: sources in slices to the device, columns back, and what the device leaves to the CPU.
//!
//! While the device works on a slice, the host packs and sends the next one, and the columns of the one before come back.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use rayon::prelude::*;

use super::{
    areas::Areas,
    left,
    slice::{Asked, Back, InLexer, OnTheWay, Packed, Parsed, decode},
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
const SLICE_BYTES: usize = 32 << 20;
/// The first one of a request that takes several is smaller, so that the device begins early.
const FIRST_BYTES: usize = 8 << 20;
/// Bytes of source below which one thread puts answers together: waking others takes longer.
const SPREAD_BYTES: usize = 256 << 10;
/// Slices that wait for what the CPU has to do; each keeps its memory on the device, as those under way do.
const MOST_PARSED: usize = 2;
/// Slices whose columns are under way at once.
const MOST_UNDER_WAY: usize = 2;

/// Parses every source of every request.
pub(in crate::ops::parse) fn run(batch: &[&ParseRequest], worker: &Worker) -> Result<Vec<ParseResponse>, OpError> {
    let sources: Vec<Asked<'_>> =
        batch.iter().flat_map(|&request| request.sources.iter().map(move |bytes| Asked { request, bytes })).collect();
    let wanted = batch.iter().fold(Outputs::default(), |all, request| union(all, request.outputs));
    // What the device leaves to the CPU is parsed beside the device's work.
    let anew: Vec<OnceLock<Done>> = sources.iter().map(|_| OnceLock::new()).collect();
    let (sources, anew, cpu) = (&sources, &anew, worker.device().cpu());
    let (slices, areas) = cpu.scope(|scope| {
        let leave = |at: usize, reasons: u32| {
            left::count(reasons, sources[at].bytes.len(), worker);
            scope.spawn(move |_| drop(anew[at].set(Done::parse(sources[at].bytes, sources[at].request))));
        };
        Pipeline::new(sources, anew, wanted, worker).run(cut(batch), leave)
    })?;
    let finished = Finished { sources, anew, slices, areas, pool: worker.device().pinned() };
    let bytes: usize = sources.iter().map(|source| source.bytes.len()).sum();
    Ok(if bytes < SPREAD_BYTES { finished.answers(batch) } else { cpu.install(|| finished.answers(batch)) })
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
    let (mut opens, mut bytes) = (Some(all), 0);
    let (begin, end) = (first, first + sources.len());
    for (at, source) in (begin..).zip(sources) {
        let most = if opens.is_some() { FIRST_BYTES } else { SLICE_BYTES };
        if bytes + source.len() > most && at > first {
            plan.push(Planned { range: first..at, opens: opens.take() });
            (first, bytes) = (at, 0);
        }
        bytes += source.len();
    }
    plan.push(Planned { range: first..end, opens });
}

/// Slices on their way through the device.
struct Pipeline<'a> {
    sources: &'a [Asked<'a>],
    /// What the CPU makes of sources that are left to it.
    anew: &'a [OnceLock<Done>],
    wanted: Outputs,
    worker: &'a Worker,
    areas: Areas,
    opens: VecDeque<Option<usize>>,
    parsed: VecDeque<Parsed<'a>>,
    under_way: VecDeque<OnTheWay<'a>>,
    back: Vec<Back<'a>>,
}

impl<'a> Pipeline<'a> {
    fn new(sources: &'a [Asked<'a>], anew: &'a [OnceLock<Done>], wanted: Outputs, worker: &'a Worker) -> Self {
        Self {
            sources,
            anew,
            wanted,
            worker,
            areas: Areas::default(),
            opens: VecDeque::new(),
            parsed: VecDeque::new(),
            under_way: VecDeque::new(),
            back: vec![],
        }
    }

    /// Takes all slices through; `leave` is told of each source that is the CPU's, and why. Returns where the columns are.
    fn run(
        mut self,
        plan: Vec<Planned>,
        mut leave: impl FnMut(usize, u32),
    ) -> Result<(Vec<Back<'a>>, Vec<Arc<Landed>>), OpError> {
        self.opens = plan.iter().map(|slice| slice.opens).collect();
        let mut ranges = plan.into_iter().map(|slice| slice.range);
        let mut in_lexer = self.packed(ranges.next())?.map(|packed| packed.lex(self.worker)).transpose()?;
        let mut packed = self.packed(ranges.next())?;
        while let Some(lexing) = in_lexer {
            (in_lexer, packed) = self.step(lexing, packed, ranges.next(), &mut leave)?;
        }
        self.bring_whole(0)?;
        self.wait_for_all_but(0)?;
        Ok((self.back, self.areas.wait(self.worker)?))
    }

    fn packed(&self, range: Option<Range<usize>>) -> Result<Option<Packed<'a>>, OpError> {
        range.map(|range| decode(self.sources, range, self.worker)?.send(self.worker)).transpose()
    }

    /// Launches the parser of one slice and the lexer of the next, packs the one behind that, and starts to bring columns
    /// back.
    fn step(
        &mut self,
        lexing: InLexer<'a>,
        next: Option<Packed<'a>>,
        later: Option<Range<usize>>,
        leave: &mut impl FnMut(usize, u32),
    ) -> Result<(Option<InLexer<'a>>, Option<Packed<'a>>), OpError> {
        let later = later.map(|range| decode(self.sources, range, self.worker)).transpose()?;
        let parsing = lexing.parse(self.wanted, self.worker)?;
        let in_lexer = next.map(|next| next.lex(self.worker)).transpose()?;
        let packed = later.map(|later| later.send(self.worker)).transpose()?;
        self.parsed.push_back(parsing.wait(self.wanted, leave)?);
        self.bring_whole(MOST_PARSED)?;
        self.wait_for_all_but(MOST_UNDER_WAY)?;
        Ok((in_lexer, packed))
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
    sources: &'a [Asked<'a>],
    /// What the CPU made of sources that the device left to it.
    anew: &'a [OnceLock<Done>],
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
        let bytes: usize = self.sources[range.clone()].iter().map(|source| source.bytes.len()).sum();
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
        if let Some(anew) = self.anew[at].get() {
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
    use super::*;

    fn request(sizes: &[usize]) -> ParseRequest {
        let sources = sizes.iter().map(|&size| vec![b'\n'; size].into()).collect();
        ParseRequest { sources, options: accelerd_parser::Options::default(), outputs: Outputs::default() }
    }

    #[test]
    fn small_requests_share_a_slice_and_a_large_one_has_slices_of_its_own() {
        const MOST: usize = SLICE_BYTES;
        let requests = [&[1, 2][..], &[MOST - 4], &[], &[2], &[FIRST_BYTES, MOST - 1, 1, 1], &[MOST + 1], &[5]];
        let requests: Vec<_> = requests.into_iter().map(request).collect();
        let plan = cut(&requests.iter().collect::<Vec<_>>());
        let plan: Vec<_> = plan.into_iter().map(|slice| (slice.range, slice.opens)).collect();
        let large = Some(FIRST_BYTES + MOST + 1);
        let expected = [
            (0..3, Some(MOST - 1)),
            (3..4, Some(2)),
            (4..5, large),
            (5..7, None),
            (7..8, None),
            (8..9, Some(MOST + 1)),
            (9..10, Some(5)),
        ];
        assert_eq!(plan, expected);
        assert!(cut(&[]).is_empty());
    }
}
