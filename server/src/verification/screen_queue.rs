//! Screening ahead of evaluation: a GPU screens the next cases while the CPU evaluates the open ones of those before.

use std::{collections::VecDeque, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesOrdered};

use super::screening::{Decided, ScreenedCases};
use crate::error::ApiError;

/// Cases of the first launch, from which it is learned how long a GPU runs.
const FIRST_LAUNCH: u64 = 1 << 20;

/// Cases of a launch at most: their bits take 2 MiB.
const MAX_LAUNCH: u64 = 1 << 24;

/// Intended time of a GPU for a launch.
const LAUNCH_TIME: Duration = Duration::from_millis(100);

/// Greatest ratio of the next launch to the last one.
const MAX_GROWTH: u64 = 16;

/// Launches that are under way, or whose cases are not all taken: while a GPU runs one, another waits for its turn.
const AHEAD: usize = 3;

/// The cases of a call that a GPU screens.
pub(super) struct ScreenQueue {
    /// Screens a number of cases from a case on.
    run: Box<dyn Fn(u64, u64) -> Running + Send>,
    running: FuturesOrdered<Running>,
    ready: VecDeque<ScreenedCases>,
    /// The first case of all, and the first one that was not taken.
    first: u64,
    taken: u64,
    /// The next case to be screened, and the case after the last one.
    next: u64,
    end: u64,
    /// Cases of the next launch.
    launch_cases: u64,
}

type Running = BoxFuture<'static, Result<ScreenedCases, ApiError>>;

/// Consecutive screened cases, whose open ones are evaluated together.
#[derive(Debug, PartialEq)]
pub(super) struct ScreenedChunk {
    /// Cases.
    pub(super) count: u64,
    /// Numbers of the open ones.
    pub(super) open: Vec<u64>,
    /// Decisions about all cases of a launch, with the last chunk of it.
    pub(super) decided: Option<Decided>,
}

impl ScreenQueue {
    /// Screens cases from `first` to before `end`.
    pub(super) fn new(first: u64, end: u64, run: impl Fn(u64, u64) -> Running + Send + 'static) -> Self {
        let first = first.min(end);
        Self {
            run: Box::new(run),
            running: FuturesOrdered::new(),
            ready: VecDeque::new(),
            first,
            taken: first,
            next: first,
            end,
            launch_cases: FIRST_LAUNCH,
        }
    }

    /// The first case that is screened. Those before are not.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns true if cases are screened that were not taken.
    pub(super) fn has_cases(&self) -> bool {
        self.taken < self.end
    }

    /// Returns true if [`Self::screened`] has something to wait for.
    pub(super) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Begins the next launches.
    pub(super) fn start(&mut self) {
        while self.next < self.end && self.running.len() + self.ready.len() < AHEAD {
            let cases = self.launch_cases.min(self.end - self.next);
            self.running.push_back((self.run)(self.next, cases));
            self.next += cases;
        }
    }

    /// Waits for the next launch to end.
    pub(super) async fn screened(&mut self) -> Result<(), ApiError> {
        if let Some(screened) = self.running.next().await.transpose()? {
            self.pace(&screened);
            self.ready.push_back(screened);
        }
        Ok(())
    }

    /// The next cases, of which at most `max_open` are open, and at most `max_cases` in all. `None` if none are ready.
    pub(super) fn take(&mut self, max_open: usize, max_cases: u64) -> Option<ScreenedChunk> {
        let cases = self.ready.front()?;
        let from = self.taken - cases.first;
        let limit = cases.screened.cases.min(from.saturating_add(max_cases));
        let open = cases.screened.open_cases_from(from).take_while(|case| *case < limit);
        let mut open: Vec<_> = open.take(max_open + 1).collect();
        let end = open.get(max_open).copied().unwrap_or(limit);
        open.truncate(max_open);
        for case in &mut open {
            *case += cases.first;
        }
        self.taken = cases.first + end;
        let decided = (self.taken == cases.end()).then(|| cases.decided());
        if decided.is_some() {
            self.ready.pop_front();
        }
        Some(ScreenedChunk { count: end - from, open, decided })
    }

    /// Sizes the next launches so that a GPU runs for about [`LAUNCH_TIME`].
    fn pace(&mut self, ScreenedCases { screened, time, .. }: &ScreenedCases) {
        let in_time = u128::from(screened.cases) * LAUNCH_TIME.as_nanos() / time.as_nanos().max(1);
        let max_cases = screened.cases.saturating_mul(MAX_GROWTH).min(MAX_LAUNCH);
        self.launch_cases = u64::try_from(in_time).unwrap_or(u64::MAX).clamp(1, max_cases.max(1));
    }
}

#[cfg(test)]
mod tests {
    use accelerd_verify::Screened;
    use futures::{FutureExt, future::ready};

    use super::*;

    /// Every eighth case is open.
    fn run(first: u64, cases: u64) -> Running {
        let bytes = usize::try_from(cases.div_ceil(8)).expect("a bitmap in memory");
        let screened = Screened::new(cases, vec![1; bytes]).expect("there are more cases");
        let time = Duration::from_millis(10);
        ready(Ok(ScreenedCases { first, screened, time, outputs: vec!["y".to_owned()] })).boxed()
    }

    async fn chunks(queue: &mut ScreenQueue, most_open: usize, max_cases: u64) -> Vec<ScreenedChunk> {
        let mut chunks = vec![];
        while queue.has_cases() {
            queue.start();
            queue.screened().await.expect("no launch fails");
            while let Some(chunk) = queue.take(most_open, max_cases) {
                chunks.push(chunk);
            }
        }
        chunks
    }

    fn decided(chunks: &[ScreenedChunk]) -> u64 {
        chunks.iter().flat_map(|chunk| &chunk.decided).map(|decided| decided.count).sum()
    }

    #[tokio::test]
    async fn every_case_is_taken_once_in_order() {
        let end = 1000 + FIRST_LAUNCH + 12_345;
        for (most_open, most) in [(usize::MAX - 1, u64::MAX), (7, u64::MAX), (1 << 16, 1000), (1, 3)] {
            let first = if most < 10 { end - 100 } else { 1000 };
            let mut queue = ScreenQueue::new(first, end, run);
            let chunks = chunks(&mut queue, most_open, most).await;
            assert!(chunks.iter().all(|chunk| chunk.open.len() <= most_open && chunk.count <= most));
            let mut taken = first;
            for chunk in &chunks {
                assert!(chunk.open.iter().all(|case| (taken..taken + chunk.count).contains(case)));
                taken += chunk.count;
            }
            let open: Vec<_> = chunks.iter().flat_map(|chunk| chunk.open.iter().copied()).collect();
            assert_eq!((taken, decided(&chunks)), (end, end - first - open.len() as u64));
            assert!(open.is_sorted() && open.len() as u64 >= (end - first) / 8);
        }
    }

    #[tokio::test]
    async fn launches_are_sized_by_the_time_of_the_last_one() {
        let mut queue = ScreenQueue::new(0, u64::MAX, run);
        queue.start();
        assert_eq!((queue.running.len(), queue.next), (AHEAD, 3 * FIRST_LAUNCH));
        queue.screened().await.expect("no launch fails");
        assert_eq!(queue.launch_cases, 10 * FIRST_LAUNCH, "10 ms become 100 ms");
        queue.start();
        assert_eq!(queue.next, 3 * FIRST_LAUNCH, "nothing was taken");
        queue.take(usize::MAX - 1, u64::MAX).expect("a launch has ended");
        queue.start();
        assert_eq!(queue.next, 13 * FIRST_LAUNCH);
    }
}
