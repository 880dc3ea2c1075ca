//! Where a launch is, and how its thread pauses between two slices.
//!
//! Threads of a kernel may take any time, and `run` cannot be left and entered again. So it runs in a thread of its own, which at a tick
//! after the end of its slice reports, and waits for the next one.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender},
    },
    time::{Duration, Instant},
};

use wasmtime::UpdateDeadline;

use super::clock::Clock;
use crate::{
    outcome::Outcome,
    protocol::{FAULT_ENTRY_BYTES, FAULT_RECORD_BYTES, MAX_SLICE_BYTES},
};

/// Work of a slice.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Threads that have ended since the launch began.
    pub(super) threads: u64,
    /// Entries of faults since the last report.
    pub(super) faults: Vec<u8>,
    /// Time that threads ran since the last report.
    pub(super) time: Duration,
}

/// Where a launch is.
pub(super) struct Pace {
    clock: Arc<Clock>,
    timeout_ticks: u64,
    /// Ticks that code has seen since its time limit began.
    ticks: u64,
    slice_end: u64,
    slices: Receiver<u64>,
    reports: SyncSender<Done>,
    done: Done,
    /// Since when threads have been running.
    running_since: Option<Instant>,
    is_abandoned: bool,
}

impl Pace {
    /// A launch that may see `timeout_ticks` ticks. `slices` receives the ends of its slices; what they have done goes to `reports`.
    pub(super) fn new(clock: Arc<Clock>, timeout_ticks: u64, slices: Receiver<u64>, reports: SyncSender<Done>) -> Self {
        Self {
            clock,
            timeout_ticks,
            ticks: 0,
            slice_end: 0,
            slices,
            reports,
            done: Done::default(),
            running_since: None,
            is_abandoned: false,
        }
    }

    pub(super) fn timeout_ticks(&self) -> u64 {
        self.timeout_ticks
    }

    pub(super) fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Code that starts now has the whole time limit.
    pub(super) fn restart(&mut self) {
        self.ticks = 0;
    }

    /// Returns true if nobody waits for the launch any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    /// Threads run from now on, until [`Self::end_threads`].
    pub(super) fn start_threads(&mut self) {
        self.running_since = Some(Instant::now());
    }

    pub(super) fn end_threads(&mut self) {
        self.done.time += self.running_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    pub(super) fn set_threads_done(&mut self, threads: u64) {
        self.done.threads = threads;
    }

    /// Adds a thread that ended early. There may be more of them than fit in the report of a slice.
    pub(super) fn add_fault(&mut self, thread: u64, outcome: Outcome, record: &[u8; FAULT_RECORD_BYTES]) {
        if (self.done.faults.len() + FAULT_ENTRY_BYTES) as u64 > MAX_SLICE_BYTES {
            self.pause();
        }
        self.done.faults.extend_from_slice(&thread.to_le_bytes());
        self.done.faults.push(outcome.code());
        self.done.faults.extend_from_slice(record);
    }

    /// Work that has not been reported.
    pub(super) fn take_done(&mut self) -> Done {
        let Done { threads, faults, time } = &mut self.done;
        Done { threads: *threads, faults: std::mem::take(faults), time: std::mem::take(time) }
    }

    /// Waits for the next slice. Time does not pass meanwhile: the clock stands still.
    pub(super) fn wait(&mut self) {
        match self.slices.recv() {
            Ok(slice_end) => self.slice_end = slice_end,
            Err(_) => self.is_abandoned = true,
        }
    }

    fn pause(&mut self) {
        let is_running = self.running_since.is_some();
        self.end_threads();
        let done = self.take_done();
        if self.reports.send(done).is_err() {
            self.is_abandoned = true;
        } else {
            self.wait();
        }
        if is_running {
            self.start_threads();
        }
    }

    /// Checks the limits of time at a tick, while code runs.
    pub(super) fn tick(&mut self) -> UpdateDeadline {
        self.ticks += 1;
        if self.clock.ticks() >= self.slice_end {
            self.pause();
        }
        if self.ticks >= self.timeout_ticks || self.is_abandoned {
            UpdateDeadline::Interrupt
        } else {
            UpdateDeadline::Continue(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// A pace with time for `timeout_ticks`, whose slices are over at once; the ends of the channels.
    fn pace(timeout_ticks: u64) -> (Pace, SyncSender<u64>, Receiver<Done>) {
        let (slices, inbox) = sync_channel(1);
        let (outbox, reports) = sync_channel(1);
        (Pace::new(Arc::new(Clock::stopped()), timeout_ticks, inbox, outbox), slices, reports)
    }

    #[test]
    fn a_tick_after_the_end_of_the_slice_reports_and_waits_for_the_next() {
        let (mut pace, slices, reports) = pace(10);
        slices.send(1).expect("room for a slice");
        pace.wait();
        assert!(matches!(pace.tick(), UpdateDeadline::Continue(1)));
        assert_eq!(reports.try_recv().ok(), None, "the slice is not over");
        pace.slice_end = 0;
        pace.set_threads_done(3);
        slices.send(1).expect("room for a slice");
        assert!(matches!(pace.tick(), UpdateDeadline::Continue(1)));
        assert_eq!(reports.try_recv().ok(), Some(Done { threads: 3, ..Done::default() }));
    }

    #[test]
    fn time_passes_while_threads_run() {
        let (mut pace, slices, reports) = pace(10);
        let spin = || {
            let since = Instant::now();
            while since.elapsed() < Duration::from_micros(100) {}
        };
        spin();
        assert_eq!(pace.take_done().time, Duration::ZERO);
        pace.start_threads();
        spin();
        slices.send(1).expect("room for a slice");
        pace.pause();
        let first = reports.try_recv().expect("a report").time;
        assert!(first >= Duration::from_micros(100), "{first:?}");
        spin();
        pace.end_threads();
        spin();
        pace.end_threads();
        let second = pace.take_done().time;
        assert!(second >= Duration::from_micros(100), "threads run after a pause: {second:?}");
        assert_eq!(pace.take_done().time, Duration::ZERO);
    }

    #[test]
    fn code_is_interrupted_after_its_ticks_or_when_nobody_waits_for_it() {
        let (mut pace, slices, _reports) = pace(2);
        pace.slice_end = 1;
        assert!(matches!(pace.tick(), UpdateDeadline::Continue(1)));
        assert!(matches!(pace.tick(), UpdateDeadline::Interrupt));
        pace.restart();
        assert!(matches!(pace.tick(), UpdateDeadline::Continue(1)));
        pace.restart();
        pace.slice_end = 0;
        drop(slices);
        assert!(matches!(pace.tick(), UpdateDeadline::Interrupt));
        assert!(pace.is_abandoned());
    }

    #[test]
    fn more_faults_than_a_message_holds_are_reported_in_several() {
        let (mut pace, slices, reports) = pace(2);
        let max_faults = MAX_SLICE_BYTES / FAULT_ENTRY_BYTES as u64;
        for thread in 0..=max_faults {
            if thread == max_faults {
                slices.send(1).expect("room for a slice");
            }
            pace.add_fault(thread, Outcome::Ok, &[0; FAULT_RECORD_BYTES]);
        }
        assert_eq!(
            reports.try_recv().ok().map(|done| done.faults.len()),
            usize::try_from(max_faults).ok().map(|max_faults| max_faults * FAULT_ENTRY_BYTES)
        );
        assert_eq!(pace.take_done().faults.len(), FAULT_ENTRY_BYTES);
    }
}
