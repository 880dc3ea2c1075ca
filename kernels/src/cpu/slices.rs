//! Long work in slices. The pool takes work of its workers in order of arrival, and a task that runs is not interrupted. So a
//! worker hands it a bounded number of short tasks at a time, and passes a preemption point before it hands over the next:
//! what another worker hands over meanwhile waits for a few slices, not for the whole batch.

use std::{
    cell::UnsafeCell,
    collections::VecDeque,
    ops::Range,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
};

use rayon::prelude::*;

use super::Worker;
use crate::OpError;

/// The most work of a slice, in multiply-adds of f32: about 10 ms of one thread. GEMMs of MiniLM and BERT-base compute 44 a
/// nanosecond on a core of an AMD EPYC with AVX-512. Other work is counted by the multiply-adds that take as long.
pub(crate) const SLICE: u64 = 3 << 27;

/// Multiply-adds that take as long as reading a number from memory, or computing with it in f64 (about 0.4 ns).
pub(crate) const READ_COST: u64 = 16;

/// Work that a worker does on its own thread even if the pool is idle (about 20 us): handing it over takes as long.
const INLINE_COST: u64 = SLICE / 512;

/// Work for which waking one thread more than there are cores pays (about 300 us).
const SPARE_COST: u64 = SLICE / 32;

/// Items that exist at a time of those that are made while the work runs: their number may exceed memory.
const WINDOW: usize = 1 << 16;

/// Tasks per thread that long work is cut into, so that all threads finish at about the same time.
const TASKS_PER_THREAD: u64 = 16;

/// Who distributes work over the pool's threads.
#[derive(Clone, Copy)]
pub(crate) enum Schedule<'a> {
    /// No thread of the pool: the calling thread does work this small.
    Inline,
    /// A thread of the pool: the work is part of a slice.
    Slice,
    /// The worker: the work is cut into slices.
    Slices(&'a Worker),
}

impl Schedule<'_> {
    /// Runs `work` on each item, with the state that `init` makes for a sequence of items. `cost` is that of an item in
    /// multiply-adds.
    pub(crate) fn for_each<T: Send, S>(
        self,
        items: Vec<T>,
        cost: impl Fn(&T) -> u64,
        init: impl Fn() -> S + Sync + Send,
        work: impl Fn(&mut S, T) + Sync + Send,
    ) -> Result<(), OpError> {
        with_indices(items, cost, init, work, |costs, body| {
            match self {
                Self::Inline => body(&mut (0..costs.len())),
                Self::Slice => split(costs.len(), body),
                Self::Slices(worker) => return worker.distribute(costs, body),
            }
            Ok(())
        })
    }
}

/// Work on the items with the indices that an iterator returns. How work is distributed does not depend on the type of its items:
/// the threads' code exists once, not once for each operation and type.
type Body<'a> = &'a (dyn Fn(&mut dyn Iterator<Item = usize>) + Sync);

/// Items that several threads take, each one once.
struct Cells<T>(Vec<UnsafeCell<Option<T>>>);

// SAFETY: a cell is accessed by `take` only, whose callers access different cells.
unsafe impl<T: Send> Sync for Cells<T> {}

impl<T> Cells<T> {
    fn new(items: Vec<T>) -> Self {
        Self(items.into_iter().map(|item| UnsafeCell::new(Some(item))).collect())
    }

    /// Takes the item at `index`.
    ///
    /// # Safety
    /// Each index is taken by one call.
    unsafe fn take(&self, index: usize) -> T {
        // SAFETY: no other call accesses this cell.
        let cell = unsafe { &mut *self.0[index].get() };
        cell.take().expect("an index is distributed once")
    }
}

/// Calls `distribute` with the costs of the items, and with the work on them by their indices, which it must run once for each index.
fn with_indices<T: Send, S>(
    items: Vec<T>,
    cost: impl Fn(&T) -> u64,
    init: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) + Sync,
    distribute: impl FnOnce(&[u64], Body<'_>) -> Result<(), OpError>,
) -> Result<(), OpError> {
    let costs = costs_of(&items, &cost);
    let cells = Cells::new(items);
    let body = |indices: &mut dyn Iterator<Item = usize>| {
        let mut state = None;
        for index in indices {
            // SAFETY: all callers of this function distribute each index once.
            let item = unsafe { cells.take(index) };
            work(state.get_or_insert_with(&init), item);
        }
    };
    distribute(&costs, &body)
}

fn costs_of<T>(items: &[T], cost: &dyn Fn(&T) -> u64) -> Vec<u64> {
    items.iter().map(cost).collect()
}

/// The next [`WINDOW`] items, or all if they are fewer.
fn window<T>(items: &mut dyn Iterator<Item = T>) -> Vec<T> {
    items.take(WINDOW).collect()
}

/// Runs work on `len` items, on the threads of the pool that this thread belongs to.
fn split(len: usize, body: Body<'_>) {
    let halves = |range: Range<usize>| {
        let middle = usize::midpoint(range.start, range.end);
        let right = (range.len() > 1).then_some(middle..range.end);
        (range.start..right.as_ref().map_or(range.end, |right| right.start), right)
    };
    rayon::iter::split(0..len, halves).for_each(|mut range| body(&mut range));
}

/// The results of items, for which `run` is given a place each.
fn results<T, R>(
    items: Vec<T>,
    run: impl FnOnce(Vec<(T, &mut Option<R>)>) -> Result<(), OpError>,
) -> Result<Vec<R>, OpError> {
    let mut done: Vec<Option<R>> = items.iter().map(|_| None).collect();
    run(items.into_iter().zip(&mut done).collect())?;
    Ok(done.into_iter().map(|done| done.expect("work ran on each item")).collect())
}

impl Worker {
    /// Returns true if long work of another worker has reserved the pool, and this work takes less time on the worker's own thread than
    /// it would wait for the slices before it, of which one ends on each thread in the time of a slice.
    pub(crate) fn avoids_pool(&self, cost: u64) -> bool {
        let wait = 2 * SLICE / self.pool().threads().max(2) as u64;
        cost <= wait && self.pool().is_reserved()
    }

    /// Returns true if work runs on the worker's own thread rather than on the pool.
    pub(crate) fn runs_inline(&self, cost: u64) -> bool {
        is_tiny(cost) || self.avoids_pool(cost)
    }

    /// Returns true if the pool can do work at once, in the time of a slice.
    pub(crate) fn fits_slice(&self, cost: u64) -> bool {
        cost <= SLICE.saturating_mul(self.pool().threads() as u64)
    }

    /// The cost of a task of long work: at most a slice, and so little that all threads finish at about the same time, but no
    /// less than what makes up for handing it over, which one thread does for all.
    pub(crate) fn task_cost(&self, total: u64) -> u64 {
        let threads = self.pool().threads() as u64;
        if threads == 1 {
            return SLICE;
        }
        let least = (SLICE / 8).max(SLICE / 512 * threads).min(SLICE);
        (total / (TASKS_PER_THREAD * threads)).clamp(least, SLICE)
    }

    /// Runs `work` on each item: on this thread if the items cost little, at once if they fit a slice, else in slices.
    pub(crate) fn for_each<T: Send, S>(
        &self,
        items: Vec<T>,
        cost: impl Fn(&T) -> u64,
        init: impl Fn() -> S + Sync + Send,
        work: impl Fn(&mut S, T) + Sync + Send,
    ) -> Result<(), OpError> {
        with_indices(items, cost, init, work, |costs, body| self.distribute(costs, body))
    }

    fn distribute(&self, costs: &[u64], body: Body<'_>) -> Result<(), OpError> {
        let total = total(costs);
        if is_tiny(total) {
            body(&mut (0..costs.len()));
            return self.preemption_point();
        }
        if self.fits_slice(total) {
            self.pool().install(|| split(costs.len(), body));
            return self.preemption_point();
        }
        self.run_tasks(grouped(costs, self.task_cost(total)), |mut group| body(&mut group))
    }

    /// As [`Self::for_each`], but work that fits a slice begins on the calling thread, which then does not wait for a thread of the pool
    /// to wake. `work` uses no parallel iterators: outside of the pool they would run on another one. Items are made as they are needed.
    pub(crate) fn for_each_joining<T: Send, S>(
        &self,
        items: impl IntoIterator<Item = T>,
        cost: impl Fn(&T) -> u64,
        init: impl Fn() -> S + Sync + Send,
        work: impl Fn(&mut S, T) + Sync + Send,
    ) -> Result<(), OpError> {
        let mut items = items.into_iter();
        loop {
            let window = window(&mut items);
            let is_last = window.len() < WINDOW;
            with_indices(window, &cost, &init, &work, |costs, body| self.distribute_joining(costs, body))?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn distribute_joining(&self, costs: &[u64], body: Body<'_>) -> Result<(), OpError> {
        let total = total(costs);
        if is_tiny(total) || !self.fits_slice(total) {
            return self.distribute(costs, body);
        }
        // The system may let a thread that wakes wait for this one, and leave another core idle: one more has a chance.
        let threads = self.pool().threads();
        let spare = usize::from(threads > 1 && total > SPARE_COST);
        let parts = (threads + spare).min(costs.len());
        let next = AtomicUsize::new(0);
        let take = || Some(next.fetch_add(1, Relaxed)).filter(|index| *index < costs.len());
        self.pool().run_parallel(parts, || body(&mut std::iter::from_fn(take)));
        self.preemption_point()
    }

    /// The results of `work` for all items, in order; see [`Self::for_each`].
    pub(crate) fn map<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        cost: impl Fn(&T) -> u64,
        work: impl Fn(T) -> R + Sync + Send,
    ) -> Result<Vec<R>, OpError> {
        results(items, |items| {
            self.for_each(items, |(item, _)| cost(item), || (), |(), (item, done)| *done = Some(work(item)))
        })
    }

    /// As [`Self::map`], by [`Self::for_each_joining`].
    pub(crate) fn map_joining<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        cost: impl Fn(&T) -> u64,
        work: impl Fn(T) -> R + Sync + Send,
    ) -> Result<Vec<R>, OpError> {
        results(items, |items| {
            self.for_each_joining(items, |(item, _)| cost(item), || (), |(), (item, done)| *done = Some(work(item)))
        })
    }

    /// Runs tasks of one slice each on the pool's threads. One more than there are threads is handed over at a time, so that no
    /// thread waits for this one.
    pub(crate) fn run_tasks<T: Send>(
        &self,
        tasks: impl IntoIterator<Item = T>,
        work: impl Fn(T) + Sync,
    ) -> Result<(), OpError> {
        let slice = |task| {
            work(task);
            Ok(None)
        };
        self.hand_over(tasks, self.pool().threads() + 1, slice)
    }

    /// Runs tasks on the pool's threads. `slice` runs one slice of a task, and returns the task if it is unfinished. As many are
    /// handed over at a time as there are threads: with more they would take turns, each in a cache filled by another.
    pub(crate) fn run_in_slices<T: Send>(
        &self,
        tasks: impl IntoIterator<Item = T>,
        slice: impl Fn(T) -> Result<Option<T>, OpError> + Sync,
    ) -> Result<(), OpError> {
        self.hand_over(tasks, self.pool().threads(), slice)
    }

    fn hand_over<T: Send>(
        &self,
        tasks: impl IntoIterator<Item = T>,
        limit: usize,
        slice: impl Fn(T) -> Result<Option<T>, OpError> + Sync,
    ) -> Result<(), OpError> {
        let mut tasks = tasks.into_iter();
        let places: Vec<Mutex<Option<T>>> = (0..limit).map(|_| Mutex::default()).collect();
        let place = |index: usize| places[index].lock().unwrap_or_else(PoisonError::into_inner);
        let mut load = |index| {
            let task = tasks.next();
            let is_loaded = task.is_some();
            *place(index) = task;
            is_loaded
        };
        let run = |index| {
            let task = place(index).take().expect("a place that runs has a task");
            let unfinished = slice(task)?;
            let is_unfinished = unfinished.is_some();
            *place(index) = unfinished;
            Ok(is_unfinished)
        };
        self.run_places(limit, &mut load, &run)
    }

    /// Runs the tasks in `count` places. `load` puts the next task into a place, and returns false if there is none. `run` runs one slice of
    /// the task in a place, and returns true if the task is unfinished.
    fn run_places(
        &self,
        count: usize,
        load: &mut dyn FnMut(usize) -> bool,
        run: &(dyn Fn(usize) -> Result<bool, OpError> + Sync),
    ) -> Result<(), OpError> {
        let pool = self.pool();
        let _reservation = pool.reserve();
        let mut free: Vec<_> = (0..count).collect();
        let mut unfinished = VecDeque::new();
        let (done, finished) = mpsc::channel();
        pool.scope(|scope| {
            loop {
                while let Some(place) = unfinished.pop_front().or_else(|| free.pop_if(|place| load(*place))) {
                    let done = done.clone();
                    scope.spawn(move |_| {
                        let outcome = panic::catch_unwind(AssertUnwindSafe(|| run(place)));
                        // The receiver lives until all tasks have ended.
                        let _ = done.send((place, outcome));
                    });
                }
                if free.len() == count {
                    return Ok(());
                }
                let (place, outcome) = finished.recv().expect("a running task sends its outcome");
                if outcome.unwrap_or_else(|panic| panic::resume_unwind(panic))? {
                    unfinished.push_back(place);
                } else {
                    free.push(place);
                }
                self.preemption_point()?;
            }
        })
    }
}

/// The sum of costs, or the largest number.
pub(crate) fn total(costs: &[u64]) -> u64 {
    costs.iter().copied().fold(0, u64::saturating_add)
}

/// Returns true if work is so little that handing it to the pool does not pay.
pub(crate) fn is_tiny(cost: u64) -> bool {
    cost <= INLINE_COST
}

/// Ranges of consecutive items that cost at most `limit` together, or a single one.
pub(crate) fn grouped(costs: &[u64], limit: u64) -> impl Iterator<Item = Range<usize>> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let start = next;
        let mut sum = *costs.get(start)?;
        next += 1;
        while let Some(cost) = costs.get(next)
            && sum.saturating_add(*cost) <= limit
        {
            sum = sum.saturating_add(*cost);
            next += 1;
        }
        Some(start..next)
    })
}

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
    };

    use super::*;
    use crate::{
        cpu::Pool,
        preemption::{Preemption, PreemptionHook},
    };

    fn worker(threads: usize, hook: PreemptionHook) -> Worker {
        let mut worker = Worker::new(Pool::start(threads).expect("a few threads"));
        worker.preemption = Preemption::new(hook);
        worker
    }

    /// A worker that breaks at its preemption point number `last`, and the number of those that it passed.
    fn counting(threads: usize, last: usize) -> (Worker, Arc<AtomicUsize>) {
        let passed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&passed);
        let hook = move || {
            if count.fetch_add(1, SeqCst) + 1 == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        (worker(threads, Arc::new(hook)), passed)
    }

    #[test]
    fn tasks_run_slice_by_slice_to_their_end() {
        for threads in [1, 2, 5] {
            let (worker, passed) = counting(threads, usize::MAX);
            let slices = AtomicUsize::new(0);
            let task = |left: usize| {
                slices.fetch_add(1, SeqCst);
                Ok(left.checked_sub(1))
            };
            worker.run_in_slices([3, 0, 7, 1], task).expect("nothing fails");
            assert_eq!((slices.into_inner(), passed.load(SeqCst)), (15, 15), "a point after each slice");
            assert!(!worker.pool().is_reserved());
        }
    }

    #[test]
    fn a_hook_that_breaks_ends_the_work_after_the_slices_that_run() {
        let (worker, passed) = counting(2, 4);
        let slices = AtomicUsize::new(0);
        let task = |()| {
            slices.fetch_add(1, SeqCst);
            Ok(Some(()))
        };
        assert_eq!(worker.run_in_slices([(); 100], task), Err(OpError::Cancelled));
        assert_eq!(passed.load(SeqCst), 4);
        assert!((4..=6).contains(&slices.into_inner()), "at most one task more than threads was handed over");
        assert_eq!(worker.run_in_slices([1], |_| Ok(None)), Ok(()), "the worker is usable");
        assert!(!worker.pool().is_reserved());
    }

    #[test]
    fn an_error_of_a_slice_is_that_of_the_work() {
        let (worker, _) = counting(2, usize::MAX);
        let error = || OpError::Invalid("three".to_owned());
        let failed = worker.run_in_slices(0..10, |index| if index == 3 { Err(error()) } else { Ok(None) });
        assert_eq!(failed, Err(error()));
    }

    #[test]
    fn a_panic_of_a_slice_reaches_the_worker() {
        let (worker, _) = counting(1, usize::MAX);
        let run = || worker.run_in_slices([1], |_| -> Result<Option<i32>, _> { panic!("a slice") });
        assert!(panic::catch_unwind(AssertUnwindSafe(run)).is_err());
        assert_eq!(worker.run_in_slices([1], |_| Ok(None)), Ok(()), "the worker is usable");
    }

    #[test]
    fn items_are_done_once_and_in_order_whatever_they_cost() {
        for threads in [1, 3] {
            for cost in [0, INLINE_COST / 100, SLICE / 1000, SLICE / 50, SLICE, u64::MAX] {
                let (worker, passed) = counting(threads, usize::MAX);
                let doubled = worker.map((0..100).collect(), |_| cost, |x| 2 * x).expect("nothing fails");
                assert_eq!(doubled, (0..100).map(|x| 2 * x).collect::<Vec<_>>());
                let slices = cost.saturating_mul(100) / SLICE;
                let least = if slices <= threads as u64 { 1 } else { slices.min(100) };
                assert!(passed.load(SeqCst) as u64 >= least, "{threads} threads, {cost} an item");
            }
        }
    }

    #[test]
    fn the_calling_thread_joins_work_that_fits_a_slice() {
        for threads in [1, 2, 5] {
            for cost in [0, INLINE_COST / 100, SLICE / 1000, SLICE / 50, SLICE, u64::MAX] {
                let (worker, passed) = counting(threads, usize::MAX);
                let here = std::thread::current().id();
                let joined = worker.map_joining((0..100).collect(), |_| cost, |x| (2 * x, std::thread::current().id()));
                let (doubled, ids): (Vec<_>, Vec<_>) = joined.expect("nothing fails").into_iter().unzip();
                assert_eq!(doubled, (0..100).map(|x| 2 * x).collect::<Vec<_>>());
                assert!(passed.load(SeqCst) >= 1, "{threads} threads, {cost} an item");
                let total = cost.saturating_mul(100);
                if is_tiny(total) || (threads == 1 && worker.fits_slice(total)) {
                    assert!(ids.iter().all(|id| *id == here), "{threads} threads, {cost} an item");
                }
                if !worker.fits_slice(total) {
                    assert!(ids.iter().all(|id| *id != here), "long work is on the pool");
                }
            }
        }
    }

    #[test]
    fn items_are_made_as_they_are_needed() {
        let (worker, passed) = counting(2, 3);
        let made = AtomicUsize::new(0);
        let items = (0..u64::MAX).inspect(|_| {
            made.fetch_add(1, SeqCst);
        });
        assert_eq!(worker.for_each_joining(items, |_| 1, || (), |(), _| ()), Err(OpError::Cancelled));
        assert_eq!((made.into_inner(), passed.load(SeqCst)), (3 * WINDOW, 3), "a point after each window");
        let (worker, _) = counting(2, usize::MAX);
        let done = AtomicUsize::new(0);
        let work = |(): &mut (), _| {
            done.fetch_add(1, SeqCst);
        };
        worker.for_each_joining(0..=2 * WINDOW, |_| 1, || (), work).expect("nothing fails");
        assert_eq!(done.into_inner(), 2 * WINDOW + 1);
    }

    #[test]
    fn states_are_made_once_for_the_items_of_a_thread() {
        let (worker, _) = counting(3, usize::MAX);
        let made = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        let init = || made.fetch_add(1, SeqCst);
        let work = |_: &mut usize, ()| {
            done.fetch_add(1, SeqCst);
        };
        worker.for_each_joining(vec![(); 50], |()| SLICE / 100, init, work).expect("nothing fails");
        assert_eq!(done.into_inner(), 50);
        assert!((1..=4).contains(&made.into_inner()));
    }

    #[test]
    fn a_panic_of_joined_work_reaches_the_worker() {
        let (worker, _) = counting(2, usize::MAX);
        let run = |panics: bool| {
            let work = move |(): &mut (), index: usize| assert!(!panics || index != 7, "an item");
            worker.for_each_joining(0..20, |_| SLICE / 50, || (), work)
        };
        assert!(panic::catch_unwind(AssertUnwindSafe(|| run(true))).is_err());
        assert_eq!(run(false), Ok(()), "the worker is usable");
    }

    #[test]
    fn short_work_avoids_a_pool_that_long_work_has_reserved() {
        let (worker, _) = counting(4, usize::MAX);
        assert!(worker.runs_inline(INLINE_COST) && !worker.runs_inline(INLINE_COST + 1));
        let reservation = worker.pool().reserve();
        assert!(worker.runs_inline(SLICE / 2) && !worker.runs_inline(SLICE / 2 + 1), "four threads");
        drop(reservation);
        assert!(!worker.runs_inline(SLICE / 2));
        let (worker, _) = counting(1, usize::MAX);
        let _reservation = worker.pool().reserve();
        assert!(worker.runs_inline(SLICE) && !worker.runs_inline(SLICE + 1), "one thread");
    }

    #[test]
    fn groups_are_consecutive_and_within_the_cost() {
        let groups: Vec<_> = grouped(&[3, 1, 1, 9, 2, 2, 2], 4).collect();
        assert_eq!(groups, [0..2, 2..3, 3..4, 4..6, 6..7]);
        assert_eq!(grouped(&[], 4).count(), 0);
    }

    #[test]
    fn what_another_worker_hands_over_waits_for_the_slices_that_were_handed_over_before() {
        let pool = Pool::start(1).expect("a thread");
        let order = Arc::new(std::sync::Mutex::new(vec![]));
        let mut long = Worker::new(Arc::clone(&pool));
        let other = Arc::clone(&pool);
        let sequence = Arc::clone(&order);
        let points = AtomicUsize::new(0);
        long.preemption = Preemption::new(Arc::new(move || {
            if points.fetch_add(1, SeqCst) == 0 {
                let sequence = Arc::clone(&sequence);
                other.spawn(move || sequence.lock().expect("no panic").push("short"));
            }
            ControlFlow::Continue(())
        }));
        let slice = |left: usize| {
            order.lock().expect("no panic").push("slice");
            Ok(left.checked_sub(1))
        };
        long.run_in_slices([50, 50], slice).expect("nothing fails");
        // Spawned after the first slice, while one is handed over.
        let order = order.lock().expect("no panic").clone();
        assert!(order.iter().position(|done| *done == "short").is_some_and(|sequence| sequence <= 3), "{order:?}");
    }
}
