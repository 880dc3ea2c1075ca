//! Watches the resident memory of the process, and has the allocator return free memory to the kernel.
//!
//! The ledger counts what is in use. The allocator keeps what was freed for a second, which is faster, but the kernel kills a
//! process for it. So memory returns at once while much of the reserve is used up, and soon after it is idle otherwise.

use std::{
    fs, io,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use accelerd_kernels::ledger::Ledger;

use crate::config::Config;

/// Interval of the watch while there is work. Memory that is faulted in meanwhile must fit into what is left of the reserve.
const INTERVAL: Duration = Duration::from_millis(25);

/// Interval while there is none, and between two trims of a process that has enough memory.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// Checks without work and without a change of resident memory after which the process is idle.
const IDLE_CHECKS: u32 = 40;

/// Changes of resident memory up to this do not count as work.
const QUIET_BYTES: u64 = 1 << 20;

/// Starts the watch, which ends with the ledger. The signal tells it of work.
pub(crate) fn watch(config: &Config, ledger: &Arc<Ledger>) -> io::Result<Arc<WorkSignal>> {
    let mut pressure = Pressure::new(config.process_memory.bytes, config.memory.reserve.as_u64());
    let ledger = Arc::downgrade(ledger);
    let signal = Arc::new(WorkSignal::default());
    let told = Arc::clone(&signal);
    let spawned = thread::Builder::new().name("memory".to_owned()).spawn(move || run(&mut pressure, &ledger, &told))?;
    // Set before any work can arrive.
    let _first = signal.watcher.set(spawned.thread().clone());
    Ok(signal)
}

fn run(pressure: &mut Pressure, ledger: &Weak<Ledger>, signal: &WorkSignal) {
    let mut quiet = Quiet::default();
    let mut trimmed = Instant::now();
    while ledger.strong_count() > 0 {
        let Some(resident) = anonymous() else { return };
        if pressure.update(resident) {
            tracing::debug!(resident, is_high = pressure.is_high, "pressure of resident memory changed");
            accelerd_allocator::set_prompt(pressure.is_high);
        }
        if trimmed.elapsed() >= IDLE_INTERVAL {
            accelerd_allocator::trim(false);
            trimmed = Instant::now();
        }
        if quiet.update(resident) && !pressure.is_high {
            if signal.wait(IDLE_INTERVAL) {
                quiet = Quiet::default();
            }
        } else {
            thread::sleep(INTERVAL);
        }
    }
    if pressure.is_high {
        accelerd_allocator::set_prompt(false);
    }
}

/// Wakes the watch of an idle process when work arrives.
#[derive(Debug, Default)]
pub(crate) struct WorkSignal {
    watcher: OnceLock<Thread>,
    is_waiting: AtomicBool,
}

impl WorkSignal {
    /// Work arrived, which may need memory.
    pub(crate) fn notify(&self) {
        if self.is_waiting.load(SeqCst) && self.is_waiting.swap(false, SeqCst) {
            self.watcher.get().inspect(|watcher| watcher.unpark());
        }
    }

    /// Waits for work for at most `limit`; returns whether it arrived. Called by the watcher.
    fn wait(&self, limit: Duration) -> bool {
        self.is_waiting.store(true, SeqCst);
        thread::park_timeout(limit);
        !self.is_waiting.swap(false, SeqCst)
    }
}

/// Detects that resident memory has not changed for a while.
#[derive(Debug, Default)]
struct Quiet {
    reference: u64,
    checks: u32,
}

impl Quiet {
    /// Returns whether it has been quiet for long.
    fn update(&mut self, resident: u64) -> bool {
        if resident.abs_diff(self.reference) > QUIET_BYTES {
            *self = Self { reference: resident, checks: 0 };
        }
        self.checks = self.checks.saturating_add(1);
        self.checks > IDLE_CHECKS
    }
}

/// Anonymous resident memory of the process in bytes; the kernel can drop the rest.
fn anonymous() -> Option<u64> {
    status("RssAnon:")
}

/// Resident memory of the process in bytes.
pub(crate) fn total() -> Option<u64> {
    status("VmRSS:")
}

/// A figure of the status of the process in bytes.
fn status(key: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Detects high resident memory, with hysteresis.
#[derive(Debug)]
struct Pressure {
    high: u64,
    low: u64,
    is_high: bool,
}

impl Pressure {
    /// The upper threshold leaves three quarters of the reserve, the lower one seven eighths.
    fn new(memory: u64, reserve: u64) -> Self {
        let less = |eighths| memory.saturating_sub(reserve / 8 * eighths);
        Self { high: less(6), low: less(7), is_high: false }
    }

    /// Returns whether it has changed.
    fn update(&mut self, resident: u64) -> bool {
        let bound = if self.is_high { self.low } else { self.high };
        let was_high = std::mem::replace(&mut self.is_high, resident > bound);
        was_high != self.is_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_begins_where_a_quarter_of_the_reserve_is_used_and_ends_below() {
        let mut pressure = Pressure::new(1000, 80);
        assert_eq!([930, 940, 941].map(|resident| pressure.update(resident)), [false, false, true]);
        assert_eq!([931, 930, 931].map(|resident| pressure.update(resident)), [false, true, false]);
        assert!(!pressure.is_high);
    }

    #[test]
    fn memory_is_quiet_once_it_has_not_changed_for_long() {
        let mut quiet = Quiet::default();
        let checks =
            |quiet: &mut Quiet, resident| (0..=IDLE_CHECKS).map(|_| quiet.update(resident)).collect::<Vec<_>>();
        let only_the_last_is_quiet = [vec![false; IDLE_CHECKS as usize], vec![true]].concat();
        assert_eq!(checks(&mut quiet, 50 << 20), only_the_last_is_quiet);
        assert!(quiet.update((50 << 20) + QUIET_BYTES), "a small change is no work");
        assert_eq!(checks(&mut quiet, 60 << 20), only_the_last_is_quiet);
    }

    #[test]
    fn work_ends_the_wait_of_an_idle_process() {
        let signal = Arc::new(WorkSignal::default());
        let told = Arc::clone(&signal);
        signal.watcher.set(thread::current()).expect("the first");
        assert!(!signal.wait(Duration::ZERO), "no work arrived");
        signal.notify();
        assert!(!signal.wait(Duration::ZERO), "work while nobody waits is not kept");
        let working = thread::spawn(move || {
            while !told.is_waiting.load(SeqCst) {
                thread::yield_now();
            }
            told.notify();
        });
        assert!(signal.wait(Duration::from_secs(3600)));
        working.join().expect("no panic");
    }

    #[test]
    fn resident_memory_can_be_read() {
        let (anonymous, total) = (anonymous().expect("Linux"), total().expect("Linux"));
        assert!(anonymous > 0 && anonymous < total, "{anonymous} of {total}");
    }
}
